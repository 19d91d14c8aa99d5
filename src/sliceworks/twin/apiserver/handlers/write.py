"""Create, update and patch: from a decoded object to the store."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from sliceworks import schemas
from sliceworks.base import budget, clock, names
from sliceworks.base.errors import BadRequest
from sliceworks.base.imports import import_in_thread
from sliceworks.schemas import field_errors
from sliceworks.twin.apiserver import codec
from sliceworks.twin.apiserver.admission.service_account import wait_for_default_account
from sliceworks.twin.apiserver.fieldmanager import updater
from sliceworks.twin.apiserver.handlers.response import object_response
from sliceworks.twin.apiserver.patch.patcher import apply_patch, check_patch_options, read_patch
from sliceworks.twin.apiserver.registry import crd_registry
from sliceworks.twin.apiserver.request_info import (
    OBJECT_MODIFIED,
    already_exists,
    check_write_options,
    conflict,
    kind_is_terminating,
    not_found,
    object_modified,
    uid_differs,
)
from sliceworks.twin.apiserver.validation.endpoints import validate_endpoint_slice, validate_endpoints
from sliceworks.twin.apiserver.validation.error_list import ErrorList
from sliceworks.twin.apiserver.validation.object_meta import validate_object_meta, validate_object_meta_update

if TYPE_CHECKING:
    from collections.abc import Callable

    from sliceworks.base.transport import Response
    from sliceworks.twin.apiserver.generic_server import ApiServer
    from sliceworks.twin.apiserver.request_info import Call
    from sliceworks.twin.store.entry import Entry

Obj = dict[str, Any]
T = TypeVar("T")
_ENDPOINTS = {"/endpoints": validate_endpoints, "discovery.k8s.io/endpointslices": validate_endpoint_slice}
"""Kinds that may contain loopback addresses of pods that run as processes."""
_GROUPS_WITH_EXPRESSIONS = {"admissionregistration.k8s.io", "resource.k8s.io"}
_NAMESPACE_MISMATCH = "the namespace of the provided object does not match the namespace sent on the request"


def keep_system_fields(obj: Obj, old: Obj) -> None:
    """Copy metadata that clients cannot change, or that they left out, from the stored object."""
    metadata, old_metadata = obj["metadata"], old["metadata"]
    metadata["name"] = old_metadata["name"]
    for field in ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"):
        if not metadata.get(field) and field in old_metadata:
            metadata[field] = old_metadata[field]
    copy_field(old_metadata, metadata, "generation")
    metadata["resourceVersion"] = old_metadata["resourceVersion"]


def copy_field(source: Obj, target: Obj, field: str) -> None:
    """Copy a field; remove it if the source does not have it."""
    if field in source:
        target[field] = source[field]
    else:
        target.pop(field, None)


def reset_all_but_status(call: Call, obj: Obj, old: Obj) -> None:
    """Reset what a write to the status subresource may not change."""
    if call.resource.custom:
        _reset_custom(obj, old)
        return
    for field in [key for key in old if key not in {"kind", "apiVersion", "metadata", "status"}]:
        obj[field] = old[field]
    for field in [key for key in obj if key not in old and key != "status"]:
        del obj[field]
    if "qosClass" in (old.get("status") or {}):
        obj.setdefault("status", {}).setdefault("qosClass", old["status"]["qosClass"])
    for field in call.resource.strategy.status_reset_fields.get("f:metadata", ()):
        copy_field(old["metadata"], obj["metadata"], field.removeprefix("f:"))


def _reset_custom(obj: Obj, old: Obj) -> None:
    """Keep only the status and the managed fields of a custom resource."""
    status, managed_fields = obj.get("status"), obj["metadata"].get("managedFields")
    obj.clear()
    obj.update(codec.deep_copy(old))
    obj.pop("status", None)
    if status is not None:
        obj["status"] = status
    obj["metadata"].pop("managedFields", None)
    if managed_fields is not None:
        obj["metadata"]["managedFields"] = managed_fields


def increment_generation(call: Call, obj: Obj, old: Obj) -> None:
    """Increment `metadata.generation` if anything but metadata and status changed."""
    strategy = call.resource.strategy
    if not strategy.has_generation:
        return
    ignored = {"metadata", "status"} if strategy.has_status or not call.resource.custom else {"metadata"}
    if any(obj.get(key) != old.get(key) for key in obj.keys() | old.keys() if key not in ignored):
        obj["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1


def reset_fields(call: Call) -> Obj:
    """The fields that this endpoint resets before it records field ownership."""
    strategy, subresource = call.resource.strategy, call.target.subresource
    if not strategy.has_status:
        return {}
    if subresource in strategy.parts:
        return dict(strategy.parts[subresource].reset_fields)
    return dict(strategy.status_reset_fields if subresource == "status" else strategy.reset_fields)


async def validate_object(server: ApiServer, call: Call, obj: Obj, old: Obj | None, current: Entry | None = None) -> ErrorList:
    """All validation errors of a new object, or of an update of an old one, whose entry is `current`."""
    registry, resource = server.crd_registry, call.resource
    prepared: dict[str, schemas.Schema] = {}
    if resource.custom:
        await registry.compile_rules(call.version.schema())
    elif resource.key == crd_registry.KEY:
        prepared = await registry.prepare(obj, old)
    elif resource.group in _GROUPS_WITH_EXPRESSIONS:
        await import_in_thread("sliceworks.cel.admission")
    errors = await compute(call, partial(_find_errors, server, call, obj, old, prepared), current)
    if not errors and (validate := resource.strategy.validate_references) is not None:
        validate(errors, obj, old, server.view)
    return errors


def _find_errors(server: ApiServer, call: Call, obj: Obj, old: Obj | None, prepared: dict[str, schemas.Schema]) -> ErrorList:
    """The errors that need no other object: the event loop may run meanwhile."""
    resource, metadata = call.resource, obj["metadata"]
    errors = ErrorList()
    if old is None:
        _validate_name(errors, call, metadata)
        validate_object_meta(errors, metadata, builtin=not resource.custom)
    else:
        validate_object_meta(errors, metadata, builtin=not resource.custom, old=old["metadata"])
        validate_object_meta_update(errors, metadata, old["metadata"], builtin=not resource.custom, is_valid=not errors)
    if resource.custom:
        errors += schemas.validate(call.version.schema(), obj, "", old=old, cel=server.cel)
    elif resource.key == crd_registry.KEY:
        errors += server.crd_registry.errors(call, obj, old, prepared)
    else:
        _validate_builtin(errors, server, call, obj, old)
    return errors


def _validate_builtin(errors: ErrorList, server: ApiServer, call: Call, obj: Obj, old: Obj | None) -> None:
    strategy, subresource = call.resource.strategy, call.target.subresource
    if subresource in strategy.parts and old is not None:
        strategy.parts[subresource].validate(errors, obj, old)
        return
    if subresource == "status" and old is not None:
        if strategy.validate_status is not None:
            strategy.validate_status(errors, obj, old)
        return
    validate = strategy.validate
    if call.resource.key in _ENDPOINTS and server.pod_network is not None:
        validate = partial(_ENDPOINTS[call.resource.key], pods=server.pod_network)
    if validate is not None and old is not None and not _has_other_changes(obj, old):
        validate = (strategy.validate_metadata or validate) if _has_other_labels(obj, old) else None  # the old object was valid
    if validate is not None:
        validate(errors, obj)
    if old is not None and strategy.validate_update is not None:
        strategy.validate_update(errors, obj, old)


def _has_other_changes(obj: Obj, old: Obj) -> bool:
    """Whether an update changed anything but metadata and status."""
    return any(obj.get(field) != old.get(field) for field in obj.keys() | old.keys() if field not in ("metadata", "status"))


def _has_other_labels(obj: Obj, old: Obj) -> bool:
    """Whether an update changed labels or annotations, which `Strategy.validate` may read."""
    metadata, old_metadata = obj["metadata"], old["metadata"]
    return any(metadata.get(field) != old_metadata.get(field) for field in ("annotations", "labels"))


def _validate_name(errors: ErrorList, call: Call, metadata: Obj) -> None:
    rule = call.resource.strategy.name_errors
    if prefix := metadata.get("generateName"):
        for problem in rule(names.mask_trailing_dash(prefix)):
            errors.invalid("metadata.generateName", prefix, problem)
    errors.check_required_name(metadata, "metadata", "name", rule, "name or generateName is required")


def object_warnings(call: Call, obj: Obj, old: Obj | None) -> list[str]:
    """Warnings for valid objects with deprecated or misleading fields."""
    strategy = call.resource.strategy
    if strategy.warnings is None or call.target.subresource or (old is not None and not strategy.warns_on_update):
        return []
    return strategy.warnings(obj)


async def compute(call: Call, function: Callable[[], T], current: Entry | None = None) -> T:
    """Call a function that only reads and changes the objects of this call: in a thread, if its body or stored object is large.

    Other objects, and the stored one, may change meanwhile.
    """
    size = len(call.request.body) + (current.size if current is not None else 0)
    return function() if size < budget.LARGE_BYTES else await budget.run_by_size(size, function)


async def decode_stored(server: ApiServer, call: Call, current: Entry) -> Obj:
    """A stored object in the version of a call: a large one is decoded in a thread, and may change meanwhile."""
    served = await server.served_entry(call, current)
    return await compute(call, partial(codec.to_served, call.resource, call.version, served), current)


def _has_changes(old: Obj, obj: Obj) -> bool:
    """Whether an update, whose fields the server has set, changes more than the timestamps of managedFields."""
    updater.keep_timestamps(old, obj)
    return obj != old


class WriteHandler:
    """Handles create, update and patch."""

    def __init__(self, server: ApiServer) -> None:
        self._server = server

    async def create(self, call: Call) -> Response:
        check_write_options(call, "CreateOptions")
        obj = await self._decode(call)
        if call.resource.key == "/pods":
            await wait_for_default_account(self._server.store, call.namespace)
        entry = await self.create_object(call, obj)
        await self._server.store.wait_durable()
        return await object_response(call, 201, await self._server.served_entry(call, entry))

    async def update(self, call: Call) -> Response:
        check_write_options(call, "UpdateOptions")
        obj = await self._decode(call)
        self._check_name(call, obj)
        current = self.current(call)
        if current is None:
            if not call.resource.strategy.allow_create_on_update or call.target.subresource:
                raise not_found(call)
            if obj["metadata"].get("uid"):
                raise conflict(call, call.name, uid_differs(obj["metadata"]["uid"], ""))
            self._server.authorize(call.user, call.target, verb="create")
            entry, status = await self.create_object(call, obj), 201
        else:
            entry, status = await self.update_object(call, obj, current), 200
        await self._server.store.wait_durable()
        return await object_response(call, status, await self._server.served_entry(call, entry))

    async def patch(self, call: Call) -> Response:
        applies = check_patch_options(call)
        creates = applies and not call.target.subresource
        current = self._current_to_patch(call, creates)
        patch = await compute(call, partial(read_patch, call))
        current = self._current_to_patch(call, creates)
        if current is None:
            self._server.authorize(call.user, call.target, verb="create")
            obj = await compute(call, partial(apply_patch, call, patch, None, clock.timestamp()))
            entry, status = await self.create_object(call, obj, applied=True), 201
        else:
            old = await decode_stored(self._server, call, current)
            obj = await compute(call, partial(apply_patch, call, patch, old, clock.timestamp()), current)
            self._check_patched(call, obj, old)
            # Only status and metadata can differ: no plugin changes what both objects share.
            shared = old if call.target.subresource == "status" and "status" not in call.resource.strategy.parts else None
            entry, status = await self.update_object(call, obj, current, old=shared, applied=patch.apply), 200
        await self._server.store.wait_durable()
        return await object_response(call, status, await self._server.served_entry(call, entry))

    def _current_to_patch(self, call: Call, creates: bool) -> Entry | None:
        """The stored object; None if the patch creates it."""
        current = self.current(call)
        if current is None and not creates:
            raise not_found(call)
        return current

    async def _decode(self, call: Call) -> Obj:
        """The object in the body, with defaults."""
        return await compute(call, lambda: codec.decode(call, *codec.read_body(call)))

    def current(self, call: Call) -> Entry | None:
        return self._server.store.get(call.resource.storage_key, call.namespace, call.name)

    def _check_name(self, call: Call, obj: Obj) -> None:
        metadata = obj["metadata"]
        name = metadata.get("name") or ""
        if not name:
            raise BadRequest(f"the name of the object ({call.name} based on URL) was undeterminable: name must be provided")
        if name and name != call.name:
            raise BadRequest(f"the name of the object ({name}) does not match the name on the URL ({call.name})")
        self._check_namespace(call, metadata)
        metadata.setdefault("name", call.name)

    def _check_namespace(self, call: Call, metadata: Obj) -> None:
        namespace = metadata.get("namespace") or ""
        if namespace and namespace != call.namespace:
            raise BadRequest(_NAMESPACE_MISMATCH)
        if call.resource.namespaced:
            metadata["namespace"] = call.namespace

    def _check_patched(self, call: Call, obj: Obj, old: Obj) -> None:
        metadata = obj["metadata"]
        name = metadata.get("name")
        if name != call.name:
            raise BadRequest(f"the name of the object ({name}) does not match the name on the URL ({call.name})")
        if call.resource.namespaced and metadata.get("namespace") != call.namespace:
            raise BadRequest(_NAMESPACE_MISMATCH)
        if metadata.get("uid") != old["metadata"].get("uid"):
            raise conflict(call, call.name, uid_differs(metadata.get("uid", ""), old["metadata"]["uid"]))

    async def create_object(self, call: Call, obj: Obj, *, applied: bool = False) -> Entry:
        """Admit, validate and store a new object. `applied`: server-side apply has already set its managed fields."""
        resource, strategy, metadata = call.resource, call.resource.strategy, obj["metadata"]
        self._check_namespace(call, metadata)
        if resource.custom and self._server.crd_registry.is_terminating(resource):
            raise kind_is_terminating(call, metadata.get("name", ""))
        if call.name and metadata.get("name") != call.name:
            raise BadRequest(f"the name of the object ({metadata.get('name')}) does not match the name on the URL ({call.name})")
        if metadata.pop("resourceVersion", None):
            raise BadRequest("resourceVersion should not be set on objects to be created")
        for field in ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "generation"):
            metadata.pop(field, None)
        if not applied:
            await self._update_managed_fields(call, obj)
        await self._server.admit(call, "CREATE", obj, None)
        metadata = obj["metadata"]
        self._generate_name(call, metadata)
        metadata["uid"] = clock.uid()
        metadata["creationTimestamp"] = clock.timestamp()
        if strategy.has_status and not strategy.keeps_status_on_create:
            obj.pop("status", None)
        if strategy.has_generation:
            metadata["generation"] = 1
        strategy.prepare_for_create(obj, self._server.view)
        name = metadata.get("name", "")
        codec.raise_if_invalid(call, name, await validate_object(self._server, call, obj, None))
        call.warnings += object_warnings(call, obj, None)
        await self._server.validate_admission(call, obj, None)
        if resource.custom and strategy.has_status:
            codec.set_default_status(call, obj)
        obj = await self._server.to_storage(call, obj)
        if self._server.store.get(resource.storage_key, call.namespace, name) is not None:
            raise already_exists(call, name)
        return self._store(call, name, obj)

    async def _update_managed_fields(self, call: Call, obj: Obj, old: Obj | None = None, current: Entry | None = None) -> None:
        """Record field ownership of the object as sent: fields that the server sets later have no owner."""
        update = partial(
            updater.update, old, obj, call.version.schema(), manager=call.manager,
            subresource=call.target.subresource if old is not None else "", api_version=call.api_version,
            now=clock.timestamp(), reset_fields=reset_fields(call), reset_owners=call.reset_managed_fields,
        )  # fmt: skip
        await compute(call, update, current)

    def _generate_name(self, call: Call, metadata: Obj) -> None:
        prefix = metadata.get("generateName")
        if metadata.get("name") or not prefix:
            return
        for _ in range(8):
            metadata["name"] = names.generate(prefix)
            if self._server.store.get(call.resource.storage_key, call.namespace, metadata["name"]) is None:
                return

    async def update_object(
        self,
        call: Call,
        obj: Obj,
        current: Entry,
        *,
        old: Obj | None = None,
        applied: bool = False,
        reset: Callable[[Obj, Obj], None] | None = None,
    ) -> Entry:
        """Admit, validate and store an update.

        `old` is the decoded current object, if the caller has it. `reset` resets what a subresource may not change.
        """
        resource, strategy = call.resource, call.resource.strategy
        if old is None:
            old = await decode_stored(self._server, call, current)
        self._check_version(call, obj, old)
        subresource = call.target.subresource
        if not applied:
            await self._update_managed_fields(call, obj, old, current)
        await self._server.admit(call, "UPDATE", obj, old)
        keep_system_fields(obj, old)
        if reset is not None:
            reset(obj, old)
        elif subresource in strategy.parts:
            strategy.parts[subresource].prepare(obj, old)
            increment_generation(call, obj, old)
        elif subresource == "status":
            reset_all_but_status(call, obj, old)
        else:
            if strategy.has_status:
                copy_field(old, obj, "status")
            strategy.prepare_for_update(obj, old, self._server.view)
            increment_generation(call, obj, old)
        codec.raise_if_invalid(call, call.name, await validate_object(self._server, call, obj, old, current))
        call.warnings += object_warnings(call, obj, old)
        await self._server.validate_admission(call, obj, old)
        is_changed = await compute(call, partial(_has_changes, old, obj), current)
        if is_changed:
            obj = await self._server.to_storage(call, obj)
        if self.current(call) is not current:  # while webhooks were called or rules compiled
            raise object_modified(call)
        if not is_changed:
            return current
        if self._is_deletable(call, obj):
            return self._server.remove(
                resource, call.namespace, call.name, codec.to_stored(resource, call.version, obj), call.dry_run
            )
        return self._store(call, call.name, obj)

    def _check_version(self, call: Call, obj: Obj, old: Obj) -> None:
        version = obj["metadata"].get("resourceVersion") or ""
        if version and not (version.isascii() and version.isdigit()):
            raise BadRequest(f'strconv.ParseUint: parsing "{version}": invalid syntax')
        if version in {"", "0"} and not call.resource.strategy.allow_unconditional_update and call.target.verb == "update":
            # kube-apiserver names the resource here, and the kind in all other errors.
            raise field_errors.new_invalid(
                call.resource.group, call.resource.plural, call.name,
                [field_errors.invalid("metadata.resourceVersion", 0, "must be specified for an update")],
            )  # fmt: skip
        uid = obj["metadata"].get("uid")
        if uid and uid != old["metadata"]["uid"]:
            raise conflict(call, call.name, uid_differs(uid, old["metadata"]["uid"]))
        if version not in {"", "0"} and version != old["metadata"]["resourceVersion"]:
            raise conflict(call, call.name, OBJECT_MODIFIED)

    def _is_deletable(self, call: Call, obj: Obj) -> bool:
        """Whether the update removed the last finalizer of an object that is being deleted."""
        metadata = obj["metadata"]
        if not metadata.get("deletionTimestamp") or metadata.get("finalizers"):
            return False
        if call.resource.key == "/namespaces":
            return not obj.get("spec", {}).get("finalizers")
        return not metadata.get("deletionGracePeriodSeconds")

    def _store(self, call: Call, name: str, obj: Obj) -> Entry:
        stored = codec.to_stored(call.resource, call.version, obj)
        self._server.write_quota_charges(call)
        return self._server.put(call.resource, call.namespace, name, stored, call.dry_run)
