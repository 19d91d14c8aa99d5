"""One worker's part of a test: its share of the schedule, its users, and a row for each request."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import gevent
from gevent.event import Event

from sliceworks.loadtest.generator.apis import api_of
from sliceworks.loadtest.generator.pacing import FAR, Pacer, undisturbed
from sliceworks.loadtest.generator.tally import Tally
from sliceworks.loadtest.generator.wire import Wire
from sliceworks.loadtest.prompts import NUDGE
from sliceworks.loadtest.rows import USERS_FROM, Failure, Record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sliceworks.loadtest.arrivals import Phase
    from sliceworks.loadtest.generator.answers import Answer
    from sliceworks.loadtest.generator.pacing import Watch
    from sliceworks.loadtest.plans import Plan
    from sliceworks.loadtest.prompts import Prompt
    from sliceworks.loadtest.rows import Writer

    Heard = Callable[[Record, Answer], None]
    Ended = Callable[[Answer], None]

_BLOCK = 4_096
"""So much of the schedule is turned into numbers of Python's at a time: all of it would take forty bytes for each request."""


class Worker:
    """Sends its share. `heard` is told of each request that has ended."""

    def __init__(
        self, plan: Plan, writer: Writer, watch: Watch, *, index: int = 0, workers: int = 1, heard: Heard | None = None
    ) -> None:
        spec = plan.spec
        self._spec, self._schedule, self._prompts = spec, plan.schedule, plan.prompts
        self._api = api_of(spec, plan.url, plan.key)
        self._pacer = Pacer(watch.now, self._send_next)
        self._wire = Wire(plan.url, spec.times, watch.now, spec.target.authority, self._let_go_first)
        self._writer, self._watch = writer, watch
        self._index, self._workers, self._heard = index, workers, heard
        self._share = self._mine()
        self._next: tuple[Answer, bytes] | None = None
        self._open: dict[int, tuple[Record, Ended]] = {}
        self._all_ended = Event()
        self._users = 0
        self.tally = Tally()
        self.stopped = False

    def run(self) -> None:
        """Send everything, wait for all answers, write all rows."""
        try:
            with undisturbed():
                users = [gevent.spawn(self._closed, phase) for phase in self._schedule.phases if phase.users]
                first = self._prepare()
                if first != FAR and not self.stopped:
                    self._wire.keep_ready()
                    self._pacer.begin(first)
                    self._pacer.done.wait()
                if self._pacer.problem is not None:
                    raise self._pacer.problem
                gevent.joinall(users)
                self._wait_for_all()
        finally:
            self._wire.close()

    def stop(self, grace: float) -> None:
        """Send nothing more; what has not been answered after the grace counts as interrupted."""
        self.stopped = True
        self._pacer.stop()
        self._wait_for_all(grace)
        self._wire.close()
        for record, ended in list(self._open.values()):
            record.failure, record.ended = Failure.INTERRUPTED, self._watch.now()
            ended(self._api.answer(record))

    def _wait_for_all(self, seconds: float | None = None) -> None:
        if self._open:
            self._all_ended.clear()
            self._all_ended.wait(seconds)

    def _mine(self) -> Iterator[tuple[int, int, int]]:
        """Number, moment and phase of each request that is this worker's to send."""
        moments, phases = self._schedule.moments, self._schedule.of_phase
        for block in range(self._index, len(moments), _BLOCK * self._workers):
            part = slice(block, block + _BLOCK * self._workers, self._workers)
            numbers = range(len(moments))[part]
            yield from zip(numbers, moments[part].tolist(), phases[part].tolist(), strict=True)

    def _prepare(self) -> int:
        """Have the next request ready before it is due; its moment."""
        self._next = None
        for number, intended, phase in self._share:
            record = Record(number, intended, phase, self._prompts.index(number))
            self._next = self._api.answer(record), self._api.request(self._prompts.all[record.prompt], number)
            return intended
        return FAR

    def _send_next(self) -> int:
        """The pacer's step: send what is ready; when the one after it is due."""
        if self._next is None:
            return FAR
        self._send(*self._next, self._end)
        return self._prepare()

    def _let_go_first(self, now: int) -> None:
        """What is due leaves before what has come is looked at."""
        if now >= self._pacer.due:
            self._pacer.catch_up()

    def _send(self, answer: Answer, request: bytes, ended: Ended) -> None:
        self.tally.due += 1
        self.tally.sent += 1
        self._open[id(answer.record)] = answer.record, ended
        self._wire.send(request, answer, ended)

    def _end(self, answer: Answer) -> None:
        record = answer.record
        del self._open[id(record)]
        self._writer.add(record)
        self.tally.end(record)
        if self._heard is not None:
            self._heard(record, answer)
        if not self._open:
            self._all_ended.set()

    def _closed(self, phase: Phase) -> None:
        if not self._watch.wait(int(phase.begins * 1e9), lambda: self.stopped):
            return
        count = self._schedule.users(phase, self._index, self._workers)
        gevent.joinall([gevent.spawn(self._user, phase) for _ in range(count)])

    def _user(self, phase: Phase) -> None:
        """One conversation after the other, until the phase ends."""
        turns = self._spec.prompts.turns if self._spec.prompts else 1
        ends = int(phase.ends * 1e9)
        while not self.stopped and self._watch.now() < ends:
            number = self._next_number()
            index = self._prompts.index(number)
            prompt = self._prompts.all[index]
            for turn in range(turns):
                if self.stopped or self._watch.now() >= ends:
                    return
                record = Record(number + USERS_FROM, self._watch.now(), phase.number, index, turn)
                answer = self._asked(record, prompt)
                if record.failure is not Failure.NONE:
                    gevent.sleep(0.01)  # a server that refuses at once must not be asked as fast as a loop turns
                    break
                if turn + 1 < turns:
                    prompt = _go_on(prompt, answer.text)
                    gevent.sleep(self._spec.prompts.think if self._spec.prompts else 0)

    def _asked(self, record: Record, prompt: Prompt) -> Answer:
        """The answer to a request of a user, who waits for it."""
        answer, came = self._api.answer(record), Event()

        def ended(answer: Answer) -> None:
            self._end(answer)
            came.set()

        self._send(answer, self._api.request(prompt, record.number), ended)
        came.wait()
        return answer

    def _next_number(self) -> int:
        number = self._index + self._users * self._workers
        self._users += 1
        return number


def _go_on(prompt: Prompt, said: str) -> Prompt:
    """The next turn of a conversation: all that was said, and a nudge."""
    more: tuple[dict[str, Any], ...] = ({"role": "assistant", "content": said}, {"role": "user", "content": NUDGE})
    return replace(prompt, messages=(*prompt.chat(), *more))
