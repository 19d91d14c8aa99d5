"""Merging an applied object into a live one, and taking fields out of an object again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.schemas.comparison import claimed
from sliceworks.schemas.fieldsets import difference, intersection, union
from sliceworks.schemas.shapes import DEDUCED, KEYED, MAP, UNIT

if TYPE_CHECKING:
    from sliceworks.schemas.fieldsets import Fields
    from sliceworks.schemas.shapes import Shape

_ABSENT: Any = object()


def merge(shape: Shape, live: Any, applied: Any) -> Any:
    """The live value with the applied one laid over it: nothing is removed; units are replaced."""
    kind = shape.kind
    if kind == MAP:
        if type(applied) is dict and type(live) is dict:
            return _merge_maps(shape, live, applied)
        if applied is None and type(live) is dict and live:
            return live
    elif kind != UNIT:
        if type(applied) is list and type(live) is list:
            return _merge_items(shape, live, applied)
        if applied is None and type(live) is list and live:
            return live
    return applied


def _merge_maps(shape: Shape, live: dict[str, Any], applied: dict[str, Any]) -> dict[str, Any]:
    merged: dict[str, Any] = live
    for key, value in applied.items():
        before = live.get(key, _ABSENT)
        after = value if before is _ABSENT else merge(shape.fields[key][1], before, value)
        if after is not before:
            if merged is live:
                merged = dict(live)
            merged[key] = after
    return merged


def _merge_items(shape: Shape, live: list[Any], applied: list[Any]) -> list[Any]:
    """Items in the order of the applied list, with those that only the live list has kept in their places between them."""
    element = shape.element or DEDUCED
    ours = {shape.label(item): item for item in applied}
    live_labels = [shape.label(item) for item in live]
    theirs: dict[str, Any] = {}
    for label, item in zip(live_labels, live, strict=True):
        # Twins cannot be merged into: the applied item replaces them.
        theirs[label] = _ABSENT if label in theirs else item
    shared = iter([label for label in ours if label in theirs])
    wanted, awaited = list(ours), next(shared, None)
    merged: list[Any] = []
    done: set[str] = set()
    left = right = 0

    def take(label: str) -> None:
        before = theirs.get(label, _ABSENT)
        merged.append(ours[label] if before is _ABSENT else merge(element, before, ours[label]))
        done.add(label)

    while left < len(live_labels) or right < len(wanted):
        if left < len(live_labels) and right < len(wanted):
            label = live_labels[left]
            if label == wanted[right]:
                take(label)
                left, right, awaited = left + 1, right + 1, next(shared, None)
                continue
            if label in ours and awaited is not None and awaited != label:
                left += 1
                continue
        if left < len(live_labels):
            label = live_labels[left]
            if label not in ours:
                merged.append(live[left])
                left += 1
                continue
            if label in done:
                left += 1
        if right < len(wanted):
            label = wanted[right]
            take(label)
            right += 1
            if label == awaited:
                awaited = next(shared, None)
    return live if len(merged) == len(live) and all(a is b for a, b in zip(merged, live, strict=True)) else merged


def removed(shape: Shape, value: Any, fields: Fields) -> Any:
    """The value without the fields of a set. What loses everything becomes null."""
    if type(value) is dict:
        return _removed_keys(shape, value, fields) if shape.kind == MAP and value else None
    if type(value) is list:
        return _removed_items(shape, value, fields) if shape.kind > MAP and value else None
    return value


def _removed_keys(shape: Shape, value: dict[str, Any], fields: Fields) -> dict[str, Any] | None:
    rest: dict[str, Any] = {}
    for key, item in value.items():
        label, sub = shape.fields[key]
        below = fields.get(label)
        if below is None:
            rest[key] = item
        elif below and "." not in below:
            rest[key] = removed(sub, item, below)
    return rest or None


def _removed_items(shape: Shape, items: list[Any], fields: Fields) -> list[Any] | None:
    rest: list[Any] = []
    for item in items:
        below = fields.get(shape.label(item))
        if below is None:
            rest.append(item)
        elif below and "." not in below:
            rest.append(removed(shape.element or DEDUCED, item, below))
    return rest or None


def with_names(shape: Shape, fields: Fields) -> Fields:
    """The set with every declared field in it that has anything below it: a struct goes with the last of its fields."""
    found: Fields = {}
    for name, below in fields.items():
        if not below:
            found[name] = below
            continue
        kind = name[0]
        if kind == "f" and shape.kind == MAP:
            named = with_names(shape.fields[name[2:]][1], below)
            found[name] = {".": {}, **named} if name[2:] in shape.names else named
        elif kind == "k" and shape.kind == KEYED:
            found[name] = with_names(shape.element or DEDUCED, below)
        else:
            found[name] = below
    return found


def prune(shape: Shape, merged: Any, dropped_from: Fields, owned: Fields) -> Any:
    """The merged object without what its applier applied before (`dropped_from`) and nobody owns now (`owned`: what is owned)."""
    last = with_names(shape, dropped_from)
    everything = with_names(shape, claimed(shape, merged))
    first = removed(shape, merged, last)
    kept = union(with_names(shape, claimed(shape, first)), with_names(shape, owned))
    second = removed(shape, merged, difference(everything, kept))
    gone = difference(everything, with_names(shape, claimed(shape, second)))
    return removed(shape, merged, intersection(gone, last))


def settled(shape: Shape, fields: Fields) -> Fields:
    """The set as the schema has it now: where a part became one unit, whoever owned something of it owns the unit."""
    found = fields
    for name, below in fields.items():
        if not below:
            continue
        sub = _below(shape, name)
        if sub is None or sub is DEDUCED:
            continue
        now: Fields = {} if sub.kind == UNIT and sub.form in ("map", "list") else settled(sub, below)
        if now is not below:
            if found is fields:
                found = dict(fields)
            found[name] = now
    return found


def _below(shape: Shape, name: str) -> Shape | None:
    if name[0] == "f":
        return shape.fields[name[2:]][1] if shape.kind == MAP else None
    return shape.element if name[0] == "k" else None
