"""Config Connector as version 1.155 behaves: its definitions, webhooks and controller, without a cloud.

`resource_state`        what the cloud would report of an object
`resource_permission`   the permission that an object needs, and who needs it
`resource_webhooks`     defaults and validation
`operator`              the system components of a ConfigConnector object
`resource_controller`   moves each object through the stages in `stages/`
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.schemas import config_connector
from sliceworks.twin.apiserver.admission.chain import CREATE, UPDATE
from sliceworks.twin.controllers.config_connector import resource_webhooks as hooks
from sliceworks.twin.controllers.config_connector.resource_controller import ConfigConnector

if TYPE_CHECKING:
    from sliceworks.twin.apiserver.admission.chain import Webhooks
    from sliceworks.twin.controllers.runtime.controller import Controller
    from sliceworks.twin.controllers.runtime.controller_context import ControllerContext


def install(webhooks: Webhooks) -> None:
    """Register the webhooks; they are called once the CustomResourceDefinitions exist."""
    for kind in config_connector.INSTALLED:
        webhooks.add_validating(f"{config_connector.CORE}/{kind.lower()}s", CREATE, hooks.validate_installation)
    for info in config_connector.kind_infos().values():
        webhooks.add_mutating(info.resource, CREATE, hooks.default_project)
        webhooks.add_validating(info.resource, CREATE, hooks.validate_create)
        webhooks.add_validating(info.resource, UPDATE, hooks.validate_update)
        if info.controller == "iam":
            webhooks.add_mutating(info.resource, CREATE, hooks.default_target_version)
            for operation in (CREATE, UPDATE):
                webhooks.add_validating(info.resource, operation, hooks.validate_policy)


def definitions() -> list[dict[str, Any]]:
    """The CustomResourceDefinitions of Config Connector and of its operator."""
    return [*config_connector.operator_definitions(), *config_connector.definitions()]


def controllers(context: ControllerContext) -> tuple[Controller[Any], ...]:
    return (ConfigConnector(context),)
