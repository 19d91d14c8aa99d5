"""A twin with its cloud on loopback, in its own thread and at accelerated speed, for synchronous clients."""

from __future__ import annotations

import asyncio
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from sliceworks.base import clock
from sliceworks.twin.apiserver.http_server import Limits, Server
from sliceworks.twin.cluster import Cluster

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sliceworks.twin.cloud.core.cloud_server import CloudServer

SPEED = 600.0


class HttpCloud:
    """The address of the cloud and the token that it accepts."""

    def __init__(self) -> None:
        self.port = 0
        self.token = ""
        self.ready = threading.Event()
        self.stop: asyncio.Event | None = None
        self.loop: asyncio.AbstractEventLoop | None = None
        self.cloud: CloudServer | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def run(self, act: Callable[[CloudServer], Any]) -> Any:
        """Call a function on the cloud in the cloud's thread."""
        assert self.loop is not None
        assert self.cloud is not None
        cloud = self.cloud

        async def acted() -> Any:
            return act(cloud)

        return asyncio.run_coroutine_threadsafe(acted(), self.loop).result(30)

    async def serve(self) -> None:
        self.stop, self.loop = asyncio.Event(), asyncio.get_running_loop()
        async with Cluster(ca="the authority") as twin:
            server = Server(twin.cloud.serve, Limits().at_speed(SPEED))
            self.port, self.token = await server.start("127.0.0.1", 0, None), twin.token
            self.cloud = twin.cloud
            self.ready.set()
            await self.stop.wait()
            await server.stop()


@contextmanager
def served_cloud() -> Iterator[HttpCloud]:
    """Run a cloud server for the duration of the block."""
    served = HttpCloud()
    thread = threading.Thread(target=lambda: clock.run(served.serve(), speed=SPEED))
    thread.start()
    try:
        assert served.ready.wait(30)
        yield served
    finally:
        if served.loop is not None and served.stop is not None:
            served.loop.call_soon_threadsafe(served.stop.set)
        thread.join(30)
