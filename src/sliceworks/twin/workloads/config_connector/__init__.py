"""Config Connector as version 1.155 behaves: its definitions, its webhooks and its controllers, without a cloud behind them.

What its objects go through is stage data: see `stages/`. Not here: drift repair, leases, `state-into-spec: merge`, and kinds other
than the nine that the definitions name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.schemas import config_connector
from sliceworks.twin.admission.context import CREATE, UPDATE
from sliceworks.twin.workloads.config_connector import webhooks as hooks
from sliceworks.twin.workloads.config_connector.controller import ConfigConnector

if TYPE_CHECKING:
    from sliceworks.twin.admission.plugins import Webhooks
    from sliceworks.twin.controllers.loop import Controller
    from sliceworks.twin.controllers.world import World


def install(webhooks: Webhooks) -> None:
    """Put its webhooks in place; they matter once its kinds are there."""
    for kind in config_connector.INSTALLED:
        webhooks.judge(f"{config_connector.CORE}/{kind.lower()}s", CREATE, hooks.check_installation)
    for mark in config_connector.marks().values():
        webhooks.change(mark.resource, CREATE, hooks.place)
        webhooks.judge(mark.resource, CREATE, hooks.check_new)
        webhooks.judge(mark.resource, UPDATE, hooks.check_change)
        if mark.controller == "iam":
            webhooks.change(mark.resource, CREATE, hooks.name_target)
            for operation in (CREATE, UPDATE):
                webhooks.judge(mark.resource, operation, hooks.check_policy)


def definitions() -> list[dict[str, Any]]:
    """The objects that a cluster with Config Connector has."""
    return [*config_connector.installation(), *config_connector.definitions()]


def controllers(world: World) -> tuple[Controller[Any], ...]:
    return (ConfigConnector(world),)
