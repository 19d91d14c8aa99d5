"""Condition sets with a root condition."""

from __future__ import annotations

from typing import Any

from sliceworks.base import clock
from sliceworks.controllers.graphs.conditions import ConditionSet

Object = dict[str, Any]
BORN, LATER = "2026-01-01T00:00:00Z", "2026-01-01T00:01:00Z"


def fresh(**metadata: Any) -> Object:
    return {"metadata": {"generation": 1, "creationTimestamp": BORN, **metadata}}


def test_conditions_are_unknown_at_first() -> None:
    result = ConditionSet(fresh(), ("First", "Second"))
    assert [(item["type"], item["status"], item["lastTransitionTime"]) for item in result.items] == [
        ("First", "Unknown", BORN),
        ("Second", "Unknown", BORN),
        ("Ready", "Unknown", BORN),
    ]
    assert result.items[0]["reason"] == "AwaitingReconciliation"
    assert not result.ready


def test_root_is_true_when_all_are_true() -> None:
    result = ConditionSet(fresh(), ("First", "Second"))
    result.true("First", "Good", "well")
    assert not result.are_true("Ready")
    result.true("Second", "Good", "well")
    assert result.ready
    assert result.get("Ready") | {"lastTransitionTime": ""} == {  # type: ignore[operator]
        "type": "Ready", "status": "True", "reason": "Ready", "message": "", "observedGeneration": 1, "lastTransitionTime": "",
    }  # fmt: skip


def test_root_has_the_worst_condition() -> None:
    result = ConditionSet(fresh(), ("First", "Second"))
    result.unknown("First", "Maybe", "unknown")
    result.false("Second", "Bad", "broken")
    root = result.get("Ready")
    assert root is not None
    assert (root["status"], root["reason"], root["message"]) == ("False", "Bad", "broken")


def test_transition_time_changes_with_status_only() -> None:
    async def main() -> None:
        result = ConditionSet(fresh(), ("First",))
        result.true("First", "Good", "well")
        moment = result.items[0]["lastTransitionTime"]
        await clock.sleep(60)
        result.true("First", "Better", "all good")
        assert result.items[0]["lastTransitionTime"] == moment
        result.false("First", "Bad", "no")
        assert result.items[0]["lastTransitionTime"] > moment

    clock.run(main(), virtual=True)


def test_last_changed_is_last_except_root() -> None:
    status = {
        "conditions": [
            {"type": "Second", "status": "True", "lastTransitionTime": BORN, "observedGeneration": 1},
            {"type": "First", "status": "True", "lastTransitionTime": LATER, "observedGeneration": 1},
            {"type": "Ready", "status": "True", "lastTransitionTime": BORN, "observedGeneration": 1},
        ]
    }
    result = ConditionSet({**fresh(), "status": status}, ("First", "Second"))
    result.false("Second", "Bad", "no")
    assert [item["type"] for item in result.items] == ["First", "Second", "Ready"]


def test_condition_of_older_generation_is_ignored() -> None:
    result = ConditionSet(fresh(), ("First",))
    result.true("First", "Good", "well")
    again = ConditionSet({**fresh(generation=2), "status": {"conditions": result.items}}, ("First",))
    assert not again.ready
    again.true("First", "Good", "well")
    assert again.ready
