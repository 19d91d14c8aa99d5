"""Whose a namespace is. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sliceworks.console.kinds import NAMESPACES
from sliceworks.training.queues import TEAM

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sliceworks.console.world import World


def team_of(world: World) -> Mapping[str, str]:
    """The team of each namespace; one without a team stands for itself."""
    return world.once(_teams, NAMESPACES)


def _teams(world: World) -> Mapping[str, str]:
    found = {}
    for each in world.table(NAMESPACES).all():
        metadata = each["metadata"]
        found[metadata["name"]] = (metadata.get("labels") or {}).get(TEAM) or metadata["name"]
    return found
