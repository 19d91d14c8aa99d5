"""Field ownership after an update, and server-side apply."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from sliceworks.schemas.golang import encode_json
from sliceworks.twin.apiserver.fieldmanager import managed_fields
from sliceworks.twin.apiserver.fieldmanager.fieldpath import EMPTY, Fields, difference, intersection, recursive_difference, union
from sliceworks.twin.apiserver.fieldmanager.managed_fields import APPLY, UPDATE, Entry, build_entry, identity, with_fields
from sliceworks.twin.apiserver.fieldmanager.merge import compare, merge, prune, reconcile_field_set, to_field_set
from sliceworks.twin.apiserver.fieldmanager.typed_value import MissingKeyError, check_applied, shape_of, type_errors

if TYPE_CHECKING:
    from sliceworks.schemas import Schema
    from sliceworks.twin.apiserver.fieldmanager.typed_value import Shape

    Object = dict[str, Any]


class Comparison:
    """The two objects of a write, and the fields that it changes and removes, without those that the endpoint resets."""

    def __init__(self, live: Object, new: Object, shape: Shape, reset: Fields) -> None:
        self.live = live
        self.new = new
        changed, removed = compare(shape, live, new)
        self.changed = recursive_difference(changed or EMPTY, reset)
        self.removed = recursive_difference(removed or EMPTY, reset)

    def remaining_entries(self, entries: list[Entry]) -> list[Entry]:
        """The entries without the changed and removed fields; entries without fields are dropped."""
        kept: list[Entry] = []
        for entry in entries:
            fields = entry.get("fieldsV1") or EMPTY
            rest = difference(difference(fields, self.changed), self.removed)
            if rest:
                kept.append(entry if rest is fields else with_fields(entry, rest))
        return kept

    def conflicts(self, others: list[Entry]) -> list[tuple[Entry, Fields]]:
        """The managers of changed fields, each with those fields."""
        if not self.changed:
            return []
        shared = [(entry, intersection(entry.get("fieldsV1") or EMPTY, self.changed)) for entry in others]
        return [(entry, fields) for entry, fields in shared if fields]


LAST_APPLIED_ANNOTATION = "kubectl.kubernetes.io/last-applied-configuration"


def last_applied_fields(shape: Shape, live: dict[str, Any], api_version: str) -> Fields:
    """The fields of the last-applied annotation that still have their applied values: kubectl can take ownership of these."""
    text = _last_applied_json(live.get("metadata"))
    try:
        last = orjson.loads(text) if text else None
    except orjson.JSONDecodeError:
        return {}
    if not isinstance(last, dict) or last.get("apiVersion") != api_version or next(type_errors(shape, last), None):
        return {}
    changed, removed = compare(shape, last, live)
    return difference(difference(to_field_set(shape, last), changed or {}), removed or {})


def refresh_last_applied(metadata: dict[str, Any], applied: dict[str, Any]) -> None:
    """Update the last-applied annotation, if present, to the applied object."""
    if not _last_applied_json(metadata):
        return
    given = applied.get("metadata")
    if isinstance(given, dict) and LAST_APPLIED_ANNOTATION in (given.get("annotations") or {}):
        annotations = {name: value for name, value in given["annotations"].items() if name != LAST_APPLIED_ANNOTATION}
        applied = {**applied, "metadata": {**given, "annotations": annotations}}
        if not annotations:
            del applied["metadata"]["annotations"]
    metadata["annotations"] = {**metadata["annotations"], LAST_APPLIED_ANNOTATION: encode_json(applied) + "\n"}


def _last_applied_json(metadata: Any) -> str:
    annotations = metadata.get("annotations") if isinstance(metadata, dict) else None
    return str(annotations.get(LAST_APPLIED_ANNOTATION) or "") if isinstance(annotations, dict) else ""


_SYSTEM_FIELDS = {
    ".",
    *("f:name", "f:namespace", "f:creationTimestamp", "f:selfLink", "f:uid", "f:clusterName"),
    *("f:generation", "f:managedFields", "f:resourceVersion"),
}
_BEFORE_FIRST_APPLY = "before-first-apply"


def update(
    live: Object | None,
    new: Object,
    schema: Schema,
    *,
    manager: str,
    subresource: str = "",
    api_version: str,
    now: str,
    reset_fields: Fields | None = None,
    reset_owners: bool = False,
) -> None:
    """Set `metadata.managedFields` of an object that is created (`live` is None), updated or patched.

    `reset_fields` are the fields that this endpoint does not write, such as `{"f:status": {}}`. `reset_owners` is
    `resets_managed_fields` of the object that the client sent: decoding drops the empty list that requests a reset.
    """
    before = live or {}
    entries = [] if reset_owners and not subresource else _known(before, new, subresource)
    metadata = new["metadata"] = dict(new.get("metadata") or {})
    metadata.pop("managedFields", None)
    if not entries and (before.get("metadata") or EMPTY).get("uid"):
        return
    shape = shape_of(schema)
    try:
        entries = _reconciled_entries(shape, entries)
        step = Comparison(before, new, shape, reset_fields or EMPTY)
        entries = _updated(step, entries, build_entry(manager, UPDATE, api_version, time=now, subresource=subresource))
    except MissingKeyError:
        return
    if entries:
        metadata["managedFields"] = managed_fields.sort_entries(entries)


def _known(live: Object, new: Object, subresource: str) -> list[Entry]:
    """The entries before this write: those the client sent, none after a reset, otherwise those of the live object."""
    ours: list[Entry] = (live.get("metadata") or EMPTY).get("managedFields") or []
    sent = (new.get("metadata") or EMPTY).get("managedFields")
    if subresource or sent is None or sent == ours:
        return ours
    if resets_managed_fields(new):
        return []
    return managed_fields.parse_entries(sent) or ours


def resets_managed_fields(sent: Object) -> bool:
    """Whether the object, as the client sent or patched it, resets its managedFields."""
    metadata = sent.get("metadata")
    return isinstance(metadata, dict) and metadata.get("managedFields") in ([], [{}])


def _reconciled_entries(shape: Shape, entries: list[Entry]) -> list[Entry]:
    """The entries converted to the current schema, since a CustomResourceDefinition can change after they were written."""
    if shape.zeros is not None:
        return entries
    kept: list[Entry] = []
    for entry in entries:
        fields = entry.get("fieldsV1") or EMPTY
        now = reconcile_field_set(shape, fields)
        kept.append(entry if now is fields else with_fields(entry, now))
    return kept


def _updated(step: Comparison, entries: list[Entry], writer: Entry) -> list[Entry]:
    kept = step.remaining_entries(entries)
    own = _without_system_fields(step.changed)
    if own:
        me = identity(writer)
        for item in kept:
            if identity(item) == me:
                own = union(item["fieldsV1"], own)
                kept.remove(item)
                break
        kept.append(with_fields(writer, own))
    return managed_fields.cap_managers(kept)


def _without_system_fields(fields: Fields) -> Fields:
    """The set without the fields that the server manages, which have no owner."""
    rest = {name: below for name, below in fields.items() if name not in ("f:apiVersion", "f:kind")}
    metadata = rest.get("f:metadata")
    if metadata is not None:
        owned = {name: below for name, below in metadata.items() if name not in _SYSTEM_FIELDS}
        if owned:
            rest["f:metadata"] = owned
        else:
            del rest["f:metadata"]
    return rest


def apply(
    live: Object | None,
    applied: Object,
    schema: Schema,
    *,
    manager: str,
    force: bool = False,
    subresource: str = "",
    api_version: str,
    now: str,
    kind: str = "",
    reset_fields: Fields | None = None,
) -> Object:
    """The object after a server-side apply, with its `managedFields`. Raises Conflict if other managers own changed fields."""
    shape, reset = shape_of(schema), reset_fields or EMPTY
    check_applied(applied, shape, api_version, kind)
    before = live or {}
    entries: list[Entry] = (before.get("metadata") or EMPTY).get("managedFields") or []
    entries = _reconciled_entries(shape, entries)
    if not entries:
        first = Comparison({}, before, shape, reset)
        entries = _updated(first, [], build_entry(_BEFORE_FIRST_APPLY, UPDATE, api_version, time=now, subresource=subresource))
    fields = recursive_difference(to_field_set(shape, applied), reset)
    me = build_entry(manager, APPLY, api_version, time=now, fields=fields, subresource=subresource)
    others = [entry for entry in entries if identity(entry) != identity(me)]
    last = next((entry for entry in entries if identity(entry) == identity(me)), None)
    merged = merge(shape, before, applied)
    if last is not None:
        merged = _pruned(shape, merged, last, [*others, me])
    step = Comparison(before, merged, shape, reset)
    if not force:
        _reject_conflicts(step, others, shape, manager, api_version)
    result = _result(step, others, me, last)
    if manager == "kubectl":
        refresh_last_applied(result["metadata"], applied)
    return result


def _pruned(shape: Shape, merged: Object, last: Entry, entries: list[Entry]) -> Object:
    """The merged object without the fields that this manager no longer applies, unless another manager owns them."""
    dropped: Fields = last["fieldsV1"]
    if not difference(dropped, entries[-1]["fieldsV1"]):
        return merged
    owned: Fields = {}
    for entry in entries:
        owned = union(owned, entry.get("fieldsV1") or EMPTY)
    pruned: Object = prune(shape, merged, dropped, owned) or {}
    return pruned


def _reject_conflicts(step: Comparison, others: list[Entry], shape: Shape, manager: str, api_version: str) -> None:
    conflicts = step.conflicts(others)
    if conflicts and manager == "kubectl":
        # Fields that client-side `kubectl apply` wrote and that have not changed since belong to kubectl.
        mine = last_applied_fields(shape, step.live, api_version)
        conflicts = [(entry, rest) for entry, shared in conflicts if (rest := difference(shared, mine))]
    if conflicts:
        raise managed_fields.conflict_error(conflicts)


def _result(step: Comparison, others: list[Entry], me: Entry, last: Entry | None) -> Object:
    kept = step.remaining_entries(others)
    own = _without_system_fields(me["fieldsV1"])
    if own:
        me = with_fields(me, own)
        if step.new == step.live:
            time = (last or EMPTY).get("time")
            me = build_entry(me["manager"], APPLY, me["apiVersion"], time=time, fields=own, subresource=me.get("subresource", ""))
        kept.append(me)
    result = dict(step.new)
    metadata = result["metadata"] = dict(result.get("metadata") or {})
    metadata.pop("managedFields", None)
    if kept:
        metadata["managedFields"] = managed_fields.sort_entries(kept)
    return result


def keep_timestamps(live: Object, new: Object) -> None:
    """Restore the timestamps of managedFields if the update changed nothing else, so that it is a no-op.

    Call it last, after the server has set or reset all its own fields.
    """
    ours = (live.get("metadata") or EMPTY).get("managedFields") or []
    theirs = (new.get("metadata") or EMPTY).get("managedFields") or []
    if len(ours) != len(theirs) or not all(map(_is_same_but_time, ours, theirs)) or ours == theirs:
        return
    restored = {**new, "metadata": {**new["metadata"], "managedFields": ours}}
    if restored == live:
        new["metadata"] = restored["metadata"]


def _is_same_but_time(our: Entry, their: Entry) -> bool:
    # Most updates change the fields of a manager.
    return our is their or (our.get("fieldsV1") == their.get("fieldsV1") and {**our, "time": None} == {**their, "time": None})
