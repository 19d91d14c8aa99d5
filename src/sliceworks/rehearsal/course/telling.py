"""To whom a rehearsal tells how it goes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from sliceworks.rehearsal.course.watch import Watch
    from sliceworks.rehearsal.day.record import Step


class Teller(Protocol):
    """Somebody who looks on."""

    def begin(self, title: str) -> None:
        """A step begins."""

    def said(self, text: str) -> None:
        """What it has come to. Threads may say so too."""

    def passing(self, watch: Watch) -> None:
        """The twin's time passes, and this is how things stand; called very often."""

    def end(self, step: Step, seconds: float) -> None:
        """A step is over, after so many real seconds."""


class Nobody:
    """Nobody looks on."""

    def begin(self, title: str) -> None: ...

    def said(self, text: str) -> None: ...

    def passing(self, watch: Watch) -> None: ...

    def end(self, step: Step, seconds: float) -> None: ...
