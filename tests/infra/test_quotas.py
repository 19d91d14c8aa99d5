"""Quotas: the usage of pools against the remaining regional quota of Compute Engine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.support.cloud_http import served_cloud

from sliceworks.base.yaml_documents import load_all
from sliceworks.cli import main
from sliceworks.infra import preflight
from sliceworks.infra.target import Target, TwinTarget
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
    result = documents.read(document)
    assert isinstance(result, Environment)
    return result


def test_usage_of_pools() -> None:
    counted: dict[str, float] = {}
    for demand in preflight.quota_demands(environment().spec):
        counted[demand.metric] = counted.get(demand.metric, 0.0) + demand.per_pool * len(demand.node_pools)
    assert counted == {
        "TPU_PODSLICE_V4": 32,
        "TPU_PODSLICE_V4_PREEMPTIBLE": 4,
        "CPUS": 16,
        "N2_CPUS": 8,
        "NVIDIA_T4_GPUS": 2,
        "DISKS_TOTAL_GB": 2800,
    }


def test_nodes_with_public_addresses_use_their_quota() -> None:
    [document] = load_all(DOCUMENT.replace("  pools:", "  cluster: {private: null}\n  pools:"), "environment.yaml")
    public = documents.read_as(document, Environment)
    [finding] = preflight.quota_findings(public, [{"metric": "IN_USE_ADDRESSES", "limit": 8.0, "usage": 0.0}], set())
    assert "needs 14 IN_USE_ADDRESSES in us-central2, 8 of 8 available" in finding.message
    assert preflight.quota_findings(environment(), [{"metric": "IN_USE_ADDRESSES", "limit": 0.0, "usage": 0.0}], set()) == []


@pytest.mark.parametrize(
    ("quota", "there", "problem"),
    [
        ({"metric": "CPUS", "limit": 16.0, "usage": 0.0}, set(), ""),
        ({"metric": "CPUS", "limit": 16.0, "usage": 1.0}, set(), "needs 16 CPUS in us-central2, 15 of 16 available"),
        ({"metric": "TPU_PODSLICE_V4", "limit": 32.0, "usage": 16.0}, {"slice-0"}, ""),
        ({"metric": "TPU_PODSLICE_V4", "limit": 16.0, "usage": 16.0}, {"slice-0"}, "needs 16 TPU_PODSLICE_V4"),
        ({"metric": "IN_USE_ADDRESSES", "limit": 0.0, "usage": 0.0}, set(), ""),
    ],
)
def test_insufficient_quota_is_reported(quota: dict[str, Any], there: set[str], problem: str) -> None:
    result = preflight.quota_findings(environment(), [quota], there)
    assert [problem in item.message for item in result] == ([True] if problem else [])


def test_quota_is_read_from_the_cloud() -> None:
    with served_cloud() as served:
        limit = {"region": "us-central2", "metric": "TPU_PODSLICE_V4", "limit": 8}
        served.run(lambda cloud: cloud.services["container"].configure({"quotas": [limit]}))
        [finding] = preflight.check_quotas(environment(), TwinTarget(address=served.url, token=served.token), known=True)
        assert finding.path == ("spec", "pools", "tpu", "slice")
        assert "needs 32 TPU_PODSLICE_V4 in us-central2, 8 of 8 available" in finding.message
        with pytest.raises(preflight.QuotaCheckSkipped, match="invalid authentication credentials"):
            preflight.check_quotas(environment(), TwinTarget(address=served.url, token="missing"), known=True)


def test_quota_check_is_skipped_without_credentials(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("GOOGLE_APPLICATION_CREDENTIALS", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(preflight.QuotaCheckSkipped, match="no Google Cloud credentials found"):
        preflight.check_quotas(environment(), Target(), known=False)
    file = tmp_path / "environment.yaml"
    file.write_text(DOCUMENT[: DOCUMENT.index("    gpu:")])
    assert main.run(["env", "check", "-f", str(file)]) == 0
    assert "skipping quota checks: no Google Cloud credentials found" in capsys.readouterr().err
    assert main.run(["env", "check", "-f", str(file), "--skip", "quotas"]) == 0
    assert "quotas" not in capsys.readouterr().err
