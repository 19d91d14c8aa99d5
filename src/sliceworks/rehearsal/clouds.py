"""The steps of a scenario that happen to the cloud: ordered from the twin, which has a path of its own for that."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from sliceworks.kube.transport import Request
from sliceworks.specs.clouds import CloudFault, EndCloudFault, SetCloud

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from sliceworks.kube.client import Client

Action = CloudFault | EndCloudFault | SetCloud
_PATH = "/debug/twin/cloud"


def spoken(action: Action) -> str:
    """What happens, in words."""
    if isinstance(action, EndCloudFault):
        return f"the cloud's fault {action.name} is over"
    if isinstance(action, SetCloud):
        return f"set the cloud's {', '.join(sorted(_written(action)))}"
    where = " ".join(f"{key}={value}" for key, value in _written(action).get("match", {}).items())
    return f"{action.fault} in the cloud{f' for {where}' if where else ''}"


def acting(action: Action) -> Callable[[Client], Awaitable[None]]:
    """How it is done."""
    if isinstance(action, EndCloudFault):
        order: dict[str, Any] = {"end": [action.name]}
    elif isinstance(action, SetCloud):
        order = {"set": {"container": _written(action)}}
    else:
        order = {"faults": [_written(action)]}

    async def act(client: Client) -> None:
        await client.send(Request("POST", _PATH, (), {"content-type": "application/json"}, orjson.dumps(order)))

    return act


def _written(action: Action) -> dict[str, Any]:
    """What the document says, and nothing that it does not: a limit that is null is lifted, one that is not there stays."""
    return action.model_dump(by_alias=True, exclude_unset=True)
