"""What a write may change: each endpoint leaves the rest of an object as it was."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

if TYPE_CHECKING:
    from sliceworks.twin.api.calls import Call

Obj = dict[str, Any]


def carry_over(obj: Obj, old: Obj) -> None:
    """Take from the stored object what no client may change, or what it left out."""
    metadata, before = obj["metadata"], old["metadata"]
    metadata["name"] = before["name"]
    for field in ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"):
        if not metadata.get(field) and field in before:
            metadata[field] = before[field]
    copy(before, metadata, "generation")
    metadata["resourceVersion"] = before["resourceVersion"]


def copy(source: Obj, target: Obj, field: str) -> None:
    """Make a field what it is elsewhere, absent if it is absent there."""
    if field in source:
        target[field] = source[field]
    else:
        target.pop(field, None)


def keep_all_but_status(call: Call, obj: Obj, old: Obj) -> None:
    """A write to the status changes nothing else, but for some metadata."""
    if call.resource.custom:
        _keep_custom(obj, old)
        return
    for field in [key for key in old if key not in {"kind", "apiVersion", "metadata", "status"}]:
        obj[field] = old[field]
    for field in [key for key in obj if key not in old and key != "status"]:
        del obj[field]
    if "qosClass" in (old.get("status") or {}):
        obj.setdefault("status", {}).setdefault("qosClass", old["status"]["qosClass"])
    for field in call.resource.strategy.status_resets.get("f:metadata", ()):
        copy(old["metadata"], obj["metadata"], field.removeprefix("f:"))


def _keep_custom(obj: Obj, old: Obj) -> None:
    """Of a custom resource nothing but the status and its owners changes."""
    status, fields = obj.get("status"), obj["metadata"].get("managedFields")
    obj.clear()
    obj.update(orjson.loads(orjson.dumps(old)))
    obj.pop("status", None)
    if status is not None:
        obj["status"] = status
    obj["metadata"].pop("managedFields", None)
    if fields is not None:
        obj["metadata"]["managedFields"] = fields


def raise_generation(call: Call, obj: Obj, old: Obj) -> None:
    """Count a change of what was asked for."""
    strategy = call.resource.strategy
    if not strategy.generation:
        return
    ignored = {"metadata", "status"} if strategy.has_status or not call.resource.custom else {"metadata"}
    if any(obj.get(key) != old.get(key) for key in obj.keys() | old.keys() if key not in ignored):
        obj["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1


def reset_fields(call: Call) -> Obj:
    """The fields that this endpoint never gives anyone: they are put back before ownership is written down."""
    if not call.resource.strategy.has_status:
        return {}
    if call.target.subresource == "status":
        return dict(call.resource.strategy.status_resets)
    return {"f:status": {}}
