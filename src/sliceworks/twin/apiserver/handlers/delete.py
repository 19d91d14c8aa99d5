"""Delete and deletecollection: grace periods, finalizers, preconditions and propagation."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson

from sliceworks import schemas
from sliceworks.base import clock
from sliceworks.base.errors import BadRequest, Conflict
from sliceworks.schemas import builtins
from sliceworks.schemas.field_errors import FieldError, invalid, new_invalid, not_supported
from sliceworks.twin.apiserver import codec
from sliceworks.twin.apiserver.handlers.read import render_list
from sliceworks.twin.apiserver.handlers.response import View, object_response
from sliceworks.twin.apiserver.handlers.write import compute, decode_stored
from sliceworks.twin.apiserver.registry import crd_registry
from sliceworks.twin.apiserver.request_info import conflict, not_found, object_modified

if TYPE_CHECKING:
    from sliceworks.base.transport import Response
    from sliceworks.twin.apiserver.generic_server import ApiServer
    from sliceworks.twin.apiserver.registry.resources import Strategy
    from sliceworks.twin.apiserver.request_info import Call
    from sliceworks.twin.store.entry import Entry

Obj = dict[str, Any]
ORPHAN, FOREGROUND = "orphan", "foregroundDeletion"
_OPTIONS = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions"
_OBJECTS_PER_TURN = 100
"""How many objects of a collection are deleted before other requests run."""
_POLICIES = ("Foreground", "Background", "Orphan")
_NAMESPACE_TERMINATING = (
    "The system is ensuring all content is removed from this namespace.  "
    "Upon completion, this namespace will automatically be purged by the system."
)


@dataclass(frozen=True, slots=True)
class DeleteOptions:
    """The options of a deletion."""

    grace: int | None = None
    policy: str = ""
    uid: str | None = None
    version: str | None = None


class Removal(NamedTuple):
    """The last or current state of an object that was to be deleted, and whether it is deleted already."""

    entry: Entry
    is_deleted: bool
    uid: str


def read_options(call: Call) -> DeleteOptions:
    """Options from the body, or from the query if there is no body."""
    raw: Obj = {}
    if call.request.body:
        raw, _ = codec.read_object(call.request.body, codec.content_type(call.request.headers), "DeleteOptions")
        kind = raw.get("kind") or "DeleteOptions"
        if kind != "DeleteOptions":
            raise BadRequest(f'{kind} in version "{raw.get("apiVersion", "")}" cannot be handled as a DeleteOptions')
        try:
            raw = schemas.decode(builtins.builtin_scheme().component(_OPTIONS), raw, [])
        except schemas.TypeMismatch as error:
            raise BadRequest(str(error)) from error
    else:
        raw = {name: call.param(name) for name in ("propagationPolicy", "orphanDependents") if call.params.get(name)}
        if (grace := call.number("gracePeriodSeconds")) is not None:
            raw["gracePeriodSeconds"] = grace
        if call.params.get("dryRun"):
            raw["dryRun"] = call.params["dryRun"]
        if "orphanDependents" in raw:
            raw["orphanDependents"] = call.flag("orphanDependents")
    _check(raw)
    if (warning := call.resource.strategy.delete_warning) and not {"propagationPolicy", "orphanDependents"} & raw.keys():
        call.warnings.append(warning)
    call.delete_options = {name: value for name, value in raw.items() if name not in ("kind", "apiVersion")}
    if raw.get("dryRun"):
        call.params.setdefault("dryRun", ["All"])
    return options_from(raw)


def options_from(raw: Obj) -> DeleteOptions:
    preconditions = raw.get("preconditions") or {}
    policy = raw.get("propagationPolicy") or ""
    if raw.get("orphanDependents") is not None:
        policy = "Orphan" if raw["orphanDependents"] else "Background"
    return DeleteOptions(
        raw.get("gracePeriodSeconds"),
        policy,
        preconditions.get("uid"),
        preconditions.get("resourceVersion"),
    )


def _check(raw: Obj) -> None:
    errors: list[FieldError] = []
    policy, orphan = raw.get("propagationPolicy"), raw.get("orphanDependents")
    if policy and orphan is not None:
        errors.append(invalid("propagationPolicy", policy, "orphanDependents and deletionPropagation cannot be both set"))
    elif policy and policy not in _POLICIES:
        errors.append(not_supported("propagationPolicy", policy, [*_POLICIES, "nil"]))
    dry_run = raw.get("dryRun") or []
    if dry_run and set(dry_run) != {"All"}:
        errors.append(not_supported("dryRun", dry_run, ["All"]))
    if errors:
        raise new_invalid("meta.k8s.io", "DeleteOptions", "", errors)


def check_preconditions(call: Call, metadata: Obj, options: DeleteOptions) -> None:
    """Raise Conflict if the object is not the one that the options of its deletion name."""
    name, group, kind = metadata["name"], call.resource.group, call.resource.kind
    for noun, expected, actual, event in (
        ("UID", options.uid, metadata["uid"], "deleted and then recreated"),
        ("ResourceVersion", options.version, metadata["resourceVersion"], "modified"),
    ):
        if expected is not None and expected != actual:
            reason = f"the {noun} in the precondition ({expected}) does not match the {noun} in record ({actual})"
            message = f'Operation cannot be fulfilled on {kind} "{name}": {reason}. The object might have been {event}'
            raise Conflict(message, details={"name": name, **({"group": group} if group else {}), "kind": kind})


class DeleteHandler:
    """Handles delete and deletecollection."""

    def __init__(self, server: ApiServer) -> None:
        self._server = server

    async def delete(self, call: Call) -> Response:
        options = await compute(call, partial(read_options, call))
        current = self._server.store.get(call.resource.storage_key, call.namespace, call.name)
        if current is None:
            raise not_found(call)
        removal = await self.remove(call, current, options)
        await self._server.store.wait_durable()
        if not removal.is_deleted or call.resource.strategy.return_deleted_object:
            return await object_response(call, 200, await self._server.served_entry(call, removal.entry))
        return codec.json_response(200, _success(call, removal), call.form, call.warnings)

    async def delete_collection(self, call: Call) -> Response:
        options, store = await compute(call, partial(read_options, call)), self._server.store
        entries, metadata = await self._server.reader.select(call)
        for index, entry in enumerate(entries, 1):
            if index % _OBJECTS_PER_TURN == 0:
                await asyncio.sleep(0)
            current = store.get(call.resource.storage_key, entry.namespace, entry.name)
            if current is not None:
                await self.remove(call, current, options)
        await store.wait_durable()
        entries = await self._server.served_entries(call, entries)
        return await render_list(call, View(call), entries, metadata)

    async def remove(self, call: Call, current: Entry, options: DeleteOptions) -> Removal:
        """Admit the deletion of one object, and delete it."""
        server = self._server
        obj = await decode_stored(server, call, current)
        check_preconditions(call, obj["metadata"], options)
        await server.admit(call, "DELETE", {}, obj)
        latest = server.store.get(call.resource.storage_key, current.namespace, current.name)
        if latest is not current:  # while webhooks were called or the object was decoded
            raise not_found(call) if latest is None else object_modified(call)
        # Webhooks and policies get the object in the version of the call, and may change it.
        is_unchanged = server.dynamic is None and call.resource.conversion is None
        uid = obj["metadata"]["uid"]
        return Removal(*self.remove_admitted(call, current, options, obj if is_unchanged else None), uid)

    def remove_admitted(self, call: Call, current: Entry, options: DeleteOptions, decoded: Obj | None = None) -> tuple[Entry, bool]:
        """Delete one object without admission; returns its last or current state, and whether it is deleted already.

        `decoded` is the object, if the caller has it.
        """
        if call.resource.conversion is not None:
            call = _in_stored_version(call, current)
        obj = decoded if decoded is not None else codec.to_served(call.resource, call.version, current)
        metadata = obj["metadata"]
        if call.resource.key == "/namespaces":
            return self._remove_namespace(call, current, obj)
        grace = self._grace(call, obj, options)
        old_metadata = dict(metadata)
        self._set_finalizers(metadata, options, call.resource.strategy)
        if call.resource.key == crd_registry.KEY:
            self._server.crd_registry.mark_terminating(obj)
        deleting = bool(metadata.get("deletionTimestamp"))
        if not metadata.get("finalizers") and not grace:
            return self._finish(call, current, obj), True
        if not deleting:
            metadata["deletionTimestamp"] = clock.rfc3339(clock.now() + timedelta(seconds=grace))
            metadata["deletionGracePeriodSeconds"] = grace
            if metadata.get("generation"):
                metadata["generation"] += 1
        elif call.resource.strategy.graceful_deletion and grace < (metadata.get("deletionGracePeriodSeconds") or 0):
            metadata["deletionGracePeriodSeconds"] = grace
            metadata["deletionTimestamp"] = clock.rfc3339(clock.now() + timedelta(seconds=grace))
        if metadata == old_metadata:
            return current, False
        stored = codec.to_stored(call.resource, call.version, obj)
        return self._server.put(call.resource, current.namespace, current.name, stored, call.dry_run), False

    def _finish(self, call: Call, current: Entry, obj: Obj) -> Entry:
        if call.resource.strategy.graceful_deletion:
            self._end_grace(call, current, obj)
        stored = codec.to_stored(call.resource, call.version, obj)
        return self._server.remove(call.resource, current.namespace, current.name, stored, call.dry_run)

    def _end_grace(self, call: Call, current: Entry, obj: Obj) -> None:
        """Mark an object with graceful deletion as deleted before it is removed: watchers get both events."""
        metadata = obj["metadata"]
        if not metadata.get("deletionTimestamp"):
            metadata["deletionTimestamp"] = clock.timestamp()
            if metadata.get("generation"):
                metadata["generation"] += 1
        metadata["deletionGracePeriodSeconds"] = 0
        marked = codec.to_stored(call.resource, call.version, {**obj, "metadata": dict(metadata)})
        self._server.put(call.resource, current.namespace, current.name, marked, call.dry_run)

    def _grace(self, call: Call, obj: Obj, options: DeleteOptions) -> int:
        """The remaining grace period in seconds."""
        if not call.resource.strategy.graceful_deletion:
            return 0
        spec, status = obj.get("spec") or {}, obj.get("status") or {}
        if not spec.get("nodeName") or status.get("phase") in {"Succeeded", "Failed"}:
            return 0
        current = obj["metadata"].get("deletionGracePeriodSeconds")
        grace = options.grace
        if grace is None:
            grace = current if current is not None else spec.get("terminationGracePeriodSeconds", 30)
        grace = 1 if grace < 0 else int(grace)
        return min(grace, current) if current is not None else grace

    def _set_finalizers(self, metadata: Obj, options: DeleteOptions, strategy: Strategy) -> None:
        """Set the garbage collector's finalizers by the propagation policy; without one, the object's own, then its kind decide."""
        finalizers = list(metadata.get("finalizers") or ())
        policy = options.policy
        if not policy and strategy.orphans_by_default and not {ORPHAN, FOREGROUND} & set(finalizers):
            policy = "Orphan"
        if policy:
            finalizer = {"Orphan": ORPHAN, "Foreground": FOREGROUND}.get(policy)
            finalizers = [name for name in finalizers if name not in {ORPHAN, FOREGROUND} or name == finalizer]
            if finalizer and finalizer not in finalizers:
                finalizers.append(finalizer)
        if finalizers:
            metadata["finalizers"] = finalizers
        else:
            metadata.pop("finalizers", None)

    def _remove_namespace(self, call: Call, current: Entry, obj: Obj) -> tuple[Entry, bool]:
        metadata = obj["metadata"]
        if metadata.get("deletionTimestamp"):
            if obj.get("spec", {}).get("finalizers"):
                raise conflict(call, metadata["name"], _NAMESPACE_TERMINATING)
            if not metadata.get("finalizers"):
                return self._finish(call, current, obj), True
            return current, False
        metadata["deletionTimestamp"] = clock.timestamp()
        obj["status"] = {**(obj.get("status") or {}), "phase": "Terminating"}
        stored = codec.to_stored(call.resource, call.version, obj)
        return self._server.put(call.resource, "", current.name, stored, call.dry_run), False


def _in_stored_version(call: Call, entry: Entry) -> Call:
    """The call for the version in which an object is stored: a deletion changes metadata only, which needs no conversion."""
    version = str(entry.object()["apiVersion"]).rpartition("/")[2]
    resource = replace(call.resource, storage_version=version)
    return replace(call, resource=resource, version=replace(call.version, name=version, since=0))


def _success(call: Call, removal: Removal) -> bytes:
    details = {"name": removal.entry.name, "group": call.resource.group, "kind": call.resource.plural, "uid": removal.uid}
    return orjson.dumps(
        {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Success",
            "details": {key: value for key, value in details.items() if value},
        }
    )
