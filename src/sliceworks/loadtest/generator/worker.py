"""One worker's part of a test: its share of the schedule, its users, and a row for each request."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import gevent
from gevent.pool import Group

from sliceworks.loadtest.generator.apis import api_of
from sliceworks.loadtest.generator.tally import Tally
from sliceworks.loadtest.generator.wire import Wire
from sliceworks.loadtest.rows import USERS_FROM, Failure, Record

if TYPE_CHECKING:
    from collections.abc import Callable

    from sliceworks.loadtest.arrivals import Phase
    from sliceworks.loadtest.generator.answers import Answer
    from sliceworks.loadtest.generator.pacing import Watch
    from sliceworks.loadtest.plans import Plan
    from sliceworks.loadtest.prompts import Prompt
    from sliceworks.loadtest.rows import Writer

    Heard = Callable[[Record, Answer], None]


class Worker:
    """Sends its share. `heard` is told of each request that has ended."""

    def __init__(
        self, plan: Plan, writer: Writer, watch: Watch, *, index: int = 0, workers: int = 1, heard: Heard | None = None
    ) -> None:
        spec = plan.spec
        self._spec, self._schedule, self._prompts = spec, plan.schedule, plan.prompts
        self._api = api_of(spec, plan.url, plan.key)
        self._wire = Wire(plan.url, spec.times, watch.now, spec.target.authority)
        self._writer, self._watch = writer, watch
        self._index, self._workers, self._heard = index, workers, heard
        self._under_way = Group()
        self._open: dict[int, Record] = {}
        self._users = 0
        self.tally = Tally()
        self.stopped = False

    def run(self) -> None:
        """Send everything, wait for all answers, write all rows."""
        try:
            users = [gevent.spawn(self._closed, phase) for phase in self._schedule.phases if phase.users]
            self._send_all()
            gevent.joinall(users)
            self._under_way.join()
        finally:
            self._wire.close()

    def stop(self, grace: float) -> None:
        """Send nothing more; what has not been answered after the grace counts as interrupted."""
        self.stopped = True
        gevent.sleep(0)
        self._under_way.join(grace)
        self._under_way.kill(block=True, timeout=5)
        for record in list(self._open.values()):
            record.failure, record.ended = Failure.INTERRUPTED, self._watch.now()
            self._end(record)

    def _send_all(self) -> None:
        schedule, wait, stopped = self._schedule, self._watch.wait, lambda: self.stopped
        moments, phases = schedule.moments, schedule.of_phase
        for number in schedule.share(self._index, self._workers).tolist():
            intended = int(moments[number])
            if not wait(intended, stopped):
                return
            self.tally.due += 1
            record = Record(number, intended, int(phases[number]), self._prompts.index(number))
            self._under_way.spawn(self._one, record, self._prompts.all[record.prompt])

    def _one(self, record: Record, prompt: Prompt) -> Answer:
        self._open[id(record)] = record
        answer = self._api.answer(record)
        self.tally.sent += 1
        self._wire.exchange(self._api.request(prompt, record.number), answer)
        self._end(record, answer)
        return answer

    def _end(self, record: Record, answer: Answer | None = None) -> None:
        self._open.pop(id(record), None)
        self._writer.add(record)
        self.tally.end(record)
        if self._heard is not None and answer is not None:
            self._heard(record, answer)

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
                self.tally.due += 1
                record = Record(number + USERS_FROM, self._watch.now(), phase.number, index, turn)
                greenlet = self._under_way.spawn(self._one, record, prompt)
                greenlet.join()
                answer = greenlet.value
                if answer is None or record.failure is not Failure.NONE:
                    gevent.sleep(0.01)  # a server that refuses at once must not be asked as fast as a loop turns
                    break
                if turn + 1 < turns:
                    prompt = _go_on(prompt, answer.text)
                    gevent.sleep(self._spec.prompts.think if self._spec.prompts else 0)

    def _next_number(self) -> int:
        number = self._index + self._users * self._workers
        self._users += 1
        return number


def _go_on(prompt: Prompt, said: str) -> Prompt:
    """The next turn of a conversation: all that was said, and a nudge."""
    more: tuple[dict[str, Any], ...] = ({"role": "assistant", "content": said}, {"role": "user", "content": "Go on."})
    return replace(prompt, messages=(*prompt.chat(), *more))
