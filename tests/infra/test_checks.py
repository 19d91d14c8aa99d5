"""`env check` refuses what GKE, Kueue or Kubernetes would refuse, with the field and a remedy."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.support.environments import BARE, SMALL

from sliceworks.base.yaml_documents import load_all
from sliceworks.cli import main
from sliceworks.infra import preflight
from sliceworks.platform.validation import validate_document
from sliceworks.specs import documents
from sliceworks.specs.environment import Environment

if TYPE_CHECKING:
    from pathlib import Path

CPU = "cpu: {cpu: {nodes: 1}}"
COHORT = "  queues: {sharing: cohort}\n"


def findings(more: str, text: str = SMALL) -> list[str]:
    [document] = load_all(text + more, "environment.yaml")
    environment = documents.read_as(document, Environment)
    return [f"{item.check}: {'.'.join(map(str, item.path))}: {item.message}" for item in preflight.check(environment)]


@pytest.mark.parametrize(
    ("more", "text", "problem"),
    [
        (
            "  cluster: {version: banana}\n",
            SMALL,
            'versions: spec.cluster.version: No valid versions with the prefix "banana" found',
        ),
        ("  addons: {versions: {kueue: v0.4.2}}\n", SMALL, "versions: spec.addons.versions.kueue: kueue v0.4.2 has no"),
        ("  addons: {versions: {jobset: v0.9.1}}\n", SMALL, "versions: spec.addons.versions.jobset: jobset v0.9.1 has no onJob"),
        ("  addons: {versions: {jobset: latest}}\n", SMALL, "versions: spec.addons.versions.jobset: 'latest' is not a release"),
        ("  addons: {versions: {kueue: v9.9.9}}\n", SMALL, "versions: spec.addons.versions.kueue: kueue v9.9.9 is not a known"),
        ("  addons: {versions: {kueue: v0.14.8}}\n", SMALL, "versions: spec.addons.versions.kueue: kueue v0.14.8 has no"),
        ("  addons: {versions: {kueue: v0.15.9}}\n", SMALL, "versions: spec.addons.versions.kueue: kueue v0.15.9 is not a known"),
        (
            "  addons: {versions: {jobset: v0.12.0-devel}}\n",
            SMALL,
            "versions: spec.addons.versions.jobset: jobset v0.12.0-devel is",
        ),
        (
            "  addons: {versions: {jobset: v0.99.0}}\n",
            SMALL,
            "versions: spec.addons.versions.jobset: jobset v0.99.0 is not a known",
        ),
        (f"  pools: {{{CPU}, tpu: {{t: {{type: v5p-32}}}}}}\n", BARE, "zones: spec.pools.tpu.t: us-central2-b has no v5p-32"),
        (
            "  network: {subnet: {nodes: 10.0.0.0/29}}\n  pools: {cpu: {cpu: {nodes: 9}}}\n",
            BARE,
            "ranges: spec.network.subnet.nodes",
        ),
        (
            f"  network: {{subnet: {{pods: 192.168.64.0/20}}}}\n  pools: {{{CPU}, tpu: {{t: {{type: v4-512, count: 40}}}}}}\n",
            BARE,
            "ranges: spec.network.subnet.pods: 192.168.64.0/20 is too small",
        ),
        (
            f"  pools: {{{CPU}, tpu: {{t: {{type: v4-512, count: 1000}}}}}}\n",
            BARE,
            "sizes: spec.pools: pools have up to 64,001 nodes",
        ),
        ("  pools: {cpu: {cpu: {nodes: 2001}}}\n", BARE, "sizes: spec.pools.cpu.cpu: "),
        ("  pools: {tpu: {t: {type: v4-8}}}\n", BARE, "sizes: spec.pools: Cluster has no node pool for system pods."),
        ("  pools: {cpu: {cpu: {nodes: 1, labels: {node-role.kubernetes.io/x: y}}}}\n", BARE, "labels: spec.pools.cpu.cpu.labels"),
        (
            "  cluster: {private: {endpoint: true, authorizedNetworks: {office: 1.2.3.4/32}}}\n",
            SMALL,
            "access: spec.cluster.private.authorizedNetworks.office: Invalid master authorized networks",
        ),
        (
            "  cluster: {private: {dnsEndpoint: false}}\n",
            SMALL,
            "access: spec.cluster.private.authorizedNetworks: no client reaches",
        ),
        (
            "  teams: {a: {namespace: ml}, b: {namespace: ml}}\n",
            SMALL,
            "teams: spec.teams.b.namespace: namespace ml belongs to team a",
        ),
        ("  teams: {kube-system: {}}\n", SMALL, "teams: spec.teams.kube-system.namespace: namespace kube-system is reserved"),
        (
            COHORT + "  teams: {a: {shares: {v99-foo: {chips: 1}}}}\n",
            SMALL,
            "shares: spec.teams.a.shares.v99-foo: no pool has type",
        ),
    ],
)
def test_what_cannot_work_is_refused_with_its_field(more: str, text: str, problem: str) -> None:
    result = findings(more, text)
    assert any(item.startswith(problem) for item in result), result


@pytest.mark.parametrize("version", ["v0.15.8", "v0.19.2", "v0.99.0-rc.1"])
def test_release_of_the_catalog_or_with_a_checksum_is_accepted(version: str) -> None:
    checksums = f"checksums: {{kueue: {'a' * 64}}}" if version == "v0.99.0-rc.1" else ""
    assert findings(f"  addons: {{versions: {{kueue: {version}}}, {checksums}}}\n") == []


@pytest.mark.parametrize(
    ("pool", "share"),
    [("machineType: a3-highgpu-8g", "h100-80gb"), ("accelerator: nvidia-tesla-t4, spot: true", "t4-spot")],
)
def test_teams_have_shares_of_gpus(pool: str, share: str) -> None:
    more = f"  pools: {{{CPU}, gpu: {{g: {{{pool}}}}}}}\n{COHORT}  teams: {{a: {{shares: {{{share}: {{chips: 4}}}}}}}}\n"
    text = BARE.replace("us-central2-b", "us-central1-a").replace("us-central2", "us-central1")
    assert findings(more, text) == []


@pytest.mark.parametrize(("field", "value"), [("cpu", "-4"), ("memory", "much"), ("readyWithin", "0s")])
def test_quota_and_times_of_queues_are_checked(field: str, value: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "environment.yaml"
    file.write_text(SMALL + f'  queues: {{{field}: "{value}"}}\n')
    assert main.run(["env", "check", "-f", str(file)]) == 1
    assert f"spec.queues.{field}: must be a " in capsys.readouterr().out


def test_all_field_errors_are_reported_at_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "environment.yaml"
    file.write_text(BARE + "  pools: {tpu: {t: {type: v4-8, count: 100000}}}\n  network: {subnet: {nodes: x}}\n  nonsense: 1\n")
    assert main.run(["env", "check", "-f", str(file)]) == 1
    printed = capsys.readouterr().out
    assert "spec.pools.tpu.t.count: must be less than or equal to 1000, got" in printed
    assert "spec.network.subnet.nodes: must be an IPv4 range" in printed
    assert "unknown field spec.nonsense" in printed
    assert main.run(["env", "plan", "-f", str(file)]) == 1
    assert "2 more: sliceworks env check" in capsys.readouterr().err


def test_resize_refuses_impossible_number_at_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "environment.yaml"
    file.write_text(SMALL)
    assert main.run(["env", "resize", "slice", "100000000000", "-f", str(file)]) == 2
    assert "100000000000 is not in the range 0<=x<=1000" in capsys.readouterr().err


def test_queues_apply_and_rehearse_run_the_same_checks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """F22."""
    file = tmp_path / "environment.yaml"
    file.write_text(SMALL + COHORT + "  teams: {a: {shares: {v99-foo: {chips: 1}}}}\n")
    assert main.run(["queues", "apply", "--dry-run", "client", "-f", str(file)]) == 1
    assert "no pool has type v99-foo" in capsys.readouterr().err
    [document] = load_all(file.read_text(), str(file))
    _objects, errors = validate_document(document, tmp_path)
    assert ["no pool has type v99-foo" in error.message for error in errors] == [True]
