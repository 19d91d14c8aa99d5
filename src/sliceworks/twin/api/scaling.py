"""The scale subresource: a small object of its own over the replicas of another, with the owners that these have."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import orjson

from sliceworks.base import clock
from sliceworks.base.errors import BadRequest
from sliceworks.kube.selectors import from_label_selector
from sliceworks.schemas import builtins, managed, patches, scale_entries, structural
from sliceworks.schemas.field_errors import invalid, refusal
from sliceworks.schemas.strategic import strategic_merge
from sliceworks.twin.api import media, objects, tables
from sliceworks.twin.api.bodies import read_kind
from sliceworks.twin.api.calls import check_write_options
from sliceworks.twin.api.patching import fresh, read_patch
from sliceworks.twin.api.refusals import MODIFIED_SINCE, conflict, not_found
from sliceworks.twin.api.views import partial

if TYPE_CHECKING:
    from sliceworks.kube.transport import Response
    from sliceworks.twin.api.calls import Call
    from sliceworks.twin.api.core import Core
    from sliceworks.twin.api.patching import Patch

Obj = dict[str, Any]
_SCALE = "io.k8s.api.autoscaling.v1.Scale"
_BUILTIN_PATHS = (".spec.replicas", ".status.replicas", ".spec.selector")


async def handle(core: Core, call: Call) -> Response:
    """Read or change how many there should be."""
    asked = read_kind(call, _SCALE, "Scale") if call.target.verb == "update" else None
    entry = core.store.get(call.resource.stored_as, call.namespace, call.name)
    if entry is None:
        raise not_found(call)
    obj = objects.served(call.resource, call.version, entry)
    scale = _scale_of(call, obj)
    if call.target.verb != "get":
        obj = _scaled(call, obj, scale, asked)
        written = core.writer.replace(replace(call, target=replace(call.target, verb="patch")), obj, entry, applied=True)
        scale = _scale_of(call, objects.served(call.resource, call.version, written))
    await core.store.settled()
    shown = _table(scale) if call.form.view == "Table" else scale
    return media.json_response(200, orjson.dumps(shown), call.form, call.warnings)


def _scaled(call: Call, obj: Obj, live: Obj, asked: Obj | None) -> Obj:
    """The object with the replicas that a request asks for, and their new owners."""
    check_write_options(call, "UpdateOptions")
    paths = {call.resource.api_version(name): _owned_path(version.scale_paths) for name, version in call.resource.versions.items()}
    entries = obj["metadata"].get("managedFields") or []
    live["metadata"]["managedFields"] = scale_entries.to_scale(entries, paths)
    new = _wanted(call, live, asked)
    name, version = new["metadata"].get("name") or call.name, new["metadata"].get("resourceVersion")
    if name != call.name:
        raise BadRequest(f"the name of the object ({name}) does not match the name on the URL ({call.name})")
    if version and version != obj["metadata"]["resourceVersion"]:
        raise conflict(call, call.name, MODIFIED_SINCE)
    replicas = (new.get("spec") or {}).get("replicas", 0)
    if replicas < 0:
        errors = [invalid("spec.replicas", replicas, "must be greater than or equal to 0")]
        raise refusal("autoscaling", "Scale", call.name, errors)
    _put(obj, _paths(call)[0], replicas)
    scaled = new["metadata"].get("managedFields") or []
    obj["metadata"]["managedFields"] = scale_entries.to_parent(entries, scaled, call.api_version, paths)
    return obj


def _wanted(call: Call, live: Obj, asked: Obj | None) -> Obj:
    schema = builtins.catalogue().component(_SCALE)
    if asked is not None:
        new = asked
        new.setdefault("metadata", {})
    else:
        patch = read_patch(call)
        if patch.apply:
            return managed.apply(
                live, patch.body, schema, manager=call.param("fieldManager"), force=call.flag("force"), subresource="scale",
                api_version=scale_entries.SCALE, now=clock.timestamp(), kind="Scale",
            )  # fmt: skip
        new = _patched(live, patch)
    managed.update(
        live, new, schema, manager=call.manager, subresource="scale", api_version=scale_entries.SCALE, now=clock.timestamp()
    )
    return new


def _patched(live: Obj, patch: Patch) -> Obj:
    schema = builtins.catalogue().component(_SCALE)
    json_patch, merge, _, _, _ = media.PATCH_TYPES
    if patch.type == json_patch:
        new = patches.json_patch(live, patch.body)
    elif patch.type == merge:
        new = patches.merge_patch(live, patch.body)
    else:
        new = strategic_merge(live, patch.body, schema)
    if not isinstance(new, dict) or not isinstance(new.get("metadata"), dict):
        raise BadRequest("the patch leaves no object")
    try:
        decoded: Obj = structural.decode(schema, fresh(new), [])
    except structural.TypeMismatch as error:
        raise BadRequest(f'Scale in version "v1" cannot be handled as a Scale: {error}') from error
    return decoded


def _paths(call: Call) -> tuple[str, str, str]:
    """Where replicas, current replicas and the selector stand in the object."""
    return call.version.scale_paths or _BUILTIN_PATHS


def _owned_path(paths: tuple[str, str, str] | None) -> tuple[str, ...]:
    return tuple(f"f:{part}" for part in (paths or _BUILTIN_PATHS)[0].strip(".").split("."))


def _scale_of(call: Call, obj: Obj) -> Obj:
    replicas, current, selector = _paths(call)
    metadata = obj["metadata"]
    kept = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    status: Obj = {"replicas": _get(obj, current) or 0}
    if selector and (text := _selector_text(_get(obj, selector))):
        status["selector"] = text
    return {
        "kind": "Scale",
        "apiVersion": scale_entries.SCALE,
        "metadata": {field: metadata[field] for field in kept if field in metadata},
        "spec": {"replicas": _get(obj, replicas)} if _get(obj, replicas) else {},
        "status": status,
    }


def _selector_text(selector: Any) -> str:
    if isinstance(selector, str) or not selector:
        return str(selector or "")
    if "matchLabels" not in selector and "matchExpressions" not in selector:
        selector = {"matchLabels": selector}
    return str(from_label_selector(selector))


def _table(scale: Obj) -> Obj:
    table = tables.columns("autoscaling/scales")
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": {"resourceVersion": scale["metadata"]["resourceVersion"]},
        "columnDefinitions": table.definitions,
        "rows": [{"cells": table.row(scale, clock.now()), "object": partial(scale)}],
    }


def _get(obj: Any, path: str) -> Any:
    for part in path.strip(".").split("."):
        obj = obj.get(part) if isinstance(obj, dict) else None
    return obj


def _put(obj: Obj, path: str, value: Any) -> None:
    *parents, last = path.strip(".").split(".")
    for part in parents:
        obj = obj.setdefault(part, {})
    obj[last] = value
