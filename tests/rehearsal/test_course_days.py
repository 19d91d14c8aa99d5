"""Days on machines that are given: virtual from beginning to end, and the same each time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.support import small_platforms

from sliceworks.base.errors import SliceworksError
from sliceworks.cli.main import run
from sliceworks.rehearsal.course.course import Options, rehearse_day
from sliceworks.rehearsal.course.program import read
from sliceworks.rehearsal.day.record import Day, dumps, loads

if TYPE_CHECKING:
    from pathlib import Path

_HOUR = 3600.0


def _day(folder: Path, work: Path, **more: object) -> Day:
    program = read(folder)
    assert program.scenario is not None
    spec = program.scenario.spec
    return rehearse_day(program, Options(work, **{"seed": spec.seed, "seconds": spec.duration, **more}))  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Day:
    return _day(small_platforms.write(tmp_path_factory.mktemp("small") / "a"), tmp_path_factory.mktemp("work"))


def test_a_day_that_goes_as_expected(small: Day) -> None:
    assert small.kept
    assert [(step.name, step.result) for step in small.steps] == [("documents", "done"), ("day", "done")]
    assert [check.actual for check in small.steps[1].checks[:2]] == [
        "succeeded at 130m, preempted once",
        "succeeded at 70m, restarted once",
    ]
    assert (small.start, small.lasted, small.opened) == ("2026-11-16T08:00:00Z", 4 * _HOUR, 0.0)


def test_the_life_of_a_job_is_told(small: Day) -> None:
    slow, urgent = small.jobs
    assert (slow.team, slow.queue, slow.priority, slow.chip, slow.chips) == ("vision", "queue", "low", "v5e", 4)
    assert [span.state for span in slow.spans] == ["starting", "running", "waiting", "starting", "running"]
    assert (slow.waited, slow.preemptions, urgent.restarts) == (0.0, 1, 1)


def test_chips_are_counted_by_team(small: Day) -> None:
    [there], [used] = small.capacity, small.usage
    assert (there.chip, there.points[-1][1], used.team) == ("v5e", 4, "vision")
    assert max(count for _, count in used.points) == 4
    assert used.points[-1][1] == 0


def test_machines_that_were_given_are_slices_too(small: Day) -> None:
    [slice_] = small.slices
    assert (slice_.name, slice_.hosts, slice_.chips, slice_.topology, slice_.zone) == ("v5e-0", 1, 4, "2x2", "us-west4-a")
    assert [(span.state, span.end) for span in slice_.spans] == [("running", 4 * _HOUR)]
    assert {cost.team for cost in small.costs if cost.chip == "v5e"} == {"vision", ""}


def test_what_went_wrong_is_told_with_what_was_done(small: Day) -> None:
    assert [(each.kind, each.mended is not None) for each in small.incidents] == [("preemption", True), ("crash", True)]


def test_the_same_seed_gives_the_same_record(small: Day, tmp_path: Path) -> None:
    again = _day(small_platforms.write(tmp_path / "a"), tmp_path)
    assert dumps(again.without_measured()).replace(str(tmp_path / "a").encode(), b"") == dumps(small.without_measured()).replace(
        small.folder.encode(), b""
    )


def test_what_is_not_as_expected_fails_the_command_and_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    expect = "\n  - job: {name: slow, namespace: vision, outcome: failed}\n  - job: {name: urgent, namespace: vision, by: 1h}\n"
    folder = small_platforms.write(tmp_path / "a", expect=expect)
    assert run(["rehearse", str(folder), "--report", str(tmp_path / "page.html")]) == 1
    told = " ".join(capsys.readouterr().out.split())
    assert "expected job vision/slow failed, found succeeded at 130m, preempted once" in told
    assert "expected job vision/urgent has ended by 60m, found succeeded at 70m" in told
    assert (tmp_path / "page.html").read_text().startswith("<!doctype html>")


def test_a_day_cut_short_expects_nothing(tmp_path: Path) -> None:
    day = _day(small_platforms.write(tmp_path / "a"), tmp_path, seconds=0.5 * _HOUR)
    assert day.kept
    assert all(not step.checks for step in day.steps)
    assert [job.outcome for job in day.jobs] == ["waiting", "running"]


def test_what_the_cluster_refuses_fails_its_step(tmp_path: Path) -> None:
    events = "\n  - {at: 1m, delete: {apiVersion: v1, kind: Pod, name: nobody, namespace: vision}}\n"
    day = _day(small_platforms.write(tmp_path / "a", events=events, expect="\n  - nothingLeft: true\n"), tmp_path)
    assert not day.kept
    assert day.steps[-1].result == "failed"
    assert "delete Pod/nobody" in day.steps[-1].told


def test_what_no_step_answers_for_is_expected_of_the_day(tmp_path: Path) -> None:
    expect = "\n  - loadTest: {name: chat}\n  - nothingLeft: true\n"
    day = _day(small_platforms.write(tmp_path / "a", events="", expect=expect), tmp_path)
    assert [(check.kept, check.actual) for check in day.steps[-1].checks] == [(False, "it did not run"), (True, "nothing")]


def test_a_file_that_is_missing_is_told_before_anything_begins(tmp_path: Path) -> None:
    folder = small_platforms.write(tmp_path / "a", terraform=True)
    (folder / "jobs/urgent.yaml").unlink()
    with pytest.raises(SliceworksError, match=r"urgent.yaml"):
        _day(folder, tmp_path)
    assert list(tmp_path.iterdir()) == [folder]


def test_steps_can_be_left_out_and_chosen(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = small_platforms.write(tmp_path / "a")
    command = ["rehearse", str(folder), "--report", str(tmp_path / "page.html"), "--quiet"]
    assert run([*command, "--only", "documents", "-o", "json"]) == 0
    day = loads(capsys.readouterr().out.encode())
    assert [(step.name, step.result) for step in day.steps] == [("documents", "done"), ("day", "skipped")]
    assert run([*command, "--skip", "lunch"]) == 2
    assert "there is no step 'lunch'" in capsys.readouterr().err


def test_steps_are_told_one_by_one_where_nobody_can_be_drawn_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = small_platforms.write(tmp_path / "a", duration="1h", expect="\n  - nothingLeft: true\n", events="")
    assert run(["rehearse", str(folder), "--report", str(tmp_path / "page.html"), "-o", "name"]) == 0
    told = capsys.readouterr()
    assert told.out.splitlines() == ["step/documents", "step/day"]
    lines = [line.partition(" (")[0] for line in told.err.splitlines()[:2]]
    assert lines == ["✓ Apply the documents: 13 objects", "✓ Let the day pass: 0 things happened"]
