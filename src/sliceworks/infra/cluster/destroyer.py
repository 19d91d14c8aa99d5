"""Deletes all objects of an Environment from its cluster in a safe order.

1. Instances of the published graphs, while the controllers that run their finalizers still exist.
2. JobSets in the environment's namespaces, so that queues are empty.
3. Remaining Config Connector objects are abandoned: their resources stay in Google Cloud.
4. The steps in reverse order; within a step, webhooks, then CustomResourceDefinitions, then everything else.
5. Namespaces, and the inventory.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sliceworks.base import clock
from sliceworks.base.errors import TimedOut
from sliceworks.infra.cluster import applier
from sliceworks.infra.cluster.applier import POLLING, find_object, find_resource
from sliceworks.infra.cluster.inventory import SYSTEM, Entry, ObjectReference, Step, inventory_name
from sliceworks.kube.resources import CLUSTER_ROLE, CONFIG_MAP, CUSTOM_RESOURCE_DEFINITION, JOBSET, NAMESPACE, PERSISTENT_VOLUME
from sliceworks.schemas import config_connector

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from sliceworks.infra.cluster.inventory import Inventory
    from sliceworks.kube.client import Client
    from sliceworks.kube.resources import Resource

Object = dict[str, Any]
_PLACES = "namespaces"
_DEFINITION = "ResourceGraphDefinition"
_WEBHOOKS = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
_ABANDON = {"metadata": {"annotations": {f"{config_connector.PREFIX}deletion-policy": "abandon"}}}


@dataclass(slots=True)
class Destroyer:
    """Deletes one environment from one cluster. `remaining` collects resources that stay in Google Cloud."""

    client: Client
    inventory: Inventory
    timeout: float = 300.0
    remaining: list[str] = field(default_factory=list)

    async def remove(self, start_step: Callable[[Step], Callable[[str], None]]) -> int:
        """Delete everything; returns the number of deleted objects."""
        count = len(self.inventory.entries)
        spaces = [item for item in self.inventory.entries.values() if item.reference.kind == NAMESPACE.kind]
        if count:
            await self._work(spaces, start_step(Step("work")))
        by_step: dict[str, list[Entry]] = {}
        for entry in reversed(self.inventory.entries.values()):
            if entry not in spaces:
                by_step.setdefault(entry.step, []).append(entry)
        places = by_step.pop(_PLACES, [])
        for step, entries in by_step.items():
            await self._step(entries, start_step(Step(step)))
        await self._step([*places, *spaces], start_step(Step(_PLACES)))
        await self._last()
        return count

    async def _work(self, spaces: Iterable[Entry], report: Callable[[str], None]) -> None:
        """Steps 1 to 3: objects of users that would block the deletion of ours."""
        for entry in list(self.inventory.entries.values()):
            if entry.reference.kind == _DEFINITION:
                await self._instances(entry.reference, report)
        for space in (item.reference.name for item in spaces if not item.adopted):
            await self._clear(await find_resource(self.client, JOBSET.api_version, JOBSET.kind), space, report)
            await self._abandon(space)
        for volume in (await self.client.list_all(PERSISTENT_VOLUME)).items:
            disk = ((volume["spec"].get("csi") or {}).get("volumeHandle")) or volume["metadata"]["name"]
            if volume["spec"].get("persistentVolumeReclaimPolicy") == "Retain":
                self.remaining.append(f"disk {disk}")

    async def _instances(self, reference: ObjectReference, report: Callable[[str], None]) -> None:
        """Delete all instances of one graph."""
        graph = await find_object(self.client, reference)
        if graph is None:
            return
        schema = graph["spec"]["schema"]
        api_version = f"{schema.get('group') or 'kro.run'}/{str(schema['apiVersion']).rpartition('/')[2]}"
        await self._clear(await find_resource(self.client, api_version, schema["kind"]), None, report)

    async def _clear(self, resource: Resource | None, namespace: str | None, report: Callable[[str], None]) -> None:
        """Delete all objects of a kind and wait for their deletion."""
        if resource is None:
            return
        deleting: list[tuple[ObjectReference, str]] = []
        for obj in (await self.client.list_all(resource, namespace)).items:
            reference, uid = _identity(resource, obj), str(obj["metadata"]["uid"])
            report(f"deleting {reference}")
            await applier.delete(self.client, resource, reference, uid)
            deleting.append((reference, uid))
        await self._wait_for_deletion(deleting)

    async def _abandon(self, namespace: str) -> None:
        """Abandon Config Connector objects: a bucket that is not empty would block the namespace forever."""
        for marks in config_connector.kind_infos().values():
            resource = await find_resource(self.client, f"{marks.group}/{config_connector.VERSION}", marks.kind)
            if resource is None:
                continue
            for obj in (await self.client.list_all(resource, namespace)).items:
                reference = _identity(resource, obj)
                if reference not in self.inventory.entries:
                    await self.client.patch(resource, reference.name, _ABANDON, namespace)
                    self.remaining.append(f"{marks.kind} {(obj.get('spec') or {}).get('resourceID') or reference.name}")

    async def _step(self, entries: list[Entry], report: Callable[[str], None]) -> None:
        """Delete the objects of a step; aggregated ClusterRoles are deleted last."""
        aggregated = [entry for entry in entries if await self._stop_aggregation(entry)]
        for part in ([entry for entry in sorted(entries, key=_deletion_order) if entry not in aggregated], aggregated):
            deleting: list[tuple[ObjectReference, str]] = []
            for entry in part:
                report(f"deleting {entry.reference}")
                if entry.reference.kind == CUSTOM_RESOURCE_DEFINITION.kind and not entry.adopted:
                    await self._objects_of(entry.reference, report)
                if uid := await applier.prune_object(self.client, entry, self.inventory.environment):
                    deleting.append((entry.reference, uid))
            await self._wait_for_deletion(deleting)
        for entry in entries:
            self.inventory.strike(entry.reference)
        await self.inventory.save(self.client)

    async def _stop_aggregation(self, entry: Entry) -> bool:
        """Remove the aggregation rule: the controller would recreate the role when one of its parts is deleted."""
        role = await self.client.find(CLUSTER_ROLE, entry.reference.name) if entry.reference.kind == CLUSTER_ROLE.kind else None
        if entry.adopted or role is None or not role.get("aggregationRule"):
            return False
        await self.client.patch(CLUSTER_ROLE, entry.reference.name, {"aggregationRule": None})
        return True

    async def _objects_of(self, reference: ObjectReference, report: Callable[[str], None]) -> None:
        """Delete the objects of a CustomResourceDefinition while the controller that runs their finalizers exists."""
        definition = await self.client.find(CUSTOM_RESOURCE_DEFINITION, reference.name)
        if definition is not None:
            await self._clear(await applier.resource_of_definition(self.client, definition), None, report)

    async def _last(self) -> None:
        """Delete the inventory, and its namespace if it was the last inventory."""
        config_map = ObjectReference("v1", "ConfigMap", SYSTEM, inventory_name(self.inventory.environment))
        await applier.prune_object(self.client, Entry("", config_map), self.inventory.environment)
        left = [item["metadata"]["name"] for item in (await self.client.list_all(CONFIG_MAP, SYSTEM)).items]
        system = ObjectReference("v1", NAMESPACE.kind, "", SYSTEM)
        namespace = await self.client.find(NAMESPACE, SYSTEM)
        if namespace and not [name for name in left if name.startswith("environment-")]:
            uid = str(namespace["metadata"]["uid"])
            await applier.delete(self.client, NAMESPACE, system, uid)
            await self._wait_for_deletion([(system, uid)])

    async def _wait_for_deletion(self, objects: Iterable[tuple[ObjectReference, str]]) -> None:
        end, left = clock.loop_time() + self.timeout, list(objects)
        for pause in POLLING.delays():
            left = [(reference, uid) for reference, uid in left if await self._exists(reference, uid)]
            if not left:
                return
            if clock.loop_time() >= end:
                more = f", and {len(left) - 1} more" if len(left) > 1 else ""
                raise TimedOut(
                    f"{left[0][0]} is not deleted after {self.timeout:g} s{more}",
                    hint="check its finalizers with kubectl, or `sliceworks env destroy --abandon` to delete it with the cluster",
                )
            await clock.sleep(pause)

    async def _exists(self, reference: ObjectReference, uid: str) -> bool:
        """Whether the object exists and was not recreated."""
        obj = await find_object(self.client, reference)
        return obj is not None and obj["metadata"]["uid"] == uid


def _deletion_order(entry: Entry) -> int:
    """Webhooks first, so that they reject nothing; then CustomResourceDefinitions, while their controllers still run."""
    return 0 if entry.reference.kind in _WEBHOOKS else 1 if entry.reference.kind == CUSTOM_RESOURCE_DEFINITION.kind else 2


def _identity(resource: Resource, obj: Object) -> ObjectReference:
    metadata = obj["metadata"]
    return ObjectReference(resource.api_version, resource.kind, metadata.get("namespace", ""), metadata["name"])
