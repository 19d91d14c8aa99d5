"""From a JobSet that cannot be placed to its pods running, and to its node pools gone, on the twin and on the real thing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.support.jobsets import GROUP, POOL
from tests.support.slices import jobset
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from tests.support.http import Api
    from tests.support.slice_thread import SliceThread

pytestmark = pytest.mark.long(50)
Obj = dict[str, Any]
_PATIENCE = 90.0


class Case:
    """One JobSet in a namespace, and what became of it."""

    def __init__(self, api: Api, ns: str, slices: SliceThread) -> None:
        self.api, self.ns, self.slices = api, ns, slices

    def create(self, name: str = "js", replicas: int = 2, **more: Any) -> None:
        body = jobset(name, replicas, namespace=self.ns, **more)
        self.api.post(f"{GROUP}/namespaces/{self.ns}/jobsets", body).ok(201)

    def jobset(self, name: str = "js") -> Obj:
        found: Obj = self.api.get(f"{GROUP}/namespaces/{self.ns}/jobsets/{name}").ok().json
        return found

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
        """What is said of a pod that waits for a slice that cannot be."""
        conditions = (each for pod in self.pods("Pending") for each in pod["status"].get("conditions") or ())
        return next((each for each in conditions if each["type"] == "sliceworks.dev/SliceReady"), None)

    def condition(self, name: str = "js") -> Obj:
        conditions: list[Obj] = (self.jobset(name).get("status") or {}).get("conditions") or []
        return next((each for each in conditions if each["type"] == "sliceworks.dev/SlicesReady"), {})

    def ended(self, how: str) -> bool:
        return bool((self.jobset().get("status") or {}).get("terminalState") == how)

    def finish(self, pods: list[Obj]) -> None:
        """Have pods come to their end, as if they had run long enough."""
        for pod in pods:
            path = f"/api/v1/namespaces/{self.ns}/pods/{pod['metadata']['name']}"
            self.api.patch(path, {"metadata": {"annotations": {"sliceworks.dev/run-seconds": "0"}}}).ok()

    def until(self, look: Any, what: str) -> Any:
        return eventually(look, _PATIENCE, what)

    def until_running(self, count: int) -> list[Obj]:
        found: list[Obj] = self.until(lambda: len(pods := self.pods("Running")) == count and pods, f"{count} pods running")
        return found

    def until_gone(self) -> None:
        self.until(lambda: not self.pools(), "all node pools given back")


@pytest.fixture
def case(api: Any, ns: str, slices: SliceThread) -> Case:
    return Case(api, ns, slices)


@pytest.mark.parametrize(("topology", "pods"), [("2x2x2", 2), ("2x2x4", 4)])
def test_the_example_runs_and_gives_back(case: Case, topology: str, pods: int) -> None:
    case.create(replicas=2, topology=topology, pods=pods, seconds=600)
    running = case.until_running(2 * pods)
    assert len({pod["spec"]["nodeName"] for pod in running}) == 2 * pods
    assert sorted(pool["initialNodeCount"] for pool in case.pools()) == [pods, pods]
    assert {pool["placementPolicy"]["tpuTopology"] for pool in case.pools()} == {topology}
    case.finish(running)
    case.until(lambda: case.ended("Completed"), "the JobSet is complete")
    case.until_gone()
    case.until(lambda: len(case.events("NodePoolCreationSucceeded")) == 2, "creations are told")
    case.until(lambda: len(case.events("NodePoolDeletionSucceeded")) == 2, "deletions are told")


def test_every_job_runs_on_a_pool_of_its_own(case: Case) -> None:
    case.create(replicas=2, seconds=600)
    pools: dict[str, set[str]] = {}
    for pod in case.until_running(4):
        node = case.api.get(f"/api/v1/nodes/{pod['spec']['nodeName']}").ok().json
        pools.setdefault(pod["metadata"]["labels"]["jobset.sigs.k8s.io/job-index"], set()).add(node["metadata"]["labels"][POOL])
    assert all(len(names) == 1 for names in pools.values())
    assert len(set.union(*pools.values())) == 2
    case.until(lambda: case.condition().get("status") == "True", "the JobSet says that its slices are ready")
    case.api.delete(f"{GROUP}/namespaces/{case.ns}/jobsets/js").ok()
    case.until_gone()


def test_a_jobset_that_fails_gives_back(case: Case) -> None:
    case.create(replicas=1, seconds=1, pod_annotations={"sliceworks.dev/exit-code": "1"})
    case.until(lambda: case.ended("Failed"), "the JobSet has failed")
    case.until_gone()


def test_a_zone_without_machines(case: Case) -> None:
    with case.slices.fault(fault="Stockout", match={"zone": "us-central2-b"}):
        case.create(replicas=1, seconds=600)
        case.until_running(2)
    case.until(lambda: [pool["locations"] for pool in case.pools()] == [["us-central2-a"]], "the other zone alone has a pool")
    [told] = case.until(lambda: case.failures("Pod"), "it is told")
    assert "does not have enough resources available" in told["message"]
    case.api.delete(f"{GROUP}/namespaces/{case.ns}/jobsets/js").ok()
    case.until_gone()


def test_what_cannot_be_is_told_and_others_go_on(case: Case) -> None:
    case.create("wrong", replicas=1, topology="3x3x3")
    case.create("right", replicas=1, seconds=600)
    case.until_running(2)
    condition = case.until(case.refusal, "the pod of the other says why it waits")
    assert condition["status"] == "False"
    assert "3x3x3 is no topology of tpu-v4-podslice" in condition["message"]
    case.until(lambda: len(case.events("NodePoolCreationFailed")) == 1, "it is told once")
    for name in ("wrong", "right"):
        case.api.delete(f"{GROUP}/namespaces/{case.ns}/jobsets/{name}").ok()
    case.until_gone()


def test_a_controller_that_dies_is_replaced_without_a_trace(case: Case) -> None:
    case.create(replicas=3, topology="2x2x1", pods=1, seconds=600)
    case.until(case.pools, "a pool is asked for")
    case.slices.restart()
    case.until_running(3)
    names = {pool["name"] for pool in case.pools()}
    assert len(names) == 3
    case.slices.restart()
    case.api.delete(f"{GROUP}/namespaces/{case.ns}/jobsets/js").ok()
    case.until(lambda: any(pool["status"] == "STOPPING" for pool in case.pools()) or not case.pools(), "a pool goes")
    case.slices.restart()
    case.until_gone()


def test_a_suspended_jobset_is_drained_and_comes_back(case: Case) -> None:
    case.create(replicas=1, seconds=600, failurePolicy={"maxRestarts": 5})
    case.until_running(2)
    path = f"{GROUP}/namespaces/{case.ns}/jobsets/js"
    case.api.patch(path, {"spec": {"suspend": True}, "metadata": {"annotations": {"slices.sliceworks.dev/drain": "true"}}}).ok()
    case.until_gone()
    case.api.patch(path, {"spec": {"suspend": False}, "metadata": {"annotations": {"slices.sliceworks.dev/drain": None}}}).ok()
    case.until_running(2)
    case.api.delete(path).ok()
    case.until_gone()
