"""Whole runs: Terraform creates and destroys an environment on the twin, a model is served, a real gateway is load-tested."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from tests.support import small_platforms
from tests.support.sigint import with_sigint

from sliceworks.cli.main import run
from sliceworks.platform import twin_home
from sliceworks.platform.document_set import load
from sliceworks.rehearsal.record import Measurements, dumps
from sliceworks.rehearsal.simulation.runner import Options, simulate

if TYPE_CHECKING:
    from pathlib import Path

    from sliceworks.rehearsal.record import RunRecord

pytestmark = pytest.mark.long(25)
_EXPECT = (
    small_platforms.EXPECT
    + """  - state: {kind: ModelService, name: parrot, namespace: serving, state: ready}
  - loadTest: {name: little, goodput: 5}
  - nothingLeft: true
"""
)


def _run(folder: Path, work: Path, *skipped: str) -> RunRecord:
    work.mkdir()
    return simulate(load(folder), Options(work, 5, 4 * 3600.0, frozenset(skipped)))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_platforms.write(tmp_path_factory.mktemp("whole") / "a", terraform=True, load=True, service=True, expect=_EXPECT)


@pytest.fixture(scope="module")
def full_run(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> RunRecord:
    return _run(folder, tmp_path_factory.mktemp("work") / "work")


def test_all_steps_succeed_and_nothing_is_left(full_run: RunRecord) -> None:
    assert [(step.name, step.result) for step in full_run.steps] == [
        ("environment", "done"),
        ("models", "done"),
        ("scenario", "done"),
        ("load-test", "done"),
        ("destroy", "done"),
    ]
    assert full_run.passed, [check for step in full_run.steps for check in step.checks if not check.passed]
    assert full_run.leftovers == ()


def test_scenario_starts_at_its_hour(full_run: RunRecord) -> None:
    assert (full_run.start, full_run.scenario_start) == ("2026-11-16T07:00:00Z", 3600.0)
    assert [job.submitted for job in full_run.jobs] == [3660.0, 4200.0]


def test_terraform_resources_cost_until_destroyed(full_run: RunRecord) -> None:
    [slice_] = full_run.slices
    assert (slice_.name, slice_.chips, slice_.zone) == ("v5e-0", 4, "us-west4-a")
    assert slice_.deleted is not None
    assert {cost.team for cost in full_run.costs if cost.pool == "v5e-0"} == {"vision", ""}
    assert sum(cost.usd or 0 for cost in full_run.costs) > 10


def test_load_test_ran_against_the_gateway(full_run: RunRecord) -> None:
    [run] = full_run.measured.load_runs
    assert (run.name, run.requests, run.failed) == ("little", 20, 0)
    assert run.times["e2e"]["p50"] > 0


def test_terraform_order_does_not_affect_the_record(full_run: RunRecord, folder: Path, tmp_path: Path) -> None:
    again = _run(folder, tmp_path / "work", "load-test", "destroy")
    assert dumps(replace(again, measured=Measurements())).startswith(b"{")
    until = 3600.0 + 4 * 3600.0
    assert [moment for moment in again.timeline if moment.at < until] == [
        moment for moment in full_run.timeline if moment.at < until
    ]
    assert again.jobs == full_run.jobs


def test_ctrl_c_stops_the_run_and_cleans_up(folder: Path, tmp_path: Path) -> None:
    left, home = tmp_path / "left", tmp_path / "home"
    left.mkdir()
    environment = {**os.environ, "TMPDIR": str(left), "SLICEWORKS_HOME": str(home)}
    command = [sys.executable, "-m", "sliceworks", "rehearse", str(folder), "--only", "load-test"]
    with subprocess.Popen(
        with_sigint(command), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, start_new_session=True
    ) as process:
        _until(lambda: list(left.glob("sliceworks-rehearsal-*/load/gateway.log")))
        os.killpg(process.pid, signal.SIGINT)
        _, reported = process.communicate(timeout=60)
    assert (process.returncode, reported.split()) == (130, ["interrupted"])
    assert list(left.iterdir()) == []


def _until(there: object) -> None:
    from sliceworks.base import clock

    assert callable(there)
    assert clock.wait_until(lambda: bool(there()), 60)


def test_failed_environment_skips_dependent_steps(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = tmp_path / "terraform"
    broken.write_text("#!/bin/sh\necho 'Error: out of order' >&2\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setenv("SLICEWORKS_TERRAFORM", str(broken))
    day = _run(folder, tmp_path / "work", "load-test")
    assert [(step.name, step.result) for step in day.steps] == [
        ("environment", "failed"),
        ("models", "skipped"),
        ("scenario", "skipped"),
        ("load-test", "skipped"),
        ("destroy", "failed"),
    ]
    assert "out of order" in day.steps[0].summary
    assert day.steps[1].summary == "the environment was not created"
    assert not day.passed


def test_kept_twin_can_be_inspected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("SLICEWORKS_HOME", str(tmp_path / "home"))
    given = small_platforms.write(tmp_path / "given")
    assert run(["rehearse", str(given), "--keep", "-o", "name"]) == 0
    reported = capsys.readouterr().err
    try:
        kubeconfig = str(twin_home.find("rehearsal").kubeconfig)
        assert f"export KUBECONFIG={kubeconfig}" in reported
        assert "sliceworks twin stop --name rehearsal" in reported
        assert run(["train", "list", "-n", "vision", "--kubeconfig", kubeconfig, "-o", "name"]) == 0
        assert capsys.readouterr().out.split() == ["jobset/slow", "jobset/urgent"]
        assert run(["rehearse", str(given), "--keep", "--quiet"]) == 1
        assert "the twin of a previous rehearsal is still running" in capsys.readouterr().err
    finally:
        assert run(["twin", "stop", "--name", "rehearsal", "--quiet"]) == 0
