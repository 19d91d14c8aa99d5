"""The slices controller from an unschedulable JobSet to running pods and deleted node pools, on the twin and on the real
control plane.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.support.jobsets import GROUP, POOL
from tests.support.polling import eventually
from tests.support.slices_controller import jobset

if TYPE_CHECKING:
    from tests.support.http import Api
    from tests.support.slice_thread import SliceThread

pytestmark = pytest.mark.long(50)
Obj = dict[str, Any]
_PATIENCE = 90.0


class Case:
    """One JobSet in a namespace, with its pods, pools and events."""

    def __init__(self, api: Api, ns: str, slices: SliceThread) -> None:
        self.api, self.ns, self.slices = api, ns, slices

    def create(self, name: str = "js", replicas: int = 2, **more: Any) -> None:
        body = jobset(name, replicas, namespace=self.ns, **more)
        self.api.post(f"{GROUP}/namespaces/{self.ns}/jobsets", body).ok(201)

    def jobset(self, name: str = "js") -> Obj:
        result: Obj = self.api.get(f"{GROUP}/namespaces/{self.ns}/jobsets/{name}").ok().json
        return result

    def pods(self, phase: str = "") -> list[Obj]:
        items: list[Obj] = self.api.get(f"/api/v1/namespaces/{self.ns}/pods").ok().json["items"]
        return [pod for pod in items if not phase or pod["status"].get("phase") == phase]

    def pools(self) -> list[Obj]:
        return [
            pool
            for pool in self.slices.pools().values()
            if pool["config"]["labels"].get("google.com/tpu-provisioner-jobset-namespace") == self.ns
        ]

    def events(self, reason: str) -> list[Obj]:
        items: list[Obj] = self.api.get(f"/api/v1/namespaces/{self.ns}/events").ok().json["items"]
        return [event for event in items if event["reason"] == reason]

    def failures(self, kind: str) -> list[Obj]:
        return [event for event in self.events("NodePoolCreationFailed") if event["involvedObject"]["kind"] == kind]

    def refusal(self) -> Obj | None:
        """The scheduler's message about a pod whose slice cannot be created."""
        conditions = (condition for pod in self.pods("Pending") for condition in pod["status"].get("conditions") or ())
        return next((condition for condition in conditions if condition["type"] == "sliceworks.dev/SliceReady"), None)

    def condition(self, name: str = "js") -> Obj:
        conditions: list[Obj] = (self.jobset(name).get("status") or {}).get("conditions") or []
        return next((condition for condition in conditions if condition["type"] == "sliceworks.dev/SlicesReady"), {})

    def ended(self, how: str) -> bool:
        return bool((self.jobset().get("status") or {}).get("terminalState") == how)

    def finish(self, pods: list[Obj]) -> None:
        """Finish pods as if they had run long enough."""
        for pod in pods:
            path = f"/api/v1/namespaces/{self.ns}/pods/{pod['metadata']['name']}"
            self.api.patch(path, {"metadata": {"annotations": {"sliceworks.dev/run-seconds": "0"}}}).ok()

    def until(self, look: Any, what: str) -> Any:
        return eventually(look, _PATIENCE, what)

    def until_running(self, count: int) -> list[Obj]:
        result: list[Obj] = self.until(lambda: len(pods := self.pods("Running")) == count and pods, f"{count} pods running")
        return result

    def until_deleted(self) -> None:
        self.until(lambda: not self.pools(), "all node pools deleted")


@pytest.fixture
def case(api: Any, ns: str, slices: SliceThread) -> Case:
    return Case(api, ns, slices)


@pytest.mark.parametrize(("topology", "pods"), [("2x2x2", 2), ("2x2x4", 4)])
def test_example_runs_and_releases_pools(case: Case, topology: str, pods: int) -> None:
    case.create(replicas=2, topology=topology, pods=pods, seconds=600)
    running = case.until_running(2 * pods)
    assert len({pod["spec"]["nodeName"] for pod in running}) == 2 * pods
    assert sorted(pool["initialNodeCount"] for pool in case.pools()) == [pods, pods]
    assert {pool["placementPolicy"]["tpuTopology"] for pool in case.pools()} == {topology}
    case.finish(running)
    case.until(lambda: case.ended("Completed"), "the JobSet is complete")
    case.until_deleted()
    case.until(lambda: len(case.events("NodePoolCreationSucceeded")) == 2, "creations have events")
    case.until(lambda: len(case.events("NodePoolDeletionSucceeded")) == 2, "deletions have events")


def test_every_job_has_its_own_pool(case: Case) -> None:
    case.create(replicas=2, seconds=600)
    pools: dict[str, set[str]] = {}
    for pod in case.until_running(4):
        node = case.api.get(f"/api/v1/nodes/{pod['spec']['nodeName']}").ok().json
        pools.setdefault(pod["metadata"]["labels"]["jobset.sigs.k8s.io/job-index"], set()).add(node["metadata"]["labels"][POOL])
    assert all(len(names) == 1 for names in pools.values())
    assert len(set.union(*pools.values())) == 2
    case.until(lambda: case.condition().get("status") == "True", "the JobSet has the condition that its slices are ready")
    case.api.delete(f"{GROUP}/namespaces/{case.ns}/jobsets/js").ok()
    case.until_deleted()


def test_failed_jobset_releases_pools(case: Case) -> None:
    case.create(replicas=1, seconds=1, pod_annotations={"sliceworks.dev/exit-code": "1"})
    case.until(lambda: case.ended("Failed"), "the JobSet has failed")
    case.until_deleted()


def test_stockout_in_zone(case: Case) -> None:
    with case.slices.fault(fault="Stockout", match={"zone": "us-central2-b"}):
        case.create(replicas=1, seconds=600)
        case.until_running(2)
    case.until(lambda: [pool["locations"] for pool in case.pools()] == [["us-central2-a"]], "the other zone alone has a pool")
    [condition] = case.until(lambda: case.failures("Pod"), "it has an event")
    assert "does not have enough resources available" in condition["message"]
    case.api.delete(f"{GROUP}/namespaces/{case.ns}/jobsets/js").ok()
    case.until_deleted()


def test_invalid_jobset_does_not_block_others(case: Case) -> None:
    case.create("wrong", replicas=1, topology="3x3x3")
    case.create("right", replicas=1, seconds=600)
    case.until_running(2)
    condition = case.until(case.refusal, "the pod of the other JobSet has a reason")
    assert condition["status"] == "False"
    assert "3x3x3 is not a tpu-v4-podslice topology" in condition["message"]
    case.until(lambda: len(case.events("NodePoolCreationFailed")) == 1, "it has one event")
    for name in ("wrong", "right"):
        case.api.delete(f"{GROUP}/namespaces/{case.ns}/jobsets/{name}").ok()
    case.until_deleted()


def test_restarted_controller_continues(case: Case) -> None:
    case.create(replicas=3, topology="2x2x1", pods=1, seconds=600)
    case.until(case.pools, "a pool is requested")
    case.slices.restart()
    case.until_running(3)
    names = {pool["name"] for pool in case.pools()}
    assert len(names) == 3
    case.slices.restart()
    case.api.delete(f"{GROUP}/namespaces/{case.ns}/jobsets/js").ok()
    case.until(lambda: any(pool["status"] == "STOPPING" for pool in case.pools()) or not case.pools(), "a pool is deleted")
    case.slices.restart()
    case.until_deleted()


def test_suspended_jobset_releases_and_regains_pools(case: Case) -> None:
    case.create(replicas=1, seconds=600, failurePolicy={"maxRestarts": 5})
    case.until_running(2)
    path = f"{GROUP}/namespaces/{case.ns}/jobsets/js"
    case.api.patch(path, {"spec": {"suspend": True}, "metadata": {"annotations": {"slices.sliceworks.dev/drain": "true"}}}).ok()
    case.until_deleted()
    case.api.patch(path, {"spec": {"suspend": False}, "metadata": {"annotations": {"slices.sliceworks.dev/drain": None}}}).ok()
    case.until_running(2)
    case.api.delete(path).ok()
    case.until_deleted()
