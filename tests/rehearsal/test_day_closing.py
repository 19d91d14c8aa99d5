"""The closing words of a day: the same in every width, and none too wide."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from tests.support.eventful_days import eventful_day

from sliceworks.base.errors import SliceworksError
from sliceworks.cli import rehearse_end
from sliceworks.rehearsal.day.closing import closing
from sliceworks.rehearsal.day.record import Day, Death, Step
from sliceworks.rehearsal.day.view import view

if TYPE_CHECKING:
    from pathlib import Path

WORDS = """\
✗ platform: 1 thing did not end as expected

TEAM       JOBS   HALF WAITED   LONGEST     CHIP HOURS   COST
language   4      32 min        2 h 5 min   950.0        $1,046
serving    2      2 min         2 min       47.0         no price
vision     4      10 min        33 min      338.0        $664
nobody     –      –             –           300.0        $360

Chips: 70 % in use, 1,341 of 1,922 chip hours (nvidia-l4 80 %, v4 95 %, v5e 67 %)
Cost: $2,071 at list prices
Went wrong: 4 things, 3 mended
Expectations: 2 of 3 met
✗ day.yaml:21: Ten jobs of three teams: expected bert succeeded, found failed: 3 restarts were used up
"""


def test_a_wide_terminal_gets_a_table() -> None:
    assert closing(eventful_day(), 200) == WORDS


@pytest.mark.parametrize("width", [24, 40, 63, 80])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    told = closing(eventful_day(), width)
    assert all(len(line) <= width for line in told.splitlines())
    assert "half waited 32 min;" in " ".join(told.split()) or width == 80
    assert "$1,046" in told
    assert "".join(told.split()).endswith("found" + "failed:3restartswereusedup")


def test_only_what_is_bad_or_good_is_painted() -> None:
    told = closing(eventful_day(), 200, lambda text, good: f"<{good}>{text}")
    assert told.splitlines()[0].startswith("<False>✗ platform")
    assert told.splitlines()[-1].startswith("<False>✗ day.yaml:21")
    assert told.count("<") == 2


def test_a_day_that_went_well_says_so_in_a_line() -> None:
    assert closing(Day("d", ".", 0, "2026-11-16T08:00:00Z", 5.0), 80) == "✓ d: every step was done\n"
    failed = Day("d", ".", 0, "2026-11-16T08:00:00Z", 5.0, steps=(Step("x", "Apply", 0, 1, "failed", "no answer"),))
    assert closing(failed, 80).splitlines()[-1] == "✗ Apply: no answer"


def test_a_drill_is_told() -> None:
    deaths = (Death("kueue", 60.0, 5.0, True), Death("nodes", 90.0, 0.0, False), Death("kueue", 95.0, 0.0, True))
    day = replace(eventful_day(), deaths=deaths)
    assert "Drill: programs were killed 3 times, 2 of them at work\n" in closing(day, 80)
    (group,) = [each for each in view(day)["groups"] if each["name"] == "Killed in the drill"]
    assert [(row["name"], len(row["spans"])) for row in group["rows"]] == [("kueue", 2), ("nodes", 1)]
    assert group["rows"][1]["spans"] == [("killed", 90.0, 91.0, "killed at rest")]


def test_control_characters_are_shown_and_not_obeyed() -> None:
    assert "\x1b" not in closing(replace(eventful_day(), name="\x1b[31mred"), 80)


def test_the_end_writes_the_page_and_returns_the_exit_code(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)  # workers of a test run have one
    file = tmp_path / "day.html"
    assert rehearse_end.finish(eventful_day(), file) == 1
    out, err = capsys.readouterr()
    assert out == WORDS
    assert err == f"The page of the day: {file}\n"
    assert file.read_text().startswith("<!doctype html>")
    assert [each.name for each in tmp_path.iterdir()] == ["day.html"]
    assert rehearse_end.finish(replace(eventful_day(), steps=()), file, words=False) == 0
    assert capsys.readouterr().out == ""


def test_without_a_name_it_lies_among_our_own_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLICEWORKS_HOME", str(tmp_path))
    assert rehearse_end.write_page(replace(eventful_day(), name="../../a b")) == tmp_path / "rehearsals" / "a-b.html"


def test_reports_of_load_tests_lie_beside_the_page(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "report.html").write_text("a report")
    day = eventful_day()
    runs = [replace(day.measured.load_runs[0], report=str(tmp_path / "work" / name)) for name in ("report.html", "missing.html")]
    kept = rehearse_end.with_reports(replace(day, measured=replace(day.measured, load_runs=tuple(runs))), tmp_path / "day.html")
    assert [run.report for run in kept.measured.load_runs] == ["day-chat.html", ""]
    assert (tmp_path / "day-chat.html").read_text() == "a report"


def test_a_file_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(SliceworksError, match=r"the page cannot be written to .*missing/day.html: No such file or directory"):
        rehearse_end.write_page(eventful_day(), tmp_path / "missing" / "day.html")


def test_no_browser_is_no_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("sys.platform", "linux")
    assert rehearse_end.finish(replace(eventful_day(), steps=()), tmp_path / "d.html", open_it=True, words=False) == 0
    assert capsys.readouterr().err.splitlines()[-1] == "There is no browser here to open it with."


def test_a_browser_is_given_the_address_of_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []

    def opening(address: str) -> bool:
        opened.append(address)
        return True

    monkeypatch.setenv("BROWSER", "anything")
    monkeypatch.setattr("webbrowser.open", opening)
    assert rehearse_end.browse(tmp_path / "d.html")
    assert opened == [f"file://{tmp_path}/d.html"]
