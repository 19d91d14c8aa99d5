"""Model services of a live cluster, looked at now and then for everybody, with their gateways' numbers; and prompts to them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sliceworks.base import clock
from sliceworks.base.errors import SliceworksError
from sliceworks.console.kinds import EVENTS, PODS
from sliceworks.console.views import latencies, models
from sliceworks.kube.well_known import CONFIG_MAP, DEPLOYMENT, JOB, SERVICE, STATEFUL_SET
from sliceworks.serving import asking, cluster, doors, front_objects, naming, reaching
from sliceworks.serving import record as records
from sliceworks.serving import standing as standings
from sliceworks.serving.naming import GATEWAY

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from sliceworks.console.views.latencies import Reading
    from sliceworks.console.views.models import Service
    from sliceworks.console.world import World
    from sliceworks.kube.client import Client
    from sliceworks.serving.cluster import Seen
    from sliceworks.serving.record import Record

Object = dict[str, Any]
LOOK_EVERY = 2.0
_SAMPLES = 6
"""Readings of a gateway's numbers that are kept: what is shown as live is of the last ten seconds."""


@dataclass(slots=True)
class Gateway:
    """The last readings of one gateway's numbers, and why there is none."""

    readings: list[Reading] = field(default_factory=list)
    trouble: str = ""

    def took(self, reading: Reading) -> None:
        self.readings = [*self.readings[1 - _SAMPLES :], reading]
        self.trouble = ""

    def latency(self, model: str) -> latencies.Latency | None:
        """A model's latest; None while one reading alone is known."""
        if len(self.readings) < 2:
            return None
        return latencies.between(self.readings[0], self.readings[-1], model)


class Models:
    """What is known of all services. Whoever shows it has it looked at again when that is due."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._client: Client = world.client
        self._looked = -LOOK_EVERY
        self.services: list[Service] | None = None
        self.broken: list[str] = []
        self.gateways: dict[tuple[str, str], Gateway] = {}

    async def look(self) -> None:
        """Look again, unless somebody just has."""
        if clock.loop_time() - self._looked < LOOK_EVERY * 0.8:
            return
        self._looked = clock.loop_time()
        place = self._world.namespace or None
        found = (await self._client.list_all(CONFIG_MAP, place, labels=records.SELECTOR)).items
        self.services, self.broken = models.services(found, await self._workloads(place) if found else [])
        for each in self.services:
            if each.gateway:
                await self._read((each.namespace, each.gateway))

    async def _workloads(self, namespace: str | None) -> list[Object]:
        """What runs the pods of services, and of gateways: by their labels, since others may be thousands."""
        found = []
        for kind in (DEPLOYMENT, STATEFUL_SET, JOB):
            for label in (naming.SERVICE, GATEWAY):
                found += (await self._client.list_all(kind, namespace, labels=label)).items
        return found

    async def _read(self, which: tuple[str, str]) -> None:
        gateway, (namespace, name) = self.gateways.setdefault(which, Gateway()), which
        pods = [each for each in self._pods(namespace) if (each["metadata"].get("labels") or {}).get(GATEWAY) == name]
        texts = []
        for pod in filter(cluster.is_ready, pods):
            way = reaching.to_pod(
                self._client, namespace, pod["metadata"]["name"], front_objects.PORTS["admin"], pod["status"]["podIP"]
            )
            try:
                texts.append((await reaching.whole(way, "GET", "/metrics")).decode(errors="replace"))
            except SliceworksError as error:
                gateway.trouble = error.message
        if texts:
            gateway.took(latencies.read(texts, clock.loop_time()))
        elif not gateway.trouble:
            gateway.trouble = "no gateway of it is ready"

    def _pods(self, namespace: str) -> list[Object]:
        return self._world.table(PODS).store.by_index("namespace", namespace)

    async def record(self, name: str, namespace: str) -> Record:
        """One service."""
        return await cluster.one_record(self._client, name, namespace)

    async def seen(self, record: Record) -> Seen:
        """One service with everything there is of it."""
        place = record.namespace
        running = await self._workloads(place)
        stands = standings.standing(record, running)
        pods = [each for each in self._pods(place) if standings.belongs(record, each)]
        services = []
        for label in (naming.SERVICE, GATEWAY):
            services += (await self._client.list_all(SERVICE, place, labels=label)).items
        own = {each["metadata"]["name"]: each for each in services if standings.belongs(record, each)}
        told = self._world.table(EVENTS).store.by_index("namespace", place)
        causes = [] if stands.settled else cluster.causes_of(record, pods, running, told)
        return cluster.Seen(record, stands, tuple(pods), tuple(own.values()), tuple(causes))

    async def ask(self, record: Record, model: str, prompt: str, *, longest: int, key: str) -> AsyncIterator[str]:
        """Send a prompt, and have the answer as it comes. Neither is kept anywhere."""
        at = doors.door(record)
        way = await reaching.way_to(self._client, at)
        question = asking.text(at.protocol, model, prompt, asking.Wishes(longest))
        own = {"x-api-key": key} if key else {}
        async for piece in question.read(way.pieces("POST", question.path, question.body, {**question.headers, **own})):
            yield piece
