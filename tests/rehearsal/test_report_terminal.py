"""The terminal summary of a run at several widths."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from tests.support.eventful_run import eventful_run

from sliceworks.base.errors import SliceworksError
from sliceworks.cli import rehearse, rehearse_simulation
from sliceworks.rehearsal.record import Outage, RunRecord, StepRecord
from sliceworks.rehearsal.report.chart_data import build_chart_data
from sliceworks.rehearsal.report.terminal import render_summary

if TYPE_CHECKING:
    from pathlib import Path

SUMMARY = """\
✗ platform: 1 failure

TEAM       JOBS   MEDIAN WAIT   MAX WAIT    CHIP HOURS   COST
language   4      32 min        2 h 5 min   950.0        $1,046
serving    2      2 min         2 min       47.0         no price
vision     4      10 min        33 min      338.0        $664
idle       –      –             –           300.0        $360

Chips: 70 % in use, 1,341 of 1,922 chip hours (nvidia-l4 80 %, v4 95 %, v5e 67 %)
Cost: $2,071 at published prices
Incidents: 4, 3 recovered
Expectations: 2 of 3 met
✗ day.yaml:21: Ten jobs of three teams: expected bert succeeded, found failed: 3 restarts were used up
"""


def test_summary_is_a_table_in_a_wide_terminal() -> None:
    assert render_summary(eventful_run(), 200) == SUMMARY


@pytest.mark.parametrize("width", [24, 40, 63, 80])
def test_summary_is_wrapped_to_the_terminal_width(width: int) -> None:
    summary = render_summary(eventful_run(), width)
    assert all(len(line) <= width for line in summary.splitlines())
    assert "median wait 32 min;" in " ".join(summary.split()) or width == 80
    assert "$1,046" in summary
    assert "".join(summary.split()).endswith("found" + "failed:3restartswereusedup")


def test_summary_colours_only_verdict_and_failures() -> None:
    summary = render_summary(eventful_run(), 200, lambda text, good: f"<{good}>{text}")
    assert summary.splitlines()[0].startswith("<False>✗ platform")
    assert summary.splitlines()[-1].startswith("<False>✗ day.yaml:21")
    assert summary.count("<") == 2


def test_summary_of_a_run_without_data() -> None:
    assert render_summary(RunRecord("d", ".", 0, "2026-11-16T08:00:00Z", 5.0), 80) == "✓ d: passed\n"
    failed = RunRecord("d", ".", 0, "2026-11-16T08:00:00Z", 5.0, steps=(StepRecord("x", "Apply", 0, 1, "failed", "no answer"),))
    assert render_summary(failed, 80).splitlines()[-1] == "✗ Apply: no answer"


def test_summary_shows_drill_outages() -> None:
    deaths = (Outage("kueue", 60.0, 5.0, True), Outage("nodes", 90.0, 0.0, False), Outage("kueue", 95.0, 0.0, True))
    day = replace(eventful_run(), outages=deaths)
    assert "Drill: 3 programs killed, 2 of them during a request\n" in render_summary(day, 80)
    (group,) = [group for group in build_chart_data(day)["groups"] if group["name"] == "Drill outages"]
    assert [(row["name"], len(row["spans"])) for row in group["rows"]] == [("kueue", 2), ("nodes", 1)]
    assert group["rows"][1]["spans"] == [("killed", 90.0, 91.0, "killed while idle")]


def test_summary_escapes_control_characters() -> None:
    assert "\x1b" not in render_summary(replace(eventful_run(), name="\x1b[31mred"), 80)


def test_finish_writes_the_page_and_returns_the_exit_code(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)  # xdist workers have one
    file = tmp_path / "day.html"
    assert rehearse.report_result(eventful_run(), file) == 1
    out, err = capsys.readouterr()
    assert out == SUMMARY
    assert err == f"Report: {file}\n"
    assert file.read_text().startswith("<!doctype html>")
    assert [path.name for path in tmp_path.iterdir()] == ["day.html"]
    assert rehearse.report_result(replace(eventful_run(), steps=()), file, summary=False) == 0
    assert capsys.readouterr().out == ""


def test_default_page_path_is_in_the_state_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLICEWORKS_HOME", str(tmp_path))
    assert rehearse.write_report(replace(eventful_run(), name="../../a b")) == tmp_path / "rehearsals" / "a-b.html"


def test_load_test_reports_are_written_next_to_the_page(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "report.html").write_text("a report")
    record = eventful_run()
    runs = [replace(record.measured.load_runs[0], report=str(tmp_path / "work" / name)) for name in ("report.html", "missing.html")]
    record = replace(record, measured=replace(record.measured, load_runs=tuple(runs)))
    kept = rehearse_simulation.attach_reports(record, tmp_path / "day.html")
    assert [run.report for run in kept.measured.load_runs] == ["day-chat.html", ""]
    assert (tmp_path / "day-chat.html").read_text() == "a report"


def test_unwritable_file_is_a_one_line_error(tmp_path: Path) -> None:
    with pytest.raises(SliceworksError, match=r"writing the report to .*missing/day.html failed: No such file or directory"):
        rehearse.write_report(eventful_run(), tmp_path / "missing" / "day.html")


def test_missing_browser_is_not_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("sys.platform", "linux")
    assert rehearse.report_result(replace(eventful_run(), steps=()), tmp_path / "d.html", open_it=True, summary=False) == 0
    assert capsys.readouterr().err.splitlines()[-1] == "No browser found to open the report."


def test_browser_opens_the_file_url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []

    def opening(address: str) -> bool:
        opened.append(address)
        return True

    monkeypatch.setenv("BROWSER", "anything")
    monkeypatch.setattr("webbrowser.open", opening)
    assert rehearse.open_report(tmp_path / "d.html")
    assert opened == [f"file://{tmp_path}/d.html"]
