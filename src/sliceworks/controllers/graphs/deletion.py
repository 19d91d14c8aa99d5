"""The end of an instance: its objects go wave by wave, the last made first, each wave gone before the next. Then it may go itself.

Only what the instance says of itself counts, so this works when its definition is broken or gone.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from sliceworks.base.errors import Conflict, NotFound
from sliceworks.controllers.graphs import applyset, names, ownership
from sliceworks.controllers.graphs.letting_go import Farewell, let_go, order_of
from sliceworks.controllers.graphs.pruning import members

if TYPE_CHECKING:
    from sliceworks.controllers.graphs.applyset import Inventory
    from sliceworks.controllers.graphs.world import World
    from sliceworks.kube.resources import Object, Resource


class Deletion:
    """Deletes one instance."""

    def __init__(self, world: World, resource: Resource, instance: Object) -> None:
        self.message = "deleting resources"
        self._world, self._resource, self._instance = world, resource, instance
        self._set_id = applyset.set_id(instance)

    async def step(self) -> bool:
        """Go as far as possible now; whether the instance has been let go."""
        inventory = applyset.read(self._instance)
        while found := await members(self._world, self._set_id, inventory):
            highest = max(order_of(record) for _, record in found)
            wave = [(view, record) for view, record in found if order_of(record) == highest]
            farewells = await asyncio.gather(*(let_go(self._world.client, view, record) for view, record in wave))
            if any(farewell is not Farewell.GONE for farewell in farewells):
                self.message = f"deleting apply-order wave {highest}"
                return False
        # The caches may be behind what was made just before a restart: ask before letting go.
        if await self._left(inventory):
            self.message = "deleting what the last look did not show"
            return False
        await self._release()
        return True

    async def _left(self, inventory: Inventory) -> bool:
        """Whether the server knows objects of ours that the caches do not."""
        found = False
        for entry in sorted(inventory.group_kinds):
            resource = await self._world.resource_of(entry)
            if resource is None:
                continue
            view = await self._world.views.children(resource)
            listed = await self._world.client.list_all(resource, labels=f"{names.PART_OF}={self._set_id}")
            for obj in listed.items:
                found = ownership.is_ours(view.wrote(obj), self._set_id) or found
        return found

    async def _release(self) -> None:
        metadata = self._instance["metadata"]
        finalizers = [name for name in metadata.get("finalizers") or () if name != names.FINALIZER]
        change = {"metadata": {"resourceVersion": metadata["resourceVersion"], "finalizers": finalizers}}
        try:
            await self._world.client.patch(
                self._resource, metadata["name"], change, metadata.get("namespace"), field_manager=names.WRITER
            )
        except (NotFound, Conflict):
            return  # somebody was faster: the next look sees what is left to do
