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

from sliceworks.loadtest.generator.pacing import Watch
from sliceworks.loadtest.generator.worker import Worker
from sliceworks.loadtest.rows import WORDS, Failure, Writer

if TYPE_CHECKING:
    from pathlib import Path

    from sliceworks.loadtest.generator.answers import Answer
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
        """Nanoseconds of the wall clock."""
        self.worker: Worker | None = None
        self.done = Event()
        self.finished = False
        """Whether it came to its own end: Locust ends a worker whose master is gone."""

    def work(self, environment: Any) -> None:
        """The worker's share, from its beginning to its last row."""
        index = max(getattr(environment.runner, "worker_index", 0), 0)
        try:
            with Writer(self.folder, f"worker-{index}", index) as self.writer:
                watch = Watch(self.begins)
                self.worker = Worker(
                    self.plan,
                    self.writer,
                    watch,
                    index=index,
                    workers=self.workers,
                    # Counting for pages and files that nobody asked for would cost as much as sending.
                    heard=(lambda *end: self._tell(environment, *end)) if self.csv or self.web else None,
                )
                self.worker.run()
            self.finished = True
        finally:
            self.done.set()

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
