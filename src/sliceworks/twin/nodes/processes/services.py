"""The cluster's Services for pods that are processes: their names, their variables, and their cluster IPs, which answer here.

A port takes connections while a ready endpoint listens, and refuses them else. It begins no sooner, because a program that listens
on all addresses needs its port at the cluster IP too, where it then answers by itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
from typing import TYPE_CHECKING, Any

from sliceworks.base import clock
from sliceworks.kube.informers import Informers
from sliceworks.kube.well_known import ENDPOINT_SLICE, SERVICE
from sliceworks.twin.nodes.processes import backends, links
from sliceworks.twin.nodes.processes.lines import Line
from sliceworks.twin.nodes.processes.listeners import EVERYWHERE, listening

if TYPE_CHECKING:
    from ipaddress import IPv4Network

    from sliceworks.kube.client import Client
    from sliceworks.kube.events import EventRecorder
    from sliceworks.kube.informers import Delta
    from sliceworks.twin.nodes.processes.access import Access
    from sliceworks.twin.nodes.processes.backends import Port
    from sliceworks.twin.nodes.processes.hosts import Part
    from sliceworks.twin.nodes.processes.names import NameFiles

log = logging.getLogger(__name__)
Obj = dict[str, Any]
_TOGETHER = 0.02
_LOOK, _SELDOM = 0.1, 2.0
_MOST = 1000
_TOO_MANY = f"{_MOST} ports of Services are open already"
_WORDS = {
    errno.EACCES: "only root may listen on it here; those from 1024 are for everybody",
    errno.EADDRINUSE: "a program of this machine listens on it at all addresses, and gets what is meant for the Service",
}


class Services:
    """Follows Services and their endpoints from `open` to `close`, on a machine that has addresses for them."""

    def __init__(self, client: Client, recorder: EventRecorder, part: Part, files: NameFiles, access: Access) -> None:
        self._informers = Informers(client)
        self._recorder = recorder
        self._networks = part.networks
        self._files = files
        self._access = access
        self._changed = asyncio.Event()
        self._lines: dict[tuple[str, int], Line] = {}
        self._left: list[Line] = []
        self._told: dict[tuple[str, int], str] = {}
        self._task: asyncio.Task[None] | None = None
        files.changed = self.look

    async def open(self) -> None:
        """Begin; returns once the Services that there are now are known."""
        if self._networks is None:
            return
        self._services, self._slices = self._informers.open(SERVICE), self._informers.open(ENDPOINT_SLICE)
        for each in (self._services, self._slices):
            each.add_handler(self._seen)
        await self._informers.wait_synced()
        self._task = asyncio.create_task(self._follow(self._networks.pods), name="services of processes")

    async def close(self) -> None:
        """End all of it."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self._informers.close()
        for line in (*self._lines.values(), *self._left):
            line.abort()

    def variables(self, pod: Obj, *, api: bool) -> dict[str, str]:
        """What a container that starts now is told of Services; of the API's only where it finds a token beside it."""
        if self._task is None:
            return {}
        return links.variables(pod, self._services.store, self._access.address if api else None)

    def look(self) -> None:
        """Something may have changed."""
        self._changed.set()

    def _seen(self, _: Delta) -> None:
        self.look()

    async def _follow(self, pods: IPv4Network) -> None:
        pause = _LOOK
        while True:
            pause = _LOOK if self._changed.is_set() else min(pause * 1.5, _SELDOM)
            self._changed.clear()
            try:
                waiting = await self._settle(pods)
            except Exception:
                log.exception("Services of processes are looked at again")
                waiting = True
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(clock.of_the_machine(pause) if waiting else None):
                    await self._changed.wait()
                    await clock.sleep(clock.of_the_machine(_TOGETHER))

    async def _settle(self, pods: IPv4Network) -> bool:
        """Bring names and lines to what there is now; returns whether one waits for somebody to listen behind it."""
        services, slices = list(self._services.store), backends.by_service(self._slices.store)
        self._files.know(backends.names(services, slices, pods))
        self._files.refresh()
        wanted = {port.place: port for port in backends.ports(services, slices, pods, self._access.address)}
        self._left = [line for line in self._left if line.is_busy]
        for place in self._lines.keys() - wanted.keys():
            self._lines[place].close()
            self._left.append(self._lines.pop(place))
            self._told.pop(place, None)
        for place, port in wanted.items():
            line = self._lines.setdefault(place, Line(*place))
            line.targets, line.affinity = port.targets, port.affinity
            if not port.targets:
                line.close()
        waiting = [port for port in wanted.values() if port.targets and not self._lines[port.place].is_open]
        heard = listening() if waiting else set()
        for port in waiting:
            if any(place in heard for address, number in port.targets for place in ((address, number), (EVERYWHERE, number))):
                await self._open(port, heard)
        return any(not self._lines[port.place].is_open for port in waiting)

    async def _open(self, port: Port, heard: set[tuple[str, int]]) -> None:
        number = port.place[1]
        if sum(line.is_open for line in self._lines.values()) >= _MOST:
            self._tell(port, _TOO_MANY)
            return
        try:
            await self._lines[port.place].open()
        except OSError as error:
            by_itself = (EVERYWHERE, number) in heard and any(number == target[1] for target in port.targets)
            if not by_itself and backends.key_of(port.service) != links.API:
                self._tell(port, _WORDS.get(error.errno or 0, str(error)))
        else:
            self._told.pop(port.place, None)

    def _tell(self, port: Port, why: str) -> None:
        """Once for each reason, as an event of the Service."""
        if self._told.get(port.place) != why:
            self._told[port.place] = why
            self._recorder.record(port.service, "PortNotOpened", f"Port {port.place[1]} is not served: {why}", type="Warning")
