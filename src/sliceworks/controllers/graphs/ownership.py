"""Whether an object is as it should be, whose it is, and what it was before: pure questions about one object.

Server-side apply makes the fields we name so, and drops those we named before and no longer do. It changes nothing exactly when
what we want is in the object already (`contained`), and nothing we own is unwanted (`covered`). Both are seen without asking.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from sliceworks.controllers.graphs import names

if TYPE_CHECKING:
    from sliceworks.controllers.graphs.records import Record
    from sliceworks.kube.resources import Object

_LABEL = f"f:{names.PART_OF}"


def contained(wanted: Any, found: Any) -> bool:
    """Whether everything wanted is there. Others may have more fields in a map, and more items in a list."""
    if isinstance(wanted, dict):
        return isinstance(found, dict) and all(key in found and contained(value, found[key]) for key, value in wanted.items())
    if isinstance(wanted, list):
        if not isinstance(found, list) or len(found) < len(wanted):
            return False
        if len(found) == len(wanted) and all(contained(want, have) for want, have in zip(wanted, found, strict=True)):
            return True
        return all(any(contained(want, have) for have in found) for want in wanted)
    return bool(wanted == found) and isinstance(wanted, bool) == isinstance(found, bool)


def covered(fields: Object, wanted: Any) -> bool:
    """Whether every field in a set of owned fields (`fieldsV1`) is wanted."""
    for key, below in fields.items():
        if key == ".":
            continue
        inside = _step(key, wanted)
        if inside is _NOTHING or (below and not covered(below, inside)):
            return False
    return True


def is_as_wanted(record: Record, wanted: Object) -> bool:
    """Whether applying this would change nothing."""
    return bool(record.fields) and contained(wanted, record.object) and covered(orjson.loads(record.fields), wanted)


def is_ours(record: Record, set_id: str) -> bool:
    """Whether we applied this object as a member of our set.

    Anybody can copy labels, and operators that pass them on to their own objects do. That the label belongs to our field manager
    cannot be copied along.
    """
    return record.set_id == set_id and owns_membership(record)


def owns_membership(record: Record) -> bool:
    """Whether the label of membership belongs to our field manager."""
    if not record.fields:
        return False
    fields = orjson.loads(record.fields)
    return _LABEL in ((fields.get("f:metadata") or {}).get("f:labels") or {})


def taken_over(record: Record, wanted: Object) -> Object:
    """The values that fields of others have now and will lose to ours: a merge patch that gives them back."""
    fields = orjson.loads(record.fields) if record.fields else {}
    return _reverse(wanted, record.object, fields, ())


def _reverse(wanted: Object, found: Object, fields: Object, path: tuple[str, ...]) -> Object:
    before: Object = {}
    for key, value in wanted.items():
        if key not in found or (not path and key in ("apiVersion", "kind")):
            continue
        owned = fields.get(f"f:{key}")
        if isinstance(value, dict) and isinstance(found[key], dict):
            if inside := _reverse(value, found[key], owned or {}, (*path, key)):
                before[key] = inside
        elif owned is None and value != found[key]:
            before[key] = found[key]
    return before


_NOTHING = object()


def _step(key: str, wanted: Any) -> Any:
    kind, _, name = key.partition(":")
    if kind == "f":
        return wanted[name] if isinstance(wanted, dict) and name in wanted else _NOTHING
    if not isinstance(wanted, list):
        return _NOTHING
    value = orjson.loads(name)
    if kind == "k":
        # A key may be a field that the server filled in.
        matching = (item for item in wanted if isinstance(item, dict) and all(item.get(k, v) == v for k, v in value.items()))
        return next(matching, _NOTHING)
    if kind == "v":
        return value if value in wanted else _NOTHING
    return wanted[value] if isinstance(value, int) and value < len(wanted) else _NOTHING
