"""A user's controller: the real LeaderWorkerSet with the twin's StatefulSets, and with the real ones on both API servers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.support import goldens
from tests.support.clusters import real_enabled
from tests.support.polling import eventually
from tests.support.workloads import WorkloadHarness, summary, template

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.clusters import Cluster
    from tests.support.http import Answer

pytestmark = [
    pytest.mark.real,
    pytest.mark.controllers,
    pytest.mark.skipif(not real_enabled(), reason="needs LeaderWorkerSet built from its Go module: SLICEWORKS_REAL=1"),
]
CLUSTER = "controllers"
Object = dict[str, Any]
KIND, NAME = "LeaderWorkerSet", "model"
PREFIX = "leaderworkerset.sigs.k8s.io/"
HASHES = ("group-key", "template-revision-hash")
BAD: dict[str, Object] = {
    "no pod may be missing": {"rolloutStrategy": {"rollingUpdateConfiguration": {"maxUnavailable": 0, "maxSurge": 0}}},
    "subgroups that do not divide": {"leaderWorkerTemplate": {"size": 4, "subGroupPolicy": {"subGroupSize": 5}}},
    "too many pods": {"replicas": 2**31 - 1, "leaderWorkerTemplate": {"size": 2}},
    "unknown restart policy": {"leaderWorkerTemplate": {"restartPolicy": "Never"}},
}


@pytest.fixture(scope="module", autouse=True)
def controller(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """LeaderWorkerSet, for all tests of this file."""
    from tests.real import lws
    from tests.real.controllers import Controllers

    with Controllers(tmp_path_factory.mktemp("lws"), cluster.kubeconfig, cluster.authority) as programs:
        lws.start(programs, cluster.api)
        yield


@pytest.fixture
def workloads(cluster: Cluster, ns: str) -> WorkloadHarness:
    return WorkloadHarness(cluster, ns)


def post(workloads: WorkloadHarness, body: Object) -> Answer:
    kind = {"apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": KIND, "metadata": {"name": NAME}}
    return workloads.api.post(workloads.path(KIND), {**kind, "spec": body})


def spec(replicas: int = 2, size: int = 3, image: int = 1, **group: Any) -> Object:
    pod = template(schedulerName="nobody")
    pod["spec"]["containers"][0]["image"] = f"example.com/app:{image}"
    return {"replicas": replicas, "leaderWorkerTemplate": {"size": size, "workerTemplate": pod, **group}}


def stable(pod: Object) -> Object:
    """A pod's summary without hashes, which contain the namespace."""
    result = summary(pod)
    for key in ("labels", "annotations"):
        result[key] = {name: "HASH" if name.removeprefix(PREFIX) in HASHES else value for name, value in result[key].items()}
    ignored = ("controller-revision-hash", "apps.kubernetes.io/pod-index")
    result["labels"] = {name: value for name, value in result["labels"].items() if name not in ignored}
    return result


def conditions(workloads: WorkloadHarness) -> list[list[str]]:
    found = workloads.get(KIND, NAME)["status"].get("conditions", ())
    return sorted([item["type"], item["status"], item["reason"], item["message"]] for item in found)


def picture(workloads: WorkloadHarness) -> Object:
    sets = {item["metadata"]["name"]: item["spec"] for item in workloads.items("StatefulSet")}
    status = {key: value for key, value in workloads.get(KIND, NAME)["status"].items() if key != "conditions"}
    return {
        "pods": sorted((stable(pod) for pod in workloads.items("Pod")), key=lambda pod: str(pod["name"])),
        "sets": {name: [item["replicas"], item.get("ordinals"), item["serviceName"]] for name, item in sets.items()},
        "services": [item["spec"]["selector"] for item in workloads.items("Service")],
        "status": {**status, "conditions": conditions(workloads)},
    }


def uid(workloads: WorkloadHarness, pod: str) -> str:
    return str(workloads.get("Pod", pod)["metadata"]["uid"])


def test_groups_of_pods(workloads: WorkloadHarness) -> None:
    post(workloads, spec()).ok(201)
    workloads.pods(6)
    workloads.settles("leaderworkersets", "two groups", lambda: picture(workloads))


def test_groups_become_available(workloads: WorkloadHarness) -> None:
    post(workloads, spec()).ok(201)
    workloads.all_ready(6)
    workloads.until(KIND, NAME, lambda item: item["status"].get("readyReplicas") == 2)
    workloads.settles("leaderworkersets", "available", lambda: conditions(workloads))


def test_group_is_recreated_after_a_container_restart(workloads: WorkloadHarness) -> None:
    post(workloads, spec()).ok(201)
    workloads.all_ready(6)
    group = ("model-0", "model-0-1", "model-0-2")
    before, other = {pod: uid(workloads, pod) for pod in group}, uid(workloads, "model-1-1")
    [container] = workloads.get("Pod", "model-0-1")["status"]["containerStatuses"]
    restarted = {"containerStatuses": [{**container, "restartCount": 1}]}
    workloads.patch("Pod", "model-0-1", {"status": restarted}, "/status")
    for pod, old in before.items():
        eventually(lambda pod=pod, old=old: uid(workloads, pod) != old, what=f"another {pod}")  # type: ignore[misc]
    workloads.all_ready(6)
    workloads.until(KIND, NAME, lambda item: item["status"].get("readyReplicas") == 2)
    assert uid(workloads, "model-1-1") == other


def test_groups_are_scaled(workloads: WorkloadHarness) -> None:
    post(workloads, spec(replicas=1, size=2)).ok(201)
    workloads.all_ready(2)
    scale = workloads.api.get(workloads.path(KIND, NAME) + "/scale").ok(200).json
    assert scale["spec"]["replicas"] == 1
    workloads.patch(KIND, NAME, {"spec": {"replicas": 3}}, "/scale")
    workloads.all_ready(6)
    workloads.patch(KIND, NAME, {"spec": {"replicas": 0}}, "/scale")
    workloads.pods(0)


def test_template_is_rolled_out(workloads: WorkloadHarness) -> None:
    post(workloads, spec(size=2)).ok(201)
    workloads.all_ready(4)
    change = spec(image=2)["leaderWorkerTemplate"]["workerTemplate"]
    workloads.patch(KIND, NAME, {"spec": {"leaderWorkerTemplate": {"workerTemplate": change}}})
    for number in (1, 0):
        for pod in (f"model-{number}", f"model-{number}-1"):
            workloads.until("Pod", pod, lambda item: item["spec"]["containers"][0]["image"].endswith(":2"))
            workloads.phase(pod, "Running", ready=True)
    workloads.until(KIND, NAME, lambda item: item["status"].get("updatedReplicas") == 2)
    workloads.until_condition(KIND, NAME, "Available")


@pytest.mark.parametrize("case", BAD)
def test_wrong_specs_are_rejected(workloads: WorkloadHarness, case: str) -> None:
    wrong = spec() | {key: value for key, value in BAD[case].items() if key != "leaderWorkerTemplate"}
    wrong["leaderWorkerTemplate"] |= BAD[case].get("leaderWorkerTemplate", {})
    goldens.check("workloads_leaderworkersets", case, post(workloads, wrong).refusal, real=workloads.real, words=workloads.words)
