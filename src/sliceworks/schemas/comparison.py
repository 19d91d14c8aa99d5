"""From values to sets of fields: what an applied value claims, and what changed between two values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.schemas.fieldsets import EMPTY, ordered
from sliceworks.schemas.shapes import DEDUCED, MAP, UNIT

if TYPE_CHECKING:
    from sliceworks.schemas.fieldsets import Fields
    from sliceworks.schemas.shapes import Layout, Shape

Change = tuple["Fields | None", "Fields | None"]
"""What changed and what was removed at one place: None for nothing, `{}` for the place itself, else what is below."""

_SAME: Change = (None, None)
_ABSENT: Any = object()
_MOST_LAYOUTS, _MOST_KEYS = 256, 64


def claimed(shape: Shape, value: Any) -> Fields:
    """The set of fields that an applied object names: leaves, items and keys, not the structs around them."""
    return _claimed(shape, value) or {}


def _claimed(shape: Shape, value: Any) -> Fields | None:
    """What a value claims: `{}` for itself as a unit, None for nothing at all."""
    if shape.kind == MAP:
        return _claimed_map(shape, value) if type(value) is dict else {}
    if shape.kind == UNIT or type(value) is not list:
        return {}
    return _claimed_items(shape, value)


def _claimed_map(shape: Shape, value: Fields) -> Fields | None:
    node: Fields = {}
    fields, names = shape.fields, shape.names
    for key in sorted(value):
        label, sub = fields[key]
        item = value[key]
        if sub.kind == UNIT or item is None or item == {}:
            node[label] = {}
            continue
        below = _claimed(sub, item)
        if key not in names:
            node[label] = {".": {}, **below} if below else {}
        elif below is not None:
            node[label] = below
    return node or None


def _claimed_items(shape: Shape, items: list[Any]) -> Fields | None:
    node: Fields = {}
    element = shape.element or DEDUCED
    for item in items:
        label = shape.label(item)
        if label in node:
            node[label] = {}
            continue
        below = _claimed(element, item)
        node[label] = {".": {}, **below} if below else {}
    return ordered(node) if len(node) > 1 else node or None


def whole(shape: Shape, value: Any) -> Fields:
    """The node of a value that came or went as a whole: itself and everything below."""
    if type(value) is dict:
        if shape.kind != MAP or not value:
            return {}
        labels, divided = shape.layouts.get(tuple(value)) or _layout(shape, tuple(value))
        node = labels.copy()
        for key, label, sub in divided:
            below = whole(sub, value[key])
            if below:
                node[label] = below
        return node
    if type(value) is list and shape.kind > MAP and value:
        return {".": {}, **_whole_items(shape, value)}
    return {}


def _layout(shape: Shape, keys: tuple[str, ...]) -> Layout:
    """The node of a map with these keys, and which of them may have something below. Most objects have the keys of others."""
    fields = [(key, *shape.fields[key]) for key in sorted(keys)]
    labels = {".": EMPTY, **{label: EMPTY for _, label, _ in fields}}
    made = labels, [field for field in fields if field[2].kind]
    if len(keys) <= _MOST_KEYS:
        if len(shape.layouts) >= _MOST_LAYOUTS:
            shape.layouts.clear()
        shape.layouts[keys] = made
    return made


def _whole_items(shape: Shape, items: list[Any]) -> Fields:
    node: Fields = {}
    element = shape.element or DEDUCED
    for item in items:
        label = shape.label(item)
        node[label] = {} if label in node else whole(element, item)
    return ordered(node) if len(node) > 1 else node


def _below(shape: Shape, value: Any) -> Fields | None:
    """Everything below a value, without itself."""
    node = whole(shape, value)
    node.pop(".", None)
    return node or None


def compare(shape: Shape, old: Any, new: Any) -> Change:
    """What changed and what was removed between two values of one place. Parts that are the same object cost nothing."""
    if old is new:
        return _SAME
    kind = shape.kind
    container: type = dict if kind == MAP else list
    if kind == UNIT or (type(old) is not container and type(new) is not container):
        return _SAME if old == new and (old is True or old is False) == (new is True or new is False) else ({}, None)
    if not old and not new:
        return _SAME if type(old) is type(new) else ({}, None)
    if type(new) is not container:
        # Null stands for an empty map or list; anything else replaces it.
        return None if new is None else {}, _below(shape, old)
    if type(old) is not container:
        return _below(shape, new) if old is None else whole(shape, new), None
    return _compare_maps(shape, old, new) if kind == MAP else _compare_items(shape, old, new)


def _compare_maps(shape: Shape, old: Fields, new: Fields) -> Change:
    changed: Fields = {}
    removed: Fields = {}
    fields, zeros = shape.fields, shape.zeros
    # Where anything may stand, `True == 1` must not pass for the same.
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
                changed[label] = whole(sub, value)
                continue
        came, went = compare(sub, before, value)
        if came is not None:
            changed[label] = came
        if went is not None:
            removed[label] = went
    if len(old) > len(new) or not old.keys() <= new.keys():
        _removed_keys(shape, old, new, changed, removed)
    if len(changed) > 1:
        changed = ordered(changed)
    return changed or None, removed or None


def _removed_keys(shape: Shape, old: Fields, new: Fields, changed: Fields, removed: Fields) -> None:
    for key, before in old.items():
        if key in new:
            continue
        label, sub = shape.fields[key]
        if shape.zeros is not None and (before is None or key in shape.zeros):
            came, went = compare(sub, before, shape.zeros.get(key))
            if came is not None:
                changed[label] = came
            if went is not None:
                removed[label] = went
        else:
            removed[label] = whole(sub, before)


def _compare_items(shape: Shape, old: list[Any], new: list[Any]) -> Change:
    changed: Fields = {}
    removed: Fields = {}
    element = shape.element or DEDUCED
    were, are = _by_label(shape, old), _by_label(shape, new)
    for label, items in are.items():
        before = were.get(label)
        if before is None:
            changed[label] = {} if len(items) > 1 else whole(element, items[0])
        elif len(items) == 1 and len(before) == 1:
            came, went = compare(element, before[0], items[0])
            if came is not None:
                changed[label] = came
            if went is not None:
                removed[label] = went
        elif len(before) > 1 and len(items) > 1:
            if before != items:
                changed[label] = {}
        elif len(before) > 1:
            # Twins are owned as one unit; a single item again has fields of its own.
            changed[label] = whole(element, items[0])
            removed[label] = {}
        else:
            removed[label] = whole(element, before[0])
            changed[label] = {}
    for label, before in were.items():
        if label not in are:
            removed[label] = {} if len(before) > 1 else whole(element, before[0])
    return (ordered(changed) if len(changed) > 1 else changed) or None, removed or None


def _by_label(shape: Shape, items: list[Any]) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for item in items:
        found.setdefault(shape.label(item), []).append(item)
    return found
