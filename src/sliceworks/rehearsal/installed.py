"""Our own controllers on a twin. Pods there only seem to run: for a Deployment of one of our controllers that has a pod ready, the
controller itself runs in the twin's process, with the settings that the pod would find.

It does not matter who applied the Deployment: `sliceworks env apply`, or `kubectl apply -k deploy/…`.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from sliceworks.base import clock
from sliceworks.base.errors import NotFound
from sliceworks.kube.client import Client
from sliceworks.kube.well_known import CONFIG_MAP
from sliceworks.rehearsal.drill import Mortal
from sliceworks.twin.controllers.programs import acting_as

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine

    from sliceworks.twin.cluster import Cluster
    from sliceworks.twin.store.entries import Change

Object = dict[str, Any]
log = logging.getLogger(__name__)
DEPLOYMENTS = "apps/deployments"
_NAME, _COMPONENT = "app.kubernetes.io/name", "app.kubernetes.io/component"
_PAUSE = 5.0  # seconds before a controller that ended is started again, as a pod would be


@asynccontextmanager
async def installed(cluster: Cluster) -> AsyncIterator[None]:
    """Run what is installed, for as long as it is."""
    async with kept(cluster):
        yield


@asynccontextmanager
async def kept(cluster: Cluster) -> AsyncIterator[Keeper]:
    """The same, with who keeps it running."""
    keeper = Keeper(cluster)
    cluster.store.subscribe(keeper.observe)
    try:
        yield keeper
    finally:
        await keeper.stop()


class Keeper:
    """The controllers that run, by the Deployments that they are of."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._running: dict[tuple[str, str], asyncio.Task[None]] = {}

    def observe(self, change: Change) -> None:
        """See a change of the store."""
        if change.resource != DEPLOYMENTS:
            return
        if change.type == "DELETED":
            self._end(change.namespace, change.name)
        else:
            self.look(change.obj)

    def look(self, obj: Object) -> None:
        """Start or end what a Deployment stands for."""
        metadata = obj["metadata"]
        labels, who = metadata.get("labels") or {}, (metadata["namespace"], metadata["name"])
        program = _PROGRAMS.get(labels.get(_COMPONENT, "")) if labels.get(_NAME) == "sliceworks" else None
        if program is None or not (obj.get("status") or {}).get("availableReplicas"):
            self._end(*who)
        elif who not in self._running:
            with acting_as(who[1]):
                self._running[who] = asyncio.get_running_loop().create_task(self._keep(program, obj), name=f"{who[1]} of the twin")

    def mortals(self) -> list[Mortal]:
        """Those that run now, for a drill. One that was killed comes back at the latest when it is revived, unless its Deployment
        has gone meanwhile."""
        return [Mortal(who[1], partial(self._kill, who), partial(self._revive, who)) for who in self._running]

    async def _kill(self, who: tuple[str, str]) -> None:
        task = self._running.pop(who, None)
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _revive(self, who: tuple[str, str]) -> None:
        entry = self._cluster.store.get(DEPLOYMENTS, *who)
        if entry is not None:
            self.look(entry.object())

    async def _keep(self, program: Callable[[Cluster, Object], Coroutine[Any, Any, None]], obj: Object) -> None:
        while True:
            try:
                await program(self._cluster, obj)
            except Exception as error:
                log.warning("%s ended: %s", obj["metadata"]["name"], error)
            await clock.sleep(_PAUSE)

    def _end(self, namespace: str, name: str) -> None:
        task = self._running.pop((namespace, name), None)
        if task is not None:
            task.cancel()

    async def stop(self) -> None:
        """End all of them."""
        tasks, self._running = list(self._running.values()), {}
        for task in tasks:
            task.cancel()
        for task in tasks:
            with suppress(asyncio.CancelledError):
                await task


async def _graphs(cluster: Cluster, deployment: Object) -> None:
    from sliceworks.controllers.graphs import GraphController

    await GraphController(_client(cluster, deployment)).run()


async def _slices(cluster: Cluster, deployment: Object) -> None:
    """Beside the twin's own cloud, with the settings of the Deployment's ConfigMaps."""
    from sliceworks.base.metrics import Registry
    from sliceworks.cloud.container import Container
    from sliceworks.cloud.credentials import Token
    from sliceworks.cloud.inprocess import InProcess
    from sliceworks.cloud.session import Session
    from sliceworks.controllers.slices import settings
    from sliceworks.controllers.slices.controller import SlicesController

    client = _client(cluster, deployment)
    found = settings.read(await _variables(Client(cluster.transport()), deployment))
    found = replace(found, zones=found.zones or (f"{found.location}-a",))
    session = Session(credentials=Token(cluster.token), transport=InProcess(cluster.cloud.handle))
    container = Container(session, found.project, found.location, found.cluster, prefix="/container")
    await SlicesController(client, container, found, Registry()).run()


def _client(cluster: Cluster, deployment: Object) -> Client:
    """A client with the rights of the pod's service account, and no others."""
    from sliceworks.twin.auth.identity import AUTHENTICATED, User

    space = deployment["metadata"]["namespace"]
    account = deployment["spec"]["template"]["spec"].get("serviceAccountName") or "default"
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{space}", AUTHENTICATED)
    return Client(cluster.as_user(User(f"system:serviceaccount:{space}:{account}", groups=groups)), namespace=space)


async def _variables(client: Client, deployment: Object) -> dict[str, str]:
    """What the first container finds in its environment."""
    container = deployment["spec"]["template"]["spec"]["containers"][0]
    found: dict[str, str] = {}
    for source in container.get("envFrom") or ():
        name = (source.get("configMapRef") or {}).get("name")
        with suppress(NotFound):
            found |= (await client.get(CONFIG_MAP, name, deployment["metadata"]["namespace"])).get("data") or {} if name else {}
    return found | {each["name"]: each["value"] for each in container.get("env") or () if "value" in each}


_PROGRAMS = {"graphs": _graphs, "slices": _slices}
