"""The graphs controller on a twin in virtual time: run it, count its requests, kill and restart it."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import aclosing, asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

import yaml
from tests.support.embedded_twin import EmbeddedTwin, run_on_twin

from sliceworks.base import clock
from sliceworks.controllers.graphs import GraphController, Options
from sliceworks.kube.client import Client
from sliceworks.kube.resources import CONFIG_MAP, JOB, SECRET, SERVICE_ACCOUNT

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from sliceworks.base.transport import Request, Response, Transport


Object = dict[str, Any]


GRAPHS = "/apis/kro.run/v1alpha1/resourcegraphdefinitions"


REVISIONS = "/apis/internal.kro.run/v1alpha1/graphrevisions"


BOXES = "/apis/kro.run/v1alpha1/namespaces/default/boxes"


BOX = """
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: box}
spec:
  schema:
    apiVersion: v1alpha1
    kind: Box
    spec: {value: string | default=first}
  resources:
  - id: child
    template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${schema.metadata.name}"}, data: {value: "${schema.spec.value}"}}
"""


A_BOX = "{apiVersion: kro.run/v1alpha1, kind: Box, metadata: {name: a}}"


WRITES = frozenset({"POST", "PUT", "PATCH", "DELETE"})


class RecordingTransport:
    """A transport that records requests and can simulate a crash at one of them."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self.sent: list[tuple[str, str]] = []
        self.die_at: int | None = None
        self.die_before = True
        self.died = asyncio.Event()
        self.delay = 0.0  # latency of every request, in seconds

    @property
    def writes(self) -> list[tuple[str, str]]:
        """The recorded requests that write."""
        return [call for call in self.sent if call[0] in WRITES]

    async def send(self, request: Request, *, stream: bool = False) -> Response:
        """Send a request; from the configured crash on, no response is returned."""
        number = len(self.sent)
        if self.died.is_set():
            await asyncio.Event().wait()
        self.sent.append((request.method, request.path))
        fatal = number == self.die_at
        if fatal and self.die_before:
            await self._die()
        if self.delay and not stream:
            await clock.sleep(self.delay)
        response = await self._transport.send(request, stream=stream)
        if fatal:
            await self._die()
        return response

    async def close(self) -> None:
        """Close the transport."""
        await self._transport.close()

    async def _die(self) -> None:
        self.died.set()
        await asyncio.Event().wait()


class GraphHarness:
    """A twin with the running graphs controller."""

    def __init__(self, twin: EmbeddedTwin, transport: RecordingTransport, controller: GraphController) -> None:
        self.twin, self.transport, self.controller = twin, transport, controller

    async def settle(self, seconds: float = 5) -> None:
        """Wait until all controllers are idle."""
        await clock.sleep(seconds)

    async def apply(self, text: str, namespace: str = "default") -> list[Object]:
        """Apply documents, each after its kind is served; then wait until all controllers are idle."""
        return [await self.apply_one(body, namespace) for body in yaml.load_all(text, yaml.CSafeLoader) if body]

    async def apply_one(self, body: Object, namespace: str = "default") -> Object:
        client = Client(self.twin.cluster.transport(), namespace=namespace)
        created = await client.apply(body, field_manager="person", force=True)
        await self.settle()
        return created

    async def get(self, path: str) -> Object:
        """Get an object."""
        return await self.twin.do("GET", path)

    async def names(self, path: str) -> list[str]:
        """The names of the objects in a collection."""
        listed = await self.twin.do("GET", path)
        return sorted(item["metadata"]["name"] for item in listed["items"])

    async def condition(self, path: str, kind: str) -> Object:
        """A condition of an object."""
        result = await self.get(path)
        conditions: list[Object] = result.get("status", {}).get("conditions", [])
        return next((condition for condition in conditions if condition["type"] == kind), {})


@asynccontextmanager
async def controller_on(twin: EmbeddedTwin, options: Options | None = None) -> AsyncIterator[GraphHarness]:
    """Run the controller on a twin; at the end of the block it is killed."""
    transport = RecordingTransport(twin.cluster.transport())
    controller = GraphController(Client(transport), options)
    task = asyncio.create_task(controller.run())
    try:
        await clock.sleep(1)
        if task.done():
            await task
        yield GraphHarness(twin, transport, controller)
    finally:
        transport.died.set()
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def run_with_controller(
    main: Callable[[GraphHarness], Awaitable[None]], options: Options | None = None, *, workloads: bool = False
) -> None:
    """Run a test's coroutine on a new twin with the controller."""

    async def run_main(twin: EmbeddedTwin) -> None:
        async with controller_on(twin, options) as harness:
            await main(harness)

    run_on_twin(run_main, workloads=workloads)


Meanwhile = Callable[[], Awaitable[None]]


"""What happens while the controller is dead."""


class RestartingController:
    """A controller that crashes once and restarts immediately."""

    def __init__(self, twin: EmbeddedTwin, die_at: int | None, *, before: bool, meanwhile: Meanwhile | None = None) -> None:
        self._twin, self._meanwhile = twin, meanwhile
        self.first = self._transport(die_at, before=before)
        self._task = asyncio.create_task(self._live())

    async def stop(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    def _transport(self, die_at: int | None, *, before: bool) -> RecordingTransport:
        transport = RecordingTransport(self._twin.cluster.transport())
        transport.die_at, transport.die_before = die_at, before
        return transport

    async def _live(self) -> None:
        transport = self.first
        while True:
            work = asyncio.create_task(GraphController(Client(transport)).run())
            death = asyncio.create_task(transport.died.wait())
            try:
                await asyncio.wait((work, death), return_when=asyncio.FIRST_COMPLETED)
            finally:
                transport.died.set()
                for task in (work, death):
                    task.cancel()
                await asyncio.gather(work, death, return_exceptions=True)
            if self._meanwhile is not None:
                await self._meanwhile()
            transport = self._transport(None, before=True)


class ObjectCounter:
    """Counts created and deleted objects."""

    def __init__(self, twin: EmbeddedTwin) -> None:
        self.made: Counter[str] = Counter()
        self.gone: Counter[str] = Counter()
        client = Client(twin.cluster.transport())
        self._tasks = [asyncio.create_task(self._follow(client, kind)) for kind in (CONFIG_MAP, SECRET, SERVICE_ACCOUNT, JOB)]

    async def _follow(self, client: Client, kind: Any) -> None:
        async with aclosing(client.watch(kind, "default", resource_version="0", timeout_seconds=100_000)) as events:
            async for event in events:
                name = f"{kind.kind}/{event.object['metadata']['name']}"
                if event.type == "ADDED":
                    self.made[name] += 1
                elif event.type == "DELETED":
                    self.gone[name] += 1

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
