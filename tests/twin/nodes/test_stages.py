"""Stage files: fields, paths, conditions, delays and weights."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from random import Random
from typing import Any

import pytest

from sliceworks.base.errors import InvalidDocument, SliceworksError
from sliceworks.twin.nodes.stage import builtin_stages, load_stages, path
from sliceworks.twin.nodes.stage_lifecycle import apply_stage, next_stage

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
def test_path_selects_values_of_pod_or_node(text: str, values: list[str]) -> None:
    assert path(text).values(POD, {"metadata": {"name": "host"}}) == values


@pytest.mark.parametrize("text", ["", "status.phase", ".status..phase", ".a[b", ".a[0]", '.a["b]'])
def test_invalid_path_is_rejected(text: str) -> None:
    with pytest.raises(SliceworksError):
        path(text)


@pytest.mark.parametrize("text", ["  wen: []", "  when: [{path: .a, equals: b}]", "  next: {containers: {status: running}}"])
def test_unknown_field_is_rejected(text: str) -> None:
    with pytest.raises(InvalidDocument, match=r"(wen|equals|status): unknown field of a stage") as caught:
        load_stages(once(text), "mine.yaml")
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
def test_match_conditions(match: str, holds: bool) -> None:
    step = next_stage(POD, load_stages(once(f"  when: [{match}]"), "x"), NOW, Random)
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
def test_delay_seconds(delay: str, seconds: float) -> None:
    step = next_stage(POD, load_stages(once(f"  delay: {delay}"), "x"), NOW, Random)
    assert step is not None
    assert (step.at - NOW).total_seconds() == seconds


def test_spread_depends_on_the_seed() -> None:
    stages = load_stages(once("  delay: {seconds: 10, spread: 5}"), "x")

    def at(seed: int) -> float:
        step = next_stage(POD, stages, NOW, lambda: Random(seed))
        assert step is not None
        return (step.at - NOW).total_seconds()

    assert at(1) == at(1)
    assert at(1) != at(2)
    assert all(10 <= at(seed) <= 15 for seed in range(50))


def test_weights_choose_stages() -> None:
    dice, stages = Random(7), load_stages(CHANCE, "x")
    drawn: Counter[str] = Counter()
    for _ in range(400):
        step = next_stage(POD, stages, NOW, lambda: dice)
        assert step is not None
        drawn[step.stage.name] += 1
    assert set(drawn) == {"often", "seldom"}
    assert 2 < drawn["often"] / drawn["seldom"] < 4.5


def test_stage_changes_finalizers_and_templates() -> None:
    [stage] = load_stages(once("  next: {addFinalizers: [c], removeFinalizers: [a], status: {since: $now, who: $name}}"), "x")
    result = apply_stage(stage, POD, NOW)
    assert result.patch == {"metadata": {"finalizers": ["b", "c"]}}
    assert result.status == {"since": "2026-01-05T08:00:00Z", "who": "p"}


def test_sidecars_stop_with_their_pod() -> None:
    """Else a pod that has completed counts a container as ready."""
    running = {"running": {"startedAt": "2026-01-05T08:00:00Z"}}
    before = [{"name": name, "state": running, "lastState": {}, "ready": True, "restartCount": 0} for name in ("main", "proxy")]
    pod = {
        "metadata": {"name": "p", "uid": "u", "annotations": {"sliceworks.dev/run-seconds": "60"}},
        "spec": {
            "restartPolicy": "Never",
            "containers": [{"name": "main", "image": "a/b"}],
            "initContainers": [{"name": "proxy", "image": "a/b", "restartPolicy": "Always"}],
        },
        "status": {"phase": "Running", "containerStatuses": before[:1], "initContainerStatuses": before[1:]},
    }
    complete = next(stage for stage in builtin_stages("Pod") if stage.name == "complete")
    status = apply_stage(complete, pod, datetime(2026, 1, 5, 8, 1, tzinfo=UTC)).status
    assert status["phase"] == "Succeeded"
    [proxy] = status["initContainerStatuses"]
    assert proxy["state"]["terminated"]["exitCode"] == 0
    assert not proxy["ready"]
