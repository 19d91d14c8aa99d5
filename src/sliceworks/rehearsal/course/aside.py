"""Real work beside a twin whose time is virtual: it runs in a thread of its own, and the twin's time stands still until it is done.

The twin's cloud can be reached meanwhile, at an address of this machine. What comes in, and in which order, is left to the programs
that ask; so that a rehearsal is the same each time all the same, what chance gives to a request follows from the request alone.
"""

from __future__ import annotations

import asyncio
import random
import threading
from collections import Counter
from contextlib import asynccontextmanager
from hashlib import sha256
from typing import TYPE_CHECKING, TypeVar

from sliceworks.base import clock
from sliceworks.base.errors import SliceworksError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from sliceworks.kube.transport import Request, Response
    from sliceworks.twin.auth.identity import User
    from sliceworks.twin.cluster import Cluster

T = TypeVar("T")
_HOST = "127.0.0.1"
_PATIENCE = 5
"""How often an operation is asked for before the twin's time is let pass for it: most take none."""
_A_WHILE = 5.0
_PARTS = ("createCluster", "updateCluster", "deleteCluster", "createNodePool", "updateNodePool", "deleteNodePool", "resizeNodePool")
_NO_TIME = dict.fromkeys((*_PARTS, "boot"), 0.0)


async def aside(work: Callable[[], T], stop: Callable[[], None] | None = None) -> T:
    """What a function gives that runs in a thread of its own, in real time. Cancelled, it is told to
    `stop`, and waited for."""
    loop = _loop()
    done: asyncio.Future[T] = loop.create_future()

    def run() -> None:
        try:
            result = work()
        except KeyboardInterrupt:
            loop.call_soon_threadsafe(done.cancel)
        except BaseException as error:
            loop.call_soon_threadsafe(done.set_exception, error)
        else:
            loop.call_soon_threadsafe(done.set_result, result)

    with loop.held():
        threading.Thread(target=run, name="aside", daemon=True).start()
        try:
            return await asyncio.shield(done)
        finally:
            if not done.done():
                if stop is not None:
                    stop()
                await asyncio.wait([done])
                if not done.cancelled():
                    done.exception()  # nobody asks any more how it ended


@asynccontextmanager
async def open_cloud(cluster: Cluster) -> AsyncIterator[str]:
    """The address of a twin's cloud, where nothing takes any time for as long as it is open."""
    from sliceworks.twin.api.server import Server
    from sliceworks.twin.cloud.container.service import Container

    container = cluster.cloud.services["container"]
    assert isinstance(container, Container)
    usual = dict(container.settings.values.seconds)
    container.configure({"seconds": _NO_TIME})
    server = Server(_Door(cluster).serve)
    try:
        port = await server.start(_HOST, 0, None)
        yield f"http://{_HOST}:{port}"
    except OSError as error:
        raise SliceworksError(f"cannot listen on {_HOST}: {error.strerror}") from error
    finally:
        await server.stop()
        container.configure({"seconds": usual})


class _Door:
    """Answers for the cloud."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._heard: Counter[str] = Counter()
        self._asked: Counter[str] = Counter()

    async def serve(self, request: Request, certificate: User | None) -> Response:
        """One request, with a chance of its own; an operation that does not end by itself is given a little time."""
        key = f"{request.method} {request.path} {sha256(request.body).hexdigest()}"
        self._heard[key] += 1
        loop = _loop()
        loop.randomness = random.Random(f"{key} {self._heard[key]}")
        response = await self._cluster.cloud.serve(request, certificate)
        if request.method == "GET" and "/operations/" in request.path:
            self._asked[request.path] += 1
            if self._asked[request.path] > _PATIENCE:
                loop.let_pass(_A_WHILE)
        return response


def _loop() -> clock.VirtualLoop:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, clock.VirtualLoop)
    return loop
