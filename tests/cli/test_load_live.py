"""The live display of a running load test."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from tests.support.load_tests import spec

from sliceworks.base import clock, progress
from sliceworks.cli.load_runner import LoadDisplay, sparkline
from sliceworks.loadtest import load_plan
from sliceworks.loadtest.runner import Progress

if TYPE_CHECKING:
    import pytest


def watched(seconds: int) -> None:
    """A test of 20 requests per second that sends only every other one."""

    async def main() -> None:
        with LoadDisplay("chat", load_plan.create(spec(stages=[{"constant": 20, "for": "60s"}]), Path())) as live:
            for half in range(2 * seconds):
                failures = Counter({"status 503": half})
                now = Progress(10 * half, 5 * half, 4 * half, half, failures, [0.2, 0.01 * half, 0.3], [], 0.0)
                live.show(now)
                await clock.sleep(0.5)

    clock.run(main(), virtual=True)


def test_log_has_a_line_every_five_seconds(capsys: pytest.CaptureFixture[str]) -> None:
    watched(12)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 3
    assert lines[2].startswith("chat: 10 of 60 s; scheduled 20/s, sent 10/s, 20 in flight, 80 completed; latency ")
    assert lines[2].endswith("20 failed: 20 × status 503")


def test_quiet_prints_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    progress.set_quiet(True)
    try:
        watched(6)
    finally:
        progress.set_quiet(False)
    assert capsys.readouterr().err == ""


def test_highest_bar_is_the_highest_value() -> None:
    assert sparkline([0.0, 0.5, 1.0]) == "▁▅█"
    assert sparkline([0.0]) == "▁"
