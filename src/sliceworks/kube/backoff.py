"""How long to wait before another try: a value that callers pass around."""

from __future__ import annotations

from dataclasses import dataclass

from sliceworks.base import clock


@dataclass(frozen=True, slots=True)
class Backoff:
    """Waits that grow by `factor` from `first` to `cap` seconds, each stretched by up to `jitter` of itself."""

    first: float = 0.8
    factor: float = 2.0
    cap: float = 30.0
    jitter: float = 1.0

    def delay(self, failures: int) -> float:
        """Seconds to wait after this many failures in a row (1 is the first)."""
        # The exponent is bounded because a float's is: the cap has long been reached by then.
        seconds = min(self.cap, self.first * self.factor ** min(failures - 1, 64))
        return seconds * (1 + self.jitter * clock.randomness().random()) if self.jitter else seconds


@dataclass(frozen=True, slots=True)
class Retry:
    """How often and after what a client sends a request again.

    A server that says when to come back (429, or 5xx, with Retry-After) did nothing, so any request is sent again. When no answer
    came, only those are whose second run changes nothing that the first did not: reads and server-side applies.
    """

    attempts: int = 5
    backoff: Backoff = Backoff(first=0.2, cap=5.0, jitter=0.5)
    longest_wait: float = 60.0


NEVER = Retry(attempts=1)
