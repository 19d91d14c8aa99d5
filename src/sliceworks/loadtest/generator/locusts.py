"""The test as Locust runs it: one user for each worker, who sends the worker's whole share.

Locust brings the master and its workers together, counts, draws its pages and writes its CSV files. What it does not do is decide
when a request leaves: that is the schedule's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gevent.event import Event
from locust import User, task
from locust.env import Environment
from locust.exception import StopUser

from sliceworks.loadtest.generator import clocks
from sliceworks.loadtest.generator.pacing import Watch
from sliceworks.loadtest.generator.worker import Worker
from sliceworks.loadtest.rows import WORDS, Failure, Writer
from sliceworks.loadtest.texts import Said, TextWriter

if TYPE_CHECKING:
    from pathlib import Path

    from sliceworks.loadtest.generator.answers import Answer
    from sliceworks.loadtest.generator.worker import Heard
    from sliceworks.loadtest.plans import Plan
    from sliceworks.loadtest.rows import Record


class RequestFailed(Exception):
    """What Locust's pages show of a request that failed."""


class Job:
    """What a process of Locust is to do: the plan, where the rows go, and how many share the work."""

    def __init__(self, plan: Plan, folder: Path, *, workers: int, csv: bool = False, web: int = 0) -> None:
        self.plan, self.folder, self.workers = plan, folder, workers
        self.csv, self.web = csv, web
        self.begins = 0
        """Nanoseconds of the clock by which it is set."""
        self.clock = clocks.local()
        self.worker: Worker | None = None
        self.texts: TextWriter | None = None
        """Answers, where their tokens are to be counted."""
        self.done = Event()
        self.finished = False
        """Whether it came to its own end: Locust ends a worker whose master is gone."""

    def work(self, environment: Any) -> None:
        """The worker's share, from its beginning to its last row."""
        index = max(getattr(environment.runner, "worker_index", 0), 0)
        try:
            with Writer(self.folder, f"worker-{index}", index) as self.writer:
                watch = Watch(self.begins, self.clock.shift)
                heard = self._listeners(environment, f"worker-{index}")
                self.worker = Worker(self.plan, self.writer, watch, index=index, workers=self.workers, heard=heard)
                self.worker.run()
            self.finished = True
        finally:
            if self.texts is not None:
                self.texts.close()
            self.done.set()

    def flush(self) -> str:
        """Hand everything that was measured to the system; why that does not go, if it does not."""
        self.writer.flush()
        if self.texts is not None:
            self.texts.flush()
        return self.writer.problem or (self.texts.problem if self.texts is not None else "")

    def _listeners(self, environment: Any, name: str) -> Heard | None:
        """Who is told of each answer: nobody, where nobody asked. Counting for pages would cost as much as sending."""
        shown = self.csv or self.web
        if self.plan.spec.tokens is None:
            return (lambda record, answer: self._tell(environment, record, answer)) if shown else None
        texts = self.texts = TextWriter(self.folder, name)

        def heard(record: Record, answer: Answer) -> None:
            if answer.texts and min(record.tokens_in, record.tokens_out) < 0:
                texts.add(Said(record.number, record.turn, answer.text))
            if shown:
                self._tell(environment, record, answer)

        return heard

    def _tell(self, environment: Any, record: Record, _answer: Answer) -> None:
        environment.events.request.fire(
            request_type=self.plan.spec.api,
            name=self.plan.spec.model or "request",
            response_time=(record.ended - record.intended) / 1e6,
            response_length=record.bytes_in,
            exception=RequestFailed(WORDS[record.failure]) if record.failure is not Failure.NONE else None,
            context={},
        )


def environment(job: Job) -> Any:
    """Locust's environment with a user in it who does the job, and no options: those would travel to all workers."""

    class Load(User):
        """Does everything in the one task it has."""

        @task
        def everything(self) -> None:
            """From the first request to the last, once."""
            job.work(self.environment)
            raise StopUser

    return Environment(user_classes=[Load], catch_exceptions=False)
