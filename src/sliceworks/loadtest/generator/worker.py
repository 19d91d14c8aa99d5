"""One worker: its share of the schedule (open loop), its users (closed loop), and a record of each request."""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import gevent
from gevent.event import Event

from sliceworks.loadtest.generator.api import create_api
from sliceworks.loadtest.generator.http_client import HttpClient
from sliceworks.loadtest.generator.pacer import NEVER_DUE, Pacer, low_jitter
from sliceworks.loadtest.prompts import CONTINUE_PROMPT
from sliceworks.loadtest.request_log import NEVER, USER_REQUESTS_FROM, Failure, RequestRecord

if TYPE_CHECKING:
    from collections.abc import Callable

    from sliceworks.loadtest.generator.pacer import RunClock
    from sliceworks.loadtest.generator.response_reader import ResponseReader
    from sliceworks.loadtest.load_plan import Phase, Plan
    from sliceworks.loadtest.prompts import Prompt
    from sliceworks.loadtest.request_log import RecordWriter

    OnFinished = Callable[[RequestRecord, ResponseReader], None]
    OnEnded = Callable[[ResponseReader], None]

_MAX_LATENCIES = 250
"""Maximum latencies per progress line: enough for a display, small enough never to block on the pipe."""


class Tally:
    """Counts of all requests, and latencies since the last progress line."""

    def __init__(self) -> None:
        self.due, self.sent, self.ended, self.failed = 0, 0, 0, 0
        self._failures: Counter[str] = Counter()
        self._times: deque[float] = deque(maxlen=_MAX_LATENCIES)
        self._first: deque[float] = deque(maxlen=_MAX_LATENCIES)
        self._delay = 0.0

    def end(self, record: RequestRecord) -> None:
        """Record a finished request."""
        self.ended += 1
        if record.failure is not Failure.NONE:
            self.failed += 1
            self._failures[f"status {record.status}" if record.failure is Failure.STATUS else record.failure.name.lower()] += 1
        else:
            self._times.append((record.ended - record.intended) / 1e9)
            if record.first_token != NEVER:
                self._first.append((record.first_token - record.intended) / 1e9)
        if record.sent != NEVER:
            self._delay = max(self._delay, (record.sent - record.intended) / 1e9)

    def report(self) -> dict[str, Any]:
        """The totals so far; resets the latencies."""
        totals = {
            "due": self.due,
            "sent": self.sent,
            "ended": self.ended,
            "failed": self.failed,
            "failures": dict(self._failures),
            "times": list(self._times),
            "first": list(self._first),
            "delay": self._delay,
        }
        self._times.clear()
        self._first.clear()
        self._delay = 0.0
        return totals


class Worker:
    """Sends its share of the requests; calls `on_finished` for each finished one."""

    def __init__(
        self,
        plan: Plan,
        writer: RecordWriter,
        run_clock: RunClock,
        *,
        index: int = 0,
        workers: int = 1,
        on_finished: OnFinished | None = None,
    ) -> None:
        spec = plan.spec
        self._spec, self._schedule, self._prompts = spec, plan.schedule, plan.prompts
        self._api = create_api(spec, plan.url, plan.key)
        self._pacer = Pacer(run_clock.now, self._send_next)
        self._client = HttpClient(plan.url, spec.times, run_clock.now, spec.target.authority, self._send_due_first)
        self._writer, self._clock = writer, run_clock
        self._index, self._workers, self._on_finished = index, workers, on_finished
        self._requests = plan.schedule.requests(index, workers)
        self._next: tuple[ResponseReader, bytes] | None = None
        self._open: dict[int, tuple[RequestRecord, OnEnded]] = {}
        self._all_ended = Event()
        self._users = 0
        self.tally = Tally()
        self.stopped = False

    def run(self) -> None:
        """Send all requests, wait for all responses and write the log."""
        try:
            with low_jitter():
                users = [gevent.spawn(self._run_closed_phase, phase) for phase in self._schedule.phases if phase.users]
                first = self._prepare()
                if first != NEVER_DUE and not self.stopped:
                    self._client.keep_ready()
                    self._pacer.begin(first)
                    self._pacer.done.wait()
                if self._pacer.problem is not None:
                    raise self._pacer.problem
                gevent.joinall(users)
                self._wait_for_all()
        finally:
            self._client.close()

    def stop(self, grace: float) -> None:
        """Stop sending; requests without a response after the grace period count as interrupted."""
        self.stopped = True
        self._pacer.stop()
        self._wait_for_all(grace)
        self._client.close()
        for record, ended in list(self._open.values()):
            record.failure, record.ended = Failure.INTERRUPTED, self._clock.now()
            ended(self._api.reader(record))

    def _wait_for_all(self, seconds: float | None = None) -> None:
        if self._open:
            self._all_ended.clear()
            self._all_ended.wait(seconds)

    def _prepare(self) -> int:
        """Prepare the next request; return its due time."""
        self._next = None
        for number, intended, phase in self._requests:
            record = RequestRecord(number, intended, phase, self._prompts.index(number))
            self._next = self._api.reader(record), self._api.request(self._prompts.all[record.prompt], number)
            return intended
        return NEVER_DUE

    def _send_next(self) -> int:
        """The pacer's step: sends the prepared request; returns the next due time."""
        if self._next is None:
            return NEVER_DUE
        self._send(*self._next, self._end)
        return self._prepare()

    def _send_due_first(self, now: int) -> None:
        """Send due requests before responses are parsed."""
        if now >= self._pacer.due:
            self._pacer.catch_up()

    def _send(self, reader: ResponseReader, request: bytes, ended: OnEnded) -> None:
        self.tally.due += 1
        self.tally.sent += 1
        self._open[id(reader.record)] = reader.record, ended
        self._client.send(request, reader, ended)

    def _end(self, reader: ResponseReader) -> None:
        record = reader.record
        del self._open[id(record)]
        self._writer.add(record)
        self.tally.end(record)
        if self._on_finished is not None:
            self._on_finished(record, reader)
        if not self._open:
            self._all_ended.set()

    def _run_closed_phase(self, phase: Phase) -> None:
        if not self._clock.wait(int(phase.begins * 1e9), lambda: self.stopped):
            return
        count = self._schedule.users(phase, self._index, self._workers)
        gevent.joinall([gevent.spawn(self._user, phase) for _ in range(count)])

    def _user(self, phase: Phase) -> None:
        """Run conversations until the phase ends."""
        turns = self._spec.prompts.turns if self._spec.prompts else 1
        ends = int(phase.ends * 1e9)
        while not self.stopped and self._clock.now() < ends:
            number = self._next_number()
            index = self._prompts.index(number)
            prompt = self._prompts.all[index]
            for turn in range(turns):
                if self.stopped or self._clock.now() >= ends:
                    return
                record = RequestRecord(number + USER_REQUESTS_FROM, self._clock.now(), phase.number, index, turn)
                reader = self._send_and_wait(record, prompt)
                if record.failure is not Failure.NONE:
                    gevent.sleep(0.01)  # do not busy-loop against a server that rejects at once
                    break
                if turn + 1 < turns:
                    prompt = _continue_conversation(prompt, reader.text)
                    gevent.sleep(self._spec.prompts.think if self._spec.prompts else 0)

    def _send_and_wait(self, record: RequestRecord, prompt: Prompt) -> ResponseReader:
        """Send a user's request and wait for the response."""
        reader, finished = self._api.reader(record), Event()

        def ended(reader: ResponseReader) -> None:
            self._end(reader)
            finished.set()

        self._send(reader, self._api.request(prompt, record.number), ended)
        finished.wait()
        return reader

    def _next_number(self) -> int:
        number = self._index + self._users * self._workers
        self._users += 1
        return number


def _continue_conversation(prompt: Prompt, response: str) -> Prompt:
    """The next turn of a conversation: all messages so far and a follow-up."""
    turn: tuple[dict[str, Any], ...] = ({"role": "assistant", "content": response}, {"role": "user", "content": CONTINUE_PROMPT})
    return replace(prompt, messages=(*prompt.chat(), *turn))
