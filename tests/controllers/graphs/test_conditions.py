"""Conditions with a root that follows them."""

from __future__ import annotations

from typing import Any

from sliceworks.base import clock
from sliceworks.controllers.graphs.conditions import Conditions

Object = dict[str, Any]
BORN, LATER = "2026-01-01T00:00:00Z", "2026-01-01T00:01:00Z"


def fresh(**metadata: Any) -> Object:
    return {"metadata": {"generation": 1, "creationTimestamp": BORN, **metadata}}


def test_everything_is_unknown_at_first() -> None:
    found = Conditions(fresh(), ("First", "Second"))
    assert [(item["type"], item["status"], item["lastTransitionTime"]) for item in found.items] == [
        ("First", "Unknown", BORN),
        ("Second", "Unknown", BORN),
        ("Ready", "Unknown", BORN),
    ]
    assert found.items[0]["reason"] == "AwaitingReconciliation"
    assert not found.ready


def test_root_is_true_when_all_are() -> None:
    found = Conditions(fresh(), ("First", "Second"))
    found.true("First", "Good", "well")
    assert not found.holds("Ready")
    found.true("Second", "Good", "well")
    assert found.ready
    assert found.get("Ready") | {"lastTransitionTime": ""} == {  # type: ignore[operator]
        "type": "Ready", "status": "True", "reason": "Ready", "message": "", "observedGeneration": 1, "lastTransitionTime": "",
    }  # fmt: skip


def test_root_says_what_the_worst_says() -> None:
    found = Conditions(fresh(), ("First", "Second"))
    found.unknown("First", "Maybe", "who knows")
    found.false("Second", "Bad", "broken")
    root = found.get("Ready")
    assert root is not None
    assert (root["status"], root["reason"], root["message"]) == ("False", "Bad", "broken")


def test_time_changes_with_the_status_only() -> None:
    async def main() -> None:
        found = Conditions(fresh(), ("First",))
        found.true("First", "Good", "well")
        moment = found.items[0]["lastTransitionTime"]
        await clock.sleep(60)
        found.true("First", "Better", "very well")
        assert found.items[0]["lastTransitionTime"] == moment
        found.false("First", "Bad", "no")
        assert found.items[0]["lastTransitionTime"] > moment

    clock.run(main(), virtual=True)


def test_last_changed_comes_last_but_for_the_root() -> None:
    status = {
        "conditions": [
            {"type": "Second", "status": "True", "lastTransitionTime": BORN, "observedGeneration": 1},
            {"type": "First", "status": "True", "lastTransitionTime": LATER, "observedGeneration": 1},
            {"type": "Ready", "status": "True", "lastTransitionTime": BORN, "observedGeneration": 1},
        ]
    }
    found = Conditions({**fresh(), "status": status}, ("First", "Second"))
    found.false("Second", "Bad", "no")
    assert [item["type"] for item in found.items] == ["First", "Second", "Ready"]


def test_condition_of_an_older_generation_does_not_count() -> None:
    found = Conditions(fresh(), ("First",))
    found.true("First", "Good", "well")
    again = Conditions({**fresh(generation=2), "status": {"conditions": found.items}}, ("First",))
    assert not again.ready
    again.true("First", "Good", "well")
    assert again.ready
