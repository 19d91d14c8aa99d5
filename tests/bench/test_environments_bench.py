"""The benchmark of environments has the agreed form, and its documents are such as it may measure."""

from __future__ import annotations

from typing import TYPE_CHECKING

import orjson
from bench.environments import QUICK, Home, Sizes, measures
from bench.measure.results import as_json

from sliceworks.base.yamls import load_path
from sliceworks.infra.checks import check
from sliceworks.infra.stages import stages
from sliceworks.specs import documents
from sliceworks.specs.environment import Environment

if TYPE_CHECKING:
    from pathlib import Path


def test_the_last_line_has_ratios_and_goals() -> None:
    found = measures()
    for each in found.values():
        each.real.append(3.0)
        each.twin.append(2.0)
    told = orjson.loads(as_json(list(found.values())))
    assert list(told) == ["check", "training", "apply", "plan"]
    assert all(each["ratio"] == 1.5 for each in told.values())


def test_many_pools_are_a_sound_environment(tmp_path: Path) -> None:
    assert QUICK.pools < Sizes().pools
    [document] = load_path(tmp_path / Home(tmp_path).many(200).rpartition("/")[2])
    found = documents.read(document)
    assert isinstance(found, Environment)
    assert check(found) == []
    pools = next(stage for stage in stages(found) if stage.name == "2-cluster").variables["pools"]
    assert len(pools) == 200
