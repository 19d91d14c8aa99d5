"""Asks servers how they are, each on its own time, and tells the groups that wait for one."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from sliceworks.base import clock
from sliceworks.serving.gateway.http.exchange import WHOLE, Broken, Exchange

if TYPE_CHECKING:
    from sliceworks.serving.gateway.app import Application
    from sliceworks.serving.gateway.servers import Server

log = logging.getLogger("sliceworks.gateway.health")

_SOON = 1.0
PATHS = {"openai": "/health", "triton": "/v2/health/ready", "jetstream": "/v1/health", "echo": "/health"}


class HealthChecks:
    """One look at a time for each server that is in use."""

    def __init__(self, application: Application) -> None:
        self._application = application
        self._looks: dict[Server, asyncio.Task[None]] = {}

    def follow(self) -> None:
        """Look after the servers that there are now, and no others."""
        servers = {server for server in self._application.state.servers if server.backend.kind in PATHS}
        for server in list(self._looks):
            if server not in servers:
                self._looks.pop(server).cancel()
        for server in servers - self._looks.keys():
            self._looks[server] = asyncio.get_running_loop().create_task(self._look_after(server))

    async def _look_after(self, server: Server) -> None:
        while True:
            good = await check(server)
            if server.seen(good=good):
                log.warning("%s is %s", server.name, "well again" if server.well else "not well")
                for served in self._application.state.models.values():
                    if server in served.group.servers:
                        served.group.tell()
            await _pause(server)

    async def stop(self) -> None:
        """Look no more."""
        looks = list(self._looks.values())
        self._looks.clear()
        for look in looks:
            look.cancel()
        await asyncio.gather(*looks, return_exceptions=True)


async def _pause(server: Server) -> None:
    """Until the next look: soon for one that is not well, or begins to fail."""
    every, some = server.health.every, 0.9 + 0.2 * clock.randomness().random()
    if server.well and not server.failing.is_set():
        try:
            async with asyncio.timeout(every * some):
                await server.failing.wait()
        except TimeoutError:
            return
    await clock.sleep(min(every, _SOON) * some)


async def check(server: Server) -> bool:
    """Whether a server says that it is well. One that has no such page, and says so, lives at least."""
    path = server.health.path or PATHS[server.backend.kind]
    head = b"GET %b HTTP/1.1\r\n%b%b\r\n" % ((server.prefix + path).encode(), server.host_line, server.authorization)
    try:
        async with asyncio.timeout(server.health.timeout):
            status = await _status(server, head)
    except (TimeoutError, Broken):
        return False
    if server.health.path or server.backend.kind != "openai":
        return status < 400
    return status < 500


async def _status(server: Server, head: bytes, *, fresh: bool = False) -> int:
    """What a server answers with. One that ended an idle line just when it was used again is asked once more."""
    exchange = Exchange()
    try:
        await server.pool.begin(head, b"", exchange, server.health.timeout, fresh=fresh)
        await exchange.wait(WHOLE)
    except Broken as error:
        if error.clean and not fresh:
            return await _status(server, head, fresh=True)
        raise
    finally:
        exchange.cancel()
    return exchange.status
