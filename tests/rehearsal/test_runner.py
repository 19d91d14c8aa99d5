"""Simulated runs on fixed machines: fully in virtual time, and reproducible."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from tests.support import small_platforms

from sliceworks.base.errors import SliceworksError
from sliceworks.cli.main import run
from sliceworks.platform.document_set import load
from sliceworks.rehearsal.record import Measurements, RunRecord, dumps, loads
from sliceworks.rehearsal.simulation.runner import Options, simulate

if TYPE_CHECKING:
    from pathlib import Path

_HOUR = 3600.0


def _run(folder: Path, work: Path, **more: object) -> RunRecord:
    program = load(folder)
    assert program.scenario is not None
    spec = program.scenario.spec
    return simulate(program, Options(work, **{"seed": spec.seed, "seconds": spec.duration, **more}))  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> RunRecord:
    return _run(small_platforms.write(tmp_path_factory.mktemp("small") / "a"), tmp_path_factory.mktemp("work"))


def test_run_meets_its_expectations(small: RunRecord) -> None:
    assert small.passed
    assert [(step.name, step.result) for step in small.steps] == [("documents", "done"), ("scenario", "done")]
    assert [check.actual for check in small.steps[1].checks[:2]] == [
        "succeeded at 130m, preempted once",
        "succeeded at 70m, restarted once",
    ]
    assert (small.start, small.duration, small.scenario_start) == ("2026-11-16T08:00:00Z", 4 * _HOUR, 0.0)


def test_record_has_job_timeline(small: RunRecord) -> None:
    slow, urgent = small.jobs
    assert (slow.team, slow.queue, slow.priority, slow.chip, slow.chips) == ("vision", "queue", "low", "v5e", 4)
    assert [span.state for span in slow.spans] == ["starting", "running", "waiting", "starting", "running"]
    assert (slow.waited, slow.preemptions, urgent.restarts) == (0.0, 1, 1)


def test_chips_are_counted_by_team(small: RunRecord) -> None:
    [there], [used] = small.capacity, small.usage
    assert (there.chip, there.points[-1][1], used.team) == ("v5e", 4, "vision")
    assert max(count for _, count in used.points) == 4
    assert used.points[-1][1] == 0


def test_fixed_machines_are_slices(small: RunRecord) -> None:
    [slice_] = small.slices
    assert (slice_.name, slice_.hosts, slice_.chips, slice_.topology, slice_.zone) == ("v5e-0", 1, 4, "2x2", "us-west4-a")
    assert [(span.state, span.end) for span in slice_.spans] == [("running", 4 * _HOUR)]
    assert {cost.team for cost in small.costs if cost.chip == "v5e"} == {"vision", ""}


def test_record_has_incidents_with_responses(small: RunRecord) -> None:
    assert [(incident.kind, incident.recovered_at is not None) for incident in small.incidents] == [
        ("preemption", True),
        ("crash", True),
    ]


def test_the_same_seed_gives_the_same_record(small: RunRecord, tmp_path: Path) -> None:
    again = _run(small_platforms.write(tmp_path / "a"), tmp_path)
    first, second = (dumps(replace(run, measured=Measurements())).replace(run.folder.encode(), b"") for run in (small, again))
    assert first == second


def test_failed_expectation_fails_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    expect = "\n  - job: {name: slow, namespace: vision, outcome: failed}\n  - job: {name: urgent, namespace: vision, by: 1h}\n"
    folder = small_platforms.write(tmp_path / "a", expect=expect)
    assert run(["rehearse", str(folder), "--report", str(tmp_path / "page.html")]) == 1
    reported = " ".join(capsys.readouterr().out.split())
    assert "expected job vision/slow failed, found succeeded at 130m, preempted once" in reported
    assert "expected job vision/urgent has ended by 60m, found succeeded at 70m" in reported
    assert (tmp_path / "page.html").read_text().startswith("<!doctype html>")


def test_shortened_run_has_no_expectations(tmp_path: Path) -> None:
    day = _run(small_platforms.write(tmp_path / "a"), tmp_path, seconds=0.5 * _HOUR)
    assert day.passed
    assert all(not step.checks for step in day.steps)
    assert [job.outcome for job in day.jobs] == ["waiting", "running"]


def test_rejected_event_fails_its_step(tmp_path: Path) -> None:
    events = "\n  - {at: 1m, delete: {apiVersion: v1, kind: Pod, name: missing, namespace: vision}}\n"
    day = _run(small_platforms.write(tmp_path / "a", events=events, expect="\n  - nothingLeft: true\n"), tmp_path)
    assert not day.passed
    assert day.steps[-1].result == "failed"
    assert "delete Pod/missing" in day.steps[-1].summary


def test_expectation_without_step_belongs_to_the_run(tmp_path: Path) -> None:
    expect = "\n  - loadTest: {name: chat}\n  - nothingLeft: true\n"
    day = _run(small_platforms.write(tmp_path / "a", events="", expect=expect), tmp_path)
    assert [(check.passed, check.actual) for check in day.steps[-1].checks] == [
        (False, "the load test did not run"),
        (True, "nothing"),
    ]


def test_missing_file_is_an_error_before_start(tmp_path: Path) -> None:
    folder = small_platforms.write(tmp_path / "a", terraform=True)
    (folder / "jobs/urgent.yaml").unlink()
    with pytest.raises(SliceworksError, match=r"urgent.yaml"):
        _run(folder, tmp_path)
    assert list(tmp_path.iterdir()) == [folder]


def test_steps_can_be_skipped_and_selected(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = small_platforms.write(tmp_path / "a")
    command = ["rehearse", str(folder), "--report", str(tmp_path / "page.html"), "--quiet"]
    assert run([*command, "--only", "documents", "-o", "json"]) == 0
    day = loads(capsys.readouterr().out.encode())
    assert [(step.name, step.result) for step in day.steps] == [("documents", "done"), ("scenario", "skipped")]
    assert run([*command, "--skip", "lunch"]) == 2
    assert "step 'lunch' not found" in capsys.readouterr().err


def test_steps_are_printed_line_by_line_without_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = small_platforms.write(tmp_path / "a", duration="1h", expect="\n  - nothingLeft: true\n", events="")
    assert run(["rehearse", str(folder), "--report", str(tmp_path / "page.html"), "-o", "name"]) == 0
    reported = capsys.readouterr()
    assert reported.out.splitlines() == ["step/documents", "step/scenario"]
    lines = [line.partition(" (")[0] for line in reported.err.splitlines()[:2]]
    assert lines == ["✓ Apply the documents: 13 objects", "✓ Run the scenario: 0 events"]
