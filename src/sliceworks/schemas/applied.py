"""What is wrong with the form of an applied object: said in the words of the merge that would fail on it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.base.errors import BadRequest
from sliceworks.schemas.fieldsets import spoken
from sliceworks.schemas.shapes import KEYED, SET, Unkeyed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sliceworks.schemas.shapes import Shape

GO_TYPES = {str: "string", bool: "bool", int: "int64", float: "float64", dict: "map[string]interface {}", list: "[]interface {}"}

_FORMS: dict[str, frozenset[type]] = {
    "string": frozenset((str,)),
    "integer": frozenset((int, float)),
    "number": frozenset((int, float)),
    "boolean": frozenset((bool,)),
    "scalar": frozenset((str, int, float, bool)),
}


def check_applied(applied: dict[str, Any], shape: Shape, api_version: str, kind: str) -> None:
    """Refuses what cannot be applied: another kind than the endpoint's, owners in it, values that do not fit."""
    named = str(applied.get("apiVersion") or ""), str(applied.get("kind") or "")
    if named != (api_version, kind or named[1]):
        group, _, version = named[0].rpartition("/")
        raise BadRequest(f"invalid object type: {group}/{version}, Kind={named[1]}")
    metadata = applied.get("metadata")
    if isinstance(metadata, dict) and metadata.get("managedFields") is not None:
        raise BadRequest("metadata.managedFields must be nil")
    if not fits(shape, applied):
        problems = list(misfits(shape, applied))
        raise BadRequest(f"failed to create typed patch object ({_spoken(applied)}): {_listed(problems)}")


def _spoken(applied: dict[str, Any]) -> str:
    metadata = applied.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    group, _, version = str(applied["apiVersion"]).rpartition("/")
    return f"{metadata.get('namespace') or ''}/{metadata.get('name') or ''}; {group}/{version}, Kind={applied['kind']}"


def _listed(problems: list[str]) -> str:
    return problems[0] if len(problems) == 1 else "\n  ".join(["errors:", *problems])


def fits(shape: Shape, value: Any) -> bool:
    """Whether a value has the form that its shape asks for, all the way down."""
    form = shape.form
    if value is None or not form:
        return True
    if form == "map":
        return type(value) is dict and _map_fits(shape, value)
    if form == "list":
        return type(value) is list and _list_fits(shape, value)
    return type(value) in _FORMS[form]


def _map_fits(shape: Shape, value: dict[str, Any]) -> bool:
    fields = shape.fields
    if shape.closed and not value.keys() <= shape.names.keys():
        return False
    for key, item in value.items():
        sub = fields[key][1]
        kinds = _FORMS.get(sub.form)
        if item.__class__ not in kinds if kinds is not None and item is not None else not fits(sub, item):
            return False
    return True


def _list_fits(shape: Shape, items: list[Any]) -> bool:
    if shape.kind in (KEYED, SET):
        try:
            if len({shape.label(item) for item in items}) < len(items):
                return False
        except Unkeyed:
            return False
    return shape.element is None or all(fits(shape.element, item) for item in items)


def misfits(shape: Shape, value: Any, path: str = "") -> Iterator[str]:
    """Every place where the value does not have the form that its shape asks for."""
    form = shape.form
    if value is None or not form:
        return
    if form == "map":
        yield from (
            _map_misfits(shape, value, path) if type(value) is dict else [_said(path, f"expected map, got &{{{shown(value)}}}")]
        )
    elif form == "list":
        yield from (
            _list_misfits(shape, value, path) if type(value) is list else [_said(path, f"expected list, got &{{{shown(value)}}}")]
        )
    else:
        problem = _scalar_misfit(form, value)
        if problem:
            yield _said(path, problem)


def _map_misfits(shape: Shape, value: dict[str, Any], path: str) -> Iterator[str]:
    for key in sorted(value):
        if shape.closed and key not in shape.names:
            yield _said(f"{path}.{key}", "field not declared in schema")
            return
        yield from misfits(shape.fields[key][1], value[key], f"{path}.{key}")


def _list_misfits(shape: Shape, items: list[Any], path: str) -> Iterator[str]:
    seen: set[str] = set()
    for index, item in enumerate(items):
        place = f"[{index}]"
        if shape.kind in (KEYED, SET):
            try:
                label = shape.label(item)
            except Unkeyed as problem:
                yield _said(path, f"element {index}: {problem}")
                return
            place = spoken(label)
            if label in seen:
                yield _said(path, f"duplicate entries for key {place}")
            seen.add(label)
        if shape.element is not None:
            yield from misfits(shape.element, item, path + place)


def _scalar_misfit(form: str, value: Any) -> str:
    kind = type(value)
    if form in ("integer", "number"):
        return "" if kind in (int, float) else f"expected numeric (int or float), got {GO_TYPES[kind]}"
    if form == "string":
        return "" if kind is str else f"expected string, got &value.valueUnstructured{{Value:{shown(value, quoted=True)}}}"
    if form == "boolean":
        return "" if kind is bool else f"expected boolean, got &{{{shown(value)}}}"
    return "" if kind not in (dict, list) else f"expected any scalar, got &{{{shown(value)}}}"


def _said(path: str, problem: str) -> str:
    return f"{path}: {problem}" if path else problem


def shown(value: Any, *, quoted: bool = False) -> str:
    """A value as Go prints it."""
    if value is None:
        return "<nil>"
    if value is True or value is False:
        return "true" if value else "false"
    if isinstance(value, dict):
        return "map[" + " ".join(f"{key}:{shown(item)}" for key, item in sorted(value.items())) + "]"
    if isinstance(value, list):
        return "[" + " ".join(shown(item) for item in value) + "]"
    return f'"{value}"' if quoted and isinstance(value, str) else str(value)
