"""What the stages do, told by input and output: each file in `pairs` has an object as it is, and what becomes of it next."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from random import Random
from typing import Any

import pytest
import yaml

from sliceworks.twin.nodes.engine import next_step, outcome
from sliceworks.twin.nodes.pod_status import NOWHERE, Addresses
from sliceworks.twin.nodes.stages import built_in

Object = dict[str, Any]
WHERE = Addresses("172.16.0.2", "10.0.0.2")


def pairs() -> list[Any]:
    """Every case of every file."""
    return [
        pytest.param(case, id=f"{file.stem}: {case['name']}")
        for file in sorted((Path(__file__).parent / "pairs").glob("*.yaml"))
        for case in yaml.load(file.read_text(), yaml.CSafeLoader)
    ]


@pytest.mark.parametrize("case", pairs())
def test_pair(case: Object) -> None:
    obj, now = case["input"], datetime.fromisoformat(case["now"])
    node = case.get("node", obj)
    step = next_step(obj, built_in(obj["kind"]), now, lambda: Random(1), node)
    if step is None:
        assert case["output"] is None
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


def test_every_stage_has_a_pair() -> None:
    seen = {param.values[0]["output"]["stage"] for param in pairs() if param.values[0]["output"]}
    assert {stage.name for kind in ("Pod", "Node") for stage in built_in(kind)} - seen == {"pull-fails-still"}
