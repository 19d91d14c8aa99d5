"""Field ownership: `metadata.managedFields` after a write, and server-side apply.

Both functions share parts of their arguments in what they return: an object is never changed in place once it was passed here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.schemas import managers
from sliceworks.schemas.applied import check_applied
from sliceworks.schemas.comparison import claimed
from sliceworks.schemas.fieldsets import EMPTY, difference, union, without
from sliceworks.schemas.last_applied import allowed, refreshed
from sliceworks.schemas.managers import APPLY, UPDATE, Entry, changed, entry, identity
from sliceworks.schemas.merge import merge, prune, settled
from sliceworks.schemas.shapes import Unkeyed, shape_of
from sliceworks.schemas.steps import Step

if TYPE_CHECKING:
    from sliceworks.schemas.fieldsets import Fields
    from sliceworks.schemas.managers import Identity
    from sliceworks.schemas.shapes import Shape
    from sliceworks.schemas.steps import Convert
    from sliceworks.schemas.structural import Schema

    Object = dict[str, Any]

_SYSTEM = dict.fromkeys(
    (
        ".",
        *("f:name", "f:namespace", "f:creationTimestamp", "f:selfLink", "f:uid", "f:clusterName"),
        *("f:generation", "f:managedFields", "f:resourceVersion"),
    )
)
_BEFORE = "before-first-apply"


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
    convert: Convert | None = None,
) -> None:
    """Set `metadata.managedFields` of an object that is created (`live` is None), updated or patched.

    `reset_fields` are the fields that this endpoint does not write, such as `{"f:status": {}}`. `reset_owners` is `wants_reset` of
    what the client sent: reading an object drops the empty list that asks for it.
    """
    before = live or {}
    entries = [] if reset_owners and not subresource else _known(before, new, subresource)
    metadata = new["metadata"] = dict(new.get("metadata") or {})
    metadata.pop("managedFields", None)
    if not entries and (before.get("metadata") or EMPTY).get("uid"):
        return
    shape = shape_of(schema)
    try:
        entries = _settled(shape, entries)
        step = Step(before, new, shape, api_version=api_version, reset=reset_fields or EMPTY, convert=convert)
        entries = _updated(step, entries, entry(manager, UPDATE, api_version, time=now, subresource=subresource))
    except Unkeyed:
        return
    if entries:
        metadata["managedFields"] = managers.in_order(entries)


def _known(live: Object, new: Object, subresource: str) -> list[Entry]:
    """The entries to start from: a client may send its own, may reset them, and must not lose them by sending none."""
    ours: list[Entry] = (live.get("metadata") or EMPTY).get("managedFields") or []
    sent = (new.get("metadata") or EMPTY).get("managedFields")
    if subresource or sent is None or sent == ours:
        return ours
    if wants_reset(new):
        return []
    return managers.read(sent) or ours


def wants_reset(sent: Object) -> bool:
    """Whether an object, as the client sent or patched it, asks to forget its owners."""
    metadata = sent.get("metadata")
    return isinstance(metadata, dict) and metadata.get("managedFields") in ([], [{}])


def _settled(shape: Shape, entries: list[Entry]) -> list[Entry]:
    """The entries as the schema has them now: that of a custom resource may have changed since they were written."""
    if shape.zeros is not None:
        return entries
    kept: list[Entry] = []
    for one in entries:
        fields = one.get("fieldsV1") or EMPTY
        now = settled(shape, fields)
        kept.append(one if now is fields else changed(one, now))
    return kept


def _updated(step: Step, entries: list[Entry], writer: Entry) -> list[Entry]:
    kept = step.survivors(entries)
    own = _stripped(step.changed)
    if own:
        me = identity(writer)
        for one in kept:
            if identity(one) == me:
                own = union(one["fieldsV1"], own)
                kept.remove(one)
                break
        kept.append(changed(writer, own))
    return managers.capped(kept)


def _stripped(fields: Fields) -> Fields:
    """The set without the fields that are nobody's: the server's own."""
    rest = {name: below for name, below in fields.items() if name not in ("f:apiVersion", "f:kind")}
    metadata = rest.get("f:metadata")
    if metadata is not None:
        mine = {name: below for name, below in metadata.items() if name not in _SYSTEM}
        if mine:
            rest["f:metadata"] = mine
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
    convert: Convert | None = None,
) -> Object:
    """The object after a server-side apply, with its `managedFields`. Raises Conflict where others own what would change."""
    shape, reset = shape_of(schema), reset_fields or EMPTY
    check_applied(applied, shape, api_version, kind)
    before = live or {}
    entries: list[Entry] = (before.get("metadata") or EMPTY).get("managedFields") or []
    entries = _settled(shape, entries)
    if not entries:
        first = Step({}, before, shape, api_version=api_version, reset=reset)
        entries = _updated(first, [], entry(_BEFORE, UPDATE, api_version, time=now, subresource=subresource))
    fields = without(claimed(shape, applied), reset)
    me = entry(manager, APPLY, api_version, time=now, fields=fields, subresource=subresource)
    others, last = _apart(entries, identity(me))
    merged = merge(shape, before, applied)
    if last is not None:
        merged = _pruned(shape, merged, last, [*others, me])
    step = Step(before, merged, shape, api_version=api_version, reset=reset, convert=convert)
    if not force:
        _refuse_conflicts(step, others, shape, manager, api_version)
    result = _result(step, others, me, last)
    if manager == "kubectl":
        refreshed(result["metadata"], applied)
    return result


def _apart(entries: list[Entry], me: Identity) -> tuple[list[Entry], Entry | None]:
    others = [one for one in entries if identity(one) != me]
    return others, next((one for one in entries if identity(one) == me), None)


def _pruned(shape: Shape, merged: Object, last: Entry, entries: list[Entry]) -> Object:
    """The merged object without what this manager applied before and does not apply now, unless somebody else owns it."""
    dropped: Fields = last["fieldsV1"]
    if not difference(dropped, entries[-1]["fieldsV1"]):
        return merged
    owned: Fields = {}
    for one in entries:
        owned = union(owned, one.get("fieldsV1") or EMPTY)
    pruned: Object = prune(shape, merged, dropped, owned) or {}
    return pruned


def _refuse_conflicts(step: Step, others: list[Entry], shape: Shape, manager: str, api_version: str) -> None:
    conflicts = step.conflicts(others)
    if conflicts and manager == "kubectl":
        # What `kubectl apply` wrote from the client, and nobody changed since, is kubectl's own.
        mine = allowed(shape, step.live, api_version)
        conflicts = [(one, rest) for one, shared in conflicts if (rest := difference(shared, mine))]
    if conflicts:
        raise managers.conflict(conflicts)


def _result(step: Step, others: list[Entry], me: Entry, last: Entry | None) -> Object:
    kept = step.survivors(others)
    own = _stripped(me["fieldsV1"])
    if own:
        me = changed(me, own)
        if step.new == step.live:
            time = (last or EMPTY).get("time")
            me = entry(me["manager"], APPLY, me["apiVersion"], time=time, fields=own, subresource=me.get("subresource", ""))
        kept.append(me)
    result = dict(step.new)
    metadata = result["metadata"] = dict(result.get("metadata") or {})
    metadata.pop("managedFields", None)
    if kept:
        metadata["managedFields"] = managers.in_order(kept)
    return result


def keep_times(live: Object, new: Object) -> None:
    """Take back new times from an update that, in the end, changed nothing: such a write must not look like one.

    Call it last, when everything that the server itself sets or takes back is done.
    """
    ours = (live.get("metadata") or EMPTY).get("managedFields") or []
    theirs = (new.get("metadata") or EMPTY).get("managedFields") or []
    if ours == theirs or len(ours) != len(theirs) or [_timeless(one) for one in ours] != [_timeless(one) for one in theirs]:
        return
    restored = {**new, "metadata": {**new["metadata"], "managedFields": ours}}
    if restored == live:
        new["metadata"] = restored["metadata"]


def _timeless(one: Entry) -> Entry:
    return {name: value for name, value in one.items() if name != "time"}
