"""What makes pods and keeps them: the controllers that run beside the API's own when a twin runs workloads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.twin.scheduler.scheduler import Scheduler
from sliceworks.twin.workloads import builtin, config_connector, jobset, kueue
from sliceworks.twin.workloads.kueue.visibility import GROUP as VISIBILITY
from sliceworks.twin.workloads.kueue.visibility_page import page

if TYPE_CHECKING:
    from collections.abc import Callable

    from sliceworks.twin.admission.plugins import Webhooks
    from sliceworks.twin.api.pages import Page
    from sliceworks.twin.controllers.loop import Controller
    from sliceworks.twin.controllers.world import World
    from sliceworks.twin.store.store import Store


def _scheduler(world: World) -> tuple[Controller[Any], ...]:
    return (Scheduler(world),)


PROGRAMS: dict[str, Callable[[World], tuple[Controller[Any], ...]]] = {
    "scheduler": _scheduler,
    "workloads": builtin.controllers,
    "jobset": jobset.controllers,
    "kueue": kueue.controllers,
    "config-connector": config_connector.controllers,
}
"""All of them by the program that they run in, in the order in which they are told of a change."""


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
