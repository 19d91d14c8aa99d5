"""Status conditions: lookup by type, and transitions."""

from __future__ import annotations

from typing import Any

import pytest

from sliceworks.base import clock
from sliceworks.base.conditions import find_condition, is_condition_true, set_condition

POD = {"status": {"conditions": [{"type": "Scheduled", "status": "True"}, {"type": "Ready", "status": "False", "reason": "Late"}]}}
BEFORE = "2026-01-01T00:00:00Z"


def test_condition_is_found_by_type() -> None:
    assert find_condition(POD, "Ready")["reason"] == "Late"
    assert is_condition_true(POD, "Scheduled")
    assert not is_condition_true(POD, "Ready")


def test_condition_of_an_object_without_conditions_is_empty() -> None:
    for obj in (None, {}, {"status": None}, {"status": {"conditions": None}}, POD):
        assert find_condition(obj, "Initialized") == {}
        assert not is_condition_true(obj, "Initialized")


def test_set_condition_appends_a_new_type() -> None:
    conditions: list[dict[str, Any]] = [{"type": "Scheduled", "status": "True", "lastTransitionTime": BEFORE}]
    before = clock.timestamp()
    assert set_condition(conditions, {"type": "Ready", "status": "False", "reason": "Starting", "message": ""})
    ready = conditions[1]
    assert (ready["type"], ready["status"], ready["reason"]) == ("Ready", "False", "Starting")
    assert before <= ready["lastTransitionTime"] <= clock.timestamp()
    assert conditions[0]["lastTransitionTime"] == BEFORE


def test_set_condition_keeps_the_transition_time_while_the_status_is_equal() -> None:
    conditions: list[dict[str, Any]] = [{"type": "Ready", "status": "False", "reason": "Starting", "lastTransitionTime": BEFORE}]
    assert set_condition(conditions, {"type": "Ready", "status": "False", "reason": "Late", "message": "slow"})
    assert conditions == [
        {"type": "Ready", "status": "False", "reason": "Late", "message": "slow", "lastTransitionTime": BEFORE},
    ]
    assert not set_condition(
        conditions, {"type": "Ready", "status": "False", "reason": "Late", "message": "slow", "lastTransitionTime": ""}
    )
    assert conditions[0]["lastTransitionTime"] == BEFORE


@pytest.mark.parametrize("given", ["", "2026-02-02T00:00:00Z"])
def test_set_condition_sets_the_transition_time_when_the_status_changes(given: str) -> None:
    conditions: list[dict[str, Any]] = [{"type": "Ready", "status": "False", "reason": "Late", "lastTransitionTime": BEFORE}]
    before = clock.timestamp()
    assert set_condition(conditions, {"type": "Ready", "status": "True", "lastTransitionTime": given})
    assert conditions[0]["status"] == "True"
    assert "reason" not in conditions[0]
    after = conditions[0]["lastTransitionTime"]
    assert after == given if given else before <= after <= clock.timestamp()
