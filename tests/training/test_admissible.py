"""Jobs that a queue can never admit are told so before they are sent, with the numbers."""

from __future__ import annotations

from typing import Any

from tests.training.test_compile import job
from tests.training.test_queues import COHORT, ONE, made

from sliceworks.training.admissible import Park, never
from sliceworks.training.compile import jobset
from sliceworks.training.expectation import Expectation, expect


def park(text: str) -> Park:
    objects = made(text)
    kinds = {kind: tuple(each for each in objects if each["kind"] == kind) for kind in ("ClusterQueue", "ResourceFlavor")}
    return Park(kinds["ClusterQueue"], kinds["ResourceFlavor"])


def told(text: str, queue: str = "slices", environment: str = ONE) -> list[str]:
    asked = job(text)
    found = never(jobset(asked), queue, asked.spec.slices.type, park(environment))
    return [f"{'.'.join(map(str, each.path))}: {each.problem}; {each.remedy}" for each in found]


def test_what_fits_is_not_spoken_of() -> None:
    assert told("slices: {type: v4-16, count: 4}") == []
    assert told("slices: {type: v4-16, count: 2, capacity: spot}") == []


def test_a_type_that_the_queue_lacks_is_told_with_those_it_has() -> None:
    [line] = told("slices: {type: v4-32}")
    assert line == "spec.slices.type: queue slices has no v4-32; it has v4-16, v4-16-spot; did you mean v4-16?"


def test_spot_is_not_taken_for_on_demand() -> None:
    [line] = told("slices: {type: v4-16, count: 5}")
    assert "40 google.com/tpu of v4-16 is asked for, 32 is the most" in line
    [line] = told("slices: {type: v4-16, count: 3, capacity: spot}")
    assert "24 google.com/tpu of v4-16-spot is asked for, 16 is the most" in line


def test_what_may_be_borrowed_is_counted_and_said() -> None:
    assert told("slices: {type: v4-16, count: 2}", "product", COHORT) == []
    [line] = told("slices: {type: v4-16, count: 3}", "product", COHORT)
    assert line.startswith(
        "spec.slices.count: queue product can never hold it: 24 google.com/tpu of v4-16 is asked for, 16 is the most"
    )
    assert "8 of its own and 8 that it may borrow" in line


def test_helpers_count_too() -> None:
    [line] = told("slices: {type: v4-16}, helpers: [{name: big, image: i, cpu: 100k}]")
    assert line.startswith("spec.helpers: queue slices can never hold it: 100000 cpu is asked for")


def test_a_resource_without_quota_is_named() -> None:
    [line] = told("slices: {type: l4-1}")
    assert "queue slices has no quota of nvidia.com/gpu, which slice asks for" in line


def test_a_queue_that_leads_nowhere_is_named() -> None:
    [line] = told("slices: {type: v4-16}", "nowhere")
    assert "leads to the ClusterQueue 'nowhere', which does not exist" in line


def expected(used: int, pending: list[dict[str, Any]] | None, *, count: int = 1, **spec: Any) -> Expectation:
    found = park(ONE)
    queue = found.queue("slices")
    assert queue is not None
    resources = [{"name": "google.com/tpu", "total": str(used)}]
    queue["status"] = {
        "pendingWorkloads": 3 if pending is None else len(pending),
        "flavorsReservation": [{"name": "v4-16", "resources": resources}],
    }
    queue["spec"] |= spec
    return expect(jobset(job(f"slices: {{type: v4-16, count: {count}}}")), "slices", 500, found, pending)


def test_with_room_and_nobody_ahead_it_starts_at_once() -> None:
    assert expected(24, []) == Expectation(0, "none")
    assert expected(0, [{"priority": 100}]) == Expectation(0, "none")


def test_without_room_or_behind_others_nobody_knows_when() -> None:
    assert expected(28, []) == Expectation(0, "unknown")
    assert expected(0, [{"priority": 500}, {"priority": 750}, {}]) == Expectation(2, "unknown")
    assert expected(0, None) == Expectation(None, "unknown")
    assert expected(0, [], stopPolicy="Hold") == Expectation(0, "unknown")


def test_room_of_another_flavor_is_no_room() -> None:
    assert expected(17, [], count=2) == Expectation(0, "unknown")
