"""What Config Connector's stages do, told by input and output: an object, the others around it, and what becomes of it next."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from random import Random
from typing import Any

import pytest
from tests.support.pairs import pairs

from sliceworks.schemas.config_connector import INSTALLED, marks
from sliceworks.twin.nodes.engine import next_step, outcome
from sliceworks.twin.workloads.config_connector import cloud
from sliceworks.twin.workloads.config_connector.controller import stages_of

Object = dict[str, Any]
PAIRS = Path(__file__).parent / "pairs"
NOW = datetime.fromisoformat("2026-01-05T08:00:00Z")
RESOURCES = {"Namespace": "/namespaces", "Secret": "/secrets"} | {kind: mark.resource for kind, mark in marks().items()}


@pytest.mark.parametrize("case", pairs(PAIRS))
def test_pair(case: Object) -> None:
    obj, others = case["input"], {_place(other): other for other in case.get("others", ())}
    context = cloud.known(obj, lambda *place: others.get(place))
    step = next_step(obj, stages_of(obj["kind"]), NOW, lambda: Random(1), context)
    if step is None:
        assert case["output"] is None
        return
    result = outcome(step.stage, obj, step.at, node=context)
    found: Object = {"stage": step.stage.name, "after": (step.at - NOW).total_seconds()}
    found |= {name: value for name, value in (("status", result.status), ("patch", result.patch)) if value}
    # Where a case is about when, it does not say what.
    told = found if {"status", "patch"} & set(case["output"]) else {name: found[name] for name in ("stage", "after")}
    assert told == case["output"]


def test_every_stage_has_a_pair() -> None:
    seen = {param.values[0]["output"]["stage"] for param in pairs(PAIRS) if param.values[0]["output"]}
    kinds = (*marks(), *INSTALLED)
    assert {stage.name for kind in kinds for stage in stages_of(kind)} - seen == {"settled", "settled-resource"}


def _place(obj: Object) -> tuple[str, str, str]:
    return RESOURCES[obj["kind"]], obj["metadata"].get("namespace", ""), obj["metadata"]["name"]
