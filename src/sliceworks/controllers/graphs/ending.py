"""The end of a ResourceGraphDefinition: what becomes of its instances is said in `spec.lifecycle.onDelete`, and none is stranded.

refuse    it stays, and its instances are served, until the last of them is gone
orphan    it goes; instances lose our finalizer, so that they can be deleted by anybody, and keep their objects
cascade   its instances are deleted first, with all their objects; then it goes
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sliceworks.base.errors import NotFound
from sliceworks.controllers.graphs import applyset, crds, names
from sliceworks.controllers.graphs.applyset import BrokenInventory
from sliceworks.controllers.graphs.completed import unpin
from sliceworks.controllers.graphs.pruning import members
from sliceworks.kube.controller import Done, Pending

if TYPE_CHECKING:
    from sliceworks.controllers.graphs.kinds_served import KindsServed
    from sliceworks.controllers.graphs.views import View
    from sliceworks.controllers.graphs.world import World
    from sliceworks.kube.controller import Outcome
    from sliceworks.kube.resources import Object, Resource

_LOOK_AGAIN = 1.0


class Ending:
    """Ends one definition."""

    def __init__(self, world: World, kinds: KindsServed, view: View, definition: Object) -> None:
        self._world, self._kinds, self._view, self._definition = world, kinds, view, definition
        self._name: str = definition["metadata"]["name"]
        self._how: str = (definition["spec"].get("lifecycle") or {}).get("onDelete") or "orphan"

    async def step(self, resource: Resource | None) -> Outcome:
        """Go as far as possible now. `resource` is how its instances are addressed, if it ever had a kind."""
        if resource is not None:
            instances = await self._instances(resource)
            # One that is going already still needs us to take its objects along.
            waited = [item for item in instances if self._how != "orphan" or "deletionTimestamp" in item["metadata"]]
            if waited:
                return await self._wait(resource, waited)
            await self._kinds.stop(self._name)
            for instance in instances:
                await self._unpin(instance)
                await self._orphan(resource, instance)
            if self._world.options.allow_crd_deletion:
                await crds.remove(self._world.client, resource.qualified, self._name)
        await self._release()
        self._world.measures.graph_deletions.add(self._name)
        return Done()

    async def _wait(self, resource: Resource, instances: list[Object]) -> Outcome:
        if self._how == "cascade":
            for instance in instances:
                await self._delete(resource, instance)
            return Pending(f"{len(instances)} instances are being deleted first", _LOOK_AGAIN)
        going = sum("deletionTimestamp" in instance["metadata"] for instance in instances)
        why = f"{len(instances)} instances of {resource.kind} are still there ({going} of them going)"
        if going < len(instances):
            self._world.warn(
                self._definition,
                "DeletionRefused",
                f"{why}: delete them, or set spec.lifecycle.onDelete to orphan or cascade",
            )
        return Pending(why, _LOOK_AGAIN)

    async def _instances(self, resource: Resource) -> list[Object]:
        try:
            listed = await self._world.client.list_all(resource)
        except NotFound:
            return []  # its kind is gone, and so are they
        mine = (self._name, None)
        return [item for item in listed.items if (item["metadata"].get("labels") or {}).get(names.DEFINITION_NAME) in mine]

    async def _delete(self, resource: Resource, instance: Object) -> None:
        metadata = instance["metadata"]
        if "deletionTimestamp" in metadata:
            return
        try:
            await self._world.client.delete(resource, metadata["name"], metadata.get("namespace"), uid=metadata["uid"])
        except NotFound:
            return

    async def _unpin(self, instance: Object) -> None:
        """Nobody notes any more what finishes: its objects may go when they do."""
        try:
            inventory = applyset.read(instance)
        except BrokenInventory:
            return  # nothing was ever made for it, or it cannot be told what
        for view, record in await members(self._world, applyset.set_id(instance), inventory):
            await unpin(self._world.client, view, record)

    async def _orphan(self, resource: Resource, instance: Object) -> None:
        """Take our finalizer off. Inventory and labels stay: a definition of this name finds everything again."""
        metadata = instance["metadata"]
        finalizers = metadata.get("finalizers") or ()
        if names.FINALIZER not in finalizers:
            return
        kept = [name for name in finalizers if name != names.FINALIZER]
        change = {"metadata": {"resourceVersion": metadata["resourceVersion"], "finalizers": kept}}
        try:
            await self._world.client.patch(
                resource, metadata["name"], change, metadata.get("namespace"), field_manager=names.WRITER
            )
        except NotFound:
            return

    async def _release(self) -> None:
        metadata = self._definition["metadata"]
        kept = [name for name in metadata.get("finalizers") or () if name != names.FINALIZER]
        change = {"metadata": {"resourceVersion": metadata["resourceVersion"], "finalizers": kept}}
        try:
            answer = await self._world.client.patch(names.GRAPH_DEFINITION, self._name, change, field_manager=names.WRITER)
        except NotFound:
            return
        self._view.wrote(answer)  # the end of its kind brings it up once more, perhaps before the watch tells that it has gone
