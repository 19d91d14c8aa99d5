"""Whole days: Terraform makes and removes an environment on the twin, a model is served, a real gateway is tested."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from tests.support import small_platforms
from tests.support.interrupts import heeding

from sliceworks.cli.main import run
from sliceworks.rehearsal import homes
from sliceworks.rehearsal.course.course import Options, rehearse_day
from sliceworks.rehearsal.course.program import read
from sliceworks.rehearsal.day.record import dumps

if TYPE_CHECKING:
    from pathlib import Path

    from sliceworks.rehearsal.day.record import Day

pytestmark = pytest.mark.long(25)
_EXPECT = (
    small_platforms.EXPECT
    + """  - state: {kind: ModelService, name: parrot, namespace: serving, state: ready}
  - loadTest: {name: little, goodput: 5}
  - nothingLeft: true
"""
)


def _day(folder: Path, work: Path, *skipped: str) -> Day:
    work.mkdir()
    return rehearse_day(read(folder), Options(work, 5, 4 * 3600.0, frozenset(skipped)))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_platforms.write(tmp_path_factory.mktemp("whole") / "a", terraform=True, load=True, service=True, expect=_EXPECT)


@pytest.fixture(scope="module")
def whole(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Day:
    return _day(folder, tmp_path_factory.mktemp("work") / "work")


def test_every_step_is_done_and_nothing_is_left(whole: Day) -> None:
    assert [(step.name, step.result) for step in whole.steps] == [
        ("environment", "done"),
        ("models", "done"),
        ("day", "done"),
        ("load-test", "done"),
        ("destroy", "done"),
    ]
    assert whole.kept, [check for step in whole.steps for check in step.checks if not check.kept]
    assert whole.left == ()


def test_the_scenario_begins_on_its_hour(whole: Day) -> None:
    assert (whole.start, whole.opened) == ("2026-11-16T07:00:00Z", 3600.0)
    assert [job.submitted for job in whole.jobs] == [3660.0, 4200.0]


def test_what_terraform_made_costs_until_it_is_gone(whole: Day) -> None:
    [slice_] = whole.slices
    assert (slice_.name, slice_.chips, slice_.zone) == ("v5e-0", 4, "us-west4-a")
    assert slice_.gone is not None
    assert {cost.team for cost in whole.costs if cost.pool == "v5e-0"} == {"vision", ""}
    assert sum(cost.usd or 0 for cost in whole.costs) > 10


def test_load_was_tested_for_real(whole: Day) -> None:
    [run] = whole.measured.load_runs
    assert (run.name, run.requests, run.failed) == ("little", 20, 0)
    assert run.times["e2e"]["p50"] > 0


def test_terraforms_own_order_leaves_no_trace(whole: Day, folder: Path, tmp_path: Path) -> None:
    again = _day(folder, tmp_path / "work", "load-test", "destroy")
    assert dumps(again.without_measured()).startswith(b"{")
    until = 3600.0 + 4 * 3600.0
    assert [moment for moment in again.moments if moment.at < until] == [moment for moment in whole.moments if moment.at < until]
    assert again.jobs == whole.jobs


def test_ctrl_c_ends_it_at_once_and_leaves_nothing(folder: Path, tmp_path: Path) -> None:
    left, home = tmp_path / "left", tmp_path / "home"
    left.mkdir()
    environment = {**os.environ, "TMPDIR": str(left), "SLICEWORKS_HOME": str(home)}
    command = [sys.executable, "-m", "sliceworks", "rehearse", str(folder), "--only", "load-test"]
    with subprocess.Popen(
        heeding(command), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, start_new_session=True
    ) as process:
        _until(lambda: list(left.glob("sliceworks-rehearsal-*/load/gateway.log")))
        os.killpg(process.pid, signal.SIGINT)
        _, told = process.communicate(timeout=60)
    assert (process.returncode, told.split()) == (130, ["interrupted"])
    assert list(left.iterdir()) == []


def _until(there: object) -> None:
    from sliceworks.base import clock

    assert callable(there)
    assert clock.wait_until(lambda: bool(there()), 60)


def test_an_environment_that_cannot_be_made_skips_what_needs_it(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = tmp_path / "terraform"
    broken.write_text("#!/bin/sh\necho 'Error: out of order' >&2\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setenv("SLICEWORKS_TERRAFORM", str(broken))
    day = _day(folder, tmp_path / "work", "load-test")
    assert [(step.name, step.result) for step in day.steps] == [
        ("environment", "failed"),
        ("models", "skipped"),
        ("day", "skipped"),
        ("load-test", "skipped"),
        ("destroy", "failed"),
    ]
    assert "out of order" in day.steps[0].told
    assert day.steps[1].told == "the environment was not made"
    assert not day.kept


def test_a_day_that_is_kept_can_be_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SLICEWORKS_HOME", str(tmp_path / "home"))
    given = small_platforms.write(tmp_path / "given")
    assert run(["rehearse", str(given), "--keep", "-o", "name"]) == 0
    told = capsys.readouterr().err
    try:
        kubeconfig = str(homes.find("rehearsal").kubeconfig)
        assert f"export KUBECONFIG={kubeconfig}" in told
        assert "sliceworks twin stop --name rehearsal" in told
        assert run(["train", "list", "-n", "vision", "--kubeconfig", kubeconfig, "-o", "name"]) == 0
        assert capsys.readouterr().out.split() == ["jobset/slow", "jobset/urgent"]
        assert run(["rehearse", str(given), "--keep", "--quiet"]) == 1
        assert "a rehearsal that was kept is still running" in capsys.readouterr().err
    finally:
        assert run(["twin", "stop", "--name", "rehearsal", "--quiet"]) == 0
