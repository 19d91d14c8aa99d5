"""Jobs that a queue can never admit are rejected before submission, with the quota."""

from __future__ import annotations

from typing import Any

import pytest
from tests.training.test_compile import job
from tests.training.test_queues import COHORT, ONE, build_queues

from sliceworks.training.admissibility import QueueObjects, WaitEstimate, estimate_wait, explain_inadmissible, warn_of_ready_timeout
from sliceworks.training.jobset import build_jobset


def queue_objects(text: str) -> QueueObjects:
    objects = build_queues(text)
    kinds = {kind: tuple(obj for obj in objects if obj["kind"] == kind) for kind in ("ClusterQueue", "ResourceFlavor")}
    return QueueObjects(kinds["ClusterQueue"], kinds["ResourceFlavor"])


def explain(text: str, queue: str = "slices", environment: str = ONE) -> list[str]:
    training_job = job(text)
    result = explain_inadmissible(build_jobset(training_job), queue, training_job.spec.slices.type, queue_objects(environment))
    return [f"{'.'.join(map(str, item.path))}: {item.message}; {item.hint}" for item in result]


def test_admissible_job_has_no_message() -> None:
    assert explain("slices: {type: v4-16, count: 4}") == []
    assert explain("slices: {type: v4-16, count: 2, capacity: spot}") == []


def test_missing_type_is_reported_with_available_types() -> None:
    [line] = explain("slices: {type: v4-32}")
    assert line == "spec.slices.type: queue slices has no v4-32; it has v4-16, v4-16-spot; did you mean v4-16?"


def test_spot_and_on_demand_are_different() -> None:
    [line] = explain("slices: {type: v4-16, count: 5}")
    assert "requests 40 google.com/tpu of v4-16, maximum is 32" in line
    [line] = explain("slices: {type: v4-16, count: 3, capacity: spot}")
    assert "requests 24 google.com/tpu of v4-16-spot, maximum is 16" in line


def test_borrowable_quota_is_counted() -> None:
    assert explain("slices: {type: v4-16, count: 2}", "product", COHORT) == []
    [line] = explain("slices: {type: v4-16, count: 3}", "product", COHORT)
    assert line.startswith(
        "spec.slices.count: queue product can never admit it: requests 24 google.com/tpu of v4-16, maximum is 16"
    )
    assert "(8 nominal, 8 borrowed)" in line


def test_helpers_are_counted() -> None:
    [line] = explain("slices: {type: v4-16}, helpers: [{name: big, image: i, cpu: 100k}]")
    assert line.startswith("spec.helpers: queue slices can never admit it: requests 100000 cpu")


def test_resource_without_quota_is_reported() -> None:
    [line] = explain("slices: {type: l4-1}")
    assert "queue slices has no quota for nvidia.com/gpu, which slice requests" in line


def test_missing_cluster_queue_is_reported() -> None:
    [line] = explain("slices: {type: v4-16}", "nowhere")
    assert "references the ClusterQueue 'nowhere', which does not exist" in line


def expected(used: int, pending: list[dict[str, Any]] | None, *, count: int = 1, **spec: Any) -> WaitEstimate:
    result = queue_objects(ONE)
    queue = result.queue("slices")
    assert queue is not None
    resources = [{"name": "google.com/tpu", "total": str(used)}]
    queue["status"] = {
        "pendingWorkloads": 3 if pending is None else len(pending),
        "flavorsReservation": [{"name": "v4-16", "resources": resources}],
    }
    queue["spec"] |= spec
    return estimate_wait(build_jobset(job(f"slices: {{type: v4-16, count: {count}}}")), "slices", 500, result, pending)


def test_job_starts_at_once_with_free_quota() -> None:
    assert expected(24, []) == WaitEstimate(0, "none")
    assert expected(0, [{"priority": 100}]) == WaitEstimate(0, "none")


def test_start_is_unknown_without_free_quota() -> None:
    assert expected(28, []) == WaitEstimate(0, "unknown")
    assert expected(0, [{"priority": 500}, {"priority": 750}, {}]) == WaitEstimate(2, "unknown")
    assert expected(0, None) == WaitEstimate(None, "unknown")
    assert expected(0, [], stopPolicy="Hold") == WaitEstimate(0, "unknown")


def test_quota_of_another_flavor_does_not_count() -> None:
    assert expected(17, [], count=2) == WaitEstimate(0, "unknown")


@pytest.mark.parametrize(
    ("steps", "words"),
    [
        ("", ""),
        ("before: [{name: a, image: x, estimate: 4m}]", ""),
        ("before: [{name: a, image: x, estimate: 3m}, {name: b, image: x, estimate: 7m}]", "`before` takes 10m"),
        ("before: [{name: a, image: x}]", "set the estimate of each step"),
        ("after: [{name: a, image: x, estimate: 1s}]", "if it is not complete within 5m"),
    ],
)
def test_pods_ready_timeout_below_steps_is_a_warning(steps: str, words: str) -> None:
    warning = warn_of_ready_timeout(job(f"slices: {{type: v4-16}}, {steps}").spec, 300)
    assert bool(warning) == bool(words)
    assert words in warning
