"""A twin with its cloud on loopback, in a thread of its own and with time that runs fast, for clients without asyncio."""

from __future__ import annotations

import asyncio
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from sliceworks.base import clock
from sliceworks.twin.api.server import Limits, Server
from sliceworks.twin.cluster import Cluster

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sliceworks.twin.cloud.server import CloudServer

SPEED = 600.0


class Served:
    """Where it answers, and to whom."""

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
        """Do something to the cloud, in the thread that it lives in."""
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
def served_cloud() -> Iterator[Served]:
    """A cloud that answers while the block runs."""
    served = Served()
    thread = threading.Thread(target=lambda: clock.run(served.serve(), speed=SPEED))
    thread.start()
    try:
        assert served.ready.wait(30)
        yield served
    finally:
        if served.loop is not None and served.stop is not None:
            served.loop.call_soon_threadsafe(served.stop.set)
        thread.join(30)
