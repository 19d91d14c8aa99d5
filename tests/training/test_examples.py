"""Every example of a training job, rehearsed: submitted to a twin with machines of every kind, and run to its end."""

from __future__ import annotations

import os
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from sliceworks.base import clock, yamls
from sliceworks.base.errors import InvalidDocument
from sliceworks.kube.client import Client
from sliceworks.kube.resources import Resource
from sliceworks.kube.well_known import JOB, POD
from sliceworks.rehearsal import documents, submissions
from sliceworks.rehearsal.rehearse import rehearse
from sliceworks.training.compile import workers
from sliceworks.training.states import state
from sliceworks.twin.cluster import Cluster

GOLDENS = Path(__file__).parent / "goldens"
EXAMPLES = Path(__file__).parents[2] / "examples" / "training-jobs"
NAMES = sorted(file.stem for file in EXAMPLES.glob("*.yaml"))
JOBSET = Resource("jobset.x-k8s.io", "v1alpha2", "JobSet", "jobsets", True)
TEAM = "tpu-training"
Object = dict[str, Any]


def test_the_kinds_of_work_that_people_ask_for_are_all_there() -> None:
    slices = {(name, submissions.read(EXAMPLES / f"{name}.yaml").job.spec.slices.count) for name in NAMES}
    assert {
        ("hello-one-slice", 1),
        ("hello-multi-slice", 2),
        *((f"maxtext-{kind}", 1) for kind in ("v4", "v5e", "v5p")),
        *((f"maxtext-{kind}-multi", 2) for kind in ("v4", "v5e", "v5p")),
        ("prepare-train-evaluate", 1),
        ("gpu", 2),
    } <= slices


def test_each_example_runs_on_as_many_hosts_as_it_asks_for_and_completes() -> None:
    asked = {name: submissions.read(EXAMPLES / f"{name}.yaml") for name in NAMES}
    most: dict[str, set[str]] = {name: set() for name in NAMES}

    async def main() -> dict[str, Object]:
        async with Cluster() as twin:
            client = Client(twin.transport())
            for document in documents.read(EXAMPLES / "platform"):
                await client.apply(document.data)
            for each in asked.values():
                await client.create(each.jobset(), resource=JOBSET)
            found: dict[str, Object] = {}
            for _ in range(60):
                await clock.sleep(300)
                for pod in (await client.list(POD, TEAM)).items:
                    labels = pod["metadata"]["labels"]
                    if labels["jobset.sigs.k8s.io/replicatedjob-name"] == "slice" and pod["spec"].get("nodeName"):
                        most[labels["jobset.sigs.k8s.io/jobset-name"]].add(pod["spec"]["nodeName"])
                # Those that have ended are not kept for ever.
                found |= {each["metadata"]["name"]: each for each in (await client.list(JOBSET, TEAM)).items}
                if {state(each) for each in found.values()} <= {"completed", "failed"}:
                    break
            return found

    found = clock.run(main(), virtual=True, seed=1)
    assert {name: state(each) for name, each in found.items()} == dict.fromkeys(NAMES, "completed")
    assert {name: len(nodes) for name, nodes in most.items()} == {name: each.ask.hosts for name, each in asked.items()}


def test_steps_depend_on_those_before_them() -> None:
    path, made = GOLDENS / "steps.yaml", yamls.dump(submissions.read(EXAMPLES / "prepare-train-evaluate.yaml").jobset())
    if os.environ.get("SLICEWORKS_RECORD"):
        before = path.read_text() if path.exists() else ""
        path.write_text(made)
        assert before == made, f"{path.name} was rewritten: read the difference"
    assert path.read_text() == made


def test_helpers_beside_steps_do_not_hold_the_end_back(tmp_path: Path) -> None:
    text = (EXAMPLES / "prepare-train-evaluate.yaml").read_text()
    (tmp_path / "job.yaml").write_text(f"{text}  helpers: [{{name: watcher, image: 'watcher:1'}}]\n")
    made = submissions.read(tmp_path / "job.yaml").jobset()
    assert [each["name"] for each in made["spec"]["replicatedJobs"]] == ["prepare", "slice", "evaluate", "watcher"]
    assert made["spec"]["successPolicy"]["targetReplicatedJobs"] == ["slice", "evaluate"]
    assert workers(made)["name"] == "slice"
    (tmp_path / "job.yaml").write_text(text.replace("name: evaluate", "name: slice"))
    with pytest.raises(InvalidDocument, match="a job within it is named twice: slice"):
        submissions.read(tmp_path / "job.yaml")


def test_data_is_prepared_before_and_evaluated_after_the_training() -> None:
    async def main() -> dict[str, tuple[datetime, datetime]]:
        async with Cluster() as twin:
            client = Client(twin.transport())
            for document in documents.read(EXAMPLES / "platform"):
                await client.apply(document.data)
            await client.create(submissions.read(EXAMPLES / "prepare-train-evaluate.yaml").jobset(), resource=JOBSET)
            await clock.sleep(1200)
            jobs = (await client.list(JOB, TEAM)).items
            return {
                each["metadata"]["name"].split("-")[3]: (
                    datetime.fromisoformat(each["status"]["startTime"]),
                    datetime.fromisoformat(each["status"]["completionTime"]),
                )
                for each in jobs
            }

    times = clock.run(main(), virtual=True, seed=1)
    assert list(times) == ["evaluate", "prepare", "slice"]
    prepare, train, evaluate = times["prepare"], times["slice"], times["evaluate"]
    assert prepare[0] < prepare[1] <= train[0] < train[1] <= evaluate[0] < evaluate[1]
    assert [(end - begin).total_seconds() // 60 for begin, end in (prepare, train, evaluate)] == [2, 10, 1]


def test_a_spot_job_survives_the_loss_of_a_host_without_a_restart_that_counts() -> None:
    folder = EXAMPLES / "spot"
    day = documents.scenario(folder)
    assert day is not None
    done = rehearse(documents.read(folder), scenario=day, folder=folder, seconds=day.spec.duration)
    assert not done.failed
    [job] = [each for each in done.outcomes if each.document.data["kind"] == "JobSet"]
    assert job.document.data["spec"]["failurePolicy"]["maxRestarts"] == 0
    assert job.state == "Completed"
    begun = [moment.at for moment in done.moments if (moment.verb, moment.kind) == ("created", "Job")]
    # Twenty minutes of work, of which ten were lost; the machine was away for five.
    assert len(begun) == 2
    assert begun[1] == pytest.approx(600, abs=60)


def test_a_scenario_submits_training_jobs_too(tmp_path: Path) -> None:
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
    day = documents.scenario(tmp_path)
    assert day is not None
    done = rehearse(documents.read(tmp_path), scenario=day, folder=tmp_path, seconds=day.spec.duration)
    assert [each.refused for each in done.happenings] == ["", "", ""]
    pods = [moment for moment in done.moments if (moment.verb, moment.kind) == ("created", "Pod")]
    first = {name: next(moment.at for moment in pods if moment.name.startswith(name)) for name in ("spot-1", "spot-2")}
    assert first["spot-1"] == pytest.approx(60, abs=5)
    # The second does not wait for the first to end: with its new priority it takes its place.
    assert first["spot-2"] == pytest.approx(180, abs=60)
