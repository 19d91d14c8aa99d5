"""The scale subresource and the field ownership of replicas."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import orjson

from sliceworks import schemas
from sliceworks.base import clock
from sliceworks.base.errors import BadRequest
from sliceworks.kube.selectors import from_label_selector
from sliceworks.schemas import builtins
from sliceworks.schemas.field_errors import invalid, new_invalid
from sliceworks.twin.apiserver import codec
from sliceworks.twin.apiserver.fieldmanager import managed_fields, updater
from sliceworks.twin.apiserver.handlers.response import partial_metadata
from sliceworks.twin.apiserver.handlers.write import compute
from sliceworks.twin.apiserver.patch import jsonpatch
from sliceworks.twin.apiserver.patch.patcher import copy_patched, read_patch
from sliceworks.twin.apiserver.patch.strategic_merge import strategic_merge
from sliceworks.twin.apiserver.printers import table_columns, workload_kinds
from sliceworks.twin.apiserver.request_info import OBJECT_MODIFIED, check_write_options, conflict, not_found

if TYPE_CHECKING:
    from sliceworks.base.transport import Response
    from sliceworks.twin.apiserver.generic_server import ApiServer
    from sliceworks.twin.apiserver.patch.patcher import Patch
    from sliceworks.twin.apiserver.request_info import Call

Obj = dict[str, Any]
_SCALE = "io.k8s.api.autoscaling.v1.Scale"
_BUILTIN_PATHS = (".spec.replicas", ".status.replicas", ".spec.selector")


async def handle(server: ApiServer, call: Call) -> Response:
    """Get or change the number of replicas."""
    body: Obj | None = None
    if call.target.verb == "update":
        body = await compute(call, partial(codec.read_body_of_kind, call, _SCALE, "Scale"))
    entry = server.store.get(call.resource.storage_key, call.namespace, call.name)
    if entry is None:
        raise not_found(call)
    obj = codec.to_served(call.resource, call.version, await server.served_entry(call, entry))
    scale = _scale_of(call, obj)
    if call.target.verb != "get":
        obj = await _set_scale(server, call, obj, scale, body)
        patch_call = replace(call, target=replace(call.target, verb="patch"), body_admitted=True)
        entry = await server.writer.update_object(patch_call, obj, entry, applied=True)
        scale = _scale_of(call, codec.to_served(call.resource, call.version, await server.served_entry(call, entry)))
    await server.store.wait_durable()
    document = _table(scale) if call.form.view == "Table" else scale
    return codec.json_response(200, orjson.dumps(document), call.form, call.warnings)


async def _set_scale(server: ApiServer, call: Call, obj: Obj, live: Obj, body: Obj | None) -> Obj:
    """The object with the requested replicas, and their new field managers."""
    check_write_options(call, "UpdateOptions")
    paths = {call.resource.api_version(name): _owned_path(version.scale_paths) for name, version in call.resource.versions.items()}
    entries = obj["metadata"].get("managedFields") or []
    live["metadata"]["managedFields"] = managed_fields.to_scale_entries(entries, paths)
    new = _requested_scale(call, live, body)
    await server.admit_body(call, "UPDATE", new, live)
    name, version = new["metadata"].get("name") or call.name, new["metadata"].get("resourceVersion")
    if name != call.name:
        raise BadRequest(f"the name of the object ({name}) does not match the name on the URL ({call.name})")
    if version and version != obj["metadata"]["resourceVersion"]:
        raise conflict(call, call.name, OBJECT_MODIFIED)
    replicas = (new.get("spec") or {}).get("replicas", 0)
    if replicas < 0:
        errors = [invalid("spec.replicas", replicas, "must be greater than or equal to 0")]
        raise new_invalid("autoscaling", "Scale", call.name, errors)
    _put(obj, _paths(call)[0], replicas)
    scaled = new["metadata"].get("managedFields") or []
    obj["metadata"]["managedFields"] = managed_fields.to_parent_entries(entries, scaled, call.api_version, paths)
    return obj


def _requested_scale(call: Call, live: Obj, body: Obj | None) -> Obj:
    schema = builtins.builtin_scheme().component(_SCALE)
    if body is not None:
        new = body
        new.setdefault("metadata", {})
    else:
        patch = read_patch(call)
        if patch.apply:
            return updater.apply(
                live, patch.body, schema, manager=call.param("fieldManager"), force=call.flag("force"), subresource="scale",
                api_version=managed_fields.SCALE, now=clock.timestamp(), kind="Scale",
            )  # fmt: skip
        new = _apply_patch(live, patch)
    updater.update(
        live, new, schema, manager=call.manager, subresource="scale", api_version=managed_fields.SCALE, now=clock.timestamp()
    )
    return new


def _apply_patch(live: Obj, patch: Patch) -> Obj:
    schema = builtins.builtin_scheme().component(_SCALE)
    json_patch, merge, _, _, _ = codec.PATCH_TYPES
    if patch.type == json_patch:
        new = jsonpatch.json_patch(live, patch.body)
    elif patch.type == merge:
        new = jsonpatch.merge_patch(live, patch.body)
    else:
        new = strategic_merge(live, patch.body, schema)
    if not isinstance(new, dict) or not isinstance(new.get("metadata"), dict):
        raise BadRequest("the patched Scale is not an object")
    try:
        decoded: Obj = schemas.decode(schema, copy_patched(new), [])
    except schemas.TypeMismatch as error:
        raise codec.ObjectDecodeError("Scale", "v1", "Scale", error) from error
    return decoded


def _paths(call: Call) -> tuple[str, str, str]:
    """JSON paths of replicas, current replicas and the selector."""
    return call.version.scale_paths or _BUILTIN_PATHS


def _owned_path(paths: tuple[str, str, str] | None) -> tuple[str, ...]:
    return tuple(f"f:{part}" for part in (paths or _BUILTIN_PATHS)[0].strip(".").split("."))


def _scale_of(call: Call, obj: Obj) -> Obj:
    replicas, current, selector = _paths(call)
    metadata = obj["metadata"]
    metadata_fields = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    status: Obj = {"replicas": _get(obj, current) or 0}
    if selector and (query := _format_selector(_get(obj, selector))):
        status["selector"] = query
    return {
        "kind": "Scale",
        "apiVersion": managed_fields.SCALE,
        "metadata": {field: metadata[field] for field in metadata_fields if field in metadata},
        "spec": {"replicas": _get(obj, replicas)} if _get(obj, replicas) else {},
        "status": status,
    }


def _format_selector(selector: Any) -> str:
    if isinstance(selector, str) or not selector:
        return str(selector or "")
    if "matchLabels" not in selector and "matchExpressions" not in selector:
        selector = {"matchLabels": selector}
    return str(from_label_selector(selector))


def _table(scale: Obj) -> Obj:
    table = table_columns.builtin_columns(workload_kinds.SCALE)
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": {"resourceVersion": scale["metadata"]["resourceVersion"]},
        "columnDefinitions": table.definitions,
        "rows": [{"cells": table.row(scale, clock.now()), "object": partial_metadata(scale)}],
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
