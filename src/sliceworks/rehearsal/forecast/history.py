"""How long each job will run, from what is known: work of its kind that has ended, or what its document expects. Pure.

Where both are known, the one that scattered less so far is believed. Where neither is, nothing is made up.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from sliceworks.base import duration
from sliceworks.rehearsal.forecast.spreads import Spread, around, of_ratios, of_runs

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    from sliceworks.rehearsal.forecast.jobs import Job, Kind, Past

_FEW = 3
_LEVELS: tuple[tuple[str, Callable[[Kind], Hashable]], ...] = (
    ("runs called {stem}-… of this size", lambda kind: (kind.namespace, kind.stem, kind.size)),
    ("runs called {stem}-…", lambda kind: (kind.namespace, kind.stem)),
    ("runs of these images and this size", lambda kind: (kind.namespace, kind.images, kind.size)),
)
"""Work alike, from close to far. Others' work says nothing."""
_NAMED = 2
"""So many of them go by the name."""


@dataclass(frozen=True, slots=True)
class RunTime:
    """How long it may hold its quota, and where that is known from; no spread where nobody knows."""

    spread: Spread | None
    source: str


class History:
    """What has ended. `assume` is the run time of work of which nothing is known."""

    def __init__(self, past: Sequence[Past], assume: float | None = None) -> None:
        self._assume = assume
        self._runs: list[dict[Hashable, list[float]]] = [defaultdict(list) for _ in _LEVELS]
        self._ratios: dict[str, list[float]] = defaultdict(list)
        self._known: dict[object, RunTime] = {}
        for each in past:
            for runs, (_, key) in zip(self._runs, _LEVELS, strict=True):
                runs[key(each.kind)].append(each.seconds)
            if each.estimate:
                self._ratios[each.kind.namespace].append(each.seconds / each.estimate)
                self._ratios[""].append(each.seconds / each.estimate)
        readied = [each.readied for each in past if each.readied is not None]
        self.boot = max(0.0, median(readied)) if readied else 0.0
        """How long work usually takes to get ready once it is admitted."""

    def of(self, job: Job) -> RunTime:
        """What is known of one job; the same for all of its kind with the same expectation."""
        about = (job.kind, job.estimate)
        if about not in self._known:
            self._known[about] = self._look(job)
        return self._known[about]

    def _look(self, job: Job) -> RunTime:
        found = [each for each in (self._seen(job), self._expected(job)) if each is not None]
        if found:
            return min(found, key=lambda each: each.spread.width if each.spread else 0.0)
        if self._assume is not None:
            return RunTime(around(self._assume), f"assumed {duration.human(self._assume)}")
        return RunTime(None, "unknown")

    def _seen(self, job: Job) -> RunTime | None:
        # What somebody expects of this very job says more than other work that merely looks like it.
        for runs, (words, key) in zip(self._runs, _LEVELS[:_NAMED] if job.estimate else _LEVELS, strict=False):
            seconds = runs.get(key(job.kind), ())
            if len(seconds) >= _FEW:
                return RunTime(of_runs(seconds), f"{len(seconds)} {words.format(stem=job.kind.stem)}")
        return None

    def _expected(self, job: Job) -> RunTime | None:
        if job.estimate is None:
            return None
        said = f"estimate {duration.human(job.estimate)}"
        for namespace, whose in ((job.kind.namespace, "this team's"), ("", "all")):
            ratios = self._ratios.get(namespace, ())
            if len(ratios) >= _FEW:
                return RunTime(of_ratios(ratios).times(job.estimate), f"{said}, as right as {len(ratios)} of {whose} were")
        return RunTime(around(job.estimate + self.boot), said)
