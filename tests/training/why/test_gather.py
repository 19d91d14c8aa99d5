"""What is read, and how often: as much as the job needs, however much else there is; and what may not be read is told."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from sliceworks.base import clock
from sliceworks.base.errors import Forbidden, SliceworksError
from sliceworks.cli.train_why import answer_for
from sliceworks.kube.client import Client
from sliceworks.training.why.reading import CLUSTER_QUEUE, FLAVOR, JOBSET, LOCAL_QUEUE, WORKLOAD
from sliceworks.twin.cluster import Cluster

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from sliceworks.kube.resources import Resource
    from sliceworks.kube.transport import Request, Response, Transport
    from sliceworks.training.why.answer import Answer

Obj = dict[str, Any]


class Counting:
    """Counts requests, and refuses those that someone may not make."""

    def __init__(self, inner: Transport, hidden: tuple[str, ...] = ()) -> None:
        self.inner, self.hidden, self.asked = inner, hidden, Counter[str]()

    async def send(self, request: Request, *, stream: bool = False) -> Response:
        what = next((each for each in self.hidden if f"/{each}" in request.path), "")
        if what:
            raise Forbidden(f"{what} is forbidden")
        self.asked[request.path] += 1
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
    await make(client, FLAVOR, "v4", {})
    await make(client, CLUSTER_QUEUE, "cq", {"namespaceSelector": {}, "resourceGroups": [group]})
    await make(client, LOCAL_QUEUE, "q", {"clusterQueue": "cq"}, namespace="default")


async def submit(client: Client, name: str) -> None:
    spec = {"replicatedJobs": [{"name": "slice", "template": {"spec": {"template": job()}}}]}
    await make(client, JOBSET, name, spec, namespace="default", labels={"kueue.x-k8s.io/queue-name": "q"})


async def crowd(client: Client, count: int, first: int = 0) -> None:
    """Others in the queue: Workloads without jobs will do."""
    for number in range(first, first + count):
        pods = [{"name": "slice", "count": 1, "template": job()}]
        await make(client, WORKLOAD, f"w{number}", {"queueName": "q", "podSets": pods}, namespace="default")


def on_twin(play: Callable[[Client, Cluster], Awaitable[None]], *, workloads: bool = True) -> None:
    async def main() -> None:
        async with Cluster(workloads=workloads) as twin:
            await play(Client(twin.transport()), twin)

    clock.run(main(), virtual=True, seed=1)


def test_the_number_of_requests_does_not_grow_with_the_queue() -> None:
    async def play(client: Client, twin: Cluster) -> None:
        counts: list[int] = []
        await queue(client)
        for count, first in ((10, 0), (240, 10)):
            await crowd(client, count, first)
            if not counts:
                await submit(client, "job")
            await clock.sleep(30)
            counting = Counting(twin.transport())
            answer = await answer_for(Client(counting), "job")
            assert [each.kind.name for each in answer.causes] == ["quota-in-use", "behind-others"]
            counts.append(sum(counting.asked.values()))
            assert not any(path.endswith(("/pods", "/nodes", "/jobs")) for path in counting.asked)
        assert counts[1] <= counts[0] <= 15

    on_twin(play)


def test_a_member_who_may_not_see_the_cluster_queue_still_gets_an_answer() -> None:
    async def play(client: Client, twin: Cluster) -> None:
        await queue(client)
        await crowd(client, 3)
        await submit(client, "job")
        await clock.sleep(30)
        hidden = ("clusterqueues", "resourceflavors", "namespaces/default/localqueues/q/pendingworkloads")
        answer = await answer_for(Client(Counting(twin.transport(), hidden)), "job")
        assert [each.kind.name for each in answer.causes] == ["waits-in-queue"]
        assert "insufficient unused quota" in answer.causes[0].said
        assert "ClusterQueue cq: not allowed" in answer.unseen
        assert (
            "Of the jobs in it 2 wait and 2 have quota: w0 (4 TPU chips of v4), w1 (4 TPU chips of v4)." in answer.causes[0].words
        )

    on_twin(play)


def test_the_local_queue_tells_the_place_too() -> None:
    async def play(client: Client, twin: Cluster) -> None:
        await queue(client)
        await crowd(client, 5)
        await submit(client, "job")
        await clock.sleep(30)
        answer = await answer_for(Client(Counting(twin.transport(), ("clusterqueues",))), "job")
        assert answer.ahead is not None
        assert answer.ahead.position == 4  # two of the five run
        assert "behind-others" in [each.kind.name for each in answer.causes]

    on_twin(play)


def test_without_the_visibility_api_the_order_is_worked_out() -> None:
    async def play(client: Client, twin: Cluster) -> None:
        await queue(client)
        await crowd(client, 5)
        await clock.sleep(2)
        await submit(client, "job")
        await clock.sleep(30)
        answer = await answer_for(Client(Counting(twin.transport(), ("clusterqueues/cq/pending", "localqueues/q/pending"))), "job")
        assert answer.ahead is not None
        assert answer.ahead.position == 4
        assert len([each for each in answer.unseen if "visibility" in each]) == 1

    on_twin(play)


def refusal(play: Callable[[Client, Cluster], Awaitable[Answer]], *, workloads: bool = True) -> str:
    caught: list[SliceworksError] = []

    async def trial(client: Client, twin: Cluster) -> None:
        with pytest.raises(SliceworksError) as error:
            await play(client, twin)
        caught.append(error.value)

    on_twin(trial, workloads=workloads)
    return f"{caught[0].message}; {caught[0].hint}"


def test_a_job_that_does_not_exist() -> None:
    async def play(client: Client, twin: Cluster) -> Answer:
        await submit(client, "hello-multi-slice")
        return await answer_for(client, "hello-multi-slise")

    assert refusal(play) == "there is no training job 'hello-multi-slise' in default; did you mean hello-multi-slice?"


def test_a_job_of_another_namespace() -> None:
    async def play(client: Client, twin: Cluster) -> Answer:
        await submit(client, "job")
        return await answer_for(client.using(namespace="kube-system"), "job")

    assert refusal(play) == "there is no training job 'job' in kube-system; there is one in default: name it with -n"


def test_a_cluster_without_jobset() -> None:
    async def play(client: Client, twin: Cluster) -> Answer:
        return await answer_for(client, "job")

    assert refusal(play, workloads=False) == "JobSet is not installed in this cluster; install it, or use --twin"


def test_who_may_not_even_see_workloads_is_told_so() -> None:
    async def play(client: Client, twin: Cluster) -> None:
        await queue(client)
        await submit(client, "job")
        hidden = ("workloads", "clusterqueues")
        answer = await answer_for(Client(Counting(twin.transport(), hidden)), "job")
        assert [each.kind.name for each in answer.causes] == ["waits-in-queue"]
        assert "workloads of default: not allowed" in answer.unseen

    on_twin(play)
