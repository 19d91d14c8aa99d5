"""How what a stage does is written to the API."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.kube import requests
from sliceworks.kube.well_known import NODE, POD

if TYPE_CHECKING:
    from sliceworks.kube.client import Client
    from sliceworks.kube.options import DeleteOptions
    from sliceworks.kube.resources import Resource
    from sliceworks.twin.nodes.engine import Outcome
    from sliceworks.twin.nodes.tracks import What

Obj = dict[str, Any]


async def write(client: Client, what: What, obj: Obj, result: Outcome) -> None:
    """Write what a stage does. What has become of the object then, the watch tells."""
    resource, metadata = resource_of(what), obj["metadata"]
    lock = {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]}
    if result.status:
        old = obj.get("status") or {}
        gone = {name: None for name in ("reason", "message") if name in old and name not in result.status}
        await _patch(client, what, {"metadata": lock, "status": {**result.status, **gone}}, "status")
        lock = {"uid": metadata["uid"]}
    if result.patch:
        await _patch(client, what, {**result.patch, "metadata": {**lock, **result.patch.get("metadata", {})}})
    if result.delete:
        how: DeleteOptions = {"uid": metadata["uid"]}
        if what.kind == "Pod":
            how["grace_period_seconds"] = 0
        await client.delete(resource, what.name, what.namespace or None, **how)


async def _patch(client: Client, what: What, change: Obj, subresource: str = "") -> None:
    # The answer is not read: the watch brings it anyway, and it is the largest part of what a write costs.
    manager = client.field_manager
    await client.exchange(
        requests.patch(resource_of(what), what.name, change, what.namespace, subresource=subresource, field_manager=manager)
    )


def resource_of(what: What) -> Resource:
    return POD if what.kind == "Pod" else NODE
