"""Active health checks of upstreams."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from sliceworks.base import clock
from sliceworks.serving.gateway.http_client import COMPLETE, ConnectionBroken, Exchange

if TYPE_CHECKING:
    from collections.abc import Callable

    from sliceworks.serving.gateway.load_balancer import Upstream
    from sliceworks.serving.gateway.state import State

log = logging.getLogger("sliceworks.gateway.health")

_UNHEALTHY_INTERVAL = 1.0
HEALTH_PATHS = {"openai": "/health", "triton": "/v2/health/ready", "jetstream": "/v1/health", "echo": "/health"}


class HealthChecker:
    """Runs one task of periodic checks for each upstream of the current state."""

    def __init__(self, read_state: Callable[[], State]) -> None:
        self._read_state = read_state
        self._tasks: dict[Upstream, asyncio.Task[None]] = {}

    def update(self) -> None:
        """Start checks of new upstreams and stop those of removed ones."""
        upstreams = {upstream for upstream in self._read_state().upstreams if upstream.backend.kind in HEALTH_PATHS}
        for upstream in list(self._tasks):
            if upstream not in upstreams:
                self._tasks.pop(upstream).cancel()
        for upstream in upstreams - self._tasks.keys():
            self._tasks[upstream] = asyncio.get_running_loop().create_task(self._check_periodically(upstream))

    async def _check_periodically(self, upstream: Upstream) -> None:
        while True:
            passed = await check_health(upstream)
            if upstream.record_health_check(passed=passed):
                log.warning("%s is %s", upstream.name, "healthy" if upstream.healthy else "unhealthy")
                for served in self._read_state().models.values():
                    if upstream in served.balancer.upstreams:
                        served.balancer.notify()
            await _wait_for_next_check(upstream)

    async def stop(self) -> None:
        """Stop all checks."""
        tasks = list(self._tasks.values())
        self._tasks.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _wait_for_next_check(upstream: Upstream) -> None:
    """Wait for the interval; for a second at most while the upstream is unhealthy or its circuit is open."""
    interval, jitter = upstream.health_check.interval, 0.9 + 0.2 * clock.rng().random()
    if upstream.healthy and not upstream.circuit_opened.is_set():
        try:
            async with asyncio.timeout(interval * jitter):
                await upstream.circuit_opened.wait()
        except TimeoutError:
            return
    await clock.sleep(min(interval, _UNHEALTHY_INTERVAL) * jitter)


async def check_health(upstream: Upstream) -> bool:
    """Whether an upstream passes its health check. An OpenAI server without a health route passes with a client error."""
    path = upstream.health_check.path or HEALTH_PATHS[upstream.backend.kind]
    head = b"GET %b HTTP/1.1\r\n%b%b\r\n" % ((upstream.prefix + path).encode(), upstream.host_header, upstream.authorization)
    try:
        async with asyncio.timeout(upstream.health_check.timeout):
            status = await _request_status(upstream, head)
    except (TimeoutError, ConnectionBroken):
        return False
    if upstream.health_check.path or upstream.backend.kind != "openai":
        return status < 400
    return status < 500


async def _request_status(upstream: Upstream, head: bytes, *, fresh: bool = False) -> int:
    """The status of the response, after a retry if an idle connection was closed just when it was reused."""
    exchange = Exchange()
    try:
        await upstream.pool.start(head, b"", exchange, upstream.health_check.timeout, fresh=fresh)
        await exchange.wait(COMPLETE)
    except ConnectionBroken as error:
        if error.is_stale and not fresh:
            return await _request_status(upstream, head, fresh=True)
        raise
    finally:
        exchange.cancel()
    return exchange.status
