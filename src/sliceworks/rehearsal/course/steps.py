"""The steps of a day, one after the other: how long each took, and what came of it. A step that fails ends nothing but itself."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sliceworks.base import clock
from sliceworks.base.errors import SliceworksError
from sliceworks.rehearsal.day.record import Step

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from sliceworks.rehearsal.course.telling import Teller

DONE, FAILED, SKIPPED = "done", "failed", "skipped"


@dataclass(slots=True)
class Running:
    """A step under way: what it has to say in the end."""

    told: str = ""
    problems: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Steps:
    """Collects them. `now` is seconds since the beginning of the day; those in `skipped` are left out."""

    teller: Teller
    now: Callable[[], float]
    skipped: frozenset[str] = frozenset()
    done: list[Step] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)

    def wants(self, name: str, title: str, why: str = "") -> bool:
        """Whether a step is to be taken; one that is left out is noted."""
        if name not in self.skipped and not why:
            return True
        self.done.append(Step(name, title, self.now(), 0.0, SKIPPED, why))
        return False

    @asynccontextmanager
    async def step(self, name: str, title: str) -> AsyncIterator[Running]:
        """Take a step; what goes wrong is what it tells."""
        self.teller.begin(title)
        running, at, began = Running(), self.now(), clock.stopwatch()
        try:
            yield running
        except SliceworksError as error:
            running.problems.append(f"{error.message}{f' ({error.hint})' if error.hint else ''}")
        told = "; ".join(running.problems[:3]) + (f" and {len(running.problems) - 3} more" if len(running.problems) > 3 else "")
        result = FAILED if running.problems else DONE
        self.done.append(Step(name, title, at, self.now() - at, result, told or running.told))
        self.seconds[name] = clock.stopwatch() - began
        self.teller.end(self.done[-1], self.seconds[name])

    def failed(self, name: str) -> bool:
        """Whether a step went wrong."""
        return any(step.name == name and step.result == FAILED for step in self.done)
