"""Workload controllers on an embedded twin, in virtual time."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from tests.support.embedded_twin import EmbeddedTwin, run_on_twin
from tests.support.workloads import template

from sliceworks.base import clock
from sliceworks.twin.store.store import Store

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

PODS = "/api/v1/namespaces/default/pods"
JOBS = "/apis/batch/v1/namespaces/default/jobs"
Obj = dict[str, Any]


def with_workloads(main: Callable[[EmbeddedTwin], Awaitable[None]], store: Store | None = None) -> None:
    run_on_twin(main, store, workloads=True)


async def job(twin: EmbeddedTwin, **spec: Any) -> None:
    body = {"metadata": {"name": "work"}, "spec": {"template": template(restartPolicy="Never"), **spec}}
    await twin.do("POST", JOBS, body)


async def pods(twin: EmbeddedTwin, phase: str = "Pending") -> list[Obj]:
    result = (await twin.do("GET", PODS))["items"]
    return [pod for pod in result if pod["status"]["phase"] == phase and "deletionTimestamp" not in pod["metadata"]]


async def finish_pod(twin: EmbeddedTwin, pod: Obj, phase: str) -> None:
    now = clock.timestamp()
    ended = {"exitCode": 1 if phase == "Failed" else 0, "startedAt": now, "finishedAt": now}
    container = {"name": "main", "image": "i", "imageID": "", "ready": False, "restartCount": 0, "state": {"terminated": ended}}
    body = {"status": {"phase": phase, "containerStatuses": [container]}}
    await twin.do("PATCH", f"{PODS}/{pod['metadata']['name']}/status", body)


async def conditions(twin: EmbeddedTwin) -> list[tuple[str, str]]:
    result = (await twin.do("GET", f"{JOBS}/work"))["status"].get("conditions", ())
    return [(item["type"], item["reason"]) for item in result]


def test_failed_job_pods_are_replaced_with_backoff() -> None:
    async def main(twin: EmbeddedTwin) -> None:
        await job(twin, backoffLimit=5)
        gaps = []
        for _ in range(5):
            while not (waiting := await pods(twin)):
                await clock.sleep(0.5)
            await finish_pod(twin, waiting[0], "Failed")
            failed = clock.now()
            while not (waiting := await pods(twin)):
                await clock.sleep(0.5)
            gaps.append(round((clock.now() - failed).total_seconds(), -1))
        assert gaps == [10, 20, 40, 80, 160]
        await finish_pod(twin, (await pods(twin))[0], "Failed")
        await clock.sleep(5)
        assert await conditions(twin) == [("FailureTarget", "BackoffLimitExceeded"), ("Failed", "BackoffLimitExceeded")]

    with_workloads(main)


def test_job_deadline_and_ttl() -> None:
    async def main(twin: EmbeddedTwin) -> None:
        await job(twin, activeDeadlineSeconds=3600, ttlSecondsAfterFinished=7200)
        await clock.sleep(3590)
        assert await conditions(twin) == []
        await clock.sleep(15)
        assert await conditions(twin) == [("FailureTarget", "DeadlineExceeded"), ("Failed", "DeadlineExceeded")]
        await clock.sleep(7100)
        assert not await twin.gone(f"{JOBS}/work")
        await clock.sleep(110)
        assert await twin.gone(f"{JOBS}/work")

    with_workloads(main)


def test_large_job_counts_every_pod() -> None:
    async def main(twin: EmbeddedTwin) -> None:
        await job(twin, completions=700, parallelism=700, completionMode="Indexed")
        await clock.sleep(10)
        waiting = await pods(twin)
        assert len(waiting) == 700
        for pod in waiting:
            await finish_pod(twin, pod, "Succeeded")
        await clock.sleep(10)
        result = (await twin.do("GET", f"{JOBS}/work"))["status"]
        assert (result["succeeded"], result["completedIndexes"]) == (700, "0-699")
        assert result["uncountedTerminatedPods"] == {}
        assert await conditions(twin) == [("SuccessCriteriaMet", "CompletionsReached"), ("Complete", "CompletionsReached")]
        assert all("finalizers" not in pod["metadata"] for pod in await pods(twin, "Succeeded"))

    with_workloads(main)


def test_restart_counts_pods_that_finished_before() -> None:
    store = Store()

    async def before(twin: EmbeddedTwin) -> None:
        await job(twin, completions=4, parallelism=2)
        await clock.sleep(5)
        for pod in await pods(twin):
            await finish_pod(twin, pod, "Succeeded")
        # The twin stops before the controller observes these pods.

    async def after(twin: EmbeddedTwin) -> None:
        await clock.sleep(5)
        for pod in await pods(twin):
            await finish_pod(twin, pod, "Succeeded")
        await clock.sleep(5)
        result = (await twin.do("GET", f"{JOBS}/work"))["status"]
        assert result["succeeded"] == 4
        assert (await conditions(twin))[-1][0] == "Complete"

    with_workloads(before, store)
    with_workloads(after, store)


def test_node_that_fails_when_its_lease_is_created_becomes_unreachable() -> None:
    """The duration of the lease changes, but not its time."""

    async def main(twin: EmbeddedTwin) -> None:
        now = clock.timestamp()
        await twin.do("POST", "/api/v1/nodes", {"metadata": {"name": "n"}})
        ready = {"type": "Ready", "status": "True", "lastHeartbeatTime": now, "lastTransitionTime": now}
        await twin.do("PATCH", "/api/v1/nodes/n/status", {"status": {"conditions": [ready]}})
        leases = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
        spec = {"holderIdentity": "n", "leaseDurationSeconds": 86400, "renewTime": clock.micro_timestamp()}
        await twin.do("POST", leases, {"metadata": {"name": "n"}, "spec": spec})
        await twin.do("PATCH", f"{leases}/n", {"spec": {"leaseDurationSeconds": 40}})
        await clock.sleep(70)
        [found] = [each for each in (await twin.do("GET", "/api/v1/nodes/n"))["status"]["conditions"] if each["type"] == "Ready"]
        assert found["status"] == "Unknown"

    with_workloads(main)


def test_pods_are_evicted_from_an_unreachable_node() -> None:
    async def main(twin: EmbeddedTwin) -> None:
        for name in ("healthy", "unreachable"):
            labels = {"topology.kubernetes.io/zone": name}
            await twin.do("POST", "/api/v1/nodes", {"metadata": {"name": name, "labels": labels}})
            now = clock.timestamp()
            ready = {"type": "Ready", "status": "True", "lastHeartbeatTime": now, "lastTransitionTime": now}
            await twin.do("PATCH", f"/api/v1/nodes/{name}/status", {"status": {"conditions": [ready]}})
        leases = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
        spec = {"holderIdentity": "healthy", "leaseDurationSeconds": 86400, "renewTime": clock.micro_timestamp()}
        await twin.do("POST", leases, {"metadata": {"name": "healthy"}, "spec": spec})
        await twin.do("POST", PODS, {"metadata": {"name": "p"}, "spec": {**template()["spec"], "nodeName": "unreachable"}})
        started = clock.now()
        await clock.sleep(70)
        node = await twin.do("GET", "/api/v1/nodes/unreachable")
        assert {taint["effect"] for taint in node["spec"]["taints"]} == {"NoSchedule", "NoExecute"}
        assert "taints" not in (await twin.do("GET", "/api/v1/nodes/healthy"))["spec"]
        while "deletionTimestamp" not in (pod := await twin.do("GET", f"{PODS}/p"))["metadata"]:
            await clock.sleep(1)
        waited = datetime.fromisoformat(pod["metadata"]["deletionTimestamp"]) - started
        assert 340 < waited.total_seconds() < 400
        await clock.sleep(20_000)
        assert "taints" not in (await twin.do("GET", "/api/v1/nodes/healthy"))["spec"]

    with_workloads(main)


def test_rollout_without_progress_exceeds_its_deadline() -> None:
    async def main(twin: EmbeddedTwin) -> None:
        path = "/apis/apps/v1/namespaces/default/deployments"
        labels = {"app": "web"}
        spec = {"replicas": 2, "selector": {"matchLabels": labels}, "template": template(labels=labels)}
        await twin.do("POST", path, {"metadata": {"name": "web"}, "spec": spec})
        await clock.sleep(590)
        reasons = await progress(twin, path)
        assert reasons["Progressing"] == "ReplicaSetUpdated"
        await clock.sleep(30)
        reasons = await progress(twin, path)
        assert reasons == {"Available": "MinimumReplicasUnavailable", "Progressing": "ProgressDeadlineExceeded"}

    async def progress(twin: EmbeddedTwin, path: str) -> dict[str, str]:
        status = (await twin.do("GET", f"{path}/web"))["status"]
        return {condition["type"]: condition["reason"] for condition in status["conditions"]}

    with_workloads(main)
