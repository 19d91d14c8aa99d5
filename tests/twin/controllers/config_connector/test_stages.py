"""Config Connector's stages as pairs of input and output: an object, the other objects in the cluster, and its next stage."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from random import Random
from typing import Any

import pytest
from tests.support.pairs import pairs

from sliceworks.schemas.config_connector import INSTALLED, kind_infos
from sliceworks.twin.controllers.config_connector import resource_state
from sliceworks.twin.controllers.config_connector.resource_controller import stages_of
from sliceworks.twin.nodes.stage_lifecycle import apply_stage, next_stage

Object = dict[str, Any]
PAIRS = Path(__file__).parent / "pairs"
NOW = datetime.fromisoformat("2026-01-05T08:00:00Z")
RESOURCES = {"Namespace": "/namespaces", "Secret": "/secrets"} | {kind: info.resource for kind, info in kind_infos().items()}


@pytest.mark.parametrize("case", pairs(PAIRS))
def test_pair(case: Object) -> None:
    obj, others = case["input"], {_key(other): other for other in case.get("others", ())}
    cloud = resource_state.cloud_state(obj, lambda *key: others.get(key))
    scheduled = next_stage(obj, stages_of(obj["kind"]), NOW, lambda: Random(1), cloud)
    if scheduled is None:
        assert case["output"] is None
        return
    result = apply_stage(scheduled.stage, obj, scheduled.at, node=cloud)
    output: Object = {"stage": scheduled.stage.name, "after": (scheduled.at - NOW).total_seconds()}
    # A case without changes tests only the stage and its delay.
    if {"status", "patch"} & set(case["output"]):
        output |= {name: value for name, value in (("status", result.status), ("patch", result.patch)) if value}
    assert output == case["output"]


def test_every_stage_has_a_pair() -> None:
    seen = {param.values[0]["output"]["stage"] for param in pairs(PAIRS) if param.values[0]["output"]}
    kinds = (*kind_infos(), *INSTALLED)
    assert {stage.name for kind in kinds for stage in stages_of(kind)} - seen == {"settled", "settled-resource"}


def _key(obj: Object) -> tuple[str, str, str]:
    return RESOURCES[obj["kind"]], obj["metadata"].get("namespace", ""), obj["metadata"]["name"]
