"""Fault drills: whatever dies, and whenever, a day ends as it does when nobody dies."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.support import small_platforms

from sliceworks.rehearsal import documents
from sliceworks.rehearsal.course.course import Options, rehearse_day
from sliceworks.rehearsal.course.program import read
from sliceworks.rehearsal.rehearse import rehearse

if TYPE_CHECKING:
    from sliceworks.rehearsal.rehearse import Rehearsal

EXAMPLES = Path(__file__).parents[2] / "examples"
STOCKOUT = EXAMPLES / "scenarios" / "stockout"
JOB = """
apiVersion: sliceworks.dev/v1alpha1
kind: TrainingJob
metadata: {{name: "{name}-{{n}}", namespace: training}}
spec:
  queue: tpus
  priority: {name}
  slices: {{type: v5litepod-16, count: {count}}}
  image: example.com/train:1
  command: [train]
  serviceAccount: trainer
  restarts: {{max: 3}}
  estimate: 6m
"""
ENVIRONMENT = """
apiVersion: sliceworks.dev/v1alpha1
kind: Environment
metadata: {name: busy}
spec:
  project: my-project
  region: us-west4
  zones: [us-west4-a]
  automation: {bucket: my-project-automation}
  pools:
    cpu: {cpu-pool: {machineType: n1-standard-4, nodes: 2}}
    tpu: {v5e: {type: v5litepod-16, count: 3}}
  identities: {workloads: {trainer: {namespace: training}}}
  teams: {training: {queue: tpus, identity: trainer, serviceAccount: trainer}}
---
apiVersion: sliceworks.dev/v1alpha1
kind: Scenario
metadata: {name: busy}
spec:
  duration: 70m
  events:
  - {at: 1m, submit: {file: jobs/low.yaml, count: 8, every: 2m}}
  - {at: 10m, submit: {file: jobs/high.yaml, count: 2, every: 7m}}
  - {at: 12m, failNodes: {nodes: {names: [gke-v5e-0-2]}, for: 5m}}
  - {at: 20m, failNodes: {nodes: {names: [gke-v5e-1-1]}, for: 5m, reason: SpotPreemption}}
"""


@pytest.fixture(scope="module")
def busy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A day with queues, preemption and two lost hosts."""
    folder = tmp_path_factory.mktemp("busy")
    (folder / "day.yaml").write_text(ENVIRONMENT)
    (folder / "jobs").mkdir()
    (folder / "jobs" / "low.yaml").write_text(JOB.format(name="low", count=1))
    (folder / "jobs" / "high.yaml").write_text(JOB.format(name="high", count=2))
    return folder


def rehearsed(folder: Path, drill: float | None, seed: int = 0) -> Rehearsal:
    scenario = documents.scenario(folder)
    assert scenario is not None
    return rehearse(
        documents.read(folder), scenario=scenario, folder=folder, seconds=scenario.spec.duration, seed=seed, drill=drill
    )


def ends(done: Rehearsal) -> dict[str, str]:
    """How every document stands in the end, and what was last said of every job."""
    found = {outcome.document.name: f"{outcome.result} {outcome.state}" for outcome in done.outcomes}
    found |= {moment.subject: moment.note for moment in done.moments if moment.kind in {"JobSet", "Job"} and moment.note}
    return found | {happening.what: happening.refused for happening in done.happenings}


def test_a_busy_day_ends_as_without_the_drill(busy: Path) -> None:
    wanted = ends(rehearsed(busy, None))
    assert sum("Completed" in note for subject, note in wanted.items() if subject.startswith("JobSet")) == 10
    for seed in range(2):
        done = rehearsed(busy, 20.0, seed)
        assert ends(done) == wanted, done.deaths
        assert sum(death.at_work for death in done.deaths) >= 5


def test_slices_come_and_go_as_without_the_drill() -> None:
    wanted = ends(rehearsed(STOCKOUT, None))
    done = rehearsed(STOCKOUT, 60.0)
    assert ends(done) == wanted, done.deaths
    assert {death.name for death in done.deaths} >= {"slices", "jobset", "nodes"}


def test_one_seed_gives_one_drill() -> None:
    folder = EXAMPLES / "scenarios" / "host-failure"
    first, second, other = (rehearsed(folder, 60.0, seed) for seed in (1, 1, 2))
    assert first.deaths == second.deaths != other.deaths
    assert first.moments == second.moments


def test_a_day_meets_its_expectations_whoever_dies(tmp_path: Path) -> None:
    program = read(small_platforms.write(tmp_path / "day"))
    assert program.scenario is not None
    for seed in range(2):
        (work := tmp_path / str(seed)).mkdir()
        day = rehearse_day(program, Options(work, seed, program.scenario.spec.duration, drill=60.0))
        assert day.kept, [(check.expected, check.actual) for step in day.steps for check in step.checks if not check.kept]
        assert len(day.deaths) > 10
        assert any(death.at_work for death in day.deaths)
