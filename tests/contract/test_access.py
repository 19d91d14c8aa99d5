"""Authentication and authorization: tokens, roles and bindings, impersonation, escalation, and the messages of rejections."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.support.access import RBAC, account, bind, grant, rule
from tests.support.objects import config_map
from tests.support.polling import eventually

if TYPE_CHECKING:
    from tests.support.clusters import Cluster
    from tests.support.http import Api


def test_invalid_token_is_rejected(api: Api) -> None:
    api.as_token("wrong").get("/api/v1/namespaces").refused(401, "Unauthorized", "Unauthorized")


def test_request_without_token_is_rejected(api: Api, core: str) -> None:
    anonymous = api.as_token(None)
    answer = anonymous.get(f"{core}/pods").refused(403, "Forbidden")
    ns = core.rsplit("/", 1)[1]
    assert (
        answer.message
        == f'pods is forbidden: User "system:anonymous" cannot list resource "pods" in API group "" in the namespace "{ns}"'
    )
    assert answer.json["details"] == {"kind": "pods"}
    answer = anonymous.get("/apis").refused(403, "Forbidden")
    assert answer.message == 'forbidden: User "system:anonymous" cannot get path "/apis"'


@pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz", "/version"])
def test_health_and_version_need_no_token(api: Api, path: str) -> None:
    api.as_token(None).get(path).ok(200)


@pytest.mark.parametrize(
    "path", ["/", "/api", "/api/v1", "/apis/apps/v1", "/openapi/v3", "/metrics", "/debug/pprof", "/api/v1/nodes"]
)
def test_other_paths_need_a_token(api: Api, path: str) -> None:
    api.as_token(None).get(path).refused(403, "Forbidden")


def test_any_token_allows_discovery(api: Api, ns: str) -> None:
    robot = account(api, ns)
    for path in ("/api", "/apis", "/api/v1", "/apis/apps/v1", "/openapi/v3", "/version"):
        robot.get(path).ok(200)


def test_account_without_roles_is_forbidden(api: Api, core: str, ns: str) -> None:
    robot = account(api, ns)
    user = f"system:serviceaccount:{ns}:robot"
    answer = robot.get(f"{core}/configmaps/c").refused(403, "Forbidden")
    assert (
        answer.message
        == f'configmaps "c" is forbidden: User "{user}" cannot get resource "configmaps" in API group "" in the namespace "{ns}"'
    )
    answer = robot.post(f"/apis/apps/v1/namespaces/{ns}/deployments", {"metadata": {"name": "d"}}).refused(403, "Forbidden")
    assert answer.message == (
        f'deployments.apps is forbidden: User "{user}" cannot create resource "deployments" in API group "apps" in '
        f'the namespace "{ns}"'
    )
    assert answer.json["details"] == {"group": "apps", "kind": "deployments"}
    answer = robot.get("/api/v1/nodes").refused(403, "Forbidden")
    assert answer.message == f'nodes is forbidden: User "{user}" cannot list resource "nodes" in API group "" at the cluster scope'


def test_role_grants_access_in_its_namespace(api: Api, core: str, ns: str) -> None:
    robot = account(api, ns)
    grant(api, ns, rule("get list create", "configmaps"))
    eventually(lambda: robot.get(f"{core}/configmaps").status == 200, what="the role works")
    robot.post(f"{core}/configmaps", config_map()).ok(201)
    robot.get(f"{core}/configmaps/c").ok(200)
    robot.delete(f"{core}/configmaps/c").refused(403, "Forbidden")
    robot.get(f"{core}/configmaps", {"watch": "1"}).refused(403, "Forbidden")
    robot.get("/api/v1/namespaces/default/configmaps").refused(403, "Forbidden")


def test_role_limits_resource_names_and_subresources(api: Api, core: str, ns: str) -> None:
    robot = account(api, ns)
    grant(api, ns, rule("get patch", "configmaps", resourceNames=["mine"]), rule("get", "pods/log"))
    for name in ("mine", "other"):
        api.post(f"{core}/configmaps", config_map(name)).ok(201)
    eventually(lambda: robot.get(f"{core}/configmaps/mine").status == 200)
    robot.patch(f"{core}/configmaps/mine", {"data": {"x": "y"}}).ok(200)
    robot.get(f"{core}/configmaps/other").refused(403, "Forbidden")
    robot.get(f"{core}/pods/p/log").refused(404, "NotFound")
    answer = robot.get(f"{core}/pods/p").refused(403, "Forbidden")
    assert 'cannot get resource "pods"' in answer.message
    answer = robot.patch(f"{core}/pods/p/status", {}).refused(403, "Forbidden")
    assert 'cannot patch resource "pods/status"' in answer.message


def test_role_with_resource_names_allows_to_list_and_watch_one_object(api: Api, core: str, ns: str) -> None:
    """As aggregated APIs read the ConfigMap of their authentication."""
    robot = account(api, ns)
    grant(api, ns, rule("list watch deletecollection", "configmaps", resourceNames=["mine"]))
    for name in ("mine", "other"):
        api.post(f"{core}/configmaps", config_map(name)).ok(201)
    one, both = {"fieldSelector": "metadata.name=mine"}, {"fieldSelector": f"metadata.name==mine,metadata.namespace={ns}"}
    eventually(lambda: robot.get(f"{core}/configmaps", one).status == 200)
    assert robot.get(f"{core}/configmaps", both).ok(200).names == ["mine"]
    with robot.watch(f"{core}/configmaps", one) as watch:
        assert watch.take(1) == [("ADDED", "mine")]
    user = f"system:serviceaccount:{ns}:robot"
    for selector, name in (
        ("metadata.name=other", ' "other"'),
        ("metadata.name!=mine", ""),
        ("metadata.name=mine,metadata.name", ""),
        ("metadata.name=a/b", ""),
    ):
        for verb, query in (("list", {}), ("watch", {"watch": "1"})):
            answer = robot.get(f"{core}/configmaps", {"fieldSelector": selector, **query}).refused(403, "Forbidden")
            denied = f'User "{user}" cannot {verb} resource "configmaps" in API group "" in the namespace "{ns}"'
            assert answer.message == f"configmaps{name} is forbidden: {denied}"
    robot.delete(f"{core}/configmaps", query=one).refused(403, "Forbidden")


def test_cluster_role_is_bound_in_one_namespace(api: Api, core: str, ns: str) -> None:
    robot = account(api, ns)
    bind(api, ns, {"kind": "ClusterRole", "name": "view"})
    eventually(lambda: robot.get(f"{core}/pods").status == 200)
    robot.get(f"{core}/secrets").refused(403, "Forbidden")
    robot.post(f"{core}/configmaps", config_map()).refused(403, "Forbidden")


def test_binding_to_service_account_group_applies(api: Api, core: str, ns: str) -> None:
    robot = account(api, ns)
    group = {"kind": "Group", "name": f"system:serviceaccounts:{ns}", "apiGroup": "rbac.authorization.k8s.io"}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"}
    api.post(f"{RBAC}/namespaces/{ns}/rolebindings", {"metadata": {"name": "all"}, "roleRef": role, "subjects": [group]}).ok(201)
    eventually(lambda: robot.get(f"{core}/secrets").status == 200)


def test_patch_that_creates_needs_create(api: Api, core: str, ns: str) -> None:
    robot = account(api, ns)
    grant(api, ns, rule("get patch", "configmaps"))
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}
    eventually(lambda: robot.get(f"{core}/configmaps/c").status == 404)
    answer = robot.apply(f"{core}/configmaps/c", body).refused(403, "Forbidden")
    assert 'cannot create resource "configmaps"' in answer.message


def test_granting_missing_permissions_is_forbidden(api: Api, ns: str) -> None:
    robot = account(api, ns)
    grant(api, ns, rule("get create bind", "roles rolebindings", "rbac.authorization.k8s.io"), rule("get", "pods"))
    roles = f"{RBAC}/namespaces/{ns}/roles"
    eventually(lambda: robot.get(f"{roles}/robot").status == 200)
    eventually(lambda: robot.get(f"/api/v1/namespaces/{ns}/pods/x").status == 404)
    robot.post(roles, {"metadata": {"name": "fine"}, "rules": [rule("get", "pods")]}).ok(201)
    answer = robot.post(roles, {"metadata": {"name": "more"}, "rules": [rule("get", "secrets")]}).refused(403, "Forbidden")
    assert answer.message == (
        f'roles.rbac.authorization.k8s.io "more" is forbidden: user "system:serviceaccount:{ns}:robot" '
        '(groups=["system:serviceaccounts" "system:serviceaccounts:'
        + ns
        + '" "system:authenticated"]) is attempting to grant RBAC '
        'permissions not currently held:\n{APIGroups:[""], Resources:["secrets"], Verbs:["get"]}'
    )


def test_impersonation_needs_permission(api: Api, core: str, ns: str) -> None:
    headers = {"Impersonate-User": "jane", "Impersonate-Group": "developers"}
    answer = api.get(f"{core}/pods", headers=headers).refused(403, "Forbidden")
    assert answer.message.startswith('pods is forbidden: User "jane" cannot list resource "pods"')
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"}
    group = {"kind": "Group", "name": "developers", "apiGroup": "rbac.authorization.k8s.io"}
    api.post(f"{RBAC}/namespaces/{ns}/rolebindings", {"metadata": {"name": "dev"}, "roleRef": role, "subjects": [group]}).ok(201)
    eventually(lambda: api.get(f"{core}/pods", headers=headers).status == 200)
    robot = account(api, ns)
    answer = robot.get(f"{core}/pods", headers={"Impersonate-User": "jane"}).refused(403, "Forbidden")
    assert answer.message == (
        f'users "jane" is forbidden: User "system:serviceaccount:{ns}:robot" cannot impersonate resource "users" in API group "" '
        "at the cluster scope"
    )


def test_impersonating_only_a_group_is_rejected(api: Api, core: str) -> None:
    assert api.get(f"{core}/pods", headers={"Impersonate-Group": "x"}).status in (400, 500)


def test_token_is_invalid_after_account_deletion(api: Api, core: str, ns: str) -> None:
    robot = account(api, ns)
    robot.get("/version").ok(200)
    api.delete(f"{core}/serviceaccounts/robot").ok(200)
    eventually(lambda: robot.get("/api").status == 401, what="the token is refused")


def test_aggregated_cluster_role_collects_rules(api: Api, unique_name: str) -> None:
    label = {f"{unique_name}.example.com/join": "true"}
    api.post(
        f"{RBAC}/clusterroles",
        {"metadata": {"name": unique_name}, "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": label}]}},
    ).ok(201)
    api.post(
        f"{RBAC}/clusterroles", {"metadata": {"name": f"{unique_name}-part", "labels": label}, "rules": [rule("get", "pods")]}
    ).ok(201)
    eventually(
        lambda: api.get(f"{RBAC}/clusterroles/{unique_name}").json["rules"] == [rule("get", "pods")], what="rules are gathered"
    )


def test_role_reference_is_immutable(api: Api, ns: str) -> None:
    bind(api, ns, {"kind": "ClusterRole", "name": "view"})
    answer = api.patch(f"{RBAC}/namespaces/{ns}/rolebindings/robot", {"roleRef": {"name": "edit"}}).refused(422, "Invalid")
    assert answer.causes[0][1:] == (
        "roleRef",
        'Invalid value: {"APIGroup":"rbac.authorization.k8s.io","Kind":"ClusterRole","Name":"edit"}: cannot change roleRef',
    )


def test_administrator_is_in_system_masters(cluster: Cluster, api: Api) -> None:
    review = api.post("/apis/authentication.k8s.io/v1/selfsubjectreviews", {}).ok(201).json
    assert {"system:masters", "system:authenticated"} <= set(review["status"]["userInfo"]["groups"])
