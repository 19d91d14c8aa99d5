"""The environments benchmark has the common format, and its documents are valid."""

from __future__ import annotations

import resource
import subprocess
from typing import TYPE_CHECKING

import orjson
import pytest
from bench.environments import QUICK, Home, Sizes, cost_per_pool, new_metrics
from bench.harness.metric import as_json
from bench.harness.terraform import Meter

from sliceworks.base.yaml_documents import load_path
from sliceworks.infra.preflight import check
from sliceworks.infra.stages import compile_stages
from sliceworks.specs import documents
from sliceworks.specs.environment import Environment

if TYPE_CHECKING:
    from pathlib import Path


def test_last_line_has_ratios_and_goals() -> None:
    metrics = new_metrics()
    for metric in metrics.values():
        metric.baseline, metric.values = [3.0], [2.0]
    results = orjson.loads(as_json(list(metrics.values())))
    growth = ["apply_growth", "plan_growth", "terraform_apply_growth", "terraform_plan_growth"]
    assert list(results) == ["check", "apply_example", *growth]
    assert all(result["ratio"] == 1.5 for result in results.values())


def test_many_pools_are_a_valid_environment(tmp_path: Path) -> None:
    assert QUICK.pools < Sizes().pools
    [document] = load_path(tmp_path / Home(tmp_path).environment(200).rpartition("/")[2])
    environment = documents.read(document)
    assert isinstance(environment, Environment)
    assert check(environment) == []
    pools = next(stage for stage in compile_stages(environment) if stage.name == "2-cluster").variables["pools"]
    assert len(pools) == 200


def test_cost_per_pool_is_compared_below_and_above_the_middle() -> None:
    few, many = cost_per_pool(Sizes((2, 50, 200)), [1.0, 1.48, 4.48])
    assert few == pytest.approx(0.01)
    assert many == pytest.approx(0.02)


def test_terraform_time_is_measured_separately(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
