"""Authorization: anonymous requests, RBAC, impersonation, access reviews, service account tokens, and escalation checks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.support.objects import config_map, pod
from tests.support.polling import eventually

if TYPE_CHECKING:
    from tests.support.http import Answer, Api

Object = dict[str, Any]
RBAC = "/apis/rbac.authorization.k8s.io/v1"
REVIEWS = "/apis/authorization.k8s.io/v1"


def acting_as(user: str, **more: str) -> dict[str, str]:
    """The headers that impersonate a user."""
    return {"Impersonate-User": user, **{f"Impersonate-{key.title()}": value for key, value in more.items()}}


def grant(api: Api, ns: str, user: Object, *rules: Object) -> None:
    """Grant permissions in a namespace and wait until they are in force."""
    api.post(f"{RBAC}/namespaces/{ns}/roles", {"metadata": {"name": "granted"}, "rules": list(rules)}).ok(201)
    ref = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "granted"}
    api.post(f"{RBAC}/namespaces/{ns}/rolebindings", {"metadata": {"name": "granted"}, "roleRef": ref, "subjects": [user]}).ok(201)


def rule(verbs: str, resources: str, group: str = "", names: str = "") -> Object:
    result: Object = {"apiGroups": [group], "resources": resources.split(","), "verbs": verbs.split(",")}
    return {**result, "resourceNames": names.split(",")} if names else result


def user_subject(name: str) -> Object:
    return {"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": name}


def allowed(api: Api, path: str, user: str) -> bool:
    return api.get(path, headers=acting_as(user)).status == 200


@pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz", "/version", "/version/"])
def test_anonymous_may_read_health_and_version(api: Api, path: str) -> None:
    assert api.as_token(None).get(path).status == 200


@pytest.mark.parametrize("path", ["/api", "/apis", "/openapi/v3", "/metrics", "/", "/livez/ping"])
def test_anonymous_is_forbidden_elsewhere(api: Api, path: str) -> None:
    response = api.as_token(None).get(path)
    response.refused(403, "Forbidden", f'forbidden: User "system:anonymous" cannot get path "{path}"')
    assert response.json["details"] == {}


def test_anonymous_cannot_read_objects(api: Api, core: str, ns: str) -> None:
    response = api.as_token(None).get(f"{core}/pods")
    response.refused(
        403,
        "Forbidden",
        f'pods is forbidden: User "system:anonymous" cannot list resource "pods" in API group "" in the namespace "{ns}"',
    )


@pytest.mark.parametrize("token", ["wrong", "a.b.c", "Zm9v"])
def test_invalid_token_is_unauthorized(api: Api, token: str) -> None:
    answer = api.as_token(token).get("/version").refused(401, "Unauthorized", "Unauthorized")
    assert "details" not in answer.json


@pytest.mark.parametrize(
    ("method", "path", "message", "details"),
    [
        (
            "GET",
            "/api/v1/namespaces/{ns}/pods/foo",
            'pods "foo" is forbidden: User "joe" cannot get resource "pods" in API group "" in the namespace "{ns}"',
            {"name": "foo", "kind": "pods"},
        ),
        (
            "GET",
            "/apis/apps/v1/namespaces/{ns}/deployments/foo/scale",
            (
                'deployments.apps "foo" is forbidden: User "joe" cannot get resource "deployments/scale" in API group "apps" '
                'in the namespace "{ns}"'
            ),
            {"name": "foo", "group": "apps", "kind": "deployments"},
        ),
        (
            "GET",
            "/api/v1/nodes",
            'nodes is forbidden: User "joe" cannot list resource "nodes" in API group "" at the cluster scope',
            {"kind": "nodes"},
        ),
        (
            "GET",
            "/api/v1/namespaces/{ns}/pods?watch=1",
            'pods is forbidden: User "joe" cannot watch resource "pods" in API group "" in the namespace "{ns}"',
            {"kind": "pods"},
        ),
        (
            "DELETE",
            "/api/v1/namespaces/{ns}/pods",
            'pods is forbidden: User "joe" cannot deletecollection resource "pods" in API group "" in the namespace "{ns}"',
            {"kind": "pods"},
        ),
        (
            "GET",
            "/api/v1/namespaces/{ns}",
            'namespaces "{ns}" is forbidden: User "joe" cannot get resource "namespaces" in API group "" in the namespace "{ns}"',
            {"name": "{ns}", "kind": "namespaces"},
        ),
        (
            "GET",
            "/apis/example.com/v1/things",
            (
                'things.example.com is forbidden: User "joe" cannot list resource "things" in API group "example.com" '
                "at the cluster scope"
            ),
            {"group": "example.com", "kind": "things"},
        ),
        ("POST", "/metrics", 'forbidden: User "joe" cannot post path "/metrics"', {}),
    ],
)
def test_forbidden_messages(api: Api, *, ns: str, method: str, path: str, message: str, details: Object) -> None:
    response = api.request(method, path.replace("{ns}", ns), headers=acting_as("joe"))
    response.refused(403, "Forbidden", message.replace("{ns}", ns))
    assert response.json["details"] == {key: value.replace("{ns}", ns) for key, value in details.items()}


def test_authenticated_users_may_discover(api: Api) -> None:
    for path in ("/api", "/apis/apps/v1", "/openapi/v3"):
        assert api.get(path, headers=acting_as("joe")).status == 200


def test_role_grants_exactly_its_rules(api: Api, ns: str, core: str, unique_name: str) -> None:
    api.post(f"{core}/configmaps", config_map("a")).ok(201)
    grant(api, ns, user_subject(unique_name), rule("list", "configmaps"), rule("get", "configmaps", names="a,b"))
    assert eventually(lambda: allowed(api, f"{core}/configmaps", unique_name))
    assert allowed(api, f"{core}/configmaps/a", unique_name)
    api.get(f"{core}/configmaps/c", headers=acting_as(unique_name)).refused(403, "Forbidden")
    api.get("/api/v1/configmaps", headers=acting_as(unique_name)).refused(403, "Forbidden")
    api.delete(f"{core}/configmaps/a", headers=acting_as(unique_name)).refused(403, "Forbidden")
    api.delete(f"{RBAC}/namespaces/{ns}/rolebindings/granted").ok(200)
    assert eventually(lambda: not allowed(api, f"{core}/configmaps", unique_name))


def test_binding_to_missing_role_is_reported(api: Api, ns: str, core: str, unique_name: str) -> None:
    ref = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "nope"}
    body = {"metadata": {"name": "b"}, "roleRef": ref, "subjects": [user_subject(unique_name)]}
    api.post(f"{RBAC}/namespaces/{ns}/rolebindings", body).ok(201)
    reported = 'RBAC: clusterrole.rbac.authorization.k8s.io "nope" not found'
    assert eventually(lambda: api.get(f"{core}/pods", headers=acting_as(unique_name)).message.endswith(reported))


@pytest.mark.parametrize("name", ["cluster-admin", "admin", "edit", "view", "system:basic-user", "system:discovery"])
def test_default_cluster_roles_exist(api: Api, name: str) -> None:
    seen = api.get(f"{RBAC}/clusterroles/{name}").ok(200).json
    assert seen["metadata"]["labels"]["kubernetes.io/bootstrapping"] == "rbac-defaults"
    assert eventually(lambda: bool(api.get(f"{RBAC}/clusterroles/{name}").json.get("rules")))


def test_view_role_reads_everything_but_secrets(api: Api, ns: str, core: str, unique_name: str) -> None:
    ref = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"}
    body = {"metadata": {"name": "v"}, "roleRef": ref, "subjects": [user_subject(unique_name)]}
    api.post(f"{RBAC}/namespaces/{ns}/rolebindings", body).ok(201)
    assert eventually(lambda: allowed(api, f"{core}/pods", unique_name))
    api.get(f"{core}/secrets", headers=acting_as(unique_name)).refused(403, "Forbidden")
    api.post(f"{core}/configmaps", config_map(), headers=acting_as(unique_name)).refused(403, "Forbidden")


def test_aggregated_role_follows_its_parts(api: Api, unique_name: str) -> None:
    labels = {f"example.com/{unique_name}": "true"}
    selector = {"clusterRoleSelectors": [{"matchLabels": labels}]}
    whole = f"{RBAC}/clusterroles/{unique_name}"
    api.post(f"{RBAC}/clusterroles", {"metadata": {"name": unique_name}, "aggregationRule": selector}).ok(201)
    given = rule("get", "things", "example.com")
    api.post(f"{RBAC}/clusterroles", {"metadata": {"name": f"{unique_name}-part", "labels": labels}, "rules": [given]}).ok(201)
    assert eventually(lambda: api.get(whole).json.get("rules") == [given])
    api.delete(f"{RBAC}/clusterroles/{unique_name}-part").ok(200)
    assert eventually(lambda: not api.get(whole).json.get("rules"))


def writer(api: Api, ns: str, user: str) -> None:
    """A user who may only write roles and bindings."""
    grant(api, ns, user_subject(user), rule("create,update,patch,get", "roles,rolebindings", "rbac.authorization.k8s.io"))
    assert eventually(lambda: api.get(f"{RBAC}/namespaces/{ns}/roles/granted", headers=acting_as(user)).status == 200)


def test_escalation_is_forbidden(api: Api, ns: str, unique_name: str) -> None:
    writer(api, ns, unique_name)
    roles, bindings = f"{RBAC}/namespaces/{ns}/roles", f"{RBAC}/namespaces/{ns}/rolebindings"
    lacking = (
        f'user "{unique_name}" (groups=["system:authenticated"]) is attempting to grant RBAC permissions not currently held:\n'
    )
    body = {"metadata": {"name": "r"}, "rules": [rule("get,list", "pods"), rule("get", "secrets", names="a")]}
    api.post(roles, body, headers=acting_as(unique_name)).refused(
        403,
        "Forbidden",
        f'roles.rbac.authorization.k8s.io "r" is forbidden: {lacking}{{APIGroups:[""], Resources:["pods"], Verbs:["get" "list"]}}\n'
        '{APIGroups:[""], Resources:["secrets"], ResourceNames:["a"], Verbs:["get"]}',
    )
    ref = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "system:public-info-viewer"}
    bound: Object = {"metadata": {"name": "b"}, "roleRef": ref, "subjects": [user_subject("z")]}
    api.post(bindings, bound, headers=acting_as(unique_name)).ok(201)
    bound["roleRef"] = {**ref, "name": "missing"}
    api.post(bindings, bound, headers=acting_as(unique_name)).refused(
        404, "NotFound", 'rolebindings.rbac.authorization.k8s.io "missing" not found'
    )
    own = {"metadata": {"name": "own"}, "rules": [rule("create", "roles", "rbac.authorization.k8s.io")]}
    api.post(roles, own, headers=acting_as(unique_name)).ok(201)


def test_impersonation_needs_permission(api: Api, ns: str) -> None:
    account = api.as_token(api.post(f"/api/v1/namespaces/{ns}/serviceaccounts/default/token", {"spec": {}}).json["status"]["token"])
    me = f"system:serviceaccount:{ns}:default"
    account.get("/api/v1/nodes", headers=acting_as("joe")).refused(
        403,
        "Forbidden",
        f'users "joe" is forbidden: User "{me}" cannot impersonate resource "users" in API group "" at the cluster scope',
    )
    other = acting_as(f"system:serviceaccount:{ns}:zoo")
    account.get("/api/v1/nodes", headers=other).refused(
        403,
        "Forbidden",
        f'serviceaccounts "zoo" is forbidden: User "{me}" cannot impersonate resource "serviceaccounts" in API group "" '
        f'in the namespace "{ns}"',
    )
    api.get("/version", headers={"Impersonate-Group": "g"}).refused(
        400, "BadRequest", "requested [{Group  g    }] without impersonating a user"
    )


def test_self_subject_review(api: Api, ns: str) -> None:
    body = {"kind": "SelfSubjectReview", "apiVersion": "authentication.k8s.io/v1"}
    headers = acting_as(f"system:serviceaccount:{ns}:x", uid="7") | {"Impersonate-Extra-Foo%2Fbar": "z"}
    seen = api.post("/apis/authentication.k8s.io/v1/selfsubjectreviews", body, headers=headers).ok(201).json
    assert seen["status"]["userInfo"] == {
        "username": f"system:serviceaccount:{ns}:x",
        "uid": "7",
        "groups": ["system:serviceaccounts", f"system:serviceaccounts:{ns}", "system:authenticated"],
        "extra": {"foo/bar": ["z"]},
    }


def ask(api: Api, kind: str, spec: Object, path: str = "", **options: Any) -> Answer:
    return api.post(
        f"{REVIEWS}{path}/{kind.lower()}s", {"kind": kind, "apiVersion": "authorization.k8s.io/v1", "spec": spec}, **options
    )


def test_access_reviews(api: Api, ns: str, unique_name: str) -> None:
    grant(api, ns, user_subject(unique_name), rule("list", "pods"))
    spec = {"resourceAttributes": {"namespace": ns, "verb": "list", "resource": "pods"}}
    reported = f'RBAC: allowed by RoleBinding "granted/{ns}" of Role "granted" to User "{unique_name}"'
    assert eventually(
        lambda: (
            ask(api, "SelfSubjectAccessReview", spec, headers=acting_as(unique_name)).json["status"]
            == {"allowed": True, "reason": reported}
        )
    )
    assert ask(api, "SelfSubjectAccessReview", spec).json["status"] == {"allowed": True}
    other = {**spec, "user": "unknown"}
    assert ask(api, "SubjectAccessReview", other).json["status"] == {"allowed": False}
    mine = {**spec, "user": unique_name}
    assert ask(api, "LocalSubjectAccessReview", mine, f"/namespaces/{ns}").json["status"]["allowed"]
    rules = ask(api, "SelfSubjectRulesReview", {"namespace": ns}, headers=acting_as(unique_name)).json["status"]
    assert {"verbs": ["list"], "apiGroups": [""], "resources": ["pods"]} in rules["resourceRules"]
    assert rules["incomplete"] is False


@pytest.mark.parametrize(
    ("kind", "spec", "message"),
    [
        (
            "SelfSubjectAccessReview",
            {},
            (
                "spec.resourceAttributes: Invalid value: null: "
                "exactly one of nonResourceAttributes or resourceAttributes must be specified"
            ),
        ),
        (
            "SelfSubjectAccessReview",
            {"resourceAttributes": {"verb": "get"}, "nonResourceAttributes": {"path": "/", "verb": "get"}},
            (
                'spec.nonResourceAttributes: Invalid value: {"Path":"/","Verb":"get"}: '
                "cannot be specified in combination with resourceAttributes"
            ),
        ),
        (
            "SubjectAccessReview",
            {"resourceAttributes": {"verb": "get"}},
            'spec.user: Invalid value: "": at least one of user or group must be specified',
        ),
    ],
)
def test_invalid_reviews_are_rejected(api: Api, kind: str, spec: Object, message: str) -> None:
    ask(api, kind, spec).refused(422, "Invalid", f'.authorization.k8s.io "" is invalid: {message}')


def test_rules_review_needs_a_namespace(api: Api) -> None:
    ask(api, "SelfSubjectRulesReview", {}).refused(400, "BadRequest", "no namespace on request")


def token(api: Api, ns: str, **spec: Any) -> Answer:
    return api.post(f"/api/v1/namespaces/{ns}/serviceaccounts/default/token", {"spec": spec})


def test_service_account_token(api: Api, ns: str, core: str) -> None:
    created = token(api, ns).ok(201).json
    assert created["kind"] == "TokenRequest"
    assert created["spec"]["expirationSeconds"] == 3600
    assert created["metadata"]["name"] == "default"
    account = api.as_token(created["status"]["token"])
    account.get(f"{core}/pods").refused(
        403,
        "Forbidden",
        f'pods is forbidden: User "system:serviceaccount:{ns}:default" cannot list resource "pods" in API group "" '
        f'in the namespace "{ns}"',
    )
    grant(api, ns, {"kind": "ServiceAccount", "name": "default", "namespace": ns}, rule("list", "pods"))
    assert eventually(lambda: account.get(f"{core}/pods").status == 200)


def review(api: Api, text: str, *audiences: str) -> Object:
    body = {"kind": "TokenReview", "apiVersion": "authentication.k8s.io/v1", "spec": {"token": text, "audiences": list(audiences)}}
    status: Object = api.post("/apis/authentication.k8s.io/v1/tokenreviews", body).ok(201).json["status"]
    return status


def test_pod_token_is_invalid_after_pod_deletion(api: Api, ns: str, core: str) -> None:
    created = api.post(f"{core}/pods", pod("p")).ok(201).json
    ref = {"kind": "Pod", "apiVersion": "v1", "name": "p", "uid": created["metadata"]["uid"]}
    text = token(api, ns, boundObjectRef=ref, audiences=["vault"]).ok(201).json["status"]["token"]
    api.as_token(text).get("/version").refused(401, "Unauthorized")
    seen = review(api, text, "vault", "other")
    assert seen["audiences"] == ["vault"]
    assert seen["user"]["extra"]["authentication.kubernetes.io/pod-name"] == ["p"]
    assert review(api, text)["error"].startswith(
        '[invalid bearer token, token audiences ["vault"] is invalid for the target audiences ['
    )
    api.delete(f"{core}/pods/p", {"gracePeriodSeconds": 0}).ok(200)
    ended = "[invalid bearer token, service account token has been invalidated]"
    assert eventually(lambda: review(api, text, "vault").get("error") == ended)
    assert review(api, "x") == {"user": {}, "error": "invalid bearer token"}


@pytest.mark.parametrize(
    ("spec", "status", "message"),
    [
        (
            {"expirationSeconds": 10},
            422,
            (
                'TokenRequest.authentication.k8s.io "" is invalid: spec.expirationSeconds: Invalid value: 10: '
                "may not specify a duration less than 10 minutes"
            ),
        ),
        ({"boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": "none"}}, 404, 'pods "none" not found'),
        (
            {"boundObjectRef": {"kind": "Foo", "apiVersion": "v1", "name": "none"}},
            400,
            "cannot bind token to object of type /v1, Kind=Foo",
        ),
    ],
)
def test_invalid_token_requests_are_rejected(api: Api, ns: str, spec: Object, status: int, message: str) -> None:
    answer = token(api, ns, **spec)
    assert (answer.status, answer.message) == (status, message)


def test_token_issuer_is_published(api: Api, ns: str) -> None:
    account = api.as_token(token(api, ns).json["status"]["token"])
    answer = account.get("/.well-known/openid-configuration").ok(200)
    assert (answer.headers["Content-Type"], answer.headers["Cache-Control"]) == ("application/json", "public, max-age=3600")
    assert set(answer.json) == {
        "issuer",
        "jwks_uri",
        "response_types_supported",
        "subject_types_supported",
        "id_token_signing_alg_values_supported",
    }
    keys = account.get("/openid/v1/jwks", accept=None).ok(200)
    assert (keys.headers["Content-Type"], keys.headers["Cache-Control"]) == ("application/jwk-set+json", "public, max-age=3600")
    assert keys.json["keys"][0]["use"] == "sig"
