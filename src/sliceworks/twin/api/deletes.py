"""Delete: at once, after a grace period, or once finalizers are gone; one object or a whole selection."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import orjson

from sliceworks.base import clock
from sliceworks.base.errors import BadRequest, Conflict
from sliceworks.schemas import builtins, structural
from sliceworks.schemas.field_errors import FieldError, invalid, not_supported, refusal
from sliceworks.twin.api import media, objects
from sliceworks.twin.api.reads import check_list_options, render_list
from sliceworks.twin.api.refusals import conflict, not_found
from sliceworks.twin.api.selecting import matcher
from sliceworks.twin.api.views import View

if TYPE_CHECKING:
    from sliceworks.kube.transport import Response
    from sliceworks.twin.api.calls import Call
    from sliceworks.twin.api.core import Core
    from sliceworks.twin.store.entries import Entry

Obj = dict[str, Any]
ORPHAN, FOREGROUND = "orphan", "foregroundDeletion"
_OPTIONS = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions"
_POLICIES = ("Foreground", "Background", "Orphan")
_ENSURING = (
    "The system is ensuring all content is removed from this namespace.  "
    "Upon completion, this namespace will automatically be purged by the system."
)


@dataclass(frozen=True, slots=True)
class DeleteOptions:
    """How something is to be deleted."""

    grace: int | None = None
    policy: str = ""
    uid: str | None = None
    version: str | None = None
    dry_run: bool = False


def read_options(call: Call) -> DeleteOptions:
    """Options from the body, or from the query when there is no body."""
    raw: Obj = {}
    if call.request.body:
        raw, _ = media.read_object(call.request.body, media.content_type(call.request.headers), "DeleteOptions")
        kind = raw.get("kind") or "DeleteOptions"
        if kind != "DeleteOptions":
            raise BadRequest(f'{kind} in version "{raw.get("apiVersion", "")}" cannot be handled as a DeleteOptions')
        try:
            raw = structural.decode(builtins.catalogue().component(_OPTIONS), raw, [])
        except structural.TypeMismatch as error:
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
        bool(raw.get("dryRun")),
    )


def _check(raw: Obj) -> None:
    errors: list[FieldError] = []
    policy, orphan = raw.get("propagationPolicy"), raw.get("orphanDependents")
    if policy and orphan is not None:
        errors.append(invalid("propagationPolicy", policy, "orphanDependents and deletionPropagation cannot be both set"))
    elif policy and policy not in _POLICIES:
        errors.append(not_supported("propagationPolicy", policy, [*_POLICIES, "nil"]))
    dry = raw.get("dryRun") or []
    if dry and set(dry) != {"All"}:
        errors.append(not_supported("dryRun", dry, ["All"]))
    if errors:
        raise refusal("meta.k8s.io", "DeleteOptions", "", errors)


def _stale(call: Call, name: str, what: str, values: tuple[str, str], event: str) -> Conflict:
    """A precondition names another state of the object than the one that is there."""
    group, kind, (given, found) = call.resource.group, call.resource.kind, values
    why = f"the {what} in the precondition ({given}) does not match the {what} in record ({found})"
    details = {"name": name, **({"group": group} if group else {}), "kind": kind}
    return Conflict(f'Operation cannot be fulfilled on {kind} "{name}": {why}. The object might have been {event}', details=details)


class Deleter:
    """Carries out deletions."""

    def __init__(self, core: Core) -> None:
        self._core = core

    async def delete(self, call: Call) -> Response:
        options = read_options(call)
        if options.dry_run:
            call.params.setdefault("dryRun", ["All"])
        current = self._core.store.get(call.resource.stored_as, call.namespace, call.name)
        if current is None:
            raise not_found(call)
        entry, gone = self.remove(call, current, options)
        await self._core.store.settled()
        if not gone or call.resource.strategy.returns_deleted:
            return self._core.reader.answer(call, 200, entry)
        return media.json_response(200, _success(call, entry), call.form, call.warnings)

    async def delete_collection(self, call: Call) -> Response:
        options = read_options(call)
        check_list_options(call, watch=False)
        if options.dry_run:
            call.params.setdefault("dryRun", ["All"])
        match = matcher(call)
        store = self._core.store
        chosen = [e for e in store.scan(call.resource.stored_as, call.namespace or None) if match is None or match(e)]
        done: list[Entry] = []
        for entry in chosen:
            current = store.get(call.resource.stored_as, entry.namespace, entry.name)
            if current is not None:
                done.append(self.remove(call, current, options)[0])
        await store.settled()
        return render_list(call, View(call), done, {"resourceVersion": str(store.announced)})

    def remove(self, call: Call, current: Entry, options: DeleteOptions) -> tuple[Entry, bool]:
        """Delete one object; returns its last or present state, and whether it is gone."""
        obj = objects.served(call.resource, call.version, current)
        metadata = obj["metadata"]
        self._check_preconditions(call, metadata, options)
        self._core.admit(call, "DELETE", {}, obj)
        if call.resource.key == "/namespaces":
            return self._remove_namespace(call, current, obj)
        grace = self._grace(call, obj, options)
        before = orjson.dumps(metadata)
        self._set_finalizers(metadata, options)
        if call.resource.key == "apiextensions.k8s.io/customresourcedefinitions":
            self._core.customs.mark_terminating(obj)
        deleting = bool(metadata.get("deletionTimestamp"))
        if not metadata.get("finalizers") and not grace:
            return self._finish(call, current, obj), True
        if not deleting:
            moment = clock.now() + timedelta(seconds=grace)
            metadata["deletionTimestamp"] = clock.rfc3339(moment)
            metadata["deletionGracePeriodSeconds"] = grace
            if metadata.get("generation"):
                metadata["generation"] += 1
        elif call.resource.strategy.graceful and grace < (metadata.get("deletionGracePeriodSeconds") or 0):
            metadata["deletionGracePeriodSeconds"] = grace
            metadata["deletionTimestamp"] = clock.rfc3339(clock.now() + timedelta(seconds=grace))
        if orjson.dumps(metadata) == before:
            return current, False
        stored = objects.stored(call.resource, call.version, obj)
        return self._core.put(call.resource, current.namespace, current.name, stored, call.dry_run), False

    def _finish(self, call: Call, current: Entry, obj: Obj) -> Entry:
        if call.resource.strategy.graceful:
            self._end_grace(call, current, obj)
        stored = objects.stored(call.resource, call.version, obj)
        return self._core.remove(call.resource, current.namespace, current.name, stored, call.dry_run)

    def _end_grace(self, call: Call, current: Entry, obj: Obj) -> None:
        """Something that may take its time to end is marked as ending before it goes: watchers see both."""
        metadata = obj["metadata"]
        if not metadata.get("deletionTimestamp"):
            metadata["deletionTimestamp"] = clock.timestamp()
            if metadata.get("generation"):
                metadata["generation"] += 1
        metadata["deletionGracePeriodSeconds"] = 0
        marked = objects.stored(call.resource, call.version, {**obj, "metadata": dict(metadata)})
        self._core.put(call.resource, current.namespace, current.name, marked, call.dry_run)

    def _check_preconditions(self, call: Call, metadata: Obj, options: DeleteOptions) -> None:
        name = metadata["name"]
        if options.uid is not None and options.uid != metadata["uid"]:
            raise _stale(call, name, "UID", (options.uid, metadata["uid"]), "deleted and then recreated")
        if options.version is not None and options.version != metadata["resourceVersion"]:
            found = metadata["resourceVersion"]
            raise _stale(call, name, "ResourceVersion", (options.version, found), "modified")

    def _grace(self, call: Call, obj: Obj, options: DeleteOptions) -> int:
        """Seconds that the object may still take to end."""
        if not call.resource.strategy.graceful:
            return 0
        spec, status = obj.get("spec") or {}, obj.get("status") or {}
        if not spec.get("nodeName") or status.get("phase") in {"Succeeded", "Failed"}:
            return 0
        deleting = obj["metadata"].get("deletionGracePeriodSeconds")
        asked = options.grace
        if asked is None:
            asked = deleting if deleting is not None else spec.get("terminationGracePeriodSeconds", 30)
        asked = max(int(asked), 1) if asked < 0 else int(asked)
        return min(asked, deleting) if deleting is not None else asked

    def _set_finalizers(self, metadata: Obj, options: DeleteOptions) -> None:
        """The garbage collector's finalizers, as the propagation policy wants them."""
        finalizers = list(metadata.get("finalizers") or ())
        if options.policy:
            wanted = {"Orphan": ORPHAN, "Foreground": FOREGROUND}.get(options.policy)
            finalizers = [name for name in finalizers if name not in {ORPHAN, FOREGROUND} or name == wanted]
            if wanted and wanted not in finalizers:
                finalizers.append(wanted)
        if finalizers:
            metadata["finalizers"] = finalizers
        else:
            metadata.pop("finalizers", None)

    def _remove_namespace(self, call: Call, current: Entry, obj: Obj) -> tuple[Entry, bool]:
        metadata = obj["metadata"]
        if metadata.get("deletionTimestamp"):
            if obj.get("spec", {}).get("finalizers"):
                raise conflict(call, metadata["name"], _ENSURING)
            if not metadata.get("finalizers"):
                return self._finish(call, current, obj), True
            return current, False
        metadata["deletionTimestamp"] = clock.timestamp()
        obj["status"] = {**(obj.get("status") or {}), "phase": "Terminating"}
        stored = objects.stored(call.resource, call.version, obj)
        return self._core.put(call.resource, "", current.name, stored, call.dry_run), False


def _success(call: Call, entry: Entry) -> bytes:
    uid = entry.object()["metadata"]["uid"]
    details = {"name": entry.name, "group": call.resource.group, "kind": call.resource.plural, "uid": uid}
    return orjson.dumps(
        {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Success",
            "details": {key: value for key, value in details.items() if value},
        }
    )
