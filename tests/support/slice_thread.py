"""The slices controller and its cloud beside any cluster, in a thread of the test's process."""

from __future__ import annotations

import asyncio
import threading
from contextlib import AsyncExitStack, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tests.support.slices_controller import CLUSTER, LOCATION, OFFERS, PROJECT, SETTINGS

from sliceworks.base import clock
from sliceworks.base.transport import InProcess
from sliceworks.cloud.container import Container
from sliceworks.cloud.credentials import Token
from sliceworks.cloud.session import Session
from sliceworks.controllers.slices.controller import SlicesController
from sliceworks.kube.https import open_client
from sliceworks.twin.cloud.backends import create_cloud
from sliceworks.twin.nodes.simulator import NodeSimulator
from sliceworks.twin.store.store import Store

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterator

    from tests.support.clusters import Cluster

    from sliceworks.controllers.slices.settings import Settings
    from sliceworks.kube.client import Client

Obj = dict[str, Any]
_SECONDS = {"createNodePool": 0.2, "boot": 0.2, "deleteNodePool": 0.2, "giveUp": 0.2}
_TOKEN = "token-of-the-cloud"


class SliceThread:
    """A cloud whose machines are nodes of a cluster, and the controller that requests them."""

    def __init__(self, cluster: Cluster, settings: Settings) -> None:
        self._cluster, self._settings = cluster, settings
        self._ready, self._over = threading.Event(), asyncio.Event()
        self._failed: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="slices")
        self.loop: asyncio.AbstractEventLoop
        self.cloud: Any
        self.container: Container
        self._client: Client
        self._work: asyncio.Task[None]

    def start(self) -> None:
        self._thread.start()
        assert self._ready.wait(60), "the controller did not start"
        assert self._failed is None, self._failed

    def stop(self) -> None:
        self.loop.call_soon_threadsafe(self._over.set)
        self._thread.join(60)
        assert self._failed is None, self._failed

    def do(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Run a coroutine in the thread and wait for it."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(60)

    def pools(self) -> dict[str, Obj]:
        return {pool["name"]: pool for pool in self.do(self.container.list_node_pools())}

    @contextmanager
    def fault(self, **given: Any) -> Iterator[None]:
        """Inject a fault into the cloud for the duration of the block."""

        async def order() -> str:
            return str(self.cloud.faults.add(given))

        async def end(name: str) -> None:
            self.cloud.faults.end(name)

        name = self.do(order())
        try:
            yield
        finally:
            self.do(end(name))

    def restart(self) -> None:
        """Kill the controller and start another one."""

        async def both() -> None:
            await self._kill()
            await self._start()

        self.do(both())

    async def _start(self) -> None:
        controller = SlicesController(self._client, self.container, self._settings)
        self._work = asyncio.create_task(controller.run())
        while not controller.ready and not self._work.done():
            await clock.sleep(0.02)

    async def _kill(self) -> None:
        assert not self._work.done(), f"the controller ended: {self._work}"
        self._work.cancel()
        await asyncio.gather(self._work, return_exceptions=True)

    def _run(self) -> None:
        try:
            clock.run(self._main())
        except BaseException as error:
            self._failed = error
        finally:
            self._ready.set()

    async def _main(self) -> None:
        self.loop = asyncio.get_running_loop()
        async with AsyncExitStack() as stack:
            client = await stack.enter_async_context(open_client(self._cluster.kubeconfig))
            if self._cluster.name != "twin":
                await stack.enter_async_context(NodeSimulator(client))
            self.cloud = await stack.enter_async_context(create_cloud(Store(), client, _TOKEN))
            names = {"project": PROJECT, "location": LOCATION, "name": CLUSTER}
            self.cloud.services["container"].configure({"clusters": [names], "seconds": _SECONDS, **OFFERS})
            session = Session(credentials=Token(_TOKEN), transport=InProcess(self.cloud.serve))
            self.container = Container(session, PROJECT, LOCATION, CLUSTER, prefix="/container")
            self._client = client
            await self._start()
            self._ready.set()
            await self._over.wait()
            await self._kill()
        await clock.sleep(0.3)  # TLS connections take a while to close


@contextmanager
def slice_thread(cluster: Cluster, **settings: Any) -> Iterator[SliceThread]:
    """Run the controller beside a cluster for the duration of the block."""
    created = SliceThread(cluster, replace(SETTINGS, node_min_lifespan=0.0, retry_first=1.0, **settings))
    created.start()
    try:
        yield created
    finally:
        created.stop()
