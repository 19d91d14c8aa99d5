"""How much a key, or a model, may ask for: buckets that fill up over a minute."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from sliceworks.serving.gateway.refusals import over_rate

if TYPE_CHECKING:
    from sliceworks.specs.gateway import Rate

_MINUTE = 60.0


class Bucket:
    """Fills at a steady pace up to what a minute allows. What was used beyond that is owed."""

    __slots__ = ("_filled", "_left", "most")

    def __init__(self, most: int) -> None:
        self.most = most
        self._left = float(most)
        self._filled = asyncio.get_running_loop().time()

    def wait(self, amount: float) -> float:
        """How long until so much is there; nothing when it is there already."""
        now = asyncio.get_running_loop().time()
        self._left = min(self.most, self._left + (now - self._filled) * self.most / _MINUTE)
        self._filled = now
        missing = min(amount, self.most) - self._left
        return max(0.0, missing * _MINUTE / self.most)

    def take(self, amount: float) -> None:
        """Use so much, or give it back when it is negative."""
        self._left = min(self.most, self._left - amount)

    @property
    def left(self) -> float:
        self.wait(0)
        return self._left

    @property
    def full_in(self) -> float:
        """Seconds until all of a minute is there again."""
        return (self.most - self.left) * _MINUTE / self.most


class Quota:
    """What a rate allows. `enter` before a request and `leave` after it."""

    def __init__(self, rate: Rate, whose: str) -> None:
        self.rate, self._whose = rate, whose
        self._requests = Bucket(rate.requests_per_minute) if rate.requests_per_minute else None
        self._tokens = Bucket(rate.tokens_per_minute) if rate.tokens_per_minute else None
        self.under_way = 0

    def check(self, tokens: int) -> None:
        """Raises the Refusal that says what is used up and for how long."""
        if self.rate.concurrent is not None and self.under_way >= self.rate.concurrent:
            raise over_rate(f"{self.rate.concurrent} requests at once for {self._whose}", 1)
        if self._requests is not None and (wait := self._requests.wait(1)) > 0:
            raise over_rate(f"{self._requests.most} requests a minute for {self._whose}", wait)
        if self._tokens is not None and (wait := self._tokens.wait(tokens)) > 0:
            raise over_rate(f"{self._tokens.most} tokens a minute for {self._whose}", wait)

    def enter(self, tokens: int) -> None:
        """A request begins that looks so long."""
        self.under_way += 1
        if self._requests is not None:
            self._requests.take(1)
        if self._tokens is not None:
            self._tokens.take(tokens)

    def leave(self, tokens: int, used: int | None) -> None:
        """It is over, and has really used so much, where that is known."""
        self.under_way -= 1
        if self._tokens is not None and used is not None:
            self._tokens.take(used - tokens)

    @property
    def told(self) -> list[tuple[bytes, bytes]]:
        """Headers that tell a client what is left."""
        found: list[tuple[bytes, bytes]] = []
        for name, bucket in ((b"requests", self._requests), (b"tokens", self._tokens)):
            if bucket is not None:
                found.append((b"x-ratelimit-limit-%b" % name, b"%d" % bucket.most))
                found.append((b"x-ratelimit-remaining-%b" % name, b"%d" % max(0, int(bucket.left))))
                found.append((b"x-ratelimit-reset-%b" % name, b"%gs" % round(bucket.full_in, 3)))
        return found


class Budget:
    """How many tries may be second ones: a share of all requests, and a few a second whatever that share."""

    def __init__(self, share: float, minimum: int) -> None:
        self._share, self._minimum = share, minimum
        self._most = max(10.0, float(minimum) * 10)
        self._left = self._most
        self._filled = asyncio.get_running_loop().time()

    def request(self) -> None:
        """A request came."""
        self._left = min(self._most, self._left + self._share)

    def take(self) -> bool:
        """Whether one more try is allowed; it is used if so."""
        now = asyncio.get_running_loop().time()
        self._left = min(self._most, self._left + (now - self._filled) * self._minimum)
        self._filled = now
        if self._left < 1:
            return False
        self._left -= 1
        return True
