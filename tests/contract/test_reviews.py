"""Access reviews, and what service accounts provide to pods."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.support.access import account, grant, rule
from tests.support.objects import pod
from tests.support.polling import eventually

if TYPE_CHECKING:
    from tests.support.http import Api

AUTHORIZATION = "/apis/authorization.k8s.io/v1"
Object = dict[str, Any]


def can_i(api: Api, **attributes: Any) -> Object:
    """The status of a SelfSubjectAccessReview."""
    status: Object = (
        api.post(f"{AUTHORIZATION}/selfsubjectaccessreviews", {"spec": {"resourceAttributes": attributes}}).ok(201).json["status"]
    )
    return status


def test_administrator_may_do_anything(api: Api, ns: str) -> None:
    assert can_i(api, verb="delete", resource="secrets", namespace=ns)["allowed"] is True
    path = {"spec": {"nonResourceAttributes": {"verb": "get", "path": "/metrics"}}}
    assert api.post(f"{AUTHORIZATION}/selfsubjectaccessreviews", path).ok(201).json["status"]["allowed"] is True


def test_self_review_of_an_account(api: Api, ns: str) -> None:
    robot = account(api, ns)
    grant(api, ns, rule("get list", "pods"), rule("*", "deployments", "apps"))
    eventually(lambda: can_i(robot, verb="list", resource="pods", namespace=ns)["allowed"])
    assert can_i(robot, verb="get", resource="pods", namespace=ns)["reason"] == (
        f'RBAC: allowed by RoleBinding "robot/{ns}" of Role "robot" to ServiceAccount "robot/{ns}"'
    )
    assert can_i(robot, verb="scale", group="apps", resource="deployments", namespace=ns)["allowed"] is True
    assert can_i(robot, verb="delete", resource="pods", namespace=ns) == {"allowed": False}
    assert can_i(robot, verb="get", resource="pods")["allowed"] is False
    assert can_i(robot, verb="get", resource="pods", subresource="log", namespace=ns)["allowed"] is False


@pytest.mark.parametrize(("path", "where"), [("subjectaccessreviews", {}), ("localsubjectaccessreviews", {"local": True})])
def test_access_review_of_other_users(api: Api, ns: str, path: str, where: Object) -> None:
    account(api, ns)
    grant(api, ns, rule("get", "pods"))
    url = f"{AUTHORIZATION}/namespaces/{ns}/{path}" if where else f"{AUTHORIZATION}/{path}"
    attributes = {"verb": "get", "resource": "pods", "namespace": ns}
    body: Object = {
        "metadata": {"namespace": ns} if where else {},
        "spec": {"user": f"system:serviceaccount:{ns}:robot", "resourceAttributes": attributes},
    }
    eventually(lambda: api.post(url, body).ok(201).json["status"]["allowed"])
    body["spec"]["user"] = "unknown"
    assert api.post(url, body).ok(201).json["status"]["allowed"] is False


def test_self_subject_rules_review(api: Api, ns: str) -> None:
    robot = account(api, ns)
    grant(api, ns, rule("get list", "pods"))

    def rules() -> list[Object]:
        answer = robot.post(f"{AUTHORIZATION}/selfsubjectrulesreviews", {"spec": {"namespace": ns}}).ok(201).json
        assert answer["status"]["incomplete"] is False
        result: list[Object] = answer["status"]["resourceRules"]
        return result

    eventually(lambda: {"verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods"]} in rules())
    assert {
        "verbs": ["create"],
        "apiGroups": ["authorization.k8s.io"],
        "resources": ["selfsubjectaccessreviews", "selfsubjectrulesreviews"],
    } in rules()


def test_review_without_attributes_is_rejected(api: Api) -> None:
    answer = api.post(f"{AUTHORIZATION}/selfsubjectaccessreviews", {"spec": {}}).refused(422, "Invalid")
    assert answer.message.endswith("exactly one of nonResourceAttributes or resourceAttributes must be specified")


def test_self_subject_review(api: Api, ns: str) -> None:
    robot = account(api, ns)
    info = robot.post("/apis/authentication.k8s.io/v1/selfsubjectreviews", {}).ok(201).json["status"]["userInfo"]
    assert info["username"] == f"system:serviceaccount:{ns}:robot"
    assert sorted(info["groups"]) == ["system:authenticated", "system:serviceaccounts", f"system:serviceaccounts:{ns}"]


def test_token_review(api: Api, ns: str) -> None:
    robot = account(api, ns)
    reviews = "/apis/authentication.k8s.io/v1/tokenreviews"
    status = api.post(reviews, {"spec": {"token": robot.token}}).ok(201).json["status"]
    assert status["authenticated"] is True
    assert status["user"]["username"] == f"system:serviceaccount:{ns}:robot"
    assert status["audiences"] == ["https://kubernetes.default.svc"]
    status = api.post(reviews, {"spec": {"token": "wrong"}}).ok(201).json["status"]
    assert status.get("authenticated", False) is False
    assert "invalid bearer token" in status["error"]


def test_reviews_cannot_be_read(api: Api) -> None:
    answer = api.get(f"{AUTHORIZATION}/selfsubjectaccessreviews").refused(405, "MethodNotAllowed")
    assert answer.message == "the server does not allow this method on the requested resource"


def test_pods_get_a_token_volume(api: Api, core: str) -> None:
    spec = api.post(f"{core}/pods", pod()).ok(201).json["spec"]
    assert (spec["serviceAccountName"], spec["serviceAccount"]) == ("default", "default")
    [volume] = spec["volumes"]
    assert volume["name"].startswith("kube-api-access-")
    sources = volume["projected"]["sources"]
    assert [next(iter(source)) for source in sources] == ["serviceAccountToken", "configMap", "downwardAPI"]
    assert sources[0]["serviceAccountToken"] == {"expirationSeconds": 3607, "path": "token"}
    [mount] = spec["containers"][0]["volumeMounts"]
    assert (mount["mountPath"], mount["readOnly"]) == ("/var/run/secrets/kubernetes.io/serviceaccount", True)


def test_pods_without_a_token_volume(api: Api, core: str) -> None:
    body = pod()
    body["spec"]["automountServiceAccountToken"] = False
    assert "volumes" not in api.post(f"{core}/pods", body).ok(201).json["spec"]
    api.patch(f"{core}/serviceaccounts/default", {"automountServiceAccountToken": False}).ok(200)
    eventually(lambda: "volumes" not in api.post(f"{core}/pods", pod("q"), query={"dryRun": "All"}).ok(201).json["spec"])


def test_pod_with_missing_account_is_forbidden(api: Api, core: str, ns: str) -> None:
    body = pod()
    body["spec"]["serviceAccountName"] = "ghost"
    answer = api.post(f"{core}/pods", body).refused(403, "Forbidden")
    assert answer.message == f'pods "p" is forbidden: error looking up service account {ns}/ghost: serviceaccount "ghost" not found'


def test_pods_get_pull_secrets(api: Api, core: str) -> None:
    api.patch(f"{core}/serviceaccounts/default", {"imagePullSecrets": [{"name": "registry"}]}).ok(200)

    def secrets() -> Any:
        return api.post(f"{core}/pods", pod(), query={"dryRun": "All"}).ok(201).json["spec"].get("imagePullSecrets")

    assert eventually(secrets) == [{"name": "registry"}]


def test_priority_admission(api: Api, core: str, unique_name: str) -> None:
    classes = "/apis/scheduling.k8s.io/v1/priorityclasses"
    api.post(classes, {"metadata": {"name": unique_name}, "value": 1234, "preemptionPolicy": "Never"}).ok(201)
    body = pod()
    body["spec"]["priorityClassName"] = unique_name
    spec = eventually(lambda: api.post(f"{core}/pods", body).ok(201).json["spec"])
    assert (spec["priority"], spec["preemptionPolicy"]) == (1234, "Never")
    body["spec"]["priorityClassName"] = "ghost"
    answer = api.post(f"{core}/pods", body).refused(403, "Forbidden")
    assert answer.message == 'pods "p" is forbidden: no PriorityClass with name ghost was found'


def test_limit_range_admission(api: Api, core: str) -> None:
    limits = [{"type": "Container", "default": {"cpu": "500m"}, "defaultRequest": {"cpu": "100m"}, "max": {"cpu": "1"}}]
    api.post(f"{core}/limitranges", {"metadata": {"name": "l"}, "spec": {"limits": limits}}).ok(201)

    def resources() -> Any:
        created = api.post(f"{core}/pods", pod(), query={"dryRun": "All"}).ok(201).json
        return created["spec"]["containers"][0]["resources"]

    assert eventually(resources) == {"limits": {"cpu": "500m"}, "requests": {"cpu": "100m"}}
    body = pod()
    body["spec"]["containers"][0]["resources"] = {"limits": {"cpu": "2"}}
    answer = api.post(f"{core}/pods", body).refused(403, "Forbidden")
    assert answer.message == 'pods "p" is forbidden: maximum cpu usage per Container is 1, but limit is 2'


def test_quota_admission(api: Api, core: str) -> None:
    hard = {"configmaps": "2", "secrets": "0"}
    api.post(f"{core}/resourcequotas", {"metadata": {"name": "q"}, "spec": {"hard": hard}}).ok(201)
    eventually(
        lambda: api.get(f"{core}/resourcequotas/q").json["status"].get("used", {}).get("configmaps") == "1", what="usage is counted"
    )
    eventually(
        lambda: "exceeded quota: q" in api.post(f"{core}/secrets", {"metadata": {"name": "s"}}, query={"dryRun": "All"}).message,
        what="admission knows the quota with its usage",
    )
    api.post(f"{core}/configmaps", {"metadata": {"name": "a"}}).ok(201)
    answer = api.post(f"{core}/configmaps", {"metadata": {"name": "b"}}).refused(403, "Forbidden")
    assert (
        answer.message
        == 'configmaps "b" is forbidden: exceeded quota: q, requested: configmaps=1, used: configmaps=2, limited: configmaps=2'
    )
