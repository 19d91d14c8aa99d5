"""Kueue on an embedded twin in virtual time: backoff, timeouts, cohort cycles and configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.support.embedded_twin import run_on_twin

from sliceworks.base import clock
from sliceworks.twin.controllers.kueue.kueue_api import WORKLOADS
from sliceworks.twin.store.entry import Entry

if TYPE_CHECKING:
    from tests.support.embedded_twin import EmbeddedTwin

GROUP = "/apis/kueue.x-k8s.io/v1beta2"
JOBS = "/apis/batch/v1/namespaces/default/jobs"
Obj = dict[str, Any]


def _object(kind: str, name: str, spec: Obj) -> Obj:
    return {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind, "metadata": {"name": name}, "spec": spec}


async def _prepare(twin: EmbeddedTwin, cpu: int = 1) -> None:
    quota = {"name": "f", "resources": [{"name": "cpu", "nominalQuota": cpu}]}
    await twin.do("POST", f"{GROUP}/resourceflavors", _object("ResourceFlavor", "f", {}))
    groups = [{"coveredResources": ["cpu"], "flavors": [quota]}]
    await twin.do(
        "POST", f"{GROUP}/clusterqueues", _object("ClusterQueue", "q", {"namespaceSelector": {}, "resourceGroups": groups})
    )
    await twin.do("POST", f"{GROUP}/namespaces/default/localqueues", _object("LocalQueue", "q", {"clusterQueue": "q"}))


async def _submit(twin: EmbeddedTwin, name: str, **labels: str) -> None:
    container = {"name": "c", "image": "x", "resources": {"requests": {"cpu": 1}}}
    spec = {"template": {"spec": {"restartPolicy": "Never", "containers": [container]}}}
    labels = {"kueue.x-k8s.io/queue-name": "q", **{key.replace("_", "-"): value for key, value in labels.items()}}
    await twin.do("POST", JOBS, {"metadata": {"name": name, "labels": labels}, "spec": spec})
    await twin.quiet()


async def _workload(twin: EmbeddedTwin, job: str) -> Obj:
    items = (await twin.do("GET", f"{GROUP}/namespaces/default/workloads"))["items"]
    return next(item for item in items if item["metadata"]["ownerReferences"][0]["name"] == job)


def _states(workload: Obj) -> dict[str, tuple[str, str]]:
    return {condition["type"]: (condition["status"], condition["reason"]) for condition in workload["status"]["conditions"]}


async def _configure(twin: EmbeddedTwin, text: str) -> None:
    await twin.do("POST", "/api/v1/namespaces", {"metadata": {"name": "kueue-system"}})
    body = {"metadata": {"name": "kueue-manager-config"}, "data": {"controller_manager_config.yaml": text}}
    await twin.do("POST", "/api/v1/namespaces/kueue-system/configmaps", body)


_WAIT = """
waitForPodsReady:
  timeout: 1m
  requeuingStrategy: {backoffLimitCount: 2, backoffBaseSeconds: 10}
"""


def test_workload_whose_pods_never_get_ready_is_deactivated() -> None:
    async def main(twin: EmbeddedTwin) -> None:
        await _configure(twin, _WAIT)
        await _prepare(twin)
        await _submit(twin, "a")
        assert _states(await _workload(twin, "a"))["PodsReady"] == ("False", "WaitForStart")
        await _submit(twin, "b")
        await clock.sleep(60)
        workload = await _workload(twin, "a")
        assert _states(workload)["Evicted"] == ("True", "PodsReadyTimeout")
        assert _states(workload)["Requeued"] == ("False", "PodsReadyTimeout")
        assert workload["status"]["requeueState"]["count"] == 1
        assert _states(await _workload(twin, "b"))["Admitted"][0] == "True"
        await clock.sleep(600)
        workload = await _workload(twin, "a")
        assert _states(workload)["Evicted"] == ("True", "DeactivatedDueToRequeuingLimitExceeded")
        assert workload["spec"]["active"] is False

    run_on_twin(main, workloads=True)


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000,
        "waitForPodsReady: " + "{a: " * 50_000,
        "integrations: {frameworks: [{}]}",
        "integrations: [1]",
        "waitForPodsReady: {timeout: x}",
        "waitForPodsReady: {requeuingStrategy: 3}",
    ],
)
def test_invalid_configuration_means_defaults(text: str) -> None:
    async def main(twin: EmbeddedTwin) -> None:
        await _configure(twin, text)
        await _prepare(twin)
        await _submit(twin, "a")
        assert _states(await _workload(twin, "a"))["Admitted"][0] == "True"

    run_on_twin(main, workloads=True)


def test_maximum_execution_time_deactivates_the_workload() -> None:
    async def main(twin: EmbeddedTwin) -> None:
        await _prepare(twin)
        container = {"name": "c", "image": "x", "resources": {"requests": {"cpu": 1}}}
        labels = {"kueue.x-k8s.io/queue-name": "q", "kueue.x-k8s.io/max-exec-time-seconds": "30"}
        spec = {"template": {"spec": {"restartPolicy": "Never", "containers": [container]}}}
        await twin.do("POST", JOBS, {"metadata": {"name": "a", "labels": labels}, "spec": spec})
        await twin.quiet()
        assert _states(await _workload(twin, "a"))["Admitted"][0] == "True"
        await clock.sleep(40)
        states = _states(await _workload(twin, "a"))
        assert states["Evicted"] == ("True", "DeactivatedDueToMaximumExecutionTimeExceeded")
        assert states["Admitted"][0] == "False"

    run_on_twin(main, workloads=True)


def test_cohort_cycle_blocks_admission() -> None:
    async def main(twin: EmbeddedTwin) -> None:
        await _prepare(twin)
        await twin.do("POST", f"{GROUP}/cohorts", _object("Cohort", "lower", {"parentName": "upper"}))
        await twin.do("POST", f"{GROUP}/cohorts", _object("Cohort", "upper", {"parentName": "lower"}))
        await twin.do("PATCH", f"{GROUP}/clusterqueues/q", {"spec": {"cohortName": "lower"}})
        await _submit(twin, "a")
        assert (await twin.do("GET", f"{JOBS}/a"))["spec"]["suspend"]
        conditions = (await _workload(twin, "a"))["status"]["conditions"]
        assert [condition["message"] for condition in conditions] == ["ClusterQueue q is inactive"]
        await twin.do("PATCH", f"{GROUP}/cohorts/upper", {"spec": {"parentName": None}})
        await twin.quiet()
        assert not (await twin.do("GET", f"{JOBS}/a"))["spec"]["suspend"]

    run_on_twin(main, workloads=True)


def test_queue_status_does_not_decode_the_other_workloads_of_the_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    decoded = 0
    object_of = Entry.object

    def counted(entry: Entry) -> Any:
        nonlocal decoded
        decoded += entry.resource == WORKLOADS
        return object_of(entry)

    async def main(twin: EmbeddedTwin) -> None:
        nonlocal decoded
        await _prepare(twin, cpu=100)
        for number in range(30):
            await _submit(twin, f"before-{number}")
        monkeypatch.setattr(Entry, "object", counted)
        await _submit(twin, "after")
        assert decoded < 30
        status = (await twin.do("GET", f"{GROUP}/clusterqueues/q"))["status"]
        assert (status["admittedWorkloads"], status["reservingWorkloads"]) == (31, 31)

    run_on_twin(main, workloads=True)


def test_pending_workloads_are_listed_in_order() -> None:
    async def main(twin: EmbeddedTwin) -> None:
        await _prepare(twin)
        for name in "abc":
            await _submit(twin, name)
        base = "/apis/visibility.kueue.x-k8s.io/v1beta2"
        summary = await twin.do("GET", f"{base}/clusterqueues/q/pendingworkloads")
        names = [(item["metadata"]["ownerReferences"][0]["name"], item["positionInClusterQueue"]) for item in summary["items"]]
        assert names == [("b", 0), ("c", 1)]
        summary = await twin.do("GET", f"{base}/namespaces/default/localqueues/q/pendingworkloads?limit=1&offset=1")
        assert [item["positionInLocalQueue"] for item in summary["items"]] == [1]
        status, body = await twin.ask("GET", f"{base}/clusterqueues/nowhere/pendingworkloads")
        assert (status, body["message"]) == (404, 'clusterqueue.visibility.kueue.x-k8s.io "nowhere" not found')

    run_on_twin(main, workloads=True)


def test_invalid_configuration_uses_the_defaults() -> None:
    async def main(twin: EmbeddedTwin) -> None:
        await _configure(twin, "[" * 100_000)
        await _prepare(twin)
        await _submit(twin, "a")
        states = _states(await _workload(twin, "a"))
        assert states["Admitted"][0] == "True"
        assert "PodsReady" not in states

    run_on_twin(main, workloads=True)
