"""The echo engine: latency, tokens, injected errors and a record of every request; tokens are timed by one timer wheel."""

from __future__ import annotations

import asyncio
import heapq
import random
from collections import deque
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from sliceworks.base import clock
from sliceworks.base.http.messages import HttpError, bad_request
from sliceworks.serving.gateway.echo.timer import create_timer

if TYPE_CHECKING:
    from collections.abc import Callable

    from sliceworks.base.http.response_writer import ResponseWriter

_TICK = 0.0002
"""The wheel's resolution in seconds: a timer for each deadline would cost more than firing this early."""
_MAX_BURST = 32
"""Callbacks per turn: a server that is behind schedule must still read from its connections."""


class TimerWheel:
    """Calls functions at their times with a single timer. Those due in the same tick are kept together."""

    def __init__(self) -> None:
        self._due: dict[int, list[Callable[[], None]]] = {}
        self._ticks: list[int] = []
        self._timer = create_timer(self._turn)
        self.now = self._timer.now
        """The clock of all times."""
        self._armed: int | None = None

    def call_at(self, time: float, callback: Callable[[], None]) -> None:
        """Call a function at a time on the wheel's clock."""
        tick = int(time / _TICK)
        due = self._due.get(tick)
        if due is not None:
            due.append(callback)
            return
        self._due[tick] = [callback]
        heapq.heappush(self._ticks, tick)
        if self._armed is None or tick < self._armed:
            self._arm(tick)

    def _arm(self, tick: int) -> None:
        self._armed = tick
        self._timer.set(tick * _TICK)

    def _turn(self) -> None:
        # An event loop may fire a microsecond early, and would not fire again for the rest.
        current = int(self.now() / _TICK + 0.01)
        # Callbacks may add others: the timer is armed once, after all of them.
        self._armed = current
        budget = _MAX_BURST
        try:
            while budget > 0 and self._ticks and self._ticks[0] <= current:
                budget -= self._run(heapq.heappop(self._ticks), budget)
        finally:
            self._armed = None
            if self._ticks:
                self._arm(self._ticks[0])
            else:
                self._timer.cancel()

    def _run(self, tick: int, limit: int) -> int:
        """Run up to `limit` callbacks of a tick and return their number. The others, and those after one that fails, stay."""
        callbacks = self._due.pop(tick)
        due = iter(callbacks[:limit])
        try:
            for callback in due:
                callback()
        finally:
            for callback in (*due, *callbacks[limit:]):
                self.call_at((tick + 0.5) * _TICK, callback)
        return min(limit, len(callbacks))


_DEFAULT_TOKENS = 16
_LONG_PROMPT = 10_000


@dataclass(frozen=True, slots=True)
class Settings:
    """How the model behaves. Times are in seconds; with more than `knee` requests in flight, each takes longer."""

    models: tuple[str, ...] = ("echo",)
    ttft: float = 0.0
    token_time: float = 0.0
    jitter: float = 0.0
    """The random fraction of each time."""
    error_rate: float = 0.0
    error_status: int = 500
    knee: int = 0
    seed: int = 0
    tokens: int = 0
    """Tokens of a response if the request does not limit them; as many as the prompt if 0."""
    records: int = 10_000
    """Number of requests to keep records of."""
    classifier: str = ""
    """The model that classifies images like the sample model of Triton."""
    stamps: bool = False
    """Send the time of each token, on the machine's clock, instead of words."""


@dataclass(slots=True)
class RequestRecord:
    """What happened to one request. Times are seconds on the server's clock."""

    number: int
    route: str
    model: str
    arrived: float
    concurrency: int
    prompt_tokens: int = 0
    tokens: int = 0
    sent: list[float] = field(default_factory=list)
    """When each token was written."""
    ended: float = 0.0
    outcome: str = "left"


class Engine:
    """The echo model. Injected errors and jitter are determined by the seed and the order of requests."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.models = dict.fromkeys(settings.models)
        """The loaded models."""
        self.records: deque[RequestRecord] = deque(maxlen=settings.records)
        self.received = 0
        self.in_flight = 0
        self.timers = TimerWheel()
        self._random = random.Random(settings.seed)

    def serves(self, model: str) -> bool:
        return model in self.models or "*" in self.models

    def start_request(self, route: str, model: str, prompt: str, size: int) -> RequestRecord:
        """Record a request; raises HttpError if an error is injected."""
        self.received += 1
        tokens = count_tokens(prompt)
        record = RequestRecord(self.received, route, model, self.timers.now(), self.in_flight + 1, tokens, size)
        if self.settings.records:
            self.records.append(record)
        if self.settings.error_rate and self._random.random() < self.settings.error_rate:
            record.outcome = "error"
            raise HttpError(self.settings.error_status, "echo_error", "injected error of the echo model")
        return record

    def words(self, prompt: str, max_tokens: Any) -> list[str]:
        """The tokens of the response: the words of the prompt, repeated up to the token limit."""
        if max_tokens is not None and (not isinstance(max_tokens, int) or isinstance(max_tokens, bool) or max_tokens < 0):
            raise bad_request(f"max_tokens: must be a non-negative integer, got {max_tokens!r}", param="max_tokens")
        count = max_tokens or self.settings.tokens or _DEFAULT_TOKENS
        words = prompt.split(None, count)[:count] or ["…"]
        return repeat_words(words, count if max_tokens or self.settings.tokens else len(words))

    def scale(self, seconds: float) -> float:
        """A time under the current load, with jitter."""
        knee, jitter = self.settings.knee, self.settings.jitter
        if not knee and not jitter:
            return seconds
        slowdown = max(1.0, self.in_flight / knee) if knee else 1.0
        factor = 1.0 + jitter * (2 * self._random.random() - 1) if jitter else 1.0
        return seconds * slowdown * factor

    async def wait_for_response(self, record: RequestRecord, tokens: int) -> None:
        """Wait for as long as a whole response takes."""
        self.in_flight += 1
        try:
            wait = self.scale(self.settings.ttft) + self.scale(self.settings.token_time) * max(0, tokens - 1)
            if wait:
                await clock.sleep(wait)
        finally:
            self.in_flight -= 1
        self.finish_request(record, tokens)

    async def stream(
        self, record: RequestRecord, response: ResponseWriter, words: list[str], encode: Callable[[str], bytes], last: bytes = b""
    ) -> None:
        """Write a response token by token on schedule, each encoded by `encode`; `last` follows the last one immediately."""
        self.in_flight += 1
        stream = _TokenStream(self, record, response, words, encode)
        try:
            await stream.done
        finally:
            stream.stopped = True
            self.in_flight -= 1
        if last:
            response.write(last)
        response.end()
        self.finish_request(record, len(words))

    def finish_request(self, record: RequestRecord, tokens: int) -> None:
        """Complete the record of a request."""
        record.tokens, record.ended, record.outcome = tokens, self.timers.now(), "done"

    def report(self) -> list[dict[str, Any]]:
        """The records of all requests that are kept."""
        return [asdict(record) for record in self.records]


class _TokenStream:
    """A response in progress. Each token is due relative to the previous one's schedule, not to when that was written."""

    __slots__ = ("_due", "_encode", "_engine", "_position", "_record", "_reply", "_words", "done", "stopped")

    def __init__(
        self, engine: Engine, record: RequestRecord, response: ResponseWriter, words: list[str], encode: Callable[[str], bytes]
    ) -> None:
        self._engine, self._record, self._reply, self._words, self._encode = engine, record, response, words, encode
        self._position = 0
        self.stopped = False
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._due = record.arrived + engine.scale(engine.settings.ttft)
        if self._due > engine.timers.now():
            engine.timers.call_at(self._due, self._write_next)
        else:
            self._write_next()

    def _write_next(self) -> None:
        settings = self._engine.settings
        while not self.stopped:
            if self._position == len(self._words):
                if not self.done.done():
                    self.done.set_result(None)
                return
            word = f"{clock.perf_counter():.6f}" if settings.stamps else self._words[self._position]
            self._reply.write(self._encode(word))
            self._position += 1
            if settings.records:
                self._record.sent.append(self._engine.timers.now())
            if settings.token_time and self._position < len(self._words):
                self._due += self._engine.scale(settings.token_time)
                self._engine.timers.call_at(self._due, self._write_next)
                return


def repeat_words(words: list[str], count: int) -> list[str]:
    """`count` tokens: the words, again from the first after the last, each but the first after a space."""
    words = (words * (count // len(words) + 1))[:count]
    return [words[0], *(f" {word}" for word in words[1:])]


def count_tokens(text: str) -> int:
    """Estimate the tokens of a text by its words; long texts are not split for that."""
    return len(text.split()) if len(text) < _LONG_PROMPT else text.count(" ") + 1
