"""Every example of a training job, rehearsed on a twin with nodes of every type until it completes."""

from __future__ import annotations

import os
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from sliceworks.base import clock, yaml_documents
from sliceworks.base.errors import InvalidDocument
from sliceworks.kube.client import Client
from sliceworks.kube.resources import JOB, POD, Resource
from sliceworks.platform import loader
from sliceworks.rehearsal.basic_run import rehearse
from sliceworks.training import submission
from sliceworks.training.status import job_state, workers
from sliceworks.twin.cluster import Cluster

GOLDENS = Path(__file__).parent / "goldens"
EXAMPLES = Path(__file__).parents[2] / "examples" / "training-jobs"
NAMES = sorted(file.stem for file in EXAMPLES.glob("*.yaml"))
JOBSET = Resource("jobset.x-k8s.io", "v1alpha2", "JobSet", "jobsets", True)
TEAM = "tpu-training"
Object = dict[str, Any]


def test_examples_cover_all_kinds_of_jobs() -> None:
    slices = {(name, submission.load(EXAMPLES / f"{name}.yaml").job.spec.slices.count) for name in NAMES}
    assert {
        ("hello-one-slice", 1),
        ("hello-multi-slice", 2),
        *((f"maxtext-{kind}", 1) for kind in ("v4", "v5e", "v5p")),
        *((f"maxtext-{kind}-multi", 2) for kind in ("v4", "v5e", "v5p")),
        ("prepare-train-evaluate", 1),
        ("gpu", 2),
    } <= slices


def test_example_completes_on_requested_hosts() -> None:
    jobs = {name: submission.load(EXAMPLES / f"{name}.yaml") for name in NAMES}
    most: dict[str, set[str]] = {name: set() for name in NAMES}

    async def main() -> dict[str, Object]:
        async with Cluster() as twin:
            client = Client(twin.transport())
            for document in loader.load(EXAMPLES / "platform"):
                await client.apply(document.data)
            for job in jobs.values():
                await client.create(job.jobset(), resource=JOBSET)
            result: dict[str, Object] = {}
            for _ in range(60):
                await clock.sleep(300)
                for pod in (await client.list(POD, TEAM)).items:
                    labels = pod["metadata"]["labels"]
                    if labels["jobset.sigs.k8s.io/replicatedjob-name"] == "slice" and pod["spec"].get("nodeName"):
                        most[labels["jobset.sigs.k8s.io/jobset-name"]].add(pod["spec"]["nodeName"])
                # Finished jobs are deleted after their TTL.
                result |= {item["metadata"]["name"]: item for item in (await client.list(JOBSET, TEAM)).items}
                if {job_state(item) for item in result.values()} <= {"completed", "failed"}:
                    break
            return result

    result = clock.run(main(), virtual=True, seed=1)
    assert {name: job_state(item) for name, item in result.items()} == dict.fromkeys(NAMES, "completed")
    assert {name: len(nodes) for name, nodes in most.items()} == {name: item.request.hosts for name, item in jobs.items()}


def test_steps_depend_on_earlier_steps() -> None:
    path, created = GOLDENS / "steps.yaml", yaml_documents.dump(submission.load(EXAMPLES / "prepare-train-evaluate.yaml").jobset())
    if os.environ.get("SLICEWORKS_RECORD"):
        before = path.read_text() if path.exists() else ""
        path.write_text(created)
        assert before == created, f"{path.name} was rewritten: read the difference"
    assert path.read_text() == created


def test_helpers_do_not_delay_completion(tmp_path: Path) -> None:
    text = (EXAMPLES / "prepare-train-evaluate.yaml").read_text()
    (tmp_path / "job.yaml").write_text(f"{text}  helpers: [{{name: watcher, image: 'watcher:1'}}]\n")
    created = submission.load(tmp_path / "job.yaml").jobset()
    assert [replicated_job["name"] for replicated_job in created["spec"]["replicatedJobs"]] == [
        "prepare",
        "slice",
        "evaluate",
        "watcher",
    ]
    assert created["spec"]["successPolicy"]["targetReplicatedJobs"] == ["slice", "evaluate"]
    assert workers(created)["name"] == "slice"
    (tmp_path / "job.yaml").write_text(text.replace("name: evaluate", "name: slice"))
    with pytest.raises(InvalidDocument, match="duplicate job name: slice"):
        submission.load(tmp_path / "job.yaml")


def test_pipeline_steps_run_in_order() -> None:
    async def main() -> dict[str, tuple[datetime, datetime]]:
        async with Cluster() as twin:
            client = Client(twin.transport())
            for document in loader.load(EXAMPLES / "platform"):
                await client.apply(document.data)
            await client.create(submission.load(EXAMPLES / "prepare-train-evaluate.yaml").jobset(), resource=JOBSET)
            await clock.sleep(1200)
            jobs = (await client.list(JOB, TEAM)).items
            return {
                job["metadata"]["name"].split("-")[3]: (
                    datetime.fromisoformat(job["status"]["startTime"]),
                    datetime.fromisoformat(job["status"]["completionTime"]),
                )
                for job in jobs
            }

    times = clock.run(main(), virtual=True, seed=1)
    assert list(times) == ["evaluate", "prepare", "slice"]
    prepare, train, evaluate = times["prepare"], times["slice"], times["evaluate"]
    assert prepare[0] < prepare[1] <= train[0] < train[1] <= evaluate[0] < evaluate[1]
    assert [(end - begin).total_seconds() // 60 for begin, end in (prepare, train, evaluate)] == [2, 10, 1]


def test_spot_job_survives_a_lost_host_without_counted_restart() -> None:
    folder = EXAMPLES / "spot"
    day = loader.load_scenario(folder)
    assert day is not None
    done = rehearse(loader.load(folder), scenario=day, folder=folder, seconds=day.spec.duration)
    assert not done.failed
    [job] = [outcome for outcome in done.outcomes if outcome.document.data["kind"] == "JobSet"]
    assert job.document.data["spec"]["failurePolicy"]["maxRestarts"] == 0
    assert job.state == "Completed"
    started = [moment.at for moment in done.timeline if (moment.verb, moment.kind) == ("created", "Job")]
    # Twenty minutes of work, ten of them lost; the machine was unavailable for five.
    assert len(started) == 2
    assert started[1] == pytest.approx(600, abs=60)


def test_scenario_submits_training_jobs(tmp_path: Path) -> None:
    for name in ("10-environment.yaml", "20-job.yaml"):
        (tmp_path / name).write_text((EXAMPLES / "spot" / name).read_text())
    (tmp_path / "jobs").mkdir()
    text = (tmp_path / "20-job.yaml").read_text().replace("name: spot\n", "name: spot-{n}\n")
    (tmp_path / "20-job.yaml").rename(tmp_path / "jobs" / "job.yaml").write_text(text)
    (tmp_path / "30-day.yaml").write_text(
        "apiVersion: sliceworks.dev/v1alpha1\nkind: Scenario\nmetadata: {name: day}\nspec:\n  duration: 2h\n  events:\n"
        "  - {at: 1m, submit: {file: jobs/job.yaml, count: 2, every: 1m}}\n"
        "  - {at: 3m, setPriority: {job: spot-2, namespace: tpu-training, priority: high}}\n"
    )
    day = loader.load_scenario(tmp_path)
    assert day is not None
    done = rehearse(loader.load(tmp_path), scenario=day, folder=tmp_path, seconds=day.spec.duration)
    assert [event.refused for event in done.event_results] == ["", "", ""]
    pods = [moment for moment in done.timeline if (moment.verb, moment.kind) == ("created", "Pod")]
    first = {name: next(moment.at for moment in pods if moment.name.startswith(name)) for name in ("spot-1", "spot-2")}
    assert first["spot-1"] == pytest.approx(60, abs=5)
    # The second does not wait for the first: its higher priority preempts it.
    assert first["spot-2"] == pytest.approx(180, abs=60)
