"""`train submit` before it sends anything: what the cluster lacks is told in one line, with the remedy."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sliceworks.base import clock
from sliceworks.base.errors import Forbidden, SliceworksError
from sliceworks.cli import main, train, train_files
from sliceworks.cli.env_sites import read_environment
from sliceworks.kube.client import Client
from sliceworks.training.queues import manifests
from sliceworks.twin.cluster import Cluster

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

EXAMPLES = Path(__file__).parents[2] / "examples"
JOB = EXAMPLES / "training-jobs" / "hello-one-slice.yaml"
TEAM = "tpu-training"


def refused(play: Callable[[Client], Awaitable[object]], *, workloads: bool = True) -> str:
    async def run() -> None:
        async with Cluster(workloads=workloads) as twin:
            client = Client(twin.transport())
            if workloads:
                for each in manifests(read_environment(EXAMPLES / "environments" / "training" / "environment.yaml")):
                    await client.create(each)
            await play(client)

    with pytest.raises(SliceworksError) as caught:
        clock.run(run(), virtual=True, seed=1)
    return f"{caught.value.message}; {caught.value.hint}"


def changed(tmp_path: Path, old: str, new: str) -> train_files.Submission:
    file = tmp_path / "job.yaml"
    file.write_text(JOB.read_text().replace(old, new))
    return train_files.read(file)


def test_kueue_and_jobset_must_be_there() -> None:
    asked = train_files.read(JOB)
    assert refused(lambda client: train._check_queue(client, asked, TEAM), workloads=False).startswith("Kueue is not installed")
    assert refused(lambda client: train._check_name(client, "a", TEAM), workloads=False).startswith("JobSet is not installed")


def test_the_queue_and_the_priority_must_be_there(tmp_path: Path) -> None:
    asked = changed(tmp_path, "tpu-job-queue", "tpu-jobs-queue")
    line = refused(lambda client: train._check_queue(client, asked, TEAM))
    assert "job.yaml:8: there is no queue 'tpu-jobs-queue' in namespace tpu-training; did you mean tpu-job-queue?" in line
    asked = changed(tmp_path, "priority: medium", "priority: hihg")
    line = refused(lambda client: train._check_queue(client, asked, TEAM))
    assert "job.yaml:9: there is no priority 'hihg'; did you mean high?" in line


def test_a_name_is_taken_once() -> None:
    asked = train_files.read(JOB)

    async def twice(client: Client) -> None:
        await train._sent(client, asked.jobset(TEAM), dry=True)
        await train._check_name(client, "hello-one-slice", TEAM)
        await train._sent(client, asked.jobset(TEAM), dry=False)
        await train._check_name(client, "hello-one-slice", TEAM)

    told = "there is already a job hello-one-slice in tpu-training; take another name, or sliceworks train cancel"
    assert refused(twice).startswith(told)


def test_who_may_not_look_at_priorities_may_still_submit() -> None:
    class Blind(Client):
        async def list_all(self, *_: object, **__: object) -> object:  # type: ignore[override]
            raise Forbidden("not for you")

    async def run() -> None:
        async with Cluster(workloads=False) as twin:
            await train._check_queue(Blind(twin.transport()), train_files.read(JOB), TEAM)

    clock.run(run(), virtual=True, seed=1)


def test_another_document_is_not_submitted(capsys: pytest.CaptureFixture[str]) -> None:
    environment = EXAMPLES / "environments" / "training" / "environment.yaml"
    assert main.run(["train", "submit", "-f", str(environment), "--dry-run", "client"]) == 1
    assert "a TrainingJob is wanted, found Environment" in capsys.readouterr().err
