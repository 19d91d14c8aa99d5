"""What the stages do, told by input and output: each file in `pairs` has an object as it is, and what becomes of it next."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from random import Random
from typing import Any

import pytest
from tests.support.pairs import pairs

from sliceworks.twin.nodes.engine import next_step, outcome
from sliceworks.twin.nodes.matching import conditions
from sliceworks.twin.nodes.pod_status import NOWHERE, Addresses
from sliceworks.twin.nodes.stages import built_in

Object = dict[str, Any]
PAIRS = Path(__file__).parent / "pairs"
WHERE = Addresses("172.16.0.2", "10.0.0.2")


@pytest.mark.parametrize("case", pairs(PAIRS))
def test_pair(case: Object) -> None:
    obj, now = case["input"], datetime.fromisoformat(case["now"])
    node = case.get("node", obj)
    step = next_step(obj, built_in(obj["kind"]), now, lambda: Random(1), node)
    if step is None:
        assert case["output"] is None
        assert _holding(obj, node) == case.get("held")
        return
    result = outcome(step.stage, obj, step.at, WHERE if obj["kind"] == "Pod" else NOWHERE, node)
    found: Object = {"stage": step.stage.name, "after": (step.at - now).total_seconds()}
    told = {
        "status": result.status,
        "patch": result.patch,
        "delete": result.delete,
        "events": [event.reason for event in result.events],
    }
    assert found | {name: value for name, value in told.items() if value} == case["output"]


def _holding(obj: Object, node: Object | None) -> str | None:
    """The stage that keeps an object as it is: it matches, and never happens."""
    matching = (
        stage for stage in built_in(obj["kind"]) if not stage.limit and all(holds(obj, node) for holds in conditions(stage))
    )
    found = next(matching, None)
    return found.name if found is not None else None


def test_every_stage_has_a_pair() -> None:
    cases = [param.values[0] for param in pairs(PAIRS)]
    seen = {case["output"]["stage"] if case["output"] else case.get("held") for case in cases}
    assert {stage.name for kind in ("Pod", "Node") for stage in built_in(kind)} <= seen
