"""The two parts of a pod that have a path of their own to change on: ephemeral containers, and the resources of its containers."""

from __future__ import annotations

from typing import Any

import orjson

from sliceworks.schemas.field_errors import FieldError, forbidden, invalid
from sliceworks.twin.api.preparations import qos_class

Obj = dict[str, Any]
PARTS = ("ephemeralcontainers", "resize")
_MIRROR = "kubernetes.io/config.mirror"
_EPHEMERAL = "spec.ephemeralContainers"


def narrow(part: str, new: Obj, old: Obj) -> None:
    """Leave of a change what this path may change."""
    spec: Obj = orjson.loads(orjson.dumps(old["spec"]))
    if part == "ephemeralcontainers":
        spec.pop("ephemeralContainers", None)
        if new["spec"].get("ephemeralContainers"):
            spec["ephemeralContainers"] = new["spec"]["ephemeralContainers"]
    else:
        wanted = {item["name"]: item for item in _sized(new["spec"])}
        for container in _sized(spec):
            for field in ("resources", "resizePolicy"):
                if field in wanted.get(container["name"], container):
                    container[field] = wanted.get(container["name"], container)[field]
    new["spec"] = spec
    if "status" in old:
        new["status"] = old["status"]


def errors(part: str, new: Obj, old: Obj) -> list[FieldError]:
    """What of the change may not be."""
    if _MIRROR in (old["metadata"].get("annotations") or {}):
        return [
            forbidden(
                "", "static pods do not support ephemeral containers" if part != "resize" else "static pods cannot be resized"
            )
        ]
    if part == "resize":
        return _resize_errors(new, old)
    kept = {item["name"]: item for item in new["spec"].get("ephemeralContainers") or ()}
    found = []
    for item in old["spec"].get("ephemeralContainers") or ():
        name = item["name"]
        if name not in kept:
            found.append(forbidden(_EPHEMERAL, f'existing ephemeral containers "{name}" may not be removed\n'))
        elif kept[name] != item:
            found.append(forbidden(_EPHEMERAL, f'existing ephemeral containers "{name}" may not be changed\n'))
    return found


def _resize_errors(new: Obj, old: Obj) -> list[FieldError]:
    before = (old.get("status") or {}).get("qosClass") or qos_class(old["spec"])
    if qos_class(new["spec"]) == before:
        return []
    return [invalid("spec", before, "Pod QOS Class may not change as a result of resizing")]


def _sized(spec: Obj) -> list[Obj]:
    """The containers that go on running beside each other."""
    sidecars = [item for item in spec.get("initContainers") or () if item.get("restartPolicy") == "Always"]
    return [*(spec.get("containers") or ()), *sidecars]
