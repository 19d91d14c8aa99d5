"""The controller of graphs on a twin, in virtual time: run it, count what it sends, kill it in the middle."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

import yaml
from tests.support.embedded import Embedded, on_twin

from sliceworks.base import clock
from sliceworks.controllers.graphs import GraphController, Options
from sliceworks.kube.client import Client

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from sliceworks.kube.transport import Request, Response, Transport

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


class Watched:
    """A transport that remembers what was sent, and may die at one call."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self.sent: list[tuple[str, str]] = []
        self.die_at: int | None = None
        self.die_before = True
        self.died = asyncio.Event()
        self.delay = 0.0  # seconds that every request takes

    @property
    def writes(self) -> list[tuple[str, str]]:
        """What was sent to change something."""
        return [call for call in self.sent if call[0] in WRITES]

    async def send(self, request: Request, *, stream: bool = False) -> Response:
        """Pass it on. At the appointed call, and ever after, nothing comes back."""
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
        """Let go."""
        await self._transport.close()

    async def _die(self) -> None:
        self.died.set()
        await asyncio.Event().wait()


class Stage:
    """A twin on which the controller runs."""

    def __init__(self, twin: Embedded, transport: Watched, controller: GraphController) -> None:
        self.twin, self.transport, self.controller = twin, transport, controller

    async def settle(self, seconds: float = 5) -> None:
        """Let everybody finish what there is to do now."""
        await clock.sleep(seconds)

    async def apply(self, text: str, namespace: str = "default") -> list[Object]:
        """Apply documents, each once its kind is served; then let everybody work."""
        return [await self.apply_one(body, namespace) for body in yaml.load_all(text, yaml.CSafeLoader) if body]

    async def apply_one(self, body: Object, namespace: str = "default") -> Object:
        client = Client(self.twin.cluster.transport(), namespace=namespace)
        made = await client.apply(body, field_manager="person", force=True)
        await self.settle()
        return made

    async def get(self, path: str) -> Object:
        """One object."""
        return await self.twin.do("GET", path)

    async def names(self, path: str) -> list[str]:
        """The names of a collection."""
        listed = await self.twin.do("GET", path)
        return sorted(item["metadata"]["name"] for item in listed["items"])

    async def condition(self, path: str, kind: str) -> Object:
        """A condition of an object."""
        found = await self.get(path)
        conditions: list[Object] = found.get("status", {}).get("conditions", [])
        return next((item for item in conditions if item["type"] == kind), {})


@asynccontextmanager
async def controller_on(twin: Embedded, options: Options | None = None) -> AsyncIterator[Stage]:
    """The controller at work on a twin; it ends as if killed."""
    transport = Watched(twin.cluster.transport())
    controller = GraphController(Client(transport), options)
    task = asyncio.create_task(controller.run())
    try:
        await clock.sleep(1)
        if task.done():
            await task
        yield Stage(twin, transport, controller)
    finally:
        transport.died.set()
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def on_stage(main: Callable[[Stage], Awaitable[None]], options: Options | None = None, *, workloads: bool = False) -> None:
    """Run a test's coroutine on a fresh twin with the controller."""

    async def whole(twin: Embedded) -> None:
        async with controller_on(twin, options) as stage:
            await main(stage)

    on_twin(whole, workloads=workloads)
