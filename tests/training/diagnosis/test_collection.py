"""The requests of a diagnosis: their number does not grow with the cluster, and missing permissions are reported."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from sliceworks.base import clock
from sliceworks.base.errors import Forbidden, SliceworksError
from sliceworks.cli.train_show import diagnose
from sliceworks.kube.client import Client
from sliceworks.kube.resources import CLUSTER_QUEUE, JOBSET, LOCAL_QUEUE, RESOURCE_FLAVOR, WORKLOAD
from sliceworks.twin.cluster import Cluster

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from sliceworks.base.transport import Request, Response, Transport
    from sliceworks.kube.resources import Resource
    from sliceworks.training.diagnosis.model import Diagnosis

Obj = dict[str, Any]


class CountingTransport:
    """Counts requests, and rejects those that the user may not send."""

    def __init__(self, inner: Transport, hidden: tuple[str, ...] = ()) -> None:
        self.inner, self.hidden, self.requested = inner, hidden, Counter[str]()

    async def send(self, request: Request, *, stream: bool = False) -> Response:
        what = next((item for item in self.hidden if f"/{item}" in request.path), "")
        if what:
            raise Forbidden(f"{what} is forbidden")
        self.requested[request.path] += 1
        return await self.inner.send(request, stream=stream)

    async def close(self) -> None:
        await self.inner.close()


async def make(client: Client, resource: Resource, name: str, spec: Obj, **metadata: Any) -> Obj:
    body = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {"name": name, **metadata}, "spec": spec}
    return await client.create(body, resource=resource)


def job(chips: int = 4) -> Obj:
    container = {
        "name": "c",
        "image": "x",
        "resources": {"requests": {"google.com/tpu": chips}, "limits": {"google.com/tpu": chips}},
    }
    return {"spec": {"containers": [container], "restartPolicy": "Never"}}


async def queue(client: Client, chips: int = 8) -> None:
    resources = [{"name": "google.com/tpu", "nominalQuota": str(chips)}]
    group = {"coveredResources": ["google.com/tpu"], "flavors": [{"name": "v4", "resources": resources}]}
    await make(client, RESOURCE_FLAVOR, "v4", {})
    await make(client, CLUSTER_QUEUE, "cq", {"namespaceSelector": {}, "resourceGroups": [group]})
    await make(client, LOCAL_QUEUE, "q", {"clusterQueue": "cq"}, namespace="default")


async def submit(client: Client, name: str) -> None:
    spec = {"replicatedJobs": [{"name": "slice", "template": {"spec": {"template": job()}}}]}
    await make(client, JOBSET, name, spec, namespace="default", labels={"kueue.x-k8s.io/queue-name": "q"})


async def add_workloads(client: Client, count: int, first: int = 0) -> None:
    """Other pending Workloads in the queue; they need no jobs."""
    for number in range(first, first + count):
        pods = [{"name": "slice", "count": 1, "template": job()}]
        await make(client, WORKLOAD, f"w{number}", {"queueName": "q", "podSets": pods}, namespace="default")


def run_on_twin(scenario: Callable[[Client, Cluster], Awaitable[None]], *, workloads: bool = True) -> None:
    async def main() -> None:
        async with Cluster(workloads=workloads) as twin:
            await scenario(Client(twin.transport()), twin)

    clock.run(main(), virtual=True, seed=1)


def test_request_count_does_not_grow_with_the_queue() -> None:
    async def scenario(client: Client, twin: Cluster) -> None:
        counts: list[int] = []
        await queue(client)
        for count, first in ((10, 0), (240, 10)):
            await add_workloads(client, count, first)
            if not counts:
                await submit(client, "job")
            await clock.sleep(30)
            counting = CountingTransport(twin.transport())
            diagnosis = await diagnose(Client(counting), "job")
            assert [cause.kind.name for cause in diagnosis.causes] == ["quota-in-use", "jobs-ahead"]
            counts.append(sum(counting.requested.values()))
            assert not any(path.endswith(("/pods", "/nodes", "/jobs")) for path in counting.requested)
        assert counts[1] <= counts[0] <= 15

    run_on_twin(scenario)


def test_forbidden_cluster_queue_is_optional() -> None:
    async def scenario(client: Client, twin: Cluster) -> None:
        await queue(client)
        await add_workloads(client, 3)
        await submit(client, "job")
        await clock.sleep(30)
        hidden = ("clusterqueues", "resourceflavors", "namespaces/default/localqueues/q/pendingworkloads")
        diagnosis = await diagnose(Client(CountingTransport(twin.transport(), hidden)), "job")
        assert [cause.kind.name for cause in diagnosis.causes] == ["pending-in-queue"]
        assert "insufficient unused quota" in diagnosis.causes[0].reported
        assert "ClusterQueue cq: forbidden" in diagnosis.unreadable
        assert "Its jobs: 2 pending, 2 with quota: w0 (4 TPU chips of v4), w1 (4 TPU chips of v4)." in diagnosis.causes[0].message

    run_on_twin(scenario)


def test_position_from_local_queue() -> None:
    async def scenario(client: Client, twin: Cluster) -> None:
        await queue(client)
        await add_workloads(client, 5)
        await submit(client, "job")
        await clock.sleep(30)
        diagnosis = await diagnose(Client(CountingTransport(twin.transport(), ("clusterqueues",))), "job")
        assert diagnosis.ahead is not None
        assert diagnosis.ahead.position == 4  # two of the five run
        assert "jobs-ahead" in [cause.kind.name for cause in diagnosis.causes]

    run_on_twin(scenario)


def test_position_without_visibility_api() -> None:
    async def scenario(client: Client, twin: Cluster) -> None:
        await queue(client)
        await add_workloads(client, 5)
        await clock.sleep(2)
        await submit(client, "job")
        await clock.sleep(30)
        diagnosis = await diagnose(
            Client(CountingTransport(twin.transport(), ("clusterqueues/cq/pending", "localqueues/q/pending"))), "job"
        )
        assert diagnosis.ahead is not None
        assert diagnosis.ahead.position == 4
        assert len([item for item in diagnosis.unreadable if "visibility" in item]) == 1

    run_on_twin(scenario)


def refusal(scenario: Callable[[Client, Cluster], Awaitable[Diagnosis]], *, workloads: bool = True) -> str:
    caught: list[SliceworksError] = []

    async def trial(client: Client, twin: Cluster) -> None:
        with pytest.raises(SliceworksError) as error:
            await scenario(client, twin)
        caught.append(error.value)

    run_on_twin(trial, workloads=workloads)
    return f"{caught[0].message}; {caught[0].hint}"


def test_missing_job_is_an_error() -> None:
    async def scenario(client: Client, twin: Cluster) -> Diagnosis:
        await submit(client, "hello-multi-slice")
        return await diagnose(client, "hello-multi-slise")

    assert refusal(scenario) == "training job 'hello-multi-slise' not found in namespace default; did you mean hello-multi-slice?"


def test_job_of_another_namespace_is_a_hint() -> None:
    async def scenario(client: Client, twin: Cluster) -> Diagnosis:
        await submit(client, "job")
        return await diagnose(client.using(namespace="kube-system"), "job")

    assert refusal(scenario) == "training job 'job' not found in namespace kube-system; found in default: pass -n"


def test_cluster_without_jobset_is_an_error() -> None:
    async def scenario(client: Client, twin: Cluster) -> Diagnosis:
        return await diagnose(client, "job")

    assert refusal(scenario, workloads=False) == "JobSet is not installed in this cluster; install it, or use --twin"


def test_forbidden_workloads_are_reported() -> None:
    async def scenario(client: Client, twin: Cluster) -> None:
        await queue(client)
        await submit(client, "job")
        hidden = ("workloads", "clusterqueues")
        diagnosis = await diagnose(Client(CountingTransport(twin.transport(), hidden)), "job")
        assert [cause.kind.name for cause in diagnosis.causes] == ["pending-in-queue"]
        assert "workloads in default: forbidden" in diagnosis.unreadable

    run_on_twin(scenario)
