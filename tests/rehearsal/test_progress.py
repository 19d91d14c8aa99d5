"""Progress of a long simulation: how much has passed, and how much real time is left."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from sliceworks.base import clock
from sliceworks.cli.rehearse_simulation import SimulationDisplay, StepClock

DAY = 86_400.0
OBSERVER: Any = SimpleNamespace(jobs=SimpleNamespace(running=3, waiting=2), chips=SimpleNamespace(used=8, total=16))


@pytest.fixture
def real(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The real time in seconds, which only the test changes."""
    seconds = [0.0]
    monkeypatch.setattr(clock, "real_perf_counter", lambda: seconds[0])
    return seconds


def simulate(real: list[float], days: float, step: float) -> None:
    """A step of so many days on the twin, each in 10 real seconds, with a change every `step` seconds."""

    async def main() -> None:
        display = SimulationDisplay()
        display.begin("Run the scenario", days * DAY)
        for _ in range(int(days * DAY / step)):
            await clock.sleep(step)
            real[0] += 10 * step / DAY
            display.tick(OBSERVER)

    clock.run(main(), virtual=True)


def test_long_step_is_logged_in_parts(real: list[float], capsys: pytest.CaptureFixture[str]) -> None:
    simulate(real, 7, 600)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 9
    assert lines[0] == "… Run the scenario: 10%, about 62s left, 00:50  3 jobs running, 2 pending, 8 of 16 chips in use"
    assert [line.split(", ")[:2] for line in lines[-2:]] == [
        ["… Run the scenario: 80%", "about 13s left"],
        ["… Run the scenario: 90%", "about 6s left"],
    ]


def test_short_step_is_not_logged(real: list[float], capsys: pytest.CaptureFixture[str]) -> None:
    simulate(real, 1, 600)
    assert capsys.readouterr().err == ""


def test_time_left_is_unknown_at_first(real: list[float]) -> None:
    async def main() -> list[str]:
        step, described = StepClock(1000.0), []
        for seconds, passed in ((0.0, 0.0), (100.0, 1.0), (150.0, 2.0), (900.0, 5.0)):
            await clock.sleep(seconds)
            real[0] += passed
            described.append(step.describe())
        return described

    assert clock.run(main(), virtual=True) == ["0%", "10%", "25%, about 9s left", "100%, about 0s left"]


def test_terminal_shows_the_time_left(real: list[float]) -> None:
    drawn: list[str] = []

    async def main() -> None:
        display = SimulationDisplay()
        display.display = SimpleNamespace(update=lambda text, refresh: drawn.append(str(text)))
        display.begin("Run the scenario", 3600)
        await clock.sleep(900)
        real[0] += 30
        display.tick(OBSERVER)

    clock.run(main(), virtual=True)
    assert drawn[-1] == "… Run the scenario: 25%, about 90s left, 08:15  3 jobs running, 2 pending, 8 of 16 chips in use"
