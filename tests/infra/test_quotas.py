"""Quotas: what pools count, against what a region has left, as Compute Engine tells it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.support.cloud_http import served_cloud

from sliceworks.base.yamls import load_all
from sliceworks.cli import main
from sliceworks.infra import quotas
from sliceworks.infra.targets import Target, TwinTarget
from sliceworks.specs import documents
from sliceworks.specs.environment import Environment

if TYPE_CHECKING:
    from pathlib import Path

DOCUMENT = """apiVersion: sliceworks.dev/v1alpha1
kind: Environment
metadata: {name: small}
spec:
  project: my-project
  region: us-central2
  zones: [us-central2-b]
  automation: {bucket: small-automation}
  pools:
    cpu: {main: {machineType: n1-standard-4, nodes: 3}, big: {machineType: n2-standard-8, autoscaling: {min: 1, max: 9}}}
    tpu: {slice: {type: v4-32, count: 2}, cheap: {type: v4-8, spot: true}}
    gpu: {t4: {machineType: n1-standard-4, accelerator: nvidia-tesla-t4, acceleratorCount: 2}}
"""


def environment() -> Environment:
    [document] = load_all(DOCUMENT, "environment.yaml")
    found = documents.read(document)
    assert isinstance(found, Environment)
    return found


def test_what_pools_count() -> None:
    counted: dict[str, float] = {}
    for demand in quotas.demands(environment().spec):
        counted[demand.metric] = counted.get(demand.metric, 0.0) + demand.each * len(demand.made)
    assert counted == {
        "TPU_PODSLICE_V4": 32,
        "TPU_PODSLICE_V4_PREEMPTIBLE": 4,
        "CPUS": 16,
        "N2_CPUS": 8,
        "NVIDIA_T4_GPUS": 2,
    }


@pytest.mark.parametrize(
    ("quota", "there", "problem"),
    [
        ({"metric": "CPUS", "limit": 16.0, "usage": 0.0}, set(), ""),
        ({"metric": "CPUS", "limit": 16.0, "usage": 1.0}, set(), "16 CPUS are needed in us-central2, and 15 of 16 are left"),
        ({"metric": "TPU_PODSLICE_V4", "limit": 32.0, "usage": 16.0}, {"slice-0"}, ""),
        ({"metric": "TPU_PODSLICE_V4", "limit": 16.0, "usage": 16.0}, {"slice-0"}, "16 TPU_PODSLICE_V4 are needed"),
        ({"metric": "IN_USE_ADDRESSES", "limit": 0.0, "usage": 0.0}, set(), ""),
    ],
)
def test_quotas_that_do_not_reach_are_told_of(quota: dict[str, Any], there: set[str], problem: str) -> None:
    found = quotas.findings(environment(), [quota], there)
    assert [problem in each.problem for each in found] == ([True] if problem else [])


def test_the_cloud_is_asked() -> None:
    with served_cloud() as served:
        limit = {"region": "us-central2", "metric": "TPU_PODSLICE_V4", "limit": 8}
        served.run(lambda cloud: cloud.services["container"].configure({"quotas": [limit]}))
        [finding] = quotas.check(environment(), TwinTarget(address=served.url, token=served.token), known=True)
        assert finding.path == ("spec", "pools", "tpu", "slice")
        assert "32 TPU_PODSLICE_V4 are needed in us-central2, and 8 of 8 are left" in finding.problem
        with pytest.raises(quotas.NotAsked, match="invalid authentication credentials"):
            quotas.check(environment(), TwinTarget(address=served.url, token="nobody"), known=True)


def test_without_credentials_nothing_is_asked_and_that_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("GOOGLE_APPLICATION_CREDENTIALS", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(quotas.NotAsked, match="nobody is logged in here"):
        quotas.check(environment(), Target(), known=False)
    file = tmp_path / "environment.yaml"
    file.write_text(DOCUMENT[: DOCUMENT.index("    gpu:")])
    assert main.run(["env", "check", "-f", str(file)]) == 0
    assert "quotas are not checked: nobody is logged in here" in capsys.readouterr().err
    assert main.run(["env", "check", "-f", str(file), "--skip", "quotas"]) == 0
    assert "quotas" not in capsys.readouterr().err
