"""A Job with onComplete=keep runs once, wherever the controller is killed."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from tests.support.embedded_twin import EmbeddedTwin, run_on_twin
from tests.support.graph_controller import WRITES, ObjectCounter, RestartingController

from sliceworks.base import clock
from sliceworks.kube.client import Client

TASK = """
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: task}
spec:
  schema: {apiVersion: v1alpha1, kind: Task}
  resources:
  - id: job
    lifecycle: {onComplete: keep}
    readyWhen: ["${job.status.?succeeded.orValue(0) == 1}"]
    template: {apiVersion: batch/v1, kind: Job, metadata: {name: once}, spec: {template: {spec: {restartPolicy: Never,
      containers: [{name: main, image: example.com/x}]}}}}
"""
JOBS, TASKS = "/apis/batch/v1/namespaces/default/jobs", "/apis/kro.run/v1alpha1/namespaces/default/tasks"


def run_task(die_at: int | None, *, before: bool) -> tuple[int, str, bool, list[tuple[str, str]]]:
    """A Job that completes and is deleted: how often it was created, the instance's state, whether it is deleted, and the calls."""
    results: list[Any] = []

    async def run_main(twin: EmbeddedTwin) -> None:
        births, mortal = ObjectCounter(twin), RestartingController(twin, die_at, before=before)
        client = Client(twin.cluster.transport())
        await clock.sleep(5)
        try:
            await client.apply(yaml.load(TASK, yaml.CSafeLoader), field_manager="person")
            await clock.sleep(10)
            await client.create({"apiVersion": "kro.run/v1alpha1", "kind": "Task", "metadata": {"name": "a"}})
            await clock.sleep(10)
            now = "2026-01-05T09:00:00Z"
            ended = [{"type": kind, "status": "True", "lastTransitionTime": now} for kind in ("SuccessCriteriaMet", "Complete")]
            status = {"conditions": ended, "startTime": now, "completionTime": now, "succeeded": 1}
            await twin.do("PATCH", f"{JOBS}/once/status", {"status": status})
            await twin.do("DELETE", f"{JOBS}/once?propagationPolicy=Background")
            await clock.sleep(20)
            state = (await twin.do("GET", f"{TASKS}/a"))["status"]["state"]
            results.extend((births.made["Job/once"], state, await twin.gone(f"{JOBS}/once"), mortal.first.sent))
        finally:
            await mortal.stop()
            await births.stop()

    run_on_twin(run_main)
    return results[0], results[1], results[2], results[3]


@pytest.mark.parametrize("before", [False, True])
def test_completed_job_is_not_recreated_after_a_crash(before: bool) -> None:
    *expected, calls = run_task(None, before=before)
    assert expected == [1, "ACTIVE", True]
    started = next(number for number, (_, path) in enumerate(calls) if path == f"{TASKS}/a")
    fatal = [number for number in range(started, len(calls)) if calls[number][0] in WRITES]
    assert len(fatal) > 3
    for number in fatal:
        *seen, _ = run_task(number, before=before)
        assert seen == expected, f"killed {'before' if before else 'after'} call {number}: {' '.join(calls[number])}"
