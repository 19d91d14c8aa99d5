"""Applies one object with server-side apply: skips no-op writes, never takes fields that another manager owns, and recreates
objects whose immutable fields changed if their lifecycle allows it.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson

from sliceworks.base import clock
from sliceworks.base.errors import Conflict, Forbidden, Invalid, NotFound, SliceworksError
from sliceworks.controllers.graphs import well_known
from sliceworks.controllers.graphs.completion import remove_completion_finalizer
from sliceworks.controllers.graphs.object_cache import to_cached
from sliceworks.graph import diff
from sliceworks.schemas.config_connector import kind_infos

if TYPE_CHECKING:
    from sliceworks.controllers.graphs.object_cache import CachedObject, ObjectCache
    from sliceworks.graph.model import Node
    from sliceworks.kube.client import Client
    from sliceworks.kube.resources import Object


_LABEL = f"f:{well_known.PART_OF}"


def is_subset(desired: Any, live: Any, name: str = "") -> bool:
    """Whether the live value contains the desired one. Maps may have more fields, and lists more items. `name` is its field."""
    if isinstance(desired, dict):
        names = {key: name if name in diff.QUANTITIES else key for key in desired}
        return isinstance(live, dict) and all(
            key in live and is_subset(value, live[key], names[key]) for key, value in desired.items()
        )
    if isinstance(desired, list):
        if not isinstance(live, list) or len(live) < len(desired):
            return False
        if len(live) == len(desired) and all(is_subset(item, actual) for item, actual in zip(desired, live, strict=True)):
            return True
        return all(any(is_subset(item, actual) for actual in live) for item in desired)
    if bool(desired == live) and isinstance(desired, bool) == isinstance(live, bool):
        return True
    return name in diff.QUANTITIES and diff.is_same_quantity(desired, live)


def covers_fields(fields: Object, desired: Any) -> bool:
    """Whether every field in a field set (`fieldsV1`) is desired."""
    for key, children in fields.items():
        if key == ".":
            continue
        child = _descend(key, desired)
        if child is _MISSING or (children and not covers_fields(children, child)):
            return False
    return True


def matches_desired(record: CachedObject, desired: Object) -> bool:
    """Whether an apply would be a no-op."""
    return bool(record.fields) and is_subset(desired, record.object) and covers_fields(orjson.loads(record.fields), desired)


def is_member(record: CachedObject, set_id: str) -> bool:
    """Whether this controller applied the object as a member of the ApplySet.

    The label alone is not enough: some operators copy the labels of an object to objects they create. The field manager that owns
    the label is not copied.
    """
    return record.set_id == set_id and owns_membership(record)


def owns_membership(record: CachedObject) -> bool:
    """Whether this controller's field manager owns the ApplySet label."""
    if not record.fields:
        return False
    fields = orjson.loads(record.fields)
    return _LABEL in ((fields.get("f:metadata") or {}).get("f:labels") or {})


def overwritten_values(record: CachedObject, desired: Object) -> Object:
    """A merge patch that restores the values of other managers which an apply would overwrite."""
    fields = orjson.loads(record.fields) if record.fields else {}
    return _reverse(desired, record.object, fields, ())


def _reverse(desired: Object, live: Object, fields: Object, path: tuple[str, ...]) -> Object:
    before: Object = {}
    for key, value in desired.items():
        if key not in live or (not path and key in ("apiVersion", "kind")):
            continue
        owned = fields.get(f"f:{key}")
        if isinstance(value, dict) and isinstance(live[key], dict):
            if child := _reverse(value, live[key], owned or {}, (*path, key)):
                before[key] = child
        elif owned is None and value != live[key]:
            before[key] = live[key]
    return before


_MISSING = object()


def _descend(key: str, desired: Any) -> Any:
    kind, _, name = key.partition(":")
    if kind == "f":
        return desired[name] if isinstance(desired, dict) and name in desired else _MISSING
    if not isinstance(desired, list):
        return _MISSING
    value = orjson.loads(name)
    if kind == "k":
        # A key may be a field that the API server defaulted.
        matching = (item for item in desired if isinstance(item, dict) and all(item.get(k, v) == v for k, v in value.items()))
        return next(matching, _MISSING)
    if kind == "v":
        return value if value in desired else _MISSING
    return desired[value] if isinstance(value, int) and value < len(desired) else _MISSING


_SORTED = orjson.OPT_SORT_KEYS

_VOLATILE = ("resourceVersion", "generation")

_DRIFT_WINDOW, _DRIFT_PAUSE, _MAX_DRIFTS = 30.0, 10.0, 5


class ResourceTerminating(SliceworksError):
    """The object is being deleted; it can be recreated afterwards."""


class ImmutableField(SliceworksError):
    """The API server refuses the change of an immutable field, and the lifecycle does not allow to recreate the object."""


class OwnershipConflict(SliceworksError):
    """Another manager or ApplySet owns the object or some of its fields."""


@dataclass(frozen=True, slots=True)
class DriftTracker:
    """How often in a row an object drifted soon after it was applied; used to slow down."""

    times: int = 0
    last: float = 0.0

    def next(self) -> DriftTracker:
        """The tracker after one more drift."""
        now = clock.loop_time()
        return DriftTracker(self.times + 1 if now - self.last < _DRIFT_WINDOW else 1, now)

    def should_pause(self, before: DriftTracker) -> bool:
        """Whether the object keeps drifting, and the last apply was too recent."""
        return self.times > _MAX_DRIFTS and self.last - before.last < _DRIFT_PAUSE


@dataclass(slots=True)
class LastApplied:
    """The last apply of an object: hashes of the desired and of the stored object."""

    uid: str
    desired: int
    version: str
    content: int
    drift: DriftTracker = DriftTracker()

    def is_unchanged(self, desired: int, live: CachedObject) -> bool:
        """Whether neither the desired nor the live object has changed."""
        if self.uid != live.uid or self.desired != desired:
            return False
        if self.version != live.version:
            if self.content != content_hash(live):
                return False
            self.version = live.version
        return True


LastAppliedByKey = dict[tuple[str, str, str], LastApplied]
"""By kind, namespace and name."""


@dataclass(frozen=True, slots=True)
class Applier:
    """Applies the objects of one instance with server-side apply."""

    client: Client
    set_id: str
    adopt: bool
    last_applied: LastAppliedByKey

    async def apply(self, cache: ObjectCache, node: Node, desired: Object) -> CachedObject:
        """Apply an object unless that is a no-op; returns the stored object."""
        metadata = desired["metadata"]
        live = cache.get(metadata["name"], metadata.get("namespace", ""))
        if live is not None:
            self._check_owner(live, node)
        if node.lifecycle.on_delete == "restore":
            live = live or await self._read_live(cache, desired)
            desired = _with_previous_values(live, desired)
        key = (cache.resource.qualified, metadata.get("namespace", ""), metadata["name"])
        desired_hash = hash(orjson.dumps(desired, option=_SORTED))
        if live is not None:
            last = self.last_applied.get(key)
            if last is not None and last.is_unchanged(desired_hash, live):
                return live
            if matches_desired(live, desired):
                self.last_applied[key] = LastApplied(live.uid, desired_hash, live.version, content_hash(live))
                return live
        last = self.last_applied.get(key)
        drift = last.drift.next() if last is not None and last.desired == desired_hash else DriftTracker()
        if last is not None and drift.should_pause(last.drift):
            raise OwnershipConflict(f"{cache.resource.kind} {metadata['name']}: another client keeps changing applied fields")
        force = self.adopt or node.lifecycle.on_delete == "restore"
        try:
            record = cache.record_write(await self._apply(cache, desired, live, force=force))
        except (Invalid, Forbidden) as error:
            if live is None:
                raise
            await self._recreate(cache, node, desired, live, error)
            record = cache.record_write(await self._apply(cache, desired, None, force=force))
        self.last_applied[key] = LastApplied(record.uid, desired_hash, record.version, content_hash(record), drift)
        if record.deleting:
            raise _terminating(record, node)
        return record

    async def _recreate(
        self, cache: ObjectCache, node: Node, desired: Object, live: CachedObject, refusal: Invalid | Forbidden
    ) -> None:
        """Delete an object whose immutable fields changed, if its lifecycle allows it; raises until it is deleted."""
        owned = orjson.loads(live.fields) if is_member(live, self.set_id) else {}
        update = diff.compare_object(node.id, live.object, desired, node.lifecycle, owned=owned)
        if update.action == diff.REFUSE:
            raise ImmutableField(
                f"{refusal.message} ({update.reason})",
                hint="undo the change, delete the object, or set lifecycle.onImmutableChange: recreate in the definition",
            ) from refusal
        # Config Connector's webhooks deny such changes with 403; from others, 403 is a missing permission.
        is_denied = isinstance(refusal, Forbidden) and node.kind.kind not in kind_infos()
        if update.action != diff.REPLACE or is_denied:
            raise refusal
        await remove_completion_finalizer(self.client, cache, live)
        with suppress(NotFound):
            # Without a policy the API server orphans the pods of Jobs.
            response = await self.client.delete(
                cache.resource, live.name, live.namespace, uid=live.uid, propagation_policy="Background"
            )
            if "deletionTimestamp" in (response.get("metadata") or {}):
                deleting = cache.record_write(response)
                if cache.contains(deleting):
                    raise ResourceTerminating(f"{_terminating(deleting, node)}: {update.reason}")
        cache.evict(live)

    def _check_owner(self, live: CachedObject, node: Node) -> None:
        if live.set_id and live.set_id != self.set_id:
            raise OwnershipConflict(
                f"resource belongs to a different ApplySet: {live.place} ({node.kind.api_version}, Kind={node.kind.kind}) "
                f'belongs to ApplySet "{live.set_id}", cannot reassign to "{self.set_id}"'
            )
        if live.deleting:
            raise _terminating(live, node)

    async def _read_live(self, cache: ObjectCache, desired: Object) -> CachedObject | None:
        metadata = desired["metadata"]
        live = await self.client.find(cache.resource, metadata["name"], metadata.get("namespace"))
        return to_cached(live) if live is not None else None

    async def _apply(self, cache: ObjectCache, desired: Object, live: CachedObject | None, *, force: bool) -> Object:
        force = force or (live is not None and is_member(live, self.set_id))
        try:
            return await self._send(cache, desired, force=force)
        except Conflict as conflict:
            if force:
                raise
            current = await self.client.get(cache.resource, desired["metadata"]["name"], desired["metadata"].get("namespace"))
            labels = current["metadata"].get("labels") or {}
            if labels.get(well_known.PART_OF) == self.set_id and owns_membership(to_cached(current)):
                return await self._send(cache, desired, force=True)  # it is a member that was not in the cache yet
            raise _ownership_conflict(cache, desired, conflict) from conflict

    async def _send(self, cache: ObjectCache, desired: Object, *, force: bool) -> Object:
        return await self.client.apply(
            desired, desired["metadata"].get("namespace"), resource=cache.resource, field_manager=well_known.APPLYSET, force=force
        )


def content_hash(record: CachedObject) -> int:
    """A hash of the object without status, resourceVersion and generation."""
    obj = record.object
    obj.pop("status", None)
    for name in _VOLATILE:
        obj["metadata"].pop(name, None)
    return hash(orjson.dumps(obj, option=_SORTED))


def _terminating(record: CachedObject, node: Node) -> ResourceTerminating:
    return ResourceTerminating(
        f'resource "{record.place}" for node "{node.id}" is currently being deleted; '
        "waiting for deletion to complete before continuing reconciliation"
    )


def _with_previous_values(live: CachedObject | None, desired: Object) -> Object:
    """The object with an annotation of the values that it replaces, if it existed before."""
    if live is None:
        return desired
    obj = live.object
    recorded = obj["metadata"].get("annotations") or {}
    if well_known.BEFORE not in recorded and live.fields:
        return desired  # created by this controller: nothing to restore
    before = _merge(well_known.read_record(recorded, well_known.BEFORE), overwritten_values(live, desired))
    annotations = {**desired["metadata"]["annotations"], well_known.BEFORE: orjson.dumps(before, option=_SORTED).decode()}
    return {**desired, "metadata": {**desired["metadata"], "annotations": annotations}}


def _merge(old: Object, new: Object) -> Object:
    """A deep merge; values in `old` win."""
    merged = {**new, **old}
    for key in old.keys() & new.keys():
        if isinstance(old[key], dict) and isinstance(new[key], dict):
            merged[key] = _merge(old[key], new[key])
    return merged


def _ownership_conflict(cache: ObjectCache, desired: Object, conflict: Conflict) -> OwnershipConflict:
    causes = (conflict.details or {}).get("causes") or ()
    fields = "; ".join(f"{cause.get('field', '')} ({cause.get('message', '')})" for cause in causes) or conflict.message
    metadata = desired["metadata"]
    location = "/".join(part for part in (metadata.get("namespace"), metadata["name"]) if part)
    return OwnershipConflict(
        f"{cache.resource.kind} {location} already exists, and other managers own fields with different values: {fields}",
        hint=f"remove these fields from the template, or annotate the instance with {well_known.ADOPT}=true to take them over",
    )
