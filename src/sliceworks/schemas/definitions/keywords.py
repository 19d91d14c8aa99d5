"""Which keywords a definition's schema may use, and how they go together."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from sliceworks.schemas.field_errors import FieldError, forbidden, invalid, not_supported, required

if TYPE_CHECKING:
    from collections.abc import Iterator

Node = dict[str, Any]

_TYPES = ("array", "boolean", "integer", "number", "object", "string")
_LIST, _KEYS, _MAP, _EMBEDDED = (
    "x-kubernetes-list-type",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-map-type",
    "x-kubernetes-embedded-resource",
)
_UNSUPPORTED = ("id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref")


@dataclass(frozen=True, slots=True)
class _Place:
    """What holds for a node because of where it stands."""

    no_defaults: str | None = None
    in_metadata: bool = False


def keyword_errors(root: Node, path: str) -> list[FieldError]:
    """Everything wrong with the keywords of a schema."""
    return list(_errors(root, path, _Place(), root=True))


def uses_unsupported(node: Node) -> bool:
    """Whether a keyword that definitions do not have is used anywhere."""
    if any(node.get(keyword) for keyword in (*_UNSUPPORTED, "$schema")) or isinstance(node.get("items"), list):
        return True
    if node.get("x-kubernetes-preserve-unknown-fields") is False:
        return True
    below = [node.get(keyword) for keyword in ("items", "additionalProperties", "not")]
    below += [*(node.get("properties") or {}).values()]
    below += [branch for keyword in ("allOf", "oneOf", "anyOf") for branch in node.get(keyword) or ()]
    return any(uses_unsupported(child) for child in below if isinstance(child, dict))


def _errors(node: Node, path: str, place: _Place, *, root: bool = False) -> Iterator[FieldError]:
    yield from _single(node, path, place)
    if node.get("uniqueItems"):
        detail = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        yield forbidden(f"{path}.uniqueItems", detail)
    yield from _additional(node, path, place)
    for name, child in (node.get("properties") or {}).items():
        yield from _errors(child, f"{path}.properties[{name}]", _below(node, name, place, root=root))
    if node.get("not") is not None:
        yield from _errors(node["not"], f"{path}.not", place)
    for keyword in ("allOf", "oneOf", "anyOf"):
        for index, branch in enumerate(node.get(keyword) or ()):
            yield from _errors(branch, f"{path}.{keyword}[{index}]", place)
    if isinstance(node.get("items"), dict):
        yield from _errors(node["items"], f"{path}.items", place)
    if node.get("x-kubernetes-preserve-unknown-fields") is False:
        yield invalid(f"{path}.x-kubernetes-preserve-unknown-fields", False, "must be true or undefined")
    yield from _maps(node, path)
    yield from _lists(node, path)


def _below(node: Node, name: str, place: _Place, *, root: bool) -> _Place:
    if not (root or node.get(_EMBEDDED)) or name not in ("metadata", "kind", "apiVersion"):
        return place
    return replace(place, in_metadata=True, no_defaults=f"in top-level {name}" if root else place.no_defaults)


def _single(node: Node, path: str, place: _Place) -> Iterator[FieldError]:
    kind = node.get("type")
    if kind and kind not in _TYPES:
        yield not_supported(f"{path}.type", kind, _TYPES)
    if node.get("default") is not None and place.no_defaults is not None:
        yield forbidden(f"{path}.default", f"must not be set {place.no_defaults}".rstrip())
    for keyword in _UNSUPPORTED:
        if node.get(keyword):
            yield forbidden(f"{path}.{keyword}", f"{keyword} is not supported")
    if kind == "null":
        yield forbidden(f"{path}.type", "type cannot be set to null, use nullable as an alternative")
    if isinstance(node.get("items"), list):
        yield forbidden(f"{path}.items", "items must be a schema object and not an array")
    if place.in_metadata and node.get(_EMBEDDED):
        yield forbidden(f"{path}.{_EMBEDDED}", "must not be used inside of resource meta")


def _additional(node: Node, path: str, place: _Place) -> Iterator[FieldError]:
    additional = node.get("additionalProperties")
    if additional is None:
        return
    if node.get("properties") and additional is not True:
        yield forbidden(f"{path}.additionalProperties", "additionalProperties and properties are mutual exclusive")
    if isinstance(additional, dict):
        reason = "inside additionalProperties applying to object metadata"
        inside = replace(place, no_defaults=reason) if place.in_metadata else place
        yield from _errors(additional, f"{path}.additionalProperties", inside)


def _maps(node: Node, path: str) -> Iterator[FieldError]:
    granularity = node.get(_MAP)
    if granularity is None:
        return
    yield from _type_must_be("object", node, path, _MAP)
    if granularity not in ("atomic", "granular"):
        yield not_supported(f"{path}.{_MAP}", granularity, ("atomic", "granular"))


def _type_must_be(wanted: str, node: Node, path: str, keyword: str) -> Iterator[FieldError]:
    kind = node.get("type") or ""
    if kind != wanted:
        detail = f"must be {wanted} if {keyword} is specified"
        yield invalid(f"{path}.type", kind, detail) if kind else required(f"{path}.type", detail)


def _lists(node: Node, path: str) -> Iterator[FieldError]:
    kind, keys = node.get(_LIST), node.get(_KEYS) or []
    items = node.get("items") if isinstance(node.get("items"), dict) else None
    if kind is not None:
        yield from _type_must_be("array", node, path, _LIST)
        if node.get("type") == "array" and kind == "set" and items is not None:
            yield from _set_items(items, path)
        if kind not in ("atomic", "set", "map"):
            yield not_supported(f"{path}.{_LIST}", kind, ("atomic", "set", "map"))
    if keys and kind is None:
        yield required(f"{path}.{_LIST}", f"must be map if {_KEYS} is non-empty")
    elif keys and kind != "map":
        yield invalid(f"{path}.{_LIST}", kind, f"must be map if {_KEYS} is non-empty")
    if kind == "map":
        yield from _keyed(node, items, keys, path)
    if kind in ("set", "map") and items is not None:
        yield from _items_and_keys(items, keys if kind == "map" else [], str(kind), path)


def _set_items(items: Node, path: str) -> Iterator[FieldError]:
    detail = "must be atomic as item of a list with x-kubernetes-list-type=set"
    if items.get("type") == "array" and items.get(_LIST) not in (None, "atomic"):
        yield invalid(f"{path}.items.{_LIST}", items[_LIST], detail)
    if items.get("type") == "object" and items.get(_MAP) != "atomic":
        yield invalid(f"{path}.items.{_MAP}", items.get(_LIST), detail)


def _keyed(node: Node, items: Node | None, keys: list[str], path: str) -> Iterator[FieldError]:
    if not keys:
        yield required(f"{path}.{_KEYS}", f"must not be empty if {_LIST} is map")
    if items is None:
        if node.get("items") is None:
            yield required(f"{path}.items", f"must have a schema if {_LIST} is map")
        return
    if items.get("type") != "object":
        yield invalid(f"{path}.items.type", items.get("type", ""), f"must be object if parent array's {_LIST} is map")
        return
    for position, key in enumerate(keys):
        described = (items.get("properties") or {}).get(key)
        if described is None:
            yield invalid(f"{path}.{_KEYS}", keys, "entries must all be names of item properties")
        elif described.get("type") in ("array", "object"):
            detail = f"must be a scalar type if parent array's {_LIST} is map"
            yield invalid(f"{path}.items.properties[{key}].type", items["type"], detail)
        if key in keys[:position]:
            yield invalid(f"{path}.{_KEYS}", keys, "must not contain duplicate entries")


def _items_and_keys(items: Node, keys: list[str], kind: str, path: str) -> Iterator[FieldError]:
    if items.get("nullable"):
        yield forbidden(f"{path}.items.nullable", f"cannot be nullable when {_LIST} is {kind}")
    for key in keys:
        described = (items.get("properties") or {}).get(key)
        if described is None:
            continue
        place = f"{path}.items.properties[{key}]"
        if key not in (items.get("required") or ()) and described.get("default") is None:
            detail = f"this property is in {_KEYS}, so it must have a default or be a required property"
            yield required(f"{place}.default", detail)
        if described.get("nullable"):
            yield forbidden(f"{place}.nullable", f"this property is in {_KEYS}, so it cannot be nullable")
