"""Compare, merge and remove fields of typed values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.twin.apiserver.fieldmanager.fieldpath import EMPTY, difference, intersection, sort_level, union
from sliceworks.twin.apiserver.fieldmanager.typed_value import ATOMIC, DEDUCED, KEYED, MAP

if TYPE_CHECKING:
    from sliceworks.twin.apiserver.fieldmanager.fieldpath import Fields
    from sliceworks.twin.apiserver.fieldmanager.typed_value import Layout, Shape

Change = tuple["Fields | None", "Fields | None"]
"""What changed and what was removed at one place: None for nothing, `{}` for the place itself, else what is below."""

_SAME: Change = (None, None)
_ABSENT: Any = object()
_MAX_LAYOUTS, _MAX_LAYOUT_KEYS = 256, 64


def to_field_set(shape: Shape, value: Any) -> Fields:
    """The field set of an applied object: leaves, items and keys, but not their parent structs."""
    return _field_set_node(shape, value) or {}


def _field_set_node(shape: Shape, value: Any) -> Fields | None:
    """The field set node of a value: `{}` for an atomic value, None if it owns nothing."""
    if shape.kind == MAP:
        return _map_node(shape, value) if type(value) is dict else {}
    if shape.kind == ATOMIC or type(value) is not list:
        return {}
    return _list_node(shape, value)


def _map_node(shape: Shape, value: Fields) -> Fields | None:
    node: Fields = {}
    fields, names = shape.fields, shape.names
    for key in sorted(value):
        label, sub = fields[key]
        item = value[key]
        if sub.kind == ATOMIC or item is None or item == {}:
            node[label] = {}
            continue
        below = _field_set_node(sub, item)
        if key not in names:
            node[label] = {".": {}, **below} if below else {}
        elif below is not None:
            node[label] = below
    return node or None


def _list_node(shape: Shape, items: list[Any]) -> Fields | None:
    node: Fields = {}
    element = shape.element or DEDUCED
    for item in items:
        label = shape.label(item)
        if label in node:
            node[label] = {}
            continue
        below = _field_set_node(element, item)
        node[label] = {".": {}, **below} if below else {}
    return sort_level(node) if len(node) > 1 else node or None


def whole_value_set(shape: Shape, value: Any) -> Fields:
    """The node of a value that was added or removed: the value and all its children."""
    if type(value) is dict:
        if shape.kind != MAP or not value:
            return {}
        labels, divided = shape.layouts.get(tuple(value)) or _layout(shape, tuple(value))
        node = labels.copy()
        for key, label, sub in divided:
            below = whole_value_set(sub, value[key])
            if below:
                node[label] = below
        return node
    if type(value) is list and shape.kind > MAP and value:
        return {".": {}, **_whole_items(shape, value)}
    return {}


def _layout(shape: Shape, keys: tuple[str, ...]) -> Layout:
    """The node of a map with these keys, and the keys that can have children. Cached, since most objects have the same keys."""
    fields = [(key, *shape.fields[key]) for key in sorted(keys)]
    labels = {".": EMPTY, **{label: EMPTY for _, label, _ in fields}}
    layout = labels, [field for field in fields if field[2].kind]
    if len(keys) <= _MAX_LAYOUT_KEYS:
        if len(shape.layouts) >= _MAX_LAYOUTS:
            shape.layouts.clear()
        shape.layouts[keys] = layout
    return layout


def _whole_items(shape: Shape, items: list[Any]) -> Fields:
    node: Fields = {}
    element = shape.element or DEDUCED
    for item in items:
        label = shape.label(item)
        node[label] = {} if label in node else whole_value_set(element, item)
    return sort_level(node) if len(node) > 1 else node


def _below(shape: Shape, value: Any) -> Fields | None:
    """The field set nodes of all children of a value."""
    node = whole_value_set(shape, value)
    node.pop(".", None)
    return node or None


def compare(shape: Shape, old: Any, new: Any) -> Change:
    """The changed and the removed fields between two values of the same path. Identical objects are skipped."""
    if old is new:
        return _SAME
    kind = shape.kind
    container: type = dict if kind == MAP else list
    if kind == ATOMIC or (type(old) is not container and type(new) is not container):
        return _SAME if old == new and (old is True or old is False) == (new is True or new is False) else ({}, None)
    if not old and not new:
        return _SAME if type(old) is type(new) else ({}, None)
    if type(new) is not container:
        # Null counts as an empty map or list; any other type replaces the value.
        return None if new is None else {}, _below(shape, old)
    if type(old) is not container:
        return _below(shape, new) if old is None else whole_value_set(shape, new), None
    return _compare_maps(shape, old, new) if kind == MAP else _compare_items(shape, old, new)


def _compare_maps(shape: Shape, old: Fields, new: Fields) -> Change:
    changed: Fields = {}
    removed: Fields = {}
    fields, zeros = shape.fields, shape.zeros
    # In untyped values, `True` and `1` must not count as equal.
    trusting = zeros is not None
    for key, value in new.items():
        before = old.get(key, _ABSENT)
        if before is value or (trusting and before == value):
            continue
        label, sub = fields[key]
        if before is _ABSENT:
            if zeros is not None:
                before = zeros.get(key, None if value is None else _ABSENT)
            if before is _ABSENT:
                changed[label] = whole_value_set(sub, value)
                continue
        added, deleted = compare(sub, before, value)
        if added is not None:
            changed[label] = added
        if deleted is not None:
            removed[label] = deleted
    if len(old) > len(new) or not old.keys() <= new.keys():
        _compare_removed_keys(shape, old, new, changed, removed)
    if len(changed) > 1:
        changed = sort_level(changed)
    return changed or None, removed or None


def _compare_removed_keys(shape: Shape, old: Fields, new: Fields, changed: Fields, removed: Fields) -> None:
    for key, before in old.items():
        if key in new:
            continue
        label, sub = shape.fields[key]
        if shape.zeros is not None and (before is None or key in shape.zeros):
            added, deleted = compare(sub, before, shape.zeros.get(key))
            if added is not None:
                changed[label] = added
            if deleted is not None:
                removed[label] = deleted
        else:
            removed[label] = whole_value_set(sub, before)


def _compare_items(shape: Shape, old: list[Any], new: list[Any]) -> Change:
    changed: Fields = {}
    removed: Fields = {}
    element = shape.element or DEDUCED
    were, are = _by_label(shape, old), _by_label(shape, new)
    for label, items in are.items():
        before = were.get(label)
        if before is None:
            changed[label] = {} if len(items) > 1 else whole_value_set(element, items[0])
        elif len(items) == 1 and len(before) == 1:
            added, deleted = compare(element, before[0], items[0])
            if added is not None:
                changed[label] = added
            if deleted is not None:
                removed[label] = deleted
        elif len(before) > 1 and len(items) > 1:
            if before != items:
                changed[label] = {}
        elif len(before) > 1:
            # Duplicate items are owned as one unit; a unique item is divided into fields.
            changed[label] = whole_value_set(element, items[0])
            removed[label] = {}
        else:
            removed[label] = whole_value_set(element, before[0])
            changed[label] = {}
    for label, before in were.items():
        if label not in are:
            removed[label] = {} if len(before) > 1 else whole_value_set(element, before[0])
    return (sort_level(changed) if len(changed) > 1 else changed) or None, removed or None


def _by_label(shape: Shape, items: list[Any]) -> dict[str, list[Any]]:
    result: dict[str, list[Any]] = {}
    for item in items:
        result.setdefault(shape.label(item), []).append(item)
    return result


def merge(shape: Shape, live: Any, applied: Any) -> Any:
    """The live value merged with the applied one: nothing is removed; atomic values are replaced."""
    kind = shape.kind
    if kind == MAP:
        if type(applied) is dict and type(live) is dict:
            return _merge_maps(shape, live, applied)
        if applied is None and type(live) is dict and live:
            return live
    elif kind != ATOMIC:
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
    """The items in the order of the applied list; items only in the live list keep their relative positions."""
    element = shape.element or DEDUCED
    ours = {shape.label(item): item for item in applied}
    live_labels = [shape.label(item) for item in live]
    theirs: dict[str, Any] = {}
    for label, item in zip(live_labels, live, strict=True):
        # Duplicate live items cannot be merged: the applied item replaces them.
        theirs[label] = _ABSENT if label in theirs else item
    shared = iter([label for label in ours if label in theirs])
    applied_labels, awaited = list(ours), next(shared, None)
    merged: list[Any] = []
    done: set[str] = set()
    left = right = 0

    def take(label: str) -> None:
        before = theirs.get(label, _ABSENT)
        merged.append(ours[label] if before is _ABSENT else merge(element, before, ours[label]))
        done.add(label)

    while left < len(live_labels) or right < len(applied_labels):
        if left < len(live_labels) and right < len(applied_labels):
            label = live_labels[left]
            if label == applied_labels[right]:
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
        if right < len(applied_labels):
            label = applied_labels[right]
            take(label)
            right += 1
            if label == awaited:
                awaited = next(shared, None)
    return live if len(merged) == len(live) and all(a is b for a, b in zip(merged, live, strict=True)) else merged


def remove_items(shape: Shape, value: Any, fields: Fields) -> Any:
    """The value without the fields of a set. A map or list that loses all its items becomes null."""
    if type(value) is dict:
        return _without_keys(shape, value, fields) if shape.kind == MAP and value else None
    if type(value) is list:
        return _removed_items(shape, value, fields) if shape.kind > MAP and value else None
    return value


def _without_keys(shape: Shape, value: dict[str, Any], fields: Fields) -> dict[str, Any] | None:
    rest: dict[str, Any] = {}
    for key, item in value.items():
        label, sub = shape.fields[key]
        below = fields.get(label)
        if below is None:
            rest[key] = item
        elif below and "." not in below:
            rest[key] = remove_items(sub, item, below)
    return rest or None


def _removed_items(shape: Shape, items: list[Any], fields: Fields) -> list[Any] | None:
    rest: list[Any] = []
    for item in items:
        below = fields.get(shape.label(item))
        if below is None:
            rest.append(item)
        elif below and "." not in below:
            rest.append(remove_items(shape.element or DEDUCED, item, below))
    return rest or None


def ensure_named_fields(shape: Shape, fields: Fields) -> Fields:
    """The set with all declared parent fields added, so that removing the last field of a struct removes the struct."""
    result: Fields = {}
    for name, below in fields.items():
        if not below:
            result[name] = below
            continue
        kind = name[0]
        if kind == "f" and shape.kind == MAP:
            named = ensure_named_fields(shape.fields[name[2:]][1], below)
            result[name] = {".": {}, **named} if name[2:] in shape.names else named
        elif kind == "k" and shape.kind == KEYED:
            result[name] = ensure_named_fields(shape.element or DEDUCED, below)
        else:
            result[name] = below
    return result


def prune(shape: Shape, merged: Any, dropped_from: Fields, owned: Fields) -> Any:
    """The merged object without the fields that the applier owned before (`dropped_from`) and no manager owns now (`owned`)."""
    last = ensure_named_fields(shape, dropped_from)
    everything = ensure_named_fields(shape, to_field_set(shape, merged))
    first = remove_items(shape, merged, last)
    kept = union(ensure_named_fields(shape, to_field_set(shape, first)), ensure_named_fields(shape, owned))
    second = remove_items(shape, merged, difference(everything, kept))
    removed = difference(everything, ensure_named_fields(shape, to_field_set(shape, second)))
    return remove_items(shape, merged, intersection(removed, last))


def reconcile_field_set(shape: Shape, fields: Fields) -> Fields:
    """The set converted to the current schema: managers of any part of a value that became atomic own the whole value."""
    result = fields
    for name, below in fields.items():
        if not below:
            continue
        sub = _shape_below(shape, name)
        if sub is None or sub is DEDUCED:
            continue
        now: Fields = {} if sub.kind == ATOMIC and sub.form in ("map", "list") else reconcile_field_set(sub, below)
        if now is not below:
            if result is fields:
                result = dict(fields)
            result[name] = now
    return result


def _shape_below(shape: Shape, name: str) -> Shape | None:
    if name[0] == "f":
        return shape.fields[name[2:]][1] if shape.kind == MAP else None
    return shape.element if name[0] == "k" else None
