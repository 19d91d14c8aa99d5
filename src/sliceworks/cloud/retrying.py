"""How often and after what a session sends a request again: a value that callers pass around."""

from __future__ import annotations

from dataclasses import dataclass

from sliceworks.base import clock


@dataclass(frozen=True, slots=True)
class Retry:
    """Waits grow by `factor` from `first` to `cap` seconds, each stretched by up to `jitter` of itself.

    Only reads are sent again here: they change nothing. Whether a write is worth another try is for its caller to say.
    """

    attempts: int = 4
    first: float = 0.5
    factor: float = 2.0
    cap: float = 8.0
    jitter: float = 0.5

    def delay(self, failures: int, asked: float | None = None) -> float:
        """Seconds to wait after this many failures in a row; at least what the server asked for."""
        seconds = min(self.cap, self.first * self.factor ** min(failures - 1, 64))
        if self.jitter:
            seconds *= 1 + self.jitter * clock.randomness().random()
        return max(seconds, asked or 0.0)


NEVER = Retry(attempts=1)
