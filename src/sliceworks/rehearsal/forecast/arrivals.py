"""Work that will come: days like those that were seen, in any order.

Whole days are taken, so that nights and weekends stay what they are. Of a day further ahead than there is history, nothing is said.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from sliceworks.rehearsal.forecast.course import fresh
from sliceworks.rehearsal.forecast.jobs import QUEUED, Job

if TYPE_CHECKING:
    from collections.abc import Sequence
    from random import Random

    from sliceworks.rehearsal.forecast.course import Course
    from sliceworks.rehearsal.forecast.outlook import Lasts

DAY = 86_400.0
_MOST_DAYS, _FEWEST_JOBS = 14, 20


@dataclass(frozen=True, slots=True)
class Arrivals:
    """The jobs of each whole day before the snapshot, the last day first."""

    days: tuple[tuple[Job, ...], ...] = ()

    @classmethod
    def of(cls, seen: Sequence[Job]) -> Arrivals:
        """Those of all work that is known; too little of it says nothing."""
        earliest = min((job.came for job in seen), default=0.0)
        count = min(int(-earliest // DAY), _MOST_DAYS)
        days: list[list[Job]] = [[] for _ in range(count)]
        for job in seen:
            if (number := int(-job.came // DAY)) < count and job.came <= 0:
                days[number].append(job)
        return cls(tuple(map(tuple, days))) if sum(map(len, days)) >= _FEWEST_JOBS else cls()

    def come(self, course: Course, lasts: Lasts, random: Random) -> None:
        """Let such days happen in a run."""
        for number in range(len(self.days)):
            course.at(number * DAY, partial(self._day, course, lasts, number, random))

    def _day(self, course: Course, lasts: Lasts, number: int, random: Random) -> None:
        like = random.randrange(len(self.days))
        for job in self.days[like]:
            moment = job.came + (like + 1 + number) * DAY
            again = renewed(job, moment, number)
            course.add(again, lasts(again))


def renewed(job: Job, moment: float, number: int) -> Job:
    """A job like another, that comes at some moment."""
    item = fresh(job.item)
    item.key, item.time, item.uid = (job.key[0], f"{job.key[1]}+{number}"), moment, f"{item.uid}+{number}"
    item.evicted = False
    return replace(
        job, key=item.key, item=item, came=moment, state=QUEUED, holds=None, began=0.0, before=0.0, waits_until=0.0, problem=""
    )
