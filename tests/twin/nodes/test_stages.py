"""Stage files: what they may say, how paths are read, and how chance decides."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from random import Random
from typing import Any

import pytest

from sliceworks.base.errors import InvalidDocument, SliceworksError
from sliceworks.twin.nodes.engine import next_step, outcome
from sliceworks.twin.nodes.paths import path
from sliceworks.twin.nodes.stages import load

NOW = datetime(2026, 1, 5, 8, 0, tzinfo=UTC)
POD: dict[str, Any] = {
    "metadata": {"name": "p", "annotations": {"example.com/seconds": "4", "example.com/odd": "soon"}, "finalizers": ["a", "b"]},
    "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}, {"type": "Other", "status": "False"}]},
}
CHANCE = """
kind: Pod
stages:
- {name: often, weight: 3}
- {name: seldom, weight: 1}
- {name: never, weight: 0}
"""


def once(text: str) -> str:
    return f"kind: Pod\nstages:\n- name: it\n{text}"


@pytest.mark.parametrize(
    ("text", "values"),
    [
        (".status.phase", ["Running"]),
        ('.metadata.annotations["example.com/seconds"]', ["4"]),
        (".status.conditions[type=Ready].status", ["True"]),
        (".status.conditions[*].status", ["True", "False"]),
        (".status.conditions[type=None].status", []),
        (".status.phase.below", []),
        (".status.phase[*]", []),
        ("node.metadata.name", ["host"]),
    ],
)
def test_a_path_leads_to_values_of_a_pod_or_its_node(text: str, values: list[str]) -> None:
    assert path(text).values(POD, {"metadata": {"name": "host"}}) == values


@pytest.mark.parametrize("text", ["", "status.phase", ".status..phase", ".a[b", ".a[0]", '.a["b]'])
def test_what_is_no_path(text: str) -> None:
    with pytest.raises(SliceworksError):
        path(text)


@pytest.mark.parametrize("text", ["  wen: []", "  when: [{path: .a, equals: b}]", "  next: {containers: {status: running}}"])
def test_unknown_fields_are_named(text: str) -> None:
    with pytest.raises(InvalidDocument, match=r"a stage has no field '(wen|equals|status)'") as caught:
        load(once(text), "mine.yaml")
    assert caught.value.place == "mine.yaml:3"


@pytest.mark.parametrize(
    ("match", "holds"),
    [
        ("{path: .status.phase, in: [Running]}", True),
        ("{path: .status.phase, in: [Pending]}", False),
        ("{path: .status.reason, in: [x]}", False),
        ("{path: .status.reason, notIn: [x]}", True),
        ("{path: .status.phase, notIn: [Running]}", False),
        ("{path: .status.reason, exists: false}", True),
        ("{path: '.metadata.annotations[\"example.com/seconds\"]', below: 5}", True),
        ("{path: '.metadata.annotations[\"example.com/seconds\"]', below: 4}", False),
        ("{path: '.metadata.annotations[\"example.com/seconds\"]', below: {from: .not.there}}", True),
        ("{path: '.metadata.annotations[\"example.com/odd\"]', below: 4}", True),
    ],
)
def test_a_match_holds_or_does_not(match: str, holds: bool) -> None:
    step = next_step(POD, load(once(f"  when: [{match}]"), "x"), NOW, Random)
    assert (step is not None) is holds


@pytest.mark.parametrize(
    ("delay", "seconds"),
    [
        ("{seconds: 7}", 7),
        ("{seconds: {from: '.metadata.annotations[\"example.com/seconds\"]'}}", 4),
        ("{seconds: {from: '.metadata.annotations[\"example.com/odd\"]'}}", 0),
        ("{seconds: {from: .not.there, default: 9}}", 9),
        ("{seconds: 7, most: 5}", 5),
        ("{seconds: -7}", 0),
    ],
)
def test_a_delay_is_so_many_seconds(delay: str, seconds: float) -> None:
    step = next_step(POD, load(once(f"  delay: {delay}"), "x"), NOW, Random)
    assert step is not None
    assert (step.at - NOW).total_seconds() == seconds


def test_a_spread_is_drawn_from_the_seed() -> None:
    stages = load(once("  delay: {seconds: 10, spread: 5}"), "x")

    def at(seed: int) -> float:
        step = next_step(POD, stages, NOW, lambda: Random(seed))
        assert step is not None
        return (step.at - NOW).total_seconds()

    assert at(1) == at(1)
    assert at(1) != at(2)
    assert all(10 <= at(seed) <= 15 for seed in range(50))


def test_weights_share_the_decision() -> None:
    dice, stages = Random(7), load(CHANCE, "x")
    drawn: Counter[str] = Counter()
    for _ in range(400):
        step = next_step(POD, stages, NOW, lambda: dice)
        assert step is not None
        drawn[step.stage.name] += 1
    assert set(drawn) == {"often", "seldom"}
    assert 2 < drawn["often"] / drawn["seldom"] < 4.5


def test_finalizers_and_templates() -> None:
    [stage] = load(once("  next: {addFinalizers: [c], removeFinalizers: [a], status: {since: $now, who: $name}}"), "x")
    result = outcome(stage, POD, NOW)
    assert result.patch == {"metadata": {"finalizers": ["b", "c"]}}
    assert result.status == {"since": "2026-01-05T08:00:00Z", "who": "p"}
