"""What makes pods and keeps them: the controllers that run beside the API's own when a twin runs workloads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sliceworks.twin.controllers.loop import Controller
    from sliceworks.twin.controllers.world import World


def workloads(world: World) -> tuple[Controller[Any], ...]:
    """All of them, in the order in which they are told of a change."""
    return ()
