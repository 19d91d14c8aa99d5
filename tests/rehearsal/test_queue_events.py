"""Scenario events of queues on a twin: more quota, another priority, an ended reservation; and rejected events."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sliceworks.platform import loader
from sliceworks.rehearsal.basic_run import Rehearsal, rehearse

if TYPE_CHECKING:
    from pathlib import Path

ENVIRONMENT = """
apiVersion: sliceworks.dev/v1alpha1
kind: Environment
metadata: {name: small}
spec:
  project: my-project
  region: us-central2
  zones: [us-central2-b]
  automation: {bucket: my-project-automation}
  pools:
    tpu:
      held: {type: v4-16, reservation: {name: autumn}}
  teams:
    vision: {queue: queue}
"""
JOB = """
apiVersion: sliceworks.dev/v1alpha1
kind: TrainingJob
metadata: {name: first, namespace: vision}
spec:
  queue: queue
  slices: {type: v4-16, capacity: reservation, reservation: autumn}
  image: train:1
  command: [train]
  restarts: {max: 3}
  estimate: 30m
"""
QUOTA = "clusterQueue: slices, flavor: v4-16-autumn, resource: google.com/tpu"


def day(folder: Path, *events: str) -> Rehearsal:
    (folder / "10-environment.yaml").write_text(ENVIRONMENT)
    (folder / "20-job.yaml").write_text(JOB)
    listed = "".join(f"  - {event}\n" for event in events)
    head = "apiVersion: sliceworks.dev/v1alpha1\nkind: Scenario\nmetadata: {name: day}\nspec:\n  duration: 2h\n  events:\n"
    (folder / "30-day.yaml").write_text(head + listed)
    scenario = loader.load_scenario(folder)
    assert scenario is not None
    return rehearse(loader.load(folder), scenario=scenario, folder=folder, seconds=scenario.spec.duration)


def job_state(done: Rehearsal) -> str:
    return next(outcome.state for outcome in done.outcomes if outcome.document.data["kind"] == "JobSet")


def test_environment_provides_queues_and_machines(tmp_path: Path) -> None:
    done = day(tmp_path, f"{{at: 1m, setQuota: {{{QUOTA}, delta: '8'}}}}")
    assert not done.failed
    assert job_state(done) == "Completed"
    kinds = [outcome.document.data["kind"] for outcome in done.outcomes]
    assert kinds.count("Node") == 2
    assert all(outcome.document.place().startswith(str(tmp_path)) for outcome in done.outcomes)


def test_job_on_ended_reservation_is_requeued(tmp_path: Path) -> None:
    done = day(tmp_path, "{at: 10m, endReservation: {reservation: autumn}}")
    assert not done.failed
    assert job_state(done) != "Completed"
    nodes = {moment.name for moment in done.timeline if moment.kind == "Node" and moment.at > 600}
    assert nodes == {"gke-held-0-0", "gke-held-0-1"}


def test_job_waits_for_more_quota(tmp_path: Path) -> None:
    done = day(tmp_path, f"{{at: 0s, setQuota: {{{QUOTA}, nominal: '0'}}}}", f"{{at: 1h, setQuota: {{{QUOTA}, delta: '8'}}}}")
    assert not done.failed
    assert job_state(done) == "Completed"


def test_missing_object_is_rejected_and_reported(tmp_path: Path) -> None:
    done = day(
        tmp_path,
        "{at: 1m, endReservation: {reservation: spring}}",
        "{at: 1m, setPriority: {job: second, namespace: vision, priority: high}}",
        "{at: 1m, setQuota: {clusterQueue: slices, flavor: v5, resource: google.com/tpu, delta: '8'}}",
    )
    assert [event.refused for event in done.event_results] == [
        "no ResourceFlavor uses reservation spring",
        'jobs.batch "second" not found',
        "slices has no google.com/tpu of flavor v5",
    ]
