"""What the echo model does with a prompt: how long it thinks, what it says, when it fails, and what it writes down of it all."""

from __future__ import annotations

import asyncio
import random
from collections import deque
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from sliceworks.base import clock
from sliceworks.base.http.refusals import Refusal, malformed
from sliceworks.serving.gateway.echo.wheel import Wheel

if TYPE_CHECKING:
    from collections.abc import Callable

    from sliceworks.base.http.reply import Reply

_DEFAULT_TOKENS = 16
_LONG = 10_000


@dataclass(frozen=True, slots=True)
class Settings:
    """How the model behaves. Times are in seconds; `knee` is how many requests it serves at once before each takes longer."""

    models: tuple[str, ...] = ("echo",)
    ttft: float = 0.0
    token_time: float = 0.0
    jitter: float = 0.0
    """The share of each time that is left to chance."""
    error_rate: float = 0.0
    error_status: int = 500
    knee: int = 0
    seed: int = 0
    tokens: int = 0
    """How many tokens an answer has when the request does not say; as many as the prompt when 0."""
    records: int = 10_000
    """Requests that are remembered."""
    stamps: bool = False
    """Say when each token is sent, on the machine's own clock, in place of words."""


@dataclass(slots=True)
class Record:
    """What really happened to one request. Times are seconds on the server's own clock."""

    number: int
    route: str
    model: str
    arrived: float
    at_once: int
    prompt_tokens: int = 0
    prompt_bytes: int = 0
    tokens: int = 0
    sent: list[float] = field(default_factory=list)
    """When each piece was written."""
    ended: float = 0.0
    outcome: str = "left"


class Engine:
    """One model's machine. Which requests fail, and how times vary, follows from the seed and from their order."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.models = dict.fromkeys(settings.models)
        """Those that are loaded."""
        self.records: deque[Record] = deque(maxlen=settings.records)
        self.received = 0
        self.under_way = 0
        self.wheel = Wheel()
        self._chance = random.Random(settings.seed)

    def serves(self, model: str) -> bool:
        """Whether it answers for a model of this name."""
        return model in self.models or "*" in self.models

    def arrive(self, route: str, model: str, prompt: str, size: int) -> Record:
        """A request has come; raises the Refusal of one that is to fail."""
        self.received += 1
        record = Record(self.received, route, model, self.wheel.now(), self.under_way + 1, count(prompt), size)
        if self.settings.records:
            self.records.append(record)
        if self.settings.error_rate and self._chance.random() < self.settings.error_rate:
            record.outcome = "error"
            raise Refusal(self.settings.error_status, "echo_error", "the echo model was told to fail now and then")
        return record

    def words(self, prompt: str, most: Any) -> list[str]:
        """The answer, token by token: the words of the prompt, over again where more are wanted."""
        if most is not None and (not isinstance(most, int) or isinstance(most, bool) or most < 0):
            raise malformed("the number of tokens must be a whole one, 1 or more", param="max_tokens")
        wanted = most or self.settings.tokens or _DEFAULT_TOKENS
        said = prompt.split(None, wanted)[:wanted] or ["…"]
        wanted = wanted if most or self.settings.tokens else len(said)
        said = (said * (wanted // len(said) + 1))[:wanted]
        return [said[0], *(f" {word}" for word in said[1:])]

    def pace(self, seconds: float) -> float:
        """How long something takes now: longer when more is under way than the machine does at once, and a little by chance."""
        knee, jitter = self.settings.knee, self.settings.jitter
        if not knee and not jitter:
            return seconds
        slower = max(1.0, self.under_way / knee) if knee else 1.0
        chance = 1.0 + jitter * (2 * self._chance.random() - 1) if jitter else 1.0
        return seconds * slower * chance

    async def think(self, record: Record, tokens: int) -> None:
        """As long as a whole answer takes."""
        self.under_way += 1
        try:
            wait = self.pace(self.settings.ttft) + self.pace(self.settings.token_time) * max(0, tokens - 1)
            if wait:
                await clock.sleep(wait)
        finally:
            self.under_way -= 1
        self.end(record, tokens)

    async def say(self, record: Record, reply: Reply, words: list[str], written: Callable[[str], bytes], last: bytes = b"") -> None:
        """Write an answer token by token, each at its time and as `written` has it; `last` follows the last one at once."""
        self.under_way += 1
        speech = _Speech(self, record, reply, words, written)
        try:
            await speech.done
        finally:
            speech.stopped = True
            self.under_way -= 1
        if last:
            reply.write(last)
        reply.end()
        self.end(record, len(words))

    def end(self, record: Record, tokens: int) -> None:
        """A request was answered."""
        record.tokens, record.ended, record.outcome = tokens, self.wheel.now(), "done"

    def report(self) -> list[dict[str, Any]]:
        """All that is remembered."""
        return [asdict(record) for record in self.records]


class _Speech:
    """An answer that is being given. Times follow from the one before, not from when that was really written."""

    __slots__ = ("_at", "_due", "_engine", "_record", "_reply", "_words", "_written", "done", "stopped")

    def __init__(self, engine: Engine, record: Record, reply: Reply, words: list[str], written: Callable[[str], bytes]) -> None:
        self._engine, self._record, self._reply, self._words, self._written = engine, record, reply, words, written
        self._at = 0
        self.stopped = False
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._due = record.arrived + engine.pace(engine.settings.ttft)
        if self._due > engine.wheel.now():
            engine.wheel.at(self._due, self._next)
        else:
            self._next()

    def _next(self) -> None:
        settings = self._engine.settings
        while not self.stopped:
            if self._at == len(self._words):
                if not self.done.done():
                    self.done.set_result(None)
                return
            word = f"{clock.effort():.6f}" if settings.stamps else self._words[self._at]
            self._reply.write(self._written(word))
            self._at += 1
            if settings.records:
                self._record.sent.append(self._engine.wheel.now())
            if settings.token_time and self._at < len(self._words):
                self._due += self._engine.pace(settings.token_time)
                self._engine.wheel.at(self._due, self._next)
                return


def count(text: str) -> int:
    """Tokens of a text: about its words. Long texts are not taken apart for that."""
    return len(text.split()) if len(text) < _LONG else text.count(" ") + 1
