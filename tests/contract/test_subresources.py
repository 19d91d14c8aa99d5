"""Subresources: status, scale, binding, eviction, log, token, finalize."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

import orjson
import pytest
from tests.support import goldens
from tests.support.http import JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, TABLE
from tests.support.objects import deployment, kind, pod
from tests.support.polling import eventually

if TYPE_CHECKING:
    from tests.support.clusters import Cluster
    from tests.support.http import Api


def deploy(api: Api, ns: str, replicas: int = 1) -> str:
    """Create a deployment; returns its path."""
    path = f"/apis/apps/v1/namespaces/{ns}/deployments"
    api.post(path, deployment(replicas=replicas)).ok(201)
    return f"{path}/d"


def test_status_update_changes_only_status(api: Api, core: str) -> None:
    created = api.post(f"{core}/pods", pod()).ok(201).json
    created["status"] = {"phase": "Running", "podIP": "10.1.1.1", "podIPs": [{"ip": "10.1.1.1"}]}
    created["spec"]["terminationGracePeriodSeconds"] = 99
    live = api.put(f"{core}/pods/p/status", created).ok(200).json
    assert live["status"]["phase"] == "Running"
    assert live["status"]["podIP"] == "10.1.1.1"
    assert live["spec"]["terminationGracePeriodSeconds"] == 30
    assert api.get(f"{core}/pods/p/status").ok(200).json == live
    live["status"] = {"phase": "Failed"}
    assert api.put(f"{core}/pods/p", live).ok(200).json["status"]["phase"] == "Running"


def test_status_update_of_deployment_ignores_labels(api: Api, ns: str) -> None:
    path = deploy(api, ns)
    live = api.patch(f"{path}/status", {"metadata": {"labels": {"x": "y"}}, "status": {"replicas": 1}}).ok(200).json
    assert "labels" not in live["metadata"]
    assert live["status"]["replicas"] == 1


def test_status_is_dropped_on_create(api: Api, ns: str) -> None:
    body = {**deployment(), "status": {"replicas": 5}}
    assert api.post(f"/apis/apps/v1/namespaces/{ns}/deployments", body).ok(201).json["status"] == {}


def test_status_conditions_merge_by_type(api: Api, core: str) -> None:
    api.post(f"{core}/pods", pod()).ok(201)
    for condition in ("Ready", "Initialized"):
        patch = {"status": {"conditions": [{"type": condition, "status": "True"}]}}
        live = api.patch(f"{core}/pods/p/status", patch, STRATEGIC_PATCH).ok(200).json
    assert {c["type"] for c in live["status"]["conditions"]} == {"Ready", "Initialized"}


@pytest.mark.parametrize("field", ["containerStatuses", "initContainerStatuses"])
@pytest.mark.parametrize("exit_code", [0, 1])
@pytest.mark.parametrize("own", [None, "Always", "OnFailure", "Never"])
@pytest.mark.parametrize("policy", ["Always", "OnFailure", "Never"])
def test_terminated_container_restarts_by_its_own_policy(
    api: Api, core: str, *, policy: str, own: str | None, exit_code: int, field: str
) -> None:
    """Of init containers only a sidecar restarts after success, and a container's own policy wins."""
    body, container = pod(), {"name": "other", "image": "x", **({"restartPolicy": own} if own else {})}
    body["spec"]["restartPolicy"] = policy
    body["spec"].setdefault({"containerStatuses": "containers"}.get(field, "initContainers"), []).append(container)
    api.post(f"{core}/pods", body).ok(201)

    def set_state(state: dict[str, Any]) -> int:
        status = {"name": "other", "image": "x", "imageID": "", "ready": False, "restartCount": 0, "state": state}
        return api.patch(f"{core}/pods/p/status", {"status": {field: [status]}}, MERGE_PATCH).status

    assert set_state({"terminated": {"exitCode": exit_code}}) == 200
    restarts = (own or policy) == "Always" or ((own or policy) == "OnFailure" and exit_code == 1)
    assert set_state({"running": {}}) == (200 if restarts else 422)


def test_kind_without_status_has_no_status_path(api: Api, core: str) -> None:
    api.post(f"{core}/secrets", {"metadata": {"name": "s"}}).ok(201)
    api.get(f"{core}/secrets/s/status").refused(404, "NotFound", "the server could not find the requested resource")


def test_scale_is_read(api: Api, ns: str) -> None:
    path = deploy(api, ns, 3)
    scale = api.get(f"{path}/scale").ok(200).json
    assert (scale["kind"], scale["apiVersion"]) == ("Scale", "autoscaling/v1")
    assert scale["metadata"]["name"] == "d"
    assert scale["metadata"]["resourceVersion"] == api.get(path).version
    assert scale["spec"] == {"replicas": 3}
    assert scale["status"] == {"replicas": 0, "selector": "app=a"}


def test_scale_is_written(api: Api, ns: str) -> None:
    path = deploy(api, ns)
    scale = api.get(f"{path}/scale").json
    scale["spec"]["replicas"] = 5
    assert api.put(f"{path}/scale", scale).ok(200).json["spec"]["replicas"] == 5
    live = api.get(path).json
    assert (live["spec"]["replicas"], live["metadata"]["generation"]) == (5, 2)
    assert "scale" in [entry.get("subresource") for entry in live["metadata"]["managedFields"]]
    api.put(f"{path}/scale", scale).refused(409, "Conflict")
    assert api.patch(f"{path}/scale", {"spec": {"replicas": 0}}).ok(200).json["spec"] == {}
    assert api.get(path).json["spec"]["replicas"] == 0


@pytest.mark.parametrize("plural", ["replicasets", "statefulsets", "replicationcontrollers"])
def test_scale_of_other_kinds(api: Api, ns: str, plural: str) -> None:
    scalable = kind(plural)
    path = f"{scalable.collection(ns)}/x"
    api.post(scalable.collection(ns), scalable.object("x")).ok(201)
    assert api.patch(f"{path}/scale", {"spec": {"replicas": 4}}).ok(200).json["spec"] == {"replicas": 4}
    assert api.get(path).json["spec"]["replicas"] == 4


def test_scale_rejects_negative_replicas(api: Api, ns: str) -> None:
    path = deploy(api, ns)
    answer = api.patch(f"{path}/scale", {"spec": {"replicas": -1}}).refused(422, "Invalid")
    assert answer.causes == [("FieldValueInvalid", "spec.replicas", "Invalid value: -1: must be greater than or equal to 0")]
    assert answer.message.startswith('Scale.autoscaling "d" is invalid: spec.replicas')


def test_kind_without_scale_has_no_scale_path(api: Api, ns: str) -> None:
    api.get(f"/apis/apps/v1/namespaces/{ns}/daemonsets/x/scale").refused(404, "NotFound")


def test_binding(api: Api, core: str, ns: str) -> None:
    api.post(f"{core}/pods", pod()).ok(201)
    binding = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "p", "annotations": {"x": "y"}},
        "target": {"kind": "Node", "name": "n1"},
    }
    assert api.post(f"{core}/pods/p/binding", binding).ok(201).json["status"] == "Success"
    live = api.get(f"{core}/pods/p").json
    assert live["spec"]["nodeName"] == "n1"
    assert live["metadata"]["annotations"] == {"x": "y"}
    [condition] = live["status"]["conditions"]
    assert (condition["type"], condition["status"]) == ("PodScheduled", "True")
    answer = api.post(f"{core}/pods/p/binding", binding).refused(409, "Conflict")
    assert answer.message == 'Operation cannot be fulfilled on pods/binding "p": pod p is already assigned to node "n1"'
    api.post(f"{core}/bindings", {**binding, "metadata": {"name": "absent"}}).refused(404, "NotFound", 'pods "absent" not found')


@pytest.mark.parametrize(
    ("metadata", "target", "message"),
    [
        ({"name": "other"}, {"name": "n"}, "name in URL does not match name in Binding object"),
        ({}, {"name": "n"}, "name in URL does not match name in Binding object"),
        ({"name": "p"}, {}, "target.name: Required value"),
        ({"name": "p"}, {"name": "n", "kind": "Pod"}, 'target.kind: Unsupported value: "Pod": supported values: "Node", "<empty>"'),
    ],
)
def test_invalid_binding_is_rejected(api: Api, core: str, metadata: Any, target: Any, message: str) -> None:
    api.post(f"{core}/pods", pod()).ok(201)
    answer = api.post(f"{core}/pods/p/binding", {"metadata": metadata, "target": target})
    assert answer.status in (400, 500)  # the real server does not give the error of an invalid target a code
    assert answer.message == message
    assert "nodeName" not in api.get(f"{core}/pods/p").json["spec"]


@pytest.mark.parametrize(("field", "noun"), [("uid", "UID"), ("resourceVersion", "ResourceVersion")])
def test_binding_of_another_pod_with_the_name_is_rejected(api: Api, core: str, ns: str, field: str, noun: str) -> None:
    actual = api.post(f"{core}/pods", pod()).ok(201).json["metadata"][field]
    binding = {"metadata": {"name": "p", field: "1"}, "target": {"name": "n"}}
    answer = api.post(f"{core}/pods/p/binding", binding).refused(409, "Conflict")
    assert answer.message == (
        f'Operation cannot be fulfilled on pods "p": StorageError: invalid object, Code: 4, Key: /registry/pods/{ns}/p, '
        f"ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: {noun} in precondition: 1, {noun} in object meta: {actual}"
    )


def test_binding_copies_labels(api: Api, core: str) -> None:
    api.post(f"{core}/pods", pod(labels={"a": "b", "c": "d"})).ok(201)
    api.post(f"{core}/pods/p/binding", {"metadata": {"name": "p", "labels": {"a": "x"}}, "target": {"name": "n"}}).ok(201)
    assert api.get(f"{core}/pods/p").json["metadata"]["labels"] == {"a": "x", "c": "d"}


def test_eviction_with_another_name_is_rejected(api: Api, core: str) -> None:
    api.post(f"{core}/pods", pod()).ok(201)
    answer = api.post(f"{core}/pods/p/eviction", eviction("other")).refused(400, "BadRequest")
    assert answer.message == "name in URL does not match name in Eviction object"
    api.get(f"{core}/pods/p").ok(200)


def test_dry_run_in_the_options_of_an_eviction(api: Api, core: str) -> None:
    """`kubectl drain --dry-run=server` sends it there."""
    api.post(f"{core}/pods", pod()).ok(201)
    api.post(f"{core}/pods/p/eviction", eviction(deleteOptions={"dryRun": ["All"]})).ok(201)
    assert "deletionTimestamp" not in api.get(f"{core}/pods/p").ok(200).json["metadata"]


def test_eviction_sets_the_condition_disruption_target(api: Api, core: str) -> None:
    api.post(f"{core}/pods", pod()).ok(201)
    api.post(f"{core}/pods/p/binding", {"metadata": {"name": "p"}, "target": {"name": "n"}}).ok(201)
    api.post(f"{core}/pods/p/eviction", eviction()).ok(201)
    live = api.get(f"{core}/pods/p").ok(200).json
    assert live["metadata"]["deletionTimestamp"]
    [condition] = [item for item in live["status"]["conditions"] if item["type"] == "DisruptionTarget"]
    condition.pop("lastTransitionTime")
    assert condition == {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "EvictionByEvictionAPI",
        "message": "Eviction API: evicting",
        "lastProbeTime": None,
    }


def eviction(name: str = "p", **options: Any) -> dict[str, Any]:
    """A request to evict a pod."""
    return {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}, **options}


def test_eviction_without_a_budget(api: Api, core: str) -> None:
    api.post(f"{core}/pods", pod()).ok(201)
    assert api.post(f"{core}/pods/p/eviction", eviction(), query={"dryRun": "All"}).ok(201).json["status"] == "Success"
    api.get(f"{core}/pods/p").ok(200)
    api.post(f"{core}/pods/p/eviction", eviction()).ok(201)
    api.get(f"{core}/pods/p").refused(404, "NotFound")
    api.post(f"{core}/pods/p/eviction", eviction()).refused(404, "NotFound", 'pods "p" not found')


def test_eviction_against_a_budget(api: Api, core: str, ns: str) -> None:
    budgets = f"/apis/policy/v1/namespaces/{ns}/poddisruptionbudgets"
    budget = {"metadata": {"name": "b"}, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "a"}}}}
    api.post(budgets, budget).ok(201)
    api.post(f"{core}/pods", pod(labels={"app": "a"})).ok(201)
    running = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    api.patch(f"{core}/pods/p/status", {"status": running}).ok(200)
    answer = api.post(f"{core}/pods/p/eviction", eviction()).refused(429, "TooManyRequests")
    assert answer.message == "Cannot evict pod as it would violate the pod's disruption budget."
    assert answer.causes == [("DisruptionBudget", "", "The disruption budget b is still being processed by the server.")]
    status = {"observedGeneration": 1, "disruptionsAllowed": 1, "currentHealthy": 2, "desiredHealthy": 1, "expectedPods": 2}
    api.patch(f"{budgets}/b/status", {"status": status}).ok(200)
    eventually(lambda: api.post(f"{core}/pods/p/eviction", eviction()).status == 201)
    after = api.get(f"{budgets}/b").json["status"]
    assert after["disruptionsAllowed"] == 0
    assert list(after["disruptedPods"]) == ["p"]


def test_log_of_unscheduled_pod_is_rejected(api: Api, core: str) -> None:
    api.post(f"{core}/pods", pod()).ok(201)
    assert api.get(f"{core}/pods/p/log", accept=None).ok(204).body == b""
    api.get(f"{core}/pods/absent/log").refused(404, "NotFound", 'pods "absent" not found')
    two = pod("two")
    two["spec"]["containers"].append({"name": "side", "image": "s"})
    api.post(f"{core}/pods", two).ok(201)
    answer = api.get(f"{core}/pods/two/log").refused(400, "BadRequest")
    assert answer.message == "a container name must be specified for pod two, choose one of: [main side]"
    answer = api.get(f"{core}/pods/two/log", {"container": "x"}).refused(400, "BadRequest")
    assert answer.message == "container x is not valid for pod two"


def test_token(api: Api, core: str, ns: str) -> None:
    path = f"{core}/serviceaccounts/default/token"
    request = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"audiences": ["example.com"], "expirationSeconds": 3600},
    }
    answer = api.post(path, request).ok(201).json
    claims = orjson.loads(base64.urlsafe_b64decode(answer["status"]["token"].split(".")[1] + "=="))
    assert claims["aud"] == ["example.com"]
    assert claims["sub"] == f"system:serviceaccount:{ns}:default"
    assert claims["exp"] - claims["iat"] == 3600
    assert claims["kubernetes.io"]["serviceaccount"]["name"] == "default"
    assert answer["status"]["expirationTimestamp"]
    request["spec"] = {"expirationSeconds": 5}
    answer_too_short = api.post(path, request).refused(422, "Invalid")
    assert answer_too_short.causes == [
        ("FieldValueInvalid", "spec.expirationSeconds", "Invalid value: 5: may not specify a duration less than 10 minutes")
    ]
    api.post(f"{core}/serviceaccounts/absent/token", {"spec": {}}).refused(404, "NotFound")


def test_finalize_of_a_namespace(api: Api, ns: str) -> None:
    live = api.get(f"/api/v1/namespaces/{ns}").json
    assert live["spec"]["finalizers"] == ["kubernetes"]
    live["spec"]["finalizers"] = ["kubernetes", "example.com/more"]
    changed = api.put(f"/api/v1/namespaces/{ns}/finalize", live).ok(200).json
    assert changed["spec"]["finalizers"] == ["kubernetes", "example.com/more"]


def test_subresource_patch_and_table(api: Api, ns: str) -> None:
    path = deploy(api, ns, 2)
    live = api.patch(f"{path}/status", [{"op": "add", "path": "/status/replicas", "value": 2}], JSON_PATCH).ok(200).json
    assert live["status"]["replicas"] == 2
    table = api.get(f"{path}/scale", accept=TABLE).ok(200).json
    assert table["kind"] == "Table"
    assert [column["name"] for column in table["columnDefinitions"]][:1] == ["Name"]


EPHEMERAL: dict[str, Any] = {"name": "debug", "image": "busybox"}
INVALID_EPHEMERAL = {
    "no-name": {"image": "busybox"},
    "no-image": {"name": "debug"},
    "bad-name": {**EPHEMERAL, "name": "De_bug"},
    "name-of-container": {**EPHEMERAL, "name": pod()["spec"]["containers"][0]["name"]},
    "unknown-target": {**EPHEMERAL, "targetContainerName": "nope"},
    "ports": {**EPHEMERAL, "ports": [{"containerPort": 80}]},
    "probe": {**EPHEMERAL, "livenessProbe": {"tcpSocket": {"port": 80}}},
    "lifecycle": {**EPHEMERAL, "lifecycle": {"preStop": {"sleep": {"seconds": 1}}}},
    "resources": {**EPHEMERAL, "resources": {"limits": {"cpu": "1"}}},
    "unknown-mount": {**EPHEMERAL, "volumeMounts": [{"name": "nope", "mountPath": "/a"}]},
    "sub-path": {**EPHEMERAL, "volumeMounts": [{"name": "v", "mountPath": "/a", "subPath": "b"}]},
    "restart-policy": {**EPHEMERAL, "restartPolicy": "Always"},
}


@pytest.mark.parametrize("case", INVALID_EPHEMERAL)
def test_invalid_ephemeral_container(api: Api, core: str, cluster: Cluster, case: str) -> None:
    body = pod()
    body["spec"]["volumes"] = [{"name": "v", "emptyDir": {}}]
    api.post(f"{core}/pods", body).ok(201)
    change = {"spec": {"ephemeralContainers": [INVALID_EPHEMERAL[case]]}}
    answer = api.patch(f"{core}/pods/p/ephemeralcontainers", change, MERGE_PATCH)
    seen = {"status": answer.status, "message": answer.message, "causes": sorted(answer.causes)}
    goldens.check("test_ephemeral_containers", case, seen, real=cluster.name == "real")


def test_ephemeral_containers_can_only_be_added(api: Api, core: str, cluster: Cluster) -> None:
    api.post(f"{core}/pods", pod()).ok(201)
    path = f"{core}/pods/p/ephemeralcontainers"
    change = {"metadata": {"labels": {"x": "y"}}, "spec": {"ephemeralContainers": [EPHEMERAL], "activeDeadlineSeconds": 9}}
    live = api.patch(path, change, MERGE_PATCH).ok(200).json
    assert live["spec"]["ephemeralContainers"] == [
        {
            **EPHEMERAL,
            "imagePullPolicy": "Always",
            "resources": {},
            "terminationMessagePath": "/dev/termination-log",
            "terminationMessagePolicy": "File",
        }
    ]
    assert "activeDeadlineSeconds" not in live["spec"]
    assert live["metadata"]["generation"] == 2
    assert api.get(path).ok(200).json == live
    changes: dict[str, Any] = {
        "removed": [],
        "changed": [{**EPHEMERAL, "image": "other"}],
        "replaced": [{**EPHEMERAL, "name": "other"}],
    }
    for case, containers in changes.items():
        answer = api.patch(path, {"spec": {"ephemeralContainers": containers}}, MERGE_PATCH)
        start, _, _ = answer.message.partition("\n")  # the real server prints Go structs after it
        goldens.check("test_ephemeral_containers", case, {"status": answer.status, "message": start}, real=cluster.name == "real")
    api.post(path, live).refused(405, "MethodNotAllowed")
    api.patch(f"{core}/pods/missing/ephemeralcontainers", change, MERGE_PATCH).refused(404, "NotFound", 'pods "missing" not found')
