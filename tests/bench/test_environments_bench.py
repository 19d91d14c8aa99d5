"""The benchmark of environments has the agreed form, and its documents are such as it may measure."""

from __future__ import annotations

import resource
import subprocess
from typing import TYPE_CHECKING

import orjson
import pytest
from bench.environments import QUICK, Home, Sizes, further, measures
from bench.measure.results import as_json
from bench.measure.terraform import Meter

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
    assert list(told) == ["check", "training", "apply", "plan", "terraform-apply", "terraform-plan"]
    assert all(each["ratio"] == 1.5 for each in told.values())


def test_many_pools_are_a_sound_environment(tmp_path: Path) -> None:
    assert QUICK.pools < Sizes().pools
    [document] = load_path(tmp_path / Home(tmp_path).many(200).rpartition("/")[2])
    found = documents.read(document)
    assert isinstance(found, Environment)
    assert check(found) == []
    pools = next(stage for stage in stages(found) if stage.name == "2-cluster").variables["pools"]
    assert len(pools) == 200


def test_what_a_further_pool_costs_is_compared_below_and_above_the_middle() -> None:
    few, many = further(Sizes((2, 50, 200)), [1.0, 1.48, 4.48])
    assert few == pytest.approx(0.01)
    assert many == pytest.approx(0.02)


def test_terraforms_part_is_measured_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    busy = tmp_path / "busy"
    busy.write_text("#!/bin/bash\nfor number in {1..200000}; do :; done\n")
    busy.chmod(0o755)
    monkeypatch.setenv("SLICEWORKS_TERRAFORM", str(busy))
    meter = Meter(tmp_path)
    [program] = meter.install().values()
    assert meter.seconds() == 0
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert subprocess.run([program, "plan"], check=False).returncode == 0
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    whole = after.ru_utime + after.ru_stime - used.ru_utime - used.ru_stime
    assert whole / 2 < meter.seconds() <= whole
