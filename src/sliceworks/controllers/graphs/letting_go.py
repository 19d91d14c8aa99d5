"""How an object is let go: deleted, left as it is without our labels, or given back as it was before."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

import orjson

from sliceworks.base.errors import Conflict, NotFound
from sliceworks.controllers.graphs import names
from sliceworks.controllers.graphs.completed import unpin

if TYPE_CHECKING:
    from sliceworks.controllers.graphs.records import Record
    from sliceworks.controllers.graphs.views import View
    from sliceworks.kube.client import Client
    from sliceworks.kube.resources import Object, Resource


def order_of(record: Record) -> int:
    """The level an object was applied in; those of the highest go first."""
    text = (record.object["metadata"].get("annotations") or {}).get(names.APPLY_ORDER, "")
    return int(text) if text.isdigit() else 0


class Farewell(Enum):
    """What became of an object that was let go."""

    GONE = "it is no longer ours, or no longer there"
    GOING = "it is on its way out"
    REPLACED = "another has taken its name"


async def let_go(client: Client, view: View, record: Record) -> Farewell:
    """Let one object go as it says itself."""
    annotations = record.object["metadata"].get("annotations") or {}
    how = annotations.get(names.ON_DELETE)
    try:
        await unpin(client, view, record)
        if how == "retain":
            await _release(client, view.resource, record)
        elif how == "restore" and names.BEFORE in annotations:
            await _restore(client, view.resource, record, orjson.loads(annotations[names.BEFORE]))
        elif record.deleting:
            return Farewell.GOING
        else:
            answer = await client.delete(view.resource, record.name, record.namespace, uid=record.uid)
            if "deletionTimestamp" in (answer.get("metadata") or {}):
                view.wrote(answer)
                return Farewell.GOING if view.has(record) else Farewell.GONE
    except NotFound:
        pass
    except Conflict:
        return Farewell.REPLACED
    view.lost(record)
    return Farewell.GONE


async def _release(client: Client, resource: Resource, record: Record) -> None:
    """Take our labels off: nothing is ours any more, and everything stays."""
    metadata = record.object["metadata"]
    labels = dict.fromkeys(names.OWN_LABELS & (metadata.get("labels") or {}).keys())
    annotations = dict.fromkeys(names.OWN_ANNOTATIONS & (metadata.get("annotations") or {}).keys())
    change: Object = {"metadata": {"uid": record.uid, "labels": labels, "annotations": annotations}}
    await client.patch(resource, record.name, change, record.namespace, field_manager=names.WRITER)


async def _restore(client: Client, resource: Resource, record: Record, before: Object) -> None:
    """Put back what our fields had before; then own nothing, which takes away the fields that were not there."""
    if before:
        change = {**before, "metadata": {**(before.get("metadata") or {}), "uid": record.uid}}
        await client.patch(resource, record.name, change, record.namespace, field_manager=names.WRITER)
    metadata = {"name": record.name, "uid": record.uid}
    if record.namespace:
        metadata["namespace"] = record.namespace
    nothing = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata}
    await client.apply(nothing, record.namespace, resource=resource, field_manager=names.APPLYSET, force=True)
