"""Conditions, looked up by their type."""

from __future__ import annotations

from sliceworks.base.conditions import condition, is_true

POD = {"status": {"conditions": [{"type": "Scheduled", "status": "True"}, {"type": "Ready", "status": "False", "reason": "Late"}]}}


def test_a_condition_is_found_by_its_type() -> None:
    assert condition(POD, "Ready")["reason"] == "Late"
    assert is_true(POD, "Scheduled")
    assert not is_true(POD, "Ready")


def test_an_object_that_says_nothing_has_no_conditions() -> None:
    for obj in (None, {}, {"status": None}, {"status": {"conditions": None}}, POD):
        assert condition(obj, "Initialized") == {}
        assert not is_true(obj, "Initialized")
