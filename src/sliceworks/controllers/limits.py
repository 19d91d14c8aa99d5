"""A bound on how many requests a controller sends: so many a second, and so many at once after a quiet time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sliceworks.base import clock

if TYPE_CHECKING:
    from sliceworks.kube.transport import Request, Response, Transport


class Limited:
    """A transport that waits for its turn. Watches do not count: there is one for each kind, and it lasts."""

    def __init__(self, transport: Transport, qps: float, burst: int) -> None:
        self._transport = transport
        self._qps, self._burst = qps, float(max(burst, 1))
        self._tokens = self._burst
        self._filled: float | None = None

    async def send(self, request: Request, *, stream: bool = False) -> Response:
        """Send one request when its time has come."""
        if not stream:
            wait = self._take()
            if wait > 0:
                await clock.sleep(wait)
        return await self._transport.send(request, stream=stream)

    async def close(self) -> None:
        """Let go of connections."""
        await self._transport.close()

    def _take(self) -> float:
        """Take a token, maybe one of the future; returns the seconds until it is there."""
        now = clock.loop_time()
        if self._filled is not None:
            self._tokens = min(self._burst, self._tokens + (now - self._filled) * self._qps)
        self._filled = now
        self._tokens -= 1
        return -self._tokens / self._qps if self._tokens < 0 else 0.0
