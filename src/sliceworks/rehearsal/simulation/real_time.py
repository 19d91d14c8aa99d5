"""Real work beside a twin in virtual time: runs in a thread while the twin's clock is stopped.

Meanwhile, the twin's cloud listens on a local address. The order of requests is not deterministic. To keep results reproducible,
the random numbers for a request are derived from the request alone.
"""

from __future__ import annotations

import asyncio
import random
import threading
from collections import Counter
from contextlib import asynccontextmanager
from hashlib import sha256
from typing import TYPE_CHECKING, TypeVar

from sliceworks.base.errors import SliceworksError
from sliceworks.base.loops import VirtualLoop

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from sliceworks.base.transport import Request, Response
    from sliceworks.twin.apiserver.auth.authentication import User
    from sliceworks.twin.cluster import Cluster

T = TypeVar("T")
_HOST = "127.0.0.1"
_MAX_POLLS = 5
"""Maximum number of polls of an operation before twin time advances; most operations need none."""
_OPERATION_TIME = 5.0
_OPERATIONS = (
    "createCluster",
    "updateCluster",
    "deleteCluster",
    "createNodePool",
    "updateNodePool",
    "deleteNodePool",
    "resizeNodePool",
)
_INSTANT = dict.fromkeys((*_OPERATIONS, "boot"), 0.0)


async def run_in_thread(work: Callable[[], T], stop: Callable[[], None] | None = None) -> T:
    """Run a function in a thread, in real time, and return its result. On cancellation, call `stop` and wait for it."""
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

    with loop.hold():
        threading.Thread(target=run, name="real-time", daemon=True).start()
        try:
            return await asyncio.shield(done)
        finally:
            if not done.done():
                if stop is not None:
                    stop()
                await asyncio.wait([done])
                if not done.cancelled():
                    done.exception()  # mark the exception as retrieved


@asynccontextmanager
async def serve_cloud(cluster: Cluster) -> AsyncIterator[str]:
    """Serve the twin's cloud on a local address; its operations take no time while the context is open."""
    from sliceworks.twin.apiserver.http_server import Server
    from sliceworks.twin.cloud.google.container.cluster_manager import ClusterManager

    container = cluster.cloud.services["container"]
    assert isinstance(container, ClusterManager)
    original = dict(container.settings.values.seconds)
    container.configure({"seconds": _INSTANT})
    server = Server(_CloudHandler(cluster).serve)
    try:
        port = await server.start(_HOST, 0, None)
        yield f"http://{_HOST}:{port}"
    except OSError as error:
        raise SliceworksError(f"cannot listen on {_HOST}: {error.strerror}") from error
    finally:
        await server.stop()
        container.configure({"seconds": original})


class _CloudHandler:
    """Handles requests to the cloud."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._requests: Counter[str] = Counter()
        self._polls: Counter[str] = Counter()

    async def serve(self, request: Request, certificate: User | None) -> Response:
        """Handle a request with its own random seed; advance twin time if an operation is polled repeatedly."""
        key = f"{request.method} {request.path} {sha256(request.body).hexdigest()}"
        self._requests[key] += 1
        loop = _loop()
        loop.rng = random.Random(f"{key} {self._requests[key]}")
        response = await self._cluster.cloud.serve(request, certificate)
        if request.method == "GET" and "/operations/" in request.path:
            self._polls[request.path] += 1
            if self._polls[request.path] > _MAX_POLLS:
                loop.advance(_OPERATION_TIME)
        return response


def _loop() -> VirtualLoop:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    return loop
