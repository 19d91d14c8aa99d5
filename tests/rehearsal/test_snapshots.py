"""Snapshots of queues: taken from a twin, saved without secrets, loaded, and rejected if invalid."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson
import pytest
from tests.support.queue_states import NOON, State

from sliceworks.base import clock
from sliceworks.base.errors import InvalidDocument, SliceworksError
from sliceworks.kube.client import Client
from sliceworks.rehearsal.forecast import snapshot
from sliceworks.rehearsal.forecast.forecaster import Forecaster
from sliceworks.twin.cluster import Cluster

if TYPE_CHECKING:
    from pathlib import Path

JOB = """
apiVersion: sliceworks.dev/v1alpha1
kind: TrainingJob
metadata: {name: first, namespace: vision}
spec:
  queue: queue
  slices: {type: v4-16}
  image: train:1
  command: [python3, train.py]
  env: {TOKEN: secret-token}
  checkpoints: gs://secret-bucket
  estimate: 10m
"""


def test_snapshot_round_trip(tmp_path: Path) -> None:
    state = State(16)
    state.job("a", started=-60, estimate=600)
    state.job("b", estimate=600)
    state.snapshot().save(tmp_path / "queues.json")
    result = snapshot.load(tmp_path / "queues.json")
    assert result.taken == NOON
    ours, theirs = (Forecaster(item) for item in (state.snapshot(), result))
    ends = [item.forecast(list(item.jobs.values()), runs=20).expectations for item in (ours, theirs)]
    assert [item.ends for item in ends[0]] == [item.ends for item in ends[1]]


def test_snapshot_of_a_cluster_has_no_secrets(tmp_path: Path) -> None:
    from sliceworks.platform import loader

    (tmp_path / "environment.yaml").write_text(
        "apiVersion: sliceworks.dev/v1alpha1\nkind: Environment\nmetadata: {name: small}\nspec:\n  project: p-1234\n"
        "  automation: {bucket: p-1234-automation}\n"
        "  region: us-central2\n  zones: [us-central2-b]\n  pools: {cpu: {cpu: {nodes: 1}}, tpu: {v4: {type: v4-16}}}\n"
        "  teams: {vision: {queue: queue}}\n"
    )
    (tmp_path / "job.yaml").write_text(JOB)

    async def main() -> snapshot.Snapshot:
        async with Cluster() as twin:
            client = Client(twin.transport())
            for document in loader.load(tmp_path):
                await client.apply(document.data)
            await clock.sleep(5)
            return await snapshot.take(client)

    result = clock.run(main(), virtual=True, seed=1)
    result.save(tmp_path / "queues.json")
    assert b"secret" not in (tmp_path / "queues.json").read_bytes()
    [job] = Forecaster(snapshot.load(tmp_path / "queues.json")).jobs.values()
    assert (job.name, job.state, job.estimate, job.resumes) == ("first", "running", 600, True)


def test_cluster_without_kueue_is_an_error() -> None:
    async def main() -> None:
        async with Cluster(workloads=False) as twin:
            await snapshot.take(Client(twin.transport()))

    with pytest.raises(SliceworksError, match="Kueue is not installed"):
        clock.run(main(), virtual=True)


def broken(change: Any) -> bytes:
    state = State(16)
    state.job("a", estimate=60)
    body = {
        "apiVersion": "sliceworks.dev/v1alpha1",
        "kind": "QueueSnapshot",
        "taken": "2026-11-16T12:00:00Z",
        "objects": state.objects,
    }
    change(body)
    return orjson.dumps(body)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"{", "queues.json:1: not valid JSON"),
        (b"[]", "queues.json: not a QueueSnapshot of sliceworks.dev/v1alpha1"),
        (broken(lambda body: body.update(kind="List")), "not a QueueSnapshot"),
        (broken(lambda body: body.update(taken="noon")), "taken: must be a time such as 2026-11-16T08:00:00Z, found 'noon'"),
        (broken(lambda body: body.update(taken="2026-11-16T12:00:00")), "taken: must be a time"),
        (broken(lambda body: body.update(objects=[])), "objects: must be lists by kind"),
        (broken(lambda body: body["objects"].update(Pod=[])), "objects: unknown kind Pod"),
        (broken(lambda body: body["objects"].update(Workload={})), "objects.Workload[0] is not a complete Workload"),
        (
            broken(lambda body: body["objects"]["Workload"][0]["spec"].pop("podSets")),
            "objects.Workload[0] is not a complete Workload",
        ),
        (broken(lambda body: body["objects"]["Workload"][0]["metadata"].pop("creationTimestamp")), "is not a complete Workload"),
        (
            broken(lambda body: body["objects"]["Workload"][0]["metadata"].update(creationTimestamp="yesterday")),
            "is not a complete Workload",
        ),
        (
            broken(
                lambda body: body["objects"]["Workload"][0]["spec"]["podSets"][0]["template"]["spec"]["containers"][0].update(
                    resources={"requests": {"cpu": "much"}}
                )
            ),
            "is not a complete Workload",
        ),
        (
            broken(lambda body: body["objects"]["ClusterQueue"].append("all")),
            "objects.ClusterQueue[1] is not a complete ClusterQueue",
        ),
        (
            broken(lambda body: body["objects"]["ClusterQueue"][0]["spec"]["resourceGroups"][0].pop("flavors")),
            "objects.ClusterQueue[0] is not a complete ClusterQueue",
        ),
        (broken(lambda body: body["objects"]["WorkloadPriorityClass"][0].pop("value")), "is not a complete WorkloadPriorityClass"),
        (broken(lambda body: body["objects"]["Workload"][0]["spec"].update(priority="high")), "is not a complete Workload"),
        (broken(lambda body: body["objects"]["LocalQueue"][0].pop("spec")), "is not a complete LocalQueue"),
    ],
)
def test_invalid_snapshot_is_a_one_line_error(body: bytes, words: str, tmp_path: Path) -> None:
    (tmp_path / "queues.json").write_bytes(body)
    with pytest.raises(InvalidDocument) as caught:
        snapshot.load(tmp_path / "queues.json")
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
    assert caught.value.hint == "create one with: sliceworks train forecast --save FILE"
