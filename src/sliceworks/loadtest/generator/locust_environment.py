"""The test as a Locust environment: one user per worker, and Locust's web UI and CSV files on request."""

from __future__ import annotations

import hmac
from typing import TYPE_CHECKING, Any

import gevent
from flask import Response, request
from gevent.event import Event
from locust import User, task
from locust.env import Environment
from locust.exception import StopUser
from locust.stats import PERCENTILES_TO_REPORT, StatsCSVFileWriter

from sliceworks.loadtest.generator import pacer
from sliceworks.loadtest.generator.pacer import RunClock
from sliceworks.loadtest.generator.worker import Worker
from sliceworks.loadtest.request_log import FAILURE_NAMES, Failure, RecordWriter, ResponseText, ResponseTextWriter

if TYPE_CHECKING:
    from pathlib import Path

    from sliceworks.loadtest.generator.response_reader import ResponseReader
    from sliceworks.loadtest.generator.worker import OnFinished
    from sliceworks.loadtest.load_plan import Plan
    from sliceworks.loadtest.request_log import RequestRecord


class RequestFailed(Exception):
    """The failure that Locust's web UI shows."""


class Assignment:
    """The work of one process: the plan, the log, and the number of workers."""

    def __init__(self, plan: Plan, folder: Path, *, workers: int, csv: bool = False, web: int = 0) -> None:
        self.plan, self.folder, self.workers = plan, folder, workers
        self.csv, self.web = csv, web
        self.begins = 0
        """Start time in nanoseconds of the master's clock."""
        self.clock = pacer.local_offset()
        self.worker: Worker | None = None
        self.texts: ResponseTextWriter | None = None
        """Writer of response texts, if tokens are to be counted or texts to be kept."""
        self.done = Event()
        self.finished = False
        """Whether the worker finished: Locust stops a worker whose master is gone."""

    def work(self, environment: Any) -> None:
        """Run the worker's share and write its log."""
        index = max(getattr(environment.runner, "worker_index", 0), 0)
        try:
            with RecordWriter(self.folder, f"worker-{index}", index) as self.writer:
                run_clock = RunClock(self.begins, self.clock.offset)
                on_finished = self._listeners(environment, f"worker-{index}")
                self.worker = Worker(self.plan, self.writer, run_clock, index=index, workers=self.workers, on_finished=on_finished)
                self.worker.run()
            self.finished = True
        finally:
            if self.texts is not None:
                self.texts.close()
            self.done.set()

    def flush(self) -> str:
        """Flush the log; return why that failed, or an empty string."""
        self.writer.flush()
        if self.texts is not None:
            self.texts.flush()
        return self.writer.problem or (self.texts.problem if self.texts is not None else "")

    def _listeners(self, environment: Any, name: str) -> OnFinished | None:
        """The callback that feeds Locust's statistics, or None unless requested: counting costs as much as sending."""
        shown = self.csv or self.web
        keep = self.plan.spec.results.texts
        if self.plan.spec.tokens is None and not keep:
            return (lambda record, answer: self._report_to_locust(environment, record, answer)) if shown else None
        texts = self.texts = ResponseTextWriter(self.folder, name)

        def on_finished(record: RequestRecord, answer: ResponseReader) -> None:
            if answer.texts and (keep or min(record.tokens_in, record.tokens_out) < 0):
                texts.add(ResponseText(record.number, record.turn, answer.text))
            if shown:
                self._report_to_locust(environment, record, answer)

        return on_finished

    def _report_to_locust(self, environment: Any, record: RequestRecord, _answer: ResponseReader) -> None:
        environment.events.request.fire(
            request_type=self.plan.spec.api,
            name=self.plan.spec.model or "request",
            response_time=(record.ended - record.intended) / 1e6,
            response_length=record.bytes_in,
            exception=RequestFailed(FAILURE_NAMES[record.failure]) if record.failure is not Failure.NONE else None,
            context={},
        )


def create_environment(job: Assignment) -> Any:
    """A Locust environment with one user that runs the job, without options, which Locust would send to all workers."""

    class Load(User):
        """Runs the whole job in its only task."""

        @task
        def everything(self) -> None:
            """Run the job once."""
            job.work(self.environment)
            raise StopUser

    return Environment(user_classes=[Load], catch_exceptions=False)


_CHANGES = frozenset({"/swarm", "/stats/reset", "/user"})


def write_csv(environment: Any, folder: Path) -> Any:
    """Start writing Locust's CSV files; call the returned function after the test."""
    writer = StatsCSVFileWriter(environment, PERCENTILES_TO_REPORT, str(folder / "locust"), full_history=True)
    greenlet = gevent.spawn(writer.stats_writer)

    def end() -> None:
        gevent.sleep(1.1)  # written once per second
        greenlet.kill()
        writer.close_files()

    return end


def serve_web_ui(environment: Any, port: int, password: str) -> None:
    """Locust's web UI on loopback, protected by a password."""
    pages = environment.create_web_ui(host="127.0.0.1", port=port, delayed_start=True)

    @pages.app.before_request  # type: ignore[untyped-decorator]
    def _ask() -> Response | None:
        authorization = request.authorization
        is_valid = authorization is not None and hmac.compare_digest((authorization.password or "").encode(), password.encode())
        if not is_valid:
            return Response("password required\n", 401, {"WWW-Authenticate": 'Basic realm="load test"'})
        if request.path in _CHANGES:
            return Response("the schedule of this test is set by its document\n", 405)
        return None

    pages.start()
