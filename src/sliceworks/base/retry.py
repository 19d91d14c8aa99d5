"""Retry policies as values: exponential backoff, and how often to retry a request."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING

from sliceworks.base import clock

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True, slots=True)
class Backoff:
    """Delays that grow by `factor` from `first` to `cap` seconds, each increased by up to `jitter` of itself."""

    first: float = 0.8
    factor: float = 2.0
    cap: float = 30.0
    jitter: float = 1.0

    def delay(self, failures: int) -> float:
        """Seconds to wait after this many failures in a row (1 is the first)."""
        # The exponent is limited so that the power does not overflow; the cap is reached long before.
        seconds = min(self.cap, self.first * self.factor ** min(failures - 1, 64))
        return seconds * (1 + self.jitter * clock.rng().random()) if self.jitter else seconds

    def delays(self) -> Iterator[float]:
        """The delays after the first, second, … failure or poll, without end."""
        return map(self.delay, count(1))


@dataclass(frozen=True, slots=True)
class Retry:
    """How often a client retries a request, and with which delays. The client decides which requests are safe to retry.

    A response whose Retry-After exceeds `longest_wait` is not retried.
    """

    attempts: int = 5
    backoff: Backoff = Backoff(first=0.2, cap=5.0, jitter=0.5)
    longest_wait: float = 60.0

    def delay(self, failures: int, retry_after: float | None = None) -> float:
        """Seconds to wait after this many failures in a row; at least what the server asked for."""
        return max(self.backoff.delay(failures), retry_after or 0.0)


NEVER = Retry(attempts=1)
