"""Fault drills: a run with crashes at any time has the same result as a run without."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from tests.support import small_platforms
from tests.support.clouds import Cloud, run_on_cloud

from sliceworks.platform import loader
from sliceworks.platform.document_set import load
from sliceworks.rehearsal.basic_run import rehearse
from sliceworks.rehearsal.drill import Drill
from sliceworks.rehearsal.simulation.runner import Options, simulate

if TYPE_CHECKING:
    from sliceworks.rehearsal.basic_run import Rehearsal

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
    """A run with queues, preemption and two lost hosts."""
    folder = tmp_path_factory.mktemp("busy")
    (folder / "day.yaml").write_text(ENVIRONMENT)
    (folder / "jobs").mkdir()
    (folder / "jobs" / "low.yaml").write_text(JOB.format(name="low", count=1))
    (folder / "jobs" / "high.yaml").write_text(JOB.format(name="high", count=2))
    return folder


def rehearsed(folder: Path, drill: float | None, seed: int = 0) -> Rehearsal:
    scenario = loader.load_scenario(folder)
    assert scenario is not None
    return rehearse(loader.load(folder), scenario=scenario, folder=folder, seconds=scenario.spec.duration, seed=seed, drill=drill)


def ends(done: Rehearsal) -> dict[str, str]:
    """The final state of every document, and the last status of every job."""
    result = {outcome.document.name: f"{outcome.result} {outcome.state}" for outcome in done.outcomes}
    result |= {moment.subject: moment.note for moment in done.timeline if moment.kind in {"JobSet", "Job"} and moment.note}
    return result | {happening.description: happening.refused for happening in done.event_results}


def test_busy_run_ends_as_without_the_drill(busy: Path) -> None:
    expected = ends(rehearsed(busy, None))
    assert sum("Completed" in note for subject, note in expected.items() if subject.startswith("JobSet")) == 10
    for seed in range(2):
        done = rehearsed(busy, 20.0, seed)
        assert ends(done) == expected, done.outages
        assert sum(death.was_busy for death in done.outages) >= 5


def test_slices_equal_those_without_the_drill() -> None:
    expected = ends(rehearsed(STOCKOUT, None))
    done = rehearsed(STOCKOUT, 60.0)
    assert ends(done) == expected, done.outages
    assert {death.name for death in done.outages} >= {"slices", "jobset-controller-manager", "nodes"}


def test_same_seed_gives_the_same_drill() -> None:
    folder = EXAMPLES / "scenarios" / "host-failure"
    first, second, other = (rehearsed(folder, 60.0, seed) for seed in (1, 1, 2))
    assert first.outages == second.outages != other.outages
    assert first.timeline == second.timeline


def test_run_meets_its_expectations_with_any_crash(tmp_path: Path) -> None:
    program = load(small_platforms.write(tmp_path / "day"))
    assert program.scenario is not None
    for seed in range(2):
        (work := tmp_path / str(seed)).mkdir()
        day = simulate(program, Options(work, seed, program.scenario.spec.duration, drill=60.0))
        assert day.passed, [(check.expected, check.actual) for step in day.steps for check in step.checks if not check.passed]
        assert len(day.outages) > 10
        assert any(death.was_busy for death in day.outages)


def test_new_service_accounts_are_late_in_a_drill() -> None:
    async def main(cloud: Cloud) -> None:
        async def bind(name: str) -> int:
            await cloud.call("POST", "/iam/v1/projects/some-project/serviceAccounts", {"accountId": name})
            member = f"serviceAccount:{name}@some-project.iam.gserviceaccount.com"
            body = {"policy": {"bindings": [{"role": "roles/viewer", "members": [member]}]}}
            return (await cloud.send("POST", "/cloudresourcemanager/v1/projects/some-project:setIamPolicy", body))[0]

        assert await bind("before-drill") == 200
        cluster: Any = SimpleNamespace(cloud=cloud.server)
        async with Drill(1e6, 0).active(cluster, list):
            assert await bind("within-drill") == 400

    run_on_cloud(main, workloads=False)
