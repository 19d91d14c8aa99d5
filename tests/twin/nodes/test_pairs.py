"""Input and output of stages: each entry of `pairs` has an object and the result of its next stage."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from random import Random
from typing import Any

import pytest
from tests.support.pairs import pairs

from sliceworks.twin.nodes.pod_status import NO_ADDRESSES, Addresses
from sliceworks.twin.nodes.stage import builtin_stages
from sliceworks.twin.nodes.stage_lifecycle import apply_stage, next_stage, stage_conditions

Object = dict[str, Any]
PAIRS = Path(__file__).parent / "pairs"
WHERE = Addresses("172.16.0.2", "10.0.0.2")


@pytest.mark.parametrize("case", pairs(PAIRS))
def test_pair(case: Object) -> None:
    obj, now = case["input"], datetime.fromisoformat(case["now"])
    node = case.get("node", obj)
    step = next_stage(obj, builtin_stages(obj["kind"]), now, lambda: Random(1), node)
    if step is None:
        assert case["output"] is None
        assert _never_applied(obj, node) == case.get("held")
        return
    result = apply_stage(step.stage, obj, step.at, WHERE if obj["kind"] == "Pod" else NO_ADDRESSES, node)
    actual: Object = {"stage": step.stage.name, "after": (step.at - now).total_seconds()}
    reported = {
        "status": result.status,
        "patch": result.patch,
        "delete": result.delete,
        "events": [event.reason for event in result.events],
    }
    assert actual | {name: value for name, value in reported.items() if value} == case["output"]


def _never_applied(obj: Object, node: Object | None) -> str | None:
    """The stage that matches an object but is never due."""
    matching = (
        stage
        for stage in builtin_stages(obj["kind"])
        if not stage.limit and all(holds(obj, node) for holds in stage_conditions(stage))
    )
    result = next(matching, None)
    return result.name if result is not None else None


def test_every_stage_has_a_pair() -> None:
    cases = [param.values[0] for param in pairs(PAIRS)]
    seen = {case["output"]["stage"] if case["output"] else case.get("held") for case in cases}
    assert {stage.name for kind in ("Pod", "Node") for stage in builtin_stages(kind)} <= seen
