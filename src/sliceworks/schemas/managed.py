"""Field ownership: `metadata.managedFields` after a write, and server-side apply.

Both functions share parts of their arguments in what they return: an object is never changed in place once it was passed here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.base.errors import BadRequest
from sliceworks.schemas import managers
from sliceworks.schemas.applied import misfits
from sliceworks.schemas.comparison import claimed, compare
from sliceworks.schemas.fieldsets import difference, intersection, union, without
from sliceworks.schemas.last_applied import allowed, refreshed
from sliceworks.schemas.managers import APPLY, UPDATE, Entry, changed, entry, identity
from sliceworks.schemas.merge import merge, prune
from sliceworks.schemas.shapes import Unkeyed, shape_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from sliceworks.schemas.fieldsets import Fields
    from sliceworks.schemas.managers import Identity
    from sliceworks.schemas.shapes import Shape
    from sliceworks.schemas.structural import Schema

    Object = dict[str, Any]
    Convert = Callable[[Object, str], tuple[Object, Schema] | None]
    """An object in another version of its kind, with that version's schema; None where there is no such version."""

_NONE: Fields = {}
_SYSTEM = dict.fromkeys(
    (
        ".",
        *("f:name", "f:namespace", "f:creationTimestamp", "f:selfLink", "f:uid", "f:clusterName"),
        *("f:generation", "f:managedFields", "f:resourceVersion"),
    )
)
_BEFORE = "before-first-apply"


class _Step:
    """One write: the two objects, and what changed between them in each version that an entry speaks of."""

    def __init__(
        self, live: Object, new: Object, shape: Shape, *, api_version: str, reset: Fields, convert: Convert | None = None
    ) -> None:
        self.live = live
        self.new = new
        self.reset = reset
        self.convert = convert
        self.changed, self.removed = self._compared(shape, live, new)
        self._versions: dict[str, tuple[Fields, Fields] | None] = {api_version: (self.changed, self.removed)}

    def _compared(self, shape: Shape, live: Object, new: Object) -> tuple[Fields, Fields]:
        came, went = compare(shape, live, new)
        return without(came or _NONE, self.reset), without(went or _NONE, self.reset)

    def changes(self, version: str) -> tuple[Fields, Fields] | None:
        """What changed and what was removed, in the words of a version; None for a version that is not served any more."""
        if version not in self._versions:
            self._versions[version] = self._converted(version)
        return self._versions[version]

    def _converted(self, version: str) -> tuple[Fields, Fields] | None:
        if self.convert is None:
            return self.changed, self.removed
        live, new = self.convert(self.live, version), self.convert(self.new, version)
        return None if live is None or new is None else self._compared(shape_of(new[1]), live[0], new[0])

    def survivors(self, entries: list[Entry]) -> list[Entry]:
        """The entries without the fields that changed hands or went away; an entry without fields goes too."""
        kept: list[Entry] = []
        for one in entries:
            found = self.changes(one["apiVersion"])
            if found is None:
                continue
            fields = one.get("fieldsV1") or _NONE
            rest = difference(difference(fields, found[0]), found[1])
            if rest:
                kept.append(one if rest is fields else changed(one, rest))
        return kept


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
    convert: Convert | None = None,
) -> None:
    """Set `metadata.managedFields` of an object that is created (`live` is None), updated or patched.

    `reset_fields` are the fields that this endpoint does not write, such as `{"f:status": {}}`.
    """
    before = live or {}
    entries = _known(before, new, subresource)
    metadata = new["metadata"] = dict(new.get("metadata") or {})
    metadata.pop("managedFields", None)
    if not entries and (before.get("metadata") or _NONE).get("uid"):
        return
    try:
        step = _Step(before, new, shape_of(schema), api_version=api_version, reset=reset_fields or _NONE, convert=convert)
        entries = _updated(step, entries, entry(manager, UPDATE, api_version, time=now, subresource=subresource))
    except Unkeyed:
        return
    if entries:
        metadata["managedFields"] = managers.in_order(entries)


def _known(live: Object, new: Object, subresource: str) -> list[Entry]:
    """The entries to start from: a client may send its own, may reset them, and must not lose them by sending none."""
    ours: list[Entry] = (live.get("metadata") or _NONE).get("managedFields") or []
    sent = (new.get("metadata") or _NONE).get("managedFields")
    if subresource or sent is None or sent == ours:
        return ours
    if sent in ([], [{}]):
        return []
    return managers.read(sent) or ours


def _updated(step: _Step, entries: list[Entry], writer: Entry) -> list[Entry]:
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
    _check(applied, schema, api_version, kind)
    shape, reset = shape_of(schema), reset_fields or _NONE
    before = live or {}
    entries: list[Entry] = (before.get("metadata") or _NONE).get("managedFields") or []
    if not entries:
        first = _Step({}, before, shape, api_version=api_version, reset=reset)
        entries = _updated(first, [], entry(_BEFORE, UPDATE, api_version, time=now, subresource=subresource))
    fields = without(claimed(shape, applied), reset)
    me = entry(manager, APPLY, api_version, time=now, fields=fields, subresource=subresource)
    others, last = _apart(entries, identity(me))
    merged = merge(shape, before, applied)
    if last is not None:
        merged = _pruned(shape, merged, last, [*others, me], convert)
    step = _Step(before, merged, shape, api_version=api_version, reset=reset, convert=convert)
    if not force:
        _refuse_conflicts(step, others, shape, manager, api_version)
    result = _result(step, others, me, last)
    if manager == "kubectl":
        refreshed(result["metadata"], applied)
    return result


def _check(applied: Object, schema: Schema, api_version: str, kind: str) -> None:
    named = str(applied.get("apiVersion") or ""), str(applied.get("kind") or "")
    if named != (api_version, kind or named[1]):
        group, _, version = named[0].rpartition("/")
        raise BadRequest(f"invalid object type: {group}/{version}, Kind={named[1]}")
    metadata = applied.get("metadata")
    if isinstance(metadata, dict) and metadata.get("managedFields") is not None:
        raise BadRequest("metadata.managedFields must be nil")
    problems = list(misfits(shape_of(schema), applied))
    if problems:
        raise BadRequest(f"failed to create typed patch object ({_spoken(applied)}): {_listed(problems)}")


def _spoken(applied: Object) -> str:
    metadata = applied.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    group, _, version = str(applied["apiVersion"]).rpartition("/")
    return f"{metadata.get('namespace') or ''}/{metadata.get('name') or ''}; {group}/{version}, Kind={applied['kind']}"


def _listed(problems: list[str]) -> str:
    return problems[0] if len(problems) == 1 else "\n  ".join(["errors:", *problems])


def _apart(entries: list[Entry], me: Identity) -> tuple[list[Entry], Entry | None]:
    others = [one for one in entries if identity(one) != me]
    return others, next((one for one in entries if identity(one) == me), None)


def _pruned(shape: Shape, merged: Object, last: Entry, entries: list[Entry], convert: Convert | None) -> Object:
    """The merged object without what this manager applied before and does not apply now, unless somebody else owns it."""
    dropped: Fields = last["fieldsV1"]
    if not difference(dropped, entries[-1]["fieldsV1"]):
        return merged
    owned: Fields = {}
    for one in entries:
        owned = union(owned, one.get("fieldsV1") or _NONE)
    pruned: Object = prune(shape, merged, dropped, owned) or {}
    return pruned


def _refuse_conflicts(step: _Step, others: list[Entry], shape: Shape, manager: str, api_version: str) -> None:
    conflicts: list[tuple[Entry, Fields]] = []
    for one in others:
        found = step.changes(one["apiVersion"])
        shared = intersection(one.get("fieldsV1") or _NONE, found[0]) if found and found[0] else _NONE
        if shared:
            conflicts.append((one, shared))
    if not conflicts:
        return
    if manager == "kubectl":
        # What `kubectl apply` wrote from the client, and nobody changed since, is kubectl's own.
        mine = allowed(shape, step.live, api_version)
        conflicts = [(one, rest) for one, shared in conflicts if (rest := difference(shared, mine))]
    if conflicts:
        raise managers.conflict(conflicts)


def _result(step: _Step, others: list[Entry], me: Entry, last: Entry | None) -> Object:
    kept = step.survivors(others)
    own = _stripped(me["fieldsV1"])
    if own:
        me = changed(me, own)
        if step.new == step.live:
            time = (last or _NONE).get("time")
            me = entry(me["manager"], APPLY, me["apiVersion"], time=time, fields=own, subresource=me.get("subresource", ""))
        kept.append(me)
    result = dict(step.new)
    metadata = result["metadata"] = dict(result.get("metadata") or {})
    metadata.pop("managedFields", None)
    if kept:
        metadata["managedFields"] = managers.in_order(kept)
    return result
