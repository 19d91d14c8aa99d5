"""Takes away objects that an instance had and no longer wants: the last made first, never one that we did not apply."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from sliceworks.controllers.graphs import names, ownership
from sliceworks.controllers.graphs.letting_go import Farewell, let_go

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sliceworks.controllers.graphs.applyset import Inventory
    from sliceworks.controllers.graphs.records import Record
    from sliceworks.controllers.graphs.views import View
    from sliceworks.controllers.graphs.world import World
    from sliceworks.graph.model import Graph

Member = tuple["View", "Record"]


async def members(world: World, set_id: str, inventory: Inventory) -> list[Member]:
    """The objects that we applied for an instance, by the kinds that its inventory names."""
    found: list[Member] = []
    for entry in sorted(inventory.group_kinds):
        resource = await world.resource_of(entry)
        if resource is not None:
            view = await world.views.children(resource)
            found += [(view, record) for record in view.members(set_id) if ownership.is_ours(record, set_id)]
    return found


async def prune(world: World, set_id: str, inventory: Inventory, kept: set[str], graph: Graph) -> bool:
    """Let go of what is not kept. False when something stood in the way and is to be looked at again."""
    orphans = [member for member in await members(world, set_id, inventory) if member[1].uid not in kept]
    positions = {name: index for index, name in enumerate(graph.order)}
    complete = True
    for wave in _waves(orphans, positions):
        farewells = await asyncio.gather(*(let_go(world.client, view, record) for view, record in wave))
        complete = complete and Farewell.REPLACED not in farewells
    return complete


def _waves(orphans: Iterable[Member], positions: dict[str, int]) -> Sequence[list[Member]]:
    """By place in the graph, from its end; what the graph no longer knows goes first."""
    waves: dict[int, list[Member]] = {}
    for view, record in orphans:
        node = (record.object["metadata"].get("labels") or {}).get(names.NODE_ID, "")
        waves.setdefault(positions.get(node, len(positions)), []).append((view, record))
    return [waves[position] for position in sorted(waves, reverse=True)]
