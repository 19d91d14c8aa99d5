"""Create, update and patch: the way of an object from a request into the store.

Between reading the stored object and writing the new one there is no await, so no other request can come between.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.base import clock, names
from sliceworks.base.errors import BadRequest
from sliceworks.schemas import field_errors, managed
from sliceworks.twin.api import judging, objects, pod_parts, scopes
from sliceworks.twin.api.calls import check_write_options
from sliceworks.twin.api.patching import apply_patch, check_patch_options, read_patch
from sliceworks.twin.api.refusals import MODIFIED_SINCE, already_exists, conflict, kind_is_ending, not_found, uid_differs
from sliceworks.twin.controllers.accounts import default_account

if TYPE_CHECKING:
    from collections.abc import Callable

    from sliceworks.kube.transport import Response
    from sliceworks.twin.api.calls import Call
    from sliceworks.twin.api.core import Core
    from sliceworks.twin.store.entries import Entry

Obj = dict[str, Any]


class Writer:
    """Carries out what changes objects. Which part of the object a subresource may change is said by `keep`."""

    def __init__(self, core: Core) -> None:
        self._core = core

    async def create(self, call: Call) -> Response:
        check_write_options(call, "CreateOptions")
        body, twice = objects.read(call)
        obj = objects.decode(call, body, twice)
        if call.resource.key == "/pods":
            await default_account(self._core.store, call.namespace)
        entry = self.insert(call, obj)
        await self._core.store.settled()
        return self._answer(call, 201, entry)

    async def update(self, call: Call) -> Response:
        check_write_options(call, "UpdateOptions")
        body, twice = objects.read(call)
        obj = objects.decode(call, body, twice)
        self._check_name(call, obj)
        current = self.current(call)
        if current is None:
            if not call.resource.strategy.create_on_update or call.target.subresource:
                raise not_found(call)
            if obj["metadata"].get("uid"):
                raise conflict(call, call.name, uid_differs(obj["metadata"]["uid"], ""))
            self._core.authorize(call.user, call.target, verb="create")
            entry, status = self.insert(call, obj), 201
        else:
            entry, status = self.replace(call, obj, current), 200
        await self._core.store.settled()
        return self._answer(call, status, entry)

    async def patch(self, call: Call) -> Response:
        applies = check_patch_options(call)
        current = self.current(call)
        if current is None and (not applies or call.target.subresource):
            raise not_found(call)
        patch = read_patch(call)
        if current is None:
            self._core.authorize(call.user, call.target, verb="create")
            obj = apply_patch(call, patch, None)
            entry, status = self.insert(call, obj, applied=True), 201
        else:
            old = objects.served(call.resource, call.version, current)
            obj = apply_patch(call, patch, old)
            self._check_patched(call, obj, old)
            # Nothing but the status and metadata can differ below: no plugin changes what both objects share.
            same = old if call.target.subresource == "status" else None
            entry, status = self.replace(call, obj, current, old=same, applied=patch.apply), 200
        await self._core.store.settled()
        return self._answer(call, status, entry)

    def current(self, call: Call) -> Entry | None:
        return self._core.store.get(call.resource.stored_as, call.namespace, call.name)

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
        given = metadata.get("namespace") or ""
        if call.resource.namespaced:
            if given and given != call.namespace:
                raise BadRequest("the namespace of the provided object does not match the namespace sent on the request")
            metadata["namespace"] = call.namespace
        elif given:
            raise BadRequest("the namespace of the provided object does not match the namespace sent on the request")

    def _check_patched(self, call: Call, obj: Obj, old: Obj) -> None:
        metadata = obj["metadata"]
        name = metadata.get("name")
        if name != call.name:
            raise BadRequest(f"the name of the object ({name}) does not match the name on the URL ({call.name})")
        if call.resource.namespaced and metadata.get("namespace") != call.namespace:
            raise BadRequest("the namespace of the provided object does not match the namespace sent on the request")
        if metadata.get("uid") != old["metadata"].get("uid"):
            raise conflict(call, call.name, uid_differs(metadata.get("uid", ""), old["metadata"]["uid"]))

    def insert(self, call: Call, obj: Obj, *, applied: bool = False) -> Entry:
        """Bring a new object in. `applied`: server-side apply has settled the ownership of its fields already."""
        resource, strategy, metadata = call.resource, call.resource.strategy, obj["metadata"]
        self._check_namespace(call, metadata)
        self._name(call, metadata)
        if resource.custom and self._core.customs.is_terminating(resource):
            raise kind_is_ending(call, metadata.get("name", ""))
        if call.name and metadata.get("name") != call.name:
            raise BadRequest(f"the name of the object ({metadata.get('name')}) does not match the name on the URL ({call.name})")
        if metadata.pop("resourceVersion", None):
            raise BadRequest("resourceVersion should not be set on objects to be created")
        for field in ("deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "generation"):
            metadata.pop(field, None)
        if not applied:
            self._own(call, None, obj, "")
            metadata = obj["metadata"]
        metadata["uid"] = clock.uid()
        metadata["creationTimestamp"] = clock.timestamp()
        if strategy.has_status and not strategy.status_on_create:
            obj.pop("status", None)
        if strategy.generation:
            metadata["generation"] = 1
        strategy.prepare_create(obj, self._core.view)
        self._core.admit(call, "CREATE", obj, None)
        name = metadata.get("name", "")
        objects.refuse(call, name, judging.errors(self._core, call, obj, None))
        call.warnings += judging.warnings(call, obj, None)
        self._core.judge(call, obj, None)
        if self._core.store.get(resource.stored_as, call.namespace, name) is not None:
            raise already_exists(call, name)
        return self._write(call, name, obj)

    def _own(self, call: Call, old: Obj | None, obj: Obj, subresource: str) -> None:
        """Write down who owns what, as it came: what the server itself fills in later belongs to nobody."""
        managed.update(
            old, obj, call.version.schema(), manager=call.manager, subresource=subresource, api_version=call.api_version,
            now=clock.timestamp(), reset_fields=scopes.reset_fields(call), reset_owners=call.forget_owners,
        )  # fmt: skip

    def _name(self, call: Call, metadata: Obj) -> None:
        prefix = metadata.get("generateName")
        if metadata.get("name") or not prefix:
            return
        for _ in range(8):
            metadata["name"] = names.generate(prefix)
            if self._core.store.get(call.resource.stored_as, call.namespace, metadata["name"]) is None:
                return

    def replace(
        self,
        call: Call,
        obj: Obj,
        current: Entry,
        *,
        old: Obj | None = None,
        applied: bool = False,
        keep: Callable[[Obj, Obj], None] | None = None,
    ) -> Entry:
        """Put a new state in the place of the current one, which is read unless it comes as `old`. `keep` narrows what the change
        may touch."""
        resource, strategy = call.resource, call.resource.strategy
        old = objects.served(resource, call.version, current) if old is None else old
        self._check_version(call, obj, old)
        subresource = call.target.subresource
        if not applied:
            self._own(call, old, obj, subresource)
        scopes.carry_over(obj, old)
        if keep is not None:
            keep(obj, old)
        elif subresource == "status":
            scopes.keep_all_but_status(call, obj, old)
        elif subresource in pod_parts.PARTS:
            pod_parts.narrow(subresource, obj, old)
            scopes.raise_generation(call, obj, old)
        else:
            if strategy.has_status:
                scopes.copy(old, obj, "status")
            strategy.prepare_update(obj, old, self._core.view)
            scopes.raise_generation(call, obj, old)
        self._core.admit(call, "UPDATE", obj, old)
        objects.refuse(call, call.name, judging.errors(self._core, call, obj, old))
        call.warnings += judging.warnings(call, obj, old)
        self._core.judge(call, obj, old)
        managed.keep_times(old, obj)
        if obj == old:
            return current
        if self._finished(call, obj):
            return self._core.remove(resource, call.namespace, call.name, objects.stored(resource, call.version, obj), call.dry_run)
        return self._write(call, call.name, obj)

    def _check_version(self, call: Call, obj: Obj, old: Obj) -> None:
        given = obj["metadata"].get("resourceVersion") or ""
        if given and not (given.isascii() and given.isdigit()):
            raise BadRequest(f'strconv.ParseUint: parsing "{given}": invalid syntax')
        if given in {"", "0"} and not call.resource.strategy.unconditional_update and call.target.verb == "update":
            # The real server names the resource here where all other refusals name the kind.
            raise field_errors.refusal(
                call.resource.group, call.resource.plural, call.name,
                [field_errors.invalid("metadata.resourceVersion", 0, "must be specified for an update")],
            )  # fmt: skip
        uid = obj["metadata"].get("uid")
        if uid and uid != old["metadata"]["uid"]:
            raise conflict(call, call.name, uid_differs(uid, old["metadata"]["uid"]))
        if given not in {"", "0"} and given != old["metadata"]["resourceVersion"]:
            raise conflict(call, call.name, MODIFIED_SINCE)

    def _finished(self, call: Call, obj: Obj) -> bool:
        metadata = obj["metadata"]
        if not metadata.get("deletionTimestamp") or metadata.get("finalizers"):
            return False
        if call.resource.key == "/namespaces":
            return not obj.get("spec", {}).get("finalizers")
        return not metadata.get("deletionGracePeriodSeconds")

    def _write(self, call: Call, name: str, obj: Obj) -> Entry:
        stored = objects.stored(call.resource, call.version, obj)
        self._core.settle_charges(call)
        return self._core.put(call.resource, call.namespace, name, stored, call.dry_run)

    def _answer(self, call: Call, status: int, entry: Entry) -> Response:
        return self._core.reader.answer(call, status, entry)
