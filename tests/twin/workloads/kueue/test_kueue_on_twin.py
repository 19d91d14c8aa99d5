"""Kueue in a whole twin in virtual time: back-off, time-outs, and a manager that starts anew."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.support.embedded import on_twin

from sliceworks.base import clock

if TYPE_CHECKING:
    from tests.support.embedded import Embedded

GROUP = "/apis/kueue.x-k8s.io/v1beta2"
JOBS = "/apis/batch/v1/namespaces/default/jobs"
Obj = dict[str, Any]


def _object(kind: str, name: str, spec: Obj) -> Obj:
    return {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind, "metadata": {"name": name}, "spec": spec}


async def _prepare(twin: Embedded, cpu: int = 1) -> None:
    quota = {"name": "f", "resources": [{"name": "cpu", "nominalQuota": cpu}]}
    await twin.do("POST", f"{GROUP}/resourceflavors", _object("ResourceFlavor", "f", {}))
    groups = [{"coveredResources": ["cpu"], "flavors": [quota]}]
    await twin.do(
        "POST", f"{GROUP}/clusterqueues", _object("ClusterQueue", "q", {"namespaceSelector": {}, "resourceGroups": groups})
    )
    await twin.do("POST", f"{GROUP}/namespaces/default/localqueues", _object("LocalQueue", "q", {"clusterQueue": "q"}))


async def _submit(twin: Embedded, name: str, **labels: str) -> None:
    container = {"name": "c", "image": "x", "resources": {"requests": {"cpu": 1}}}
    spec = {"template": {"spec": {"restartPolicy": "Never", "containers": [container]}}}
    labels = {"kueue.x-k8s.io/queue-name": "q", **{key.replace("_", "-"): value for key, value in labels.items()}}
    await twin.do("POST", JOBS, {"metadata": {"name": name, "labels": labels}, "spec": spec})
    await twin.quiet()


async def _workload(twin: Embedded, job: str) -> Obj:
    items = (await twin.do("GET", f"{GROUP}/namespaces/default/workloads"))["items"]
    return next(item for item in items if item["metadata"]["ownerReferences"][0]["name"] == job)


def _states(workload: Obj) -> dict[str, tuple[str, str]]:
    return {one["type"]: (one["status"], one["reason"]) for one in workload["status"]["conditions"]}


async def _configure(twin: Embedded, text: str) -> None:
    await twin.do("POST", "/api/v1/namespaces", {"metadata": {"name": "kueue-system"}})
    body = {"metadata": {"name": "kueue-manager-config"}, "data": {"controller_manager_config.yaml": text}}
    await twin.do("POST", "/api/v1/namespaces/kueue-system/configmaps", body)


_WAIT = """
waitForPodsReady:
  timeout: 1m
  requeuingStrategy: {backoffLimitCount: 2, backoffBaseSeconds: 10}
"""


def test_pods_that_never_get_ready() -> None:
    async def main(twin: Embedded) -> None:
        await _configure(twin, _WAIT)
        await _prepare(twin)
        await _submit(twin, "a")
        assert _states(await _workload(twin, "a"))["PodsReady"] == ("False", "WaitForStart")
        await _submit(twin, "b")
        await clock.sleep(60)
        found = await _workload(twin, "a")
        assert _states(found)["Evicted"] == ("True", "PodsReadyTimeout")
        assert _states(found)["Requeued"] == ("False", "PodsReadyTimeout")
        assert found["status"]["requeueState"]["count"] == 1
        assert _states(await _workload(twin, "b"))["Admitted"][0] == "True"
        await clock.sleep(600)
        found = await _workload(twin, "a")
        assert _states(found)["Evicted"] == ("True", "DeactivatedDueToRequeuingLimitExceeded")
        assert found["spec"]["active"] is False

    on_twin(main, workloads=True)


def test_a_job_may_run_only_so_long() -> None:
    async def main(twin: Embedded) -> None:
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

    on_twin(main, workloads=True)


def test_cohorts_that_go_round_hold_their_queues() -> None:
    async def main(twin: Embedded) -> None:
        await _prepare(twin)
        await twin.do("POST", f"{GROUP}/cohorts", _object("Cohort", "one", {"parentName": "two"}))
        await twin.do("POST", f"{GROUP}/cohorts", _object("Cohort", "two", {"parentName": "one"}))
        await twin.do("PATCH", f"{GROUP}/clusterqueues/q", {"spec": {"cohortName": "one"}})
        await _submit(twin, "a")
        assert (await twin.do("GET", f"{JOBS}/a"))["spec"]["suspend"]
        states = (await _workload(twin, "a"))["status"]["conditions"]
        assert [one["message"] for one in states] == ["ClusterQueue q is inactive"]
        await twin.do("PATCH", f"{GROUP}/cohorts/two", {"spec": {"parentName": None}})
        await twin.quiet()
        assert not (await twin.do("GET", f"{JOBS}/a"))["spec"]["suspend"]

    on_twin(main, workloads=True)


def test_who_waits_in_which_order() -> None:
    async def main(twin: Embedded) -> None:
        await _prepare(twin)
        for name in "abc":
            await _submit(twin, name)
        home = "/apis/visibility.kueue.x-k8s.io/v1beta2"
        found = await twin.do("GET", f"{home}/clusterqueues/q/pendingworkloads")
        names = [(item["metadata"]["ownerReferences"][0]["name"], item["positionInClusterQueue"]) for item in found["items"]]
        assert names == [("b", 0), ("c", 1)]
        found = await twin.do("GET", f"{home}/namespaces/default/localqueues/q/pendingworkloads?limit=1&offset=1")
        assert [item["positionInLocalQueue"] for item in found["items"]] == [1]
        status, found = await twin.ask("GET", f"{home}/clusterqueues/nowhere/pendingworkloads")
        assert (status, found["message"]) == (404, 'clusterqueue.visibility.kueue.x-k8s.io "nowhere" not found')

    on_twin(main, workloads=True)
