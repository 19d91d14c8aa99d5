"""What a person sees while a day is rehearsed: a line for each step, and one that moves while the twin's time passes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.base import clock, duration, progress
from sliceworks.cli.moving import Moving

if TYPE_CHECKING:
    from sliceworks.rehearsal.course.watch import Watch
    from sliceworks.rehearsal.day.record import Step

_OFTEN = 0.1  # seconds between two looks
_MARKS = {"done": ("✓", "32"), "failed": ("✗", "31"), "skipped": ("–", "2")}


class Live(Moving):
    """Draws on a terminal; says a line for each step elsewhere; nothing when it is to be quiet."""

    def __init__(self) -> None:
        super().__init__()
        self._title = self._said = ""
        self._drawn = 0.0

    def begin(self, title: str) -> None:
        """A step begins."""
        self._title, self._said = title, ""
        self._draw()

    def said(self, text: str) -> None:
        """What it has come to."""
        self._said = text
        self._draw()

    def passing(self, watch: Watch) -> None:
        """The twin's time passes."""
        if self.display is not None and self._title and clock.stopwatch() - self._drawn >= _OFTEN:
            self._drawn = clock.stopwatch()
            self._draw(_standing(watch))

    def end(self, step: Step, seconds: float) -> None:
        """A step is over."""
        self._title = self._said = ""
        mark, colour = _MARKS[step.result]
        if progress.coloured():
            mark = f"\x1b[{colour}m{mark}\x1b[0m"
        lasted = f"{duration.human(step.lasted)} on the twin, " if step.lasted >= 1 else ""
        line = f"{mark} {step.title}: {step.told or step.result} {progress.dim(f'({lasted}{seconds:.1f} s here)')}"
        if self.display is None:
            progress.say(line)
        else:
            self.display.console.print(_text(line, ansi=True), highlight=False, soft_wrap=True)

    def _draw(self, standing: str = "") -> None:
        if self.display is not None:
            told = self._said or standing
            self.display.update(_text(f"… {self._title}{f': {told}' if told else ''}"), refresh=True)


def _standing(watch: Watch) -> str:
    jobs, chips = watch.jobs, watch.chips
    waits = f", {jobs.waiting} waiting" if jobs.waiting else ""
    return f"{clock.now():%H:%M}  {jobs.running} jobs running{waits}, {chips.used} of {chips.there} chips in use"


def _text(line: str, *, ansi: bool = False) -> Any:
    """One line that a narrow terminal cuts rather than breaks."""
    from rich.text import Text

    found = Text.from_ansi(line) if ansi else Text(line)
    found.no_wrap, found.overflow = not ansi, "ellipsis"
    return found
