"""What makes pods and keeps them: the controllers that run beside the API's own when a twin runs workloads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.twin.scheduler.scheduler import Scheduler
from sliceworks.twin.workloads import builtin, config_connector, jobset, kueue
from sliceworks.twin.workloads.kueue.visibility import GROUP as VISIBILITY
from sliceworks.twin.workloads.kueue.visibility_page import page

if TYPE_CHECKING:
    from sliceworks.twin.admission.plugins import Webhooks
    from sliceworks.twin.api.pages import Page
    from sliceworks.twin.controllers.loop import Controller
    from sliceworks.twin.controllers.world import World
    from sliceworks.twin.store.store import Store


def workloads(world: World) -> tuple[Controller[Any], ...]:
    """All of them, in the order in which they are told of a change."""
    return (
        Scheduler(world),
        *builtin.controllers(world),
        *jobset.controllers(world),
        *kueue.controllers(world),
        *config_connector.controllers(world),
    )


def pages(world: World) -> dict[str, Page]:
    """What answers the paths of groups that are no stored resources."""
    return {VISIBILITY: page(world)}


def install(store: Store, webhooks: Webhooks, *, config_connector_kinds: bool = False) -> list[dict[str, Any]]:
    """Put the webhooks of what is installed in place; returns the objects it brings along, such as its definitions.

    Config Connector's kinds are only there when they are asked for: few need them, and they are many.
    """
    config_connector.install(webhooks)
    extra = config_connector.definitions() if config_connector_kinds else []
    return [*jobset.install(store, webhooks), *kueue.install(store, webhooks), *extra]
