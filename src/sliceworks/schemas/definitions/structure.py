"""Whether a schema is structural: every field has a type outside of the logical keywords, which may only restrict values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.schemas import patterns
from sliceworks.schemas.field_errors import FieldError, forbidden, invalid, required

if TYPE_CHECKING:
    from collections.abc import Iterator

Node = dict[str, Any]

_ROOT, _ITEM, _FIELD = "at the root", "for specified array items", "for specified object fields"
_INT_OR_STRING: list[Node] = [{"type": "integer"}, {"type": "string"}]
_EMBEDDED, _KEEP, _EITHER = "x-kubernetes-embedded-resource", "x-kubernetes-preserve-unknown-fields", "x-kubernetes-int-or-string"
# Keyword → how its absence is called, in the order in which they are reported.
_ONLY_OUTSIDE = (
    ("default", "must be undefined to be structural"),
    ("title", "must be empty to be structural"),
    ("description", "must be empty to be structural"),
    ("nullable", "must be false to be structural"),
    (_KEEP, "must be false to be structural"),
    (_EMBEDDED, "must be false to be structural"),
    (_EITHER, "must be false to be structural"),
    ("x-kubernetes-list-map-keys", "must be empty to be structural"),
    ("x-kubernetes-list-type", "must be undefined to be structural"),
    ("x-kubernetes-map-type", "must be undefined to be structural"),
    ("x-kubernetes-validations", "must be empty to be structural"),
)


def structure_errors(root: Node, path: str) -> list[FieldError]:
    """Everything that keeps a schema from being structural, in a fixed order."""
    return sorted([*_invariants(root, _ROOT, path), *_completeness(root, root, path, path)], key=str)


def _invariants(node: Node, level: str, path: str) -> Iterator[FieldError]:
    if node.get("type") == "array" and not isinstance(node.get("items"), dict):
        yield required(f"{path}.items", "must be specified")
    if isinstance(node.get("items"), dict):
        yield from _invariants(node["items"], _ITEM, f"{path}.items")
    for name, child in (node.get("properties") or {}).items():
        yield from _invariants(child, _FIELD, f"{path}.properties[{name}]")
    if node.get("additionalProperties") is not None:
        if level is _ROOT:
            yield forbidden(f"{path}.additionalProperties", "must not be used at the root")
        if isinstance(node["additionalProperties"], dict):
            yield from _invariants(node["additionalProperties"], _FIELD, f"{path}.additionalProperties")
    if node.get(_EITHER) and node.get(_KEEP):
        yield invalid(f"{path}.{_KEEP}", True, f"must be false if {_EITHER} is true")
    if node.get(_EITHER) and node.get(_EMBEDDED):
        yield invalid(f"{path}.{_EMBEDDED}", True, f"must be false if {_EITHER} is true")
    yield from _value_rules(node, path, skip_any=_is_either(node), skip_first=_is_either((node.get("allOf") or [{}])[0]))
    yield from _type(node, level, path)
    yield from _resource_fields(node, level, path)


def _is_either(node: Node) -> bool:
    return bool(node.get("anyOf") == _INT_OR_STRING)


def _type(node: Node, level: str, path: str) -> Iterator[FieldError]:
    kind = node.get("type") or ""
    if node.get(_EMBEDDED) and kind != "object":
        detail = f"must be object if {_EMBEDDED} is true"
        yield invalid(f"{path}.type", kind, detail) if kind else required(f"{path}.type", detail)
    elif not kind and not node.get(_EITHER) and not node.get(_KEEP):
        yield required(f"{path}.type", f"must not be empty {level}")
    if node.get(_EMBEDDED) and node.get("additionalProperties") is not None:
        yield forbidden(f"{path}.additionalProperties", f"must not be used if {_EMBEDDED} is set")
    if level is _ROOT and kind and kind != "object":
        yield invalid(f"{path}.type", kind, "must be object at the root")
    if node.get(_EMBEDDED) and not node.get(_KEEP) and not node.get("properties"):
        yield required(f"{path}.properties", f"must not be empty if {_EMBEDDED} is true without {_KEEP}")


def _resource_fields(node: Node, level: str, path: str) -> Iterator[FieldError]:
    properties = node.get("properties") or {}
    is_resource = level is _ROOT or bool(node.get(_EMBEDDED))
    for name in ("kind", "apiVersion") if is_resource else ():
        kind = properties[name].get("type", "") if name in properties else "string"
        if kind != "string":
            yield invalid(f"{path}.properties[{name}].type", kind, "must be string")
    metadata = properties.get("metadata")
    if metadata is None:
        return
    place = f"{path}.properties[metadata]"
    if is_resource and metadata.get("type") != "object":
        yield invalid(f"{place}.type", metadata.get("type", ""), "must be object")
    if level is _ROOT:
        names = set(metadata.get("properties") or {})
        more = {key for key, value in metadata.items() if value} - {"type", "default", "properties"}
        if more or not names <= {"name", "generateName"}:
            text = "must not specify anything other than name and generateName, but metadata is implicitly specified"
            yield forbidden(place, text)


def _value_rules(node: Node, path: str, *, skip_any: bool = False, skip_first: bool = False) -> Iterator[FieldError]:
    if not skip_any:
        for index, branch in enumerate(node.get("anyOf") or ()):
            yield from _nested(branch, f"{path}.anyOf[{index}]")
    for index, branch in enumerate(node.get("allOf") or ()):
        yield from _nested(branch, f"{path}.allOf[{index}]", skip_any=skip_first and index == 0)
    for index, branch in enumerate(node.get("oneOf") or ()):
        yield from _nested(branch, f"{path}.oneOf[{index}]")
    if node.get("not") is not None:
        yield from _nested(node["not"], f"{path}.not")
    if node.get("pattern"):
        try:
            patterns.compiled(node["pattern"])
        except patterns.PatternError as error:
            yield invalid(f"{path}.pattern", node["pattern"], f"must be a valid regular expression, but isn't: {error}")


def _nested(node: Node, path: str, *, skip_any: bool = False) -> Iterator[FieldError]:
    yield from _value_rules(node, path, skip_any=skip_any)
    if isinstance(node.get("items"), dict):
        yield from _nested(node["items"], f"{path}.items")
    for name, child in (node.get("properties") or {}).items():
        yield from _nested(child, f"{path}.properties[{name}]")
    if node.get("type"):
        yield forbidden(f"{path}.type", "must be empty to be structural")
    if node.get("additionalProperties"):
        yield forbidden(f"{path}.additionalProperties", "must be undefined to be structural")
    for keyword, detail in _ONLY_OUTSIDE:
        if node.get(keyword) or (keyword == "default" and node.get(keyword) is not None):
            yield forbidden(f"{path}.{keyword}", detail)
    if "metadata" in (node.get("properties") or {}):
        yield forbidden(f"{path}.properties[metadata]", "must not be specified in a nested context")


def _completeness(rules: Node, structure: Node, place: str, path: str) -> Iterator[FieldError]:
    """Whatever a logical branch speaks of must be described outside of it."""
    if rules.get("not") is not None:
        yield from _covered(rules["not"], structure, place, f"{path}.not")
    for keyword in ("allOf", "anyOf", "oneOf"):
        for index, branch in enumerate(rules.get(keyword) or ()):
            yield from _covered(branch, structure, place, f"{path}.{keyword}[{index}]")


def _covered(rules: Node, structure: Node | None, place: str, path: str) -> Iterator[FieldError]:
    if structure is None:
        yield required(place, f"because it is defined in {path}")
        return
    yield from _completeness(rules, structure, place, path)
    if isinstance(rules.get("items"), dict):
        items = structure.get("items")
        yield from _covered(rules["items"], items if isinstance(items, dict) else None, f"{place}.items", f"{path}.items")
    for name, child in (rules.get("properties") or {}).items():
        below, inside = f"{place}.properties[{name}]", f"{path}.properties[{name}]"
        yield from _covered(child, (structure.get("properties") or {}).get(name), below, inside)
