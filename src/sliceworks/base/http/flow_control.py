"""Priority and fairness: requests of many clients are handled in rotation, within a time limit per turn of the event loop."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from typing import TYPE_CHECKING

from sliceworks.base.errors import TooManyRequests
from sliceworks.base.http.messages import too_many_requests
from sliceworks.base.http.server import Application

if TYPE_CHECKING:
    from collections.abc import Callable

    from sliceworks.base.http.messages import Request
    from sliceworks.base.http.response_writer import ResponseWriter

_TURN_SECONDS = 0.02
_QUEUE_LENGTH = 200
"""Waiting requests of one client; further ones are rejected, so that waiting connections cannot fill the memory."""
_SMALL_QUEUE_LENGTH = 20


class _Flow:
    """The waiting requests of one client, and how many of them are left to handle in this round."""

    __slots__ = ("priority", "queue", "share")

    def __init__(self, priority: int) -> None:
        self.queue: deque[asyncio.Future[None]] = deque()
        self.priority = self.share = priority


class FlowControl:
    """Decides when a request is handled.

    While a turn of the event loop has time left, requests are handled at once. Then they wait, each in the queue of its client, and
    each following turn takes some from all queues in rotation: as many as the last turns had time for. A client with many or
    expensive requests delays its own, and health checks are answered between two turns.
    """

    def __init__(self, clock: Callable[[], float] = time.perf_counter, *, queue_length: int = _QUEUE_LENGTH) -> None:
        self._clock, self._queue_length = clock, queue_length
        self._flows: dict[str, _Flow] = {}
        self._turn_start: float | None = None
        self._per_turn = 1

    async def wait(self, client: str, priority: int = 1) -> None:
        """Return when a request of the client may be handled; raise TooManyRequests if too many of its requests wait.

        `priority` is the number of its requests that are handled per round.
        """
        if not self._flows and self._has_time():
            return
        flow = self._flows.get(client)
        if flow is None:
            flow = self._flows[client] = _Flow(priority)
        if len(flow.queue) >= self._queue_length:
            raise TooManyRequests("Too many requests, please try again later.", details={"retryAfterSeconds": 1})
        turn = asyncio.get_running_loop().create_future()
        flow.queue.append(turn)
        await turn

    def _has_time(self) -> bool:
        now = self._clock()
        if self._turn_start is None:
            self._start_turn(now)
            return True
        return now < self._turn_start + _TURN_SECONDS

    def _start_turn(self, now: float) -> None:
        self._turn_start = now
        asyncio.get_running_loop().call_soon(self._next_turn)

    def _next_turn(self) -> None:
        """Resume waiting requests; they run after this call and before the next one."""
        now, start = self._clock(), self._turn_start
        is_long = start is not None and now - start > _TURN_SECONDS
        self._turn_start = None
        if not self._flows:
            return
        self._per_turn = max(1, self._per_turn // 2) if is_long else min(self._per_turn * 2, _QUEUE_LENGTH)
        self._start_turn(now)
        count = self._per_turn
        while count > 0 and self._flows:
            count -= self._release(next(iter(self._flows)), count)

    def _release(self, name: str, count: int) -> int:
        """Resume the next requests of a client; returns how many. After its share of the round, the client moves to the end."""
        flow, released = self._flows[name], 0
        while flow.queue and flow.share and released < count:
            if not (turn := flow.queue.popleft()).done():  # done: the client has disconnected
                turn.set_result(None)
                flow.share -= 1
                released += 1
        if not flow.queue or not flow.share:
            del self._flows[name]
        if flow.queue and not flow.share:
            flow.share = flow.priority
            self._flows[name] = flow
        return released


class FairApplication(Application):
    """An application whose clients, identified by their addresses, get turns; `unlimited` paths, such as probes, do not wait."""

    unlimited: frozenset[str] = frozenset()

    def __init__(self, flow_control: FlowControl | None = None) -> None:
        self._flow_control = flow_control or FlowControl(queue_length=_SMALL_QUEUE_LENGTH)

    def on_connect(self, transport: asyncio.BaseTransport) -> object:
        """The client's address without its port."""
        return str((transport.get_extra_info("peername") or ("",))[0])

    async def handle(self, request: Request, response: ResponseWriter) -> None:
        """Respond in the client's turn; 429 if too many of its requests wait."""
        if request.path not in self.unlimited:
            try:
                await self._flow_control.wait(str(request.peer))
            except TooManyRequests as error:
                raise too_many_requests() from error
        await self.respond(request, response)

    async def respond(self, request: Request, response: ResponseWriter) -> None:
        """Respond to a request. A raised HttpError is passed to `write_error`."""
        raise NotImplementedError
