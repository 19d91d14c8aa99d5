"""What is wrong with an object that is to be written, and what is only to be warned of."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from sliceworks.base import names
from sliceworks.schemas import rules, structural
from sliceworks.schemas.field_errors import FieldError, invalid, required
from sliceworks.schemas.rules.endpoints import endpoint_slice_errors
from sliceworks.twin.api import customs, pod_parts, service_addresses

if TYPE_CHECKING:
    from collections.abc import Callable

    from sliceworks.twin.api.calls import Call
    from sliceworks.twin.api.core import Core

Obj = dict[str, Any]
_SLICE = "discovery.k8s.io/EndpointSlice"
_UNJUDGED = ("metadata", "status")
_NO_WARNINGS_ON_UPDATE = "/Pod"  # pods are changed by programs, often


def errors(core: Core, call: Call, obj: Obj, old: Obj | None) -> list[FieldError]:
    """All that the API server finds wrong with a new object, or with a new state of an old one."""
    resource, metadata = call.resource, obj["metadata"]
    builtin, before = not resource.custom, old["metadata"] if old is not None else None
    found = _name_errors(call, metadata) if old is None else []
    found += rules.metadata_errors(metadata, "metadata", builtin=builtin, old=before)
    if before is not None:
        found += rules.metadata_update_errors(metadata, before, "metadata", builtin=builtin)
    if resource.custom:
        return found + structural.validate(call.version.schema(), obj, "", old=old, cel=core.cel)
    if resource.key == customs.KEY:
        return found + core.customs.errors(call, obj, old)
    found += _builtin_errors(core, call, obj, old)
    return found or (service_addresses.errors(core.view, obj, old) if resource.key == "/services" else [])


def _builtin_errors(core: Core, call: Call, obj: Obj, old: Obj | None) -> list[FieldError]:
    kind = f"{call.resource.group}/{call.resource.kind}"
    if call.target.subresource == "status" and old is not None:
        status = rules.status_checks().get(kind)
        return list(status(obj, old)) if status else []
    found: list[FieldError] = []
    if (check := _check_of(core, kind)) is not None and not (old is not None and _judged_before(obj, old)):
        found += check(obj)
    if old is not None and call.target.subresource in pod_parts.PARTS:
        found += pod_parts.errors(call.target.subresource, obj, old)
    elif old is not None and (update := rules.update_checks().get(kind)) is not None:
        found += update(obj, old)
    return found


def _check_of(core: Core, kind: str) -> Callable[[Obj], list[FieldError]] | None:
    if kind == _SLICE and core.pod_network is not None:
        return partial(endpoint_slice_errors, pods=core.pod_network)
    return rules.kind_checks().get(kind)


def _judged_before(obj: Obj, old: Obj) -> bool:
    """Whether all that a kind's own rules look at is as it was: it has been found right then."""
    now, then = obj["metadata"], old["metadata"]
    if any(now.get(field) != then.get(field) for field in ("annotations", "labels")):
        return False
    return all(obj.get(field) == old.get(field) for field in obj.keys() | old.keys() if field not in _UNJUDGED)


def _name_errors(call: Call, metadata: Obj) -> list[FieldError]:
    name, prefix = metadata.get("name"), metadata.get("generateName")
    check = call.resource.strategy.name_errors
    found = [invalid("metadata.generateName", prefix, text) for text in check(names.masked_prefix(prefix))] if prefix else []
    if not name:
        return [*found, required("metadata.name", "name or generateName is required")]
    return found + [invalid("metadata.name", name, text) for text in check(name)]


def warnings(call: Call, obj: Obj, old: Obj | None) -> list[str]:
    """What is accepted but better avoided."""
    kind = f"{call.resource.group}/{call.resource.kind}"
    if call.target.subresource or (old is not None and kind == _NO_WARNINGS_ON_UPDATE):
        return []
    warn = rules.kind_warnings().get(kind)
    return warn(obj) if warn is not None else []
