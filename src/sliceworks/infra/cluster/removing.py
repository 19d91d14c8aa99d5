"""Takes everything of an environment out of its cluster before the cluster goes, in an order in which nothing hangs.

1. What users made of the published graphs, while the controllers that clear up behind it still run.
2. JobSets in the environment's namespaces, so that queues are empty.
3. Objects of Config Connector that are left: they are let go of, and what they stand for stays in Google Cloud.
4. The steps, last to first; within one, webhooks before definitions, and definitions before who serves them.
5. Namespaces, and the inventory.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sliceworks.base import clock
from sliceworks.base.errors import TimedOut
from sliceworks.infra.cluster import pruning
from sliceworks.infra.cluster.inventory import Entry, name_of
from sliceworks.infra.cluster.objects import SYSTEM, Identity
from sliceworks.infra.cluster.steps import Step
from sliceworks.kube.well_known import CLUSTER_ROLE, CONFIG_MAP, CUSTOM_RESOURCE_DEFINITION, NAMESPACE, PERSISTENT_VOLUME
from sliceworks.schemas import config_connector

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from sliceworks.infra.cluster.inventory import Inventory
    from sliceworks.kube.client import Client
    from sliceworks.kube.resources import Resource

Object = dict[str, Any]
_PLACES = "namespaces"
_DEFINITION = "ResourceGraphDefinition"
_JOBSET = Identity("jobset.x-k8s.io/v1alpha2", "JobSet", "", "")
_WEBHOOKS = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
_ABANDON = {"metadata": {"annotations": {f"{config_connector.PREFIX}deletion-policy": "abandon"}}}
_FIRST, _LONGEST, _GROWTH = 0.1, 2.0, 1.5


@dataclass(slots=True)
class Remover:
    """One environment in one cluster. `stays` are things in Google Cloud that nobody will delete."""

    client: Client
    inventory: Inventory
    patience: float = 300.0
    stays: list[str] = field(default_factory=list)

    async def remove(self, begun: Callable[[Step], Callable[[str], None]]) -> int:
        """Remove everything; returns how many objects of the environment have gone."""
        count = len(self.inventory.entries)
        spaces = [each for each in self.inventory.entries.values() if each.who.kind == NAMESPACE.kind]
        if count:
            await self._work(spaces, begun(Step("work")))
        by_step: dict[str, list[Entry]] = {}
        for entry in reversed(self.inventory.entries.values()):
            if entry not in spaces:
                by_step.setdefault(entry.step, []).append(entry)
        places = by_step.pop(_PLACES, [])
        for step, entries in by_step.items():
            await self._step(entries, begun(Step(step)))
        await self._step([*places, *spaces], begun(Step(_PLACES)))
        await self._last()
        return count

    async def _work(self, spaces: Iterable[Entry], report: Callable[[str], None]) -> None:
        """Steps 1 to 3: what is not ours and would keep ours from going."""
        for entry in list(self.inventory.entries.values()):
            if entry.who.kind == _DEFINITION:
                await self._instances(entry.who, report)
        for space in (each.who.name for each in spaces if not each.adopted):
            await self._clear(await pruning.resource_of(self.client, _JOBSET), space, report)
            await self._abandon(space)
        for volume in (await self.client.list_all(PERSISTENT_VOLUME)).items:
            disk = ((volume["spec"].get("csi") or {}).get("volumeHandle")) or volume["metadata"]["name"]
            if volume["spec"].get("persistentVolumeReclaimPolicy") == "Retain":
                self.stays.append(f"disk {disk}")

    async def _instances(self, who: Identity, report: Callable[[str], None]) -> None:
        """Everything that users made of one graph."""
        resource = await pruning.resource_of(self.client, who)
        graph = await self.client.find(resource, who.name) if resource else None
        if graph is None:
            return
        schema = graph["spec"]["schema"]
        version = str(schema["apiVersion"]).rpartition("/")[2]
        kind = Identity(f"{schema.get('group') or 'kro.run'}/{version}", schema["kind"], "", "")
        await self._clear(await pruning.resource_of(self.client, kind), None, report)

    async def _clear(self, resource: Resource | None, namespace: str | None, report: Callable[[str], None]) -> None:
        """Delete all objects of a kind, and wait until they are gone."""
        if resource is None:
            return
        going: list[tuple[Identity, str]] = []
        for obj in (await self.client.list_all(resource, namespace)).items:
            who, uid = _identity(resource, obj), str(obj["metadata"]["uid"])
            report(f"{who} goes")
            await pruning.delete(self.client, resource, who, uid)
            going.append((who, uid))
        await self._until_gone(going)

    async def _abandon(self, namespace: str) -> None:
        """Let go of what Config Connector keeps: a bucket with something in it would hold the namespace for ever."""
        for marks in config_connector.marks().values():
            who = Identity(f"{marks.group}/{config_connector.VERSION}", marks.kind, namespace, "")
            resource = await pruning.resource_of(self.client, who)
            if resource is None:
                continue
            for obj in (await self.client.list_all(resource, namespace)).items:
                each = _identity(resource, obj)
                if each not in self.inventory.entries:
                    await self.client.patch(resource, each.name, _ABANDON, namespace)
                    self.stays.append(f"{marks.kind} {(obj.get('spec') or {}).get('resourceID') or each.name}")

    async def _step(self, entries: list[Entry], report: Callable[[str], None]) -> None:
        """All objects of a step, and those that the cluster itself fills in from others after those others."""
        filled = [entry for entry in entries if await self._stop_filling(entry)]
        for part in ([entry for entry in sorted(entries, key=_turn) if entry not in filled], filled):
            going: list[tuple[Identity, str]] = []
            for entry in part:
                report(f"{entry.who} goes")
                if entry.who.kind == CUSTOM_RESOURCE_DEFINITION.kind and not entry.adopted:
                    await self._objects_of(entry.who, report)
                if uid := await pruning.let_go(self.client, entry, self.inventory.environment):
                    going.append((entry.who, uid))
            await self._until_gone(going)
        for entry in entries:
            self.inventory.strike(entry.who)
        await self.inventory.save(self.client)

    async def _stop_filling(self, entry: Entry) -> bool:
        """Have the cluster no longer put a role together from others: it would bring it back when one of those goes after it."""
        found = await pruning.find(self.client, CLUSTER_ROLE, entry.who) if entry.who.kind == CLUSTER_ROLE.kind else None
        if entry.adopted or found is None or not found.get("aggregationRule"):
            return False
        await self.client.patch(CLUSTER_ROLE, entry.who.name, {"aggregationRule": None})
        return True

    async def _objects_of(self, who: Identity, report: Callable[[str], None]) -> None:
        """What there is of a definition goes while somebody still serves it: finalizers need him."""
        definition = await self.client.find(CUSTOM_RESOURCE_DEFINITION, who.name)
        if definition is not None:
            await self._clear(await pruning.resource_of_definition(self.client, definition), None, report)

    async def _last(self) -> None:
        """The inventory, and the namespace of inventories with the last of them."""
        config_map = Identity("v1", "ConfigMap", SYSTEM, name_of(self.inventory.environment))
        await pruning.let_go(self.client, Entry("", config_map), self.inventory.environment)
        left = [each["metadata"]["name"] for each in (await self.client.list_all(CONFIG_MAP, SYSTEM)).items]
        system = Identity("v1", NAMESPACE.kind, "", SYSTEM)
        found = await pruning.find(self.client, NAMESPACE, system)
        if found and not [name for name in left if name.startswith("environment-")]:
            uid = str(found["metadata"]["uid"])
            await pruning.delete(self.client, NAMESPACE, system, uid)
            await self._until_gone([(system, uid)])

    async def _until_gone(self, objects: Iterable[tuple[Identity, str]]) -> None:
        end, pause, left = clock.loop_time() + self.patience, _FIRST, list(objects)
        while left := [each for each in left if not await pruning.is_gone(self.client, *each)]:
            if clock.loop_time() >= end:
                more = f", and {len(left) - 1} more" if len(left) > 1 else ""
                raise TimedOut(
                    f"{left[0][0]} is still there after {self.patience:g} s{more}",
                    hint="see what holds it with kubectl; or `sliceworks env destroy --abandon`, and it goes with the cluster",
                )
            await clock.sleep(pause)
            pause = min(pause * _GROWTH, _LONGEST)


def _turn(entry: Entry) -> int:
    """Webhooks first, so that nobody refuses; definitions next, while their objects can still be cleared up; then the rest."""
    return 0 if entry.who.kind in _WEBHOOKS else 1 if entry.who.kind == CUSTOM_RESOURCE_DEFINITION.kind else 2


def _identity(resource: Resource, obj: Object) -> Identity:
    metadata = obj["metadata"]
    return Identity(resource.api_version, resource.kind, metadata.get("namespace", ""), metadata["name"])
