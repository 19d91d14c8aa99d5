"""Steps of a simulation: duration and result of each, reported as they run."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from sliceworks.base import clock
from sliceworks.base.errors import SliceworksError
from sliceworks.base.names import join_first
from sliceworks.rehearsal.record import StepRecord

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from sliceworks.rehearsal.simulation.observer import Observer


class ProgressReporter(Protocol):
    """Receives the progress of a simulation."""

    def begin(self, title: str, seconds: float = 0.0) -> None:
        """Called when a step begins; `seconds` is its duration on the twin, 0 if it is unknown."""

    def report(self, message: str) -> None:
        """Called with progress of the step, possibly from other threads."""

    def tick(self, watch: Observer) -> None:
        """Called after every change of the twin's store."""

    def end(self, step: StepRecord, seconds: float) -> None:
        """Called when a step ends, with its duration in real seconds."""


class NullReporter:
    """Discards progress."""

    def begin(self, title: str, seconds: float = 0.0) -> None: ...

    def report(self, message: str) -> None: ...

    def tick(self, watch: Observer) -> None: ...

    def end(self, step: StepRecord, seconds: float) -> None: ...


ENVIRONMENT, DOCUMENTS, MODELS = "environment", "documents", "models"
SCENARIO, LOAD_TEST, DESTROY = "scenario", "load-test", "destroy"
STEPS = {
    ENVIRONMENT: "Create the environment with Terraform",
    DOCUMENTS: "Apply the documents",
    MODELS: "Deploy the models",
    SCENARIO: "Run the scenario",
    LOAD_TEST: "Load-test the gateway",
    DESTROY: "Destroy everything",
}
"""The titles of all steps, in their order."""

DONE, FAILED, SKIPPED = "done", "failed", "skipped"


@dataclass(slots=True)
class StepProgress:
    """Result message and problems of a running step."""

    summary: str = ""
    problems: list[str] = field(default_factory=list)


@dataclass(slots=True)
class StepRunner:
    """Runs and records steps, except those in `skipped`. `now` returns twin seconds since the start."""

    reporter: ProgressReporter
    now: Callable[[], float]
    skipped: frozenset[str] = frozenset()
    done: list[StepRecord] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)

    def should_run(self, name: str, why: str = "") -> bool:
        """Whether to run a step; records it as skipped if not. `why` is a reason to skip it."""
        if name not in self.skipped and not why:
            return True
        self.done.append(StepRecord(name, STEPS[name], self.now(), 0.0, SKIPPED, why))
        return False

    @asynccontextmanager
    async def step(self, name: str, seconds: float = 0.0) -> AsyncIterator[StepProgress]:
        """Run a step, which takes `seconds` on the twin if that is known, and record it; a SliceworksError makes it fail."""
        title = STEPS[name]
        self.reporter.begin(title, seconds)
        running, at, started = StepProgress(), self.now(), clock.real_perf_counter()
        try:
            yield running
        except SliceworksError as error:
            running.problems.append(error.message_with_hint)
        result, summary = (FAILED, join_first(running.problems, 3, "; ")) if running.problems else (DONE, running.summary)
        self.done.append(StepRecord(name, title, at, self.now() - at, result, summary))
        self.seconds[name] = clock.real_perf_counter() - started
        self.reporter.end(self.done[-1], self.seconds[name])

    def failed(self, name: str) -> bool:
        """Whether a step failed."""
        return any(step.name == name and step.result == FAILED for step in self.done)
