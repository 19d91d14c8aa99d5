"""Schemas of CustomResourceDefinitions: allowed keywords, structural form and valid defaults."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import orjson

from sliceworks.schemas import patterns
from sliceworks.schemas.field_errors import FieldError, forbidden, invalid, not_supported, required
from sliceworks.schemas.golang import TypeMismatch
from sliceworks.schemas.model import MISSING
from sliceworks.schemas.pruning import prune_value
from sliceworks.schemas.validation import embedded_errors
from sliceworks.schemas.values import value_errors
from sliceworks.twin.apiserver.codec import deep_copy

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sliceworks.schemas.model import Schema

_META_FIELDS = ("metadata", "apiVersion", "kind")


def default_errors(schema: Schema, path: str, *, root: bool = True) -> Iterator[FieldError]:
    """Errors of the defaults of a node and its children. Defaults inside metadata are not validated."""
    if isinstance(schema.default, bytes) and not root:
        yield from _own(schema, orjson.loads(schema.default), f"{path}.default")
    if schema.items is not None:
        yield from default_errors(schema.items, f"{path}.items", root=False)
    for name, child in schema.properties.items():
        if not child.name and not ((root or schema.embedded_resource) and name in _META_FIELDS):
            yield from default_errors(child, f"{path}.properties[{name}]", root=False)


def _own(schema: Schema, value: Any, path: str) -> Iterator[FieldError]:
    pruned = deep_copy(value)
    unknown: list[str] = []
    try:
        prune_value(schema, pruned, unknown)
    except TypeMismatch as mismatch:
        yield invalid(path, value, str(mismatch))
        return
    if unknown:
        yield invalid(path, value, "must not have unknown fields")
    errors = embedded_errors(schema, value, path)
    if errors:
        yield from errors
        return
    field_errors: list[FieldError] = []
    value_errors(schema, value, "", MISSING, field_errors)
    for error in field_errors:
        yield FieldError(error.reason, f"{path}.{error.path}" if error.path else path, error.value, error.detail)


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
class _Position:
    """Restrictions on a node that follow from its position in the schema."""

    no_defaults: str | None = None
    in_metadata: bool = False


def keyword_errors(root: Node, path: str) -> list[FieldError]:
    """Errors of the keywords of a schema."""
    return list(_errors(root, path, _Position(), root=True))


def uses_unsupported(node: Node) -> bool:
    """Whether the schema uses a keyword that CustomResourceDefinitions do not support."""
    if any(node.get(keyword) for keyword in (*_UNSUPPORTED, "$schema")) or isinstance(node.get("items"), list):
        return True
    if node.get("x-kubernetes-preserve-unknown-fields") is False:
        return True
    below = [node.get(keyword) for keyword in ("items", "additionalProperties", "not")]
    below += [*(node.get("properties") or {}).values()]
    below += [branch for keyword in ("allOf", "oneOf", "anyOf") for branch in node.get(keyword) or ()]
    return any(uses_unsupported(child) for child in below if isinstance(child, dict))


def _errors(node: Node, path: str, child_path: _Position, *, root: bool = False) -> Iterator[FieldError]:
    yield from _single(node, path, child_path)
    if node.get("uniqueItems"):
        detail = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        yield forbidden(f"{path}.uniqueItems", detail)
    yield from _additional(node, path, child_path)
    for name, child in (node.get("properties") or {}).items():
        yield from _errors(child, f"{path}.properties[{name}]", _below(node, name, child_path, root=root))
    if node.get("not") is not None:
        yield from _errors(node["not"], f"{path}.not", child_path)
    for keyword in ("allOf", "oneOf", "anyOf"):
        for index, branch in enumerate(node.get(keyword) or ()):
            yield from _errors(branch, f"{path}.{keyword}[{index}]", child_path)
    if isinstance(node.get("items"), dict):
        yield from _errors(node["items"], f"{path}.items", child_path)
    if node.get("x-kubernetes-preserve-unknown-fields") is False:
        yield invalid(f"{path}.x-kubernetes-preserve-unknown-fields", False, "must be true or undefined")
    yield from _maps(node, path)
    yield from _lists(node, path)


def _below(node: Node, name: str, child_path: _Position, *, root: bool) -> _Position:
    if not (root or node.get(_EMBEDDED)) or name not in ("metadata", "kind", "apiVersion"):
        return child_path
    return replace(child_path, in_metadata=True, no_defaults=f"in top-level {name}" if root else child_path.no_defaults)


def _single(node: Node, path: str, child_path: _Position) -> Iterator[FieldError]:
    kind = node.get("type")
    if kind and kind not in _TYPES:
        yield not_supported(f"{path}.type", kind, _TYPES)
    if node.get("default") is not None and child_path.no_defaults is not None:
        yield forbidden(f"{path}.default", f"must not be set {child_path.no_defaults}".rstrip())
    for keyword in _UNSUPPORTED:
        if node.get(keyword):
            yield forbidden(f"{path}.{keyword}", f"{keyword} is not supported")
    if kind == "null":
        yield forbidden(f"{path}.type", "type cannot be set to null, use nullable as an alternative")
    if isinstance(node.get("items"), list):
        yield forbidden(f"{path}.items", "items must be a schema object and not an array")
    if child_path.in_metadata and node.get(_EMBEDDED):
        yield forbidden(f"{path}.{_EMBEDDED}", "must not be used inside of resource meta")


def _additional(node: Node, path: str, child_path: _Position) -> Iterator[FieldError]:
    additional = node.get("additionalProperties")
    if additional is None:
        return
    if node.get("properties") and additional is not True:
        yield forbidden(f"{path}.additionalProperties", "additionalProperties and properties are mutual exclusive")
    if isinstance(additional, dict):
        reason = "inside additionalProperties applying to object metadata"
        inside = replace(child_path, no_defaults=reason) if child_path.in_metadata else child_path
        yield from _errors(additional, f"{path}.additionalProperties", inside)


def _maps(node: Node, path: str) -> Iterator[FieldError]:
    granularity = node.get(_MAP)
    if granularity is None:
        return
    yield from _type_must_be("object", node, path, _MAP)
    if granularity not in ("atomic", "granular"):
        yield not_supported(f"{path}.{_MAP}", granularity, ("atomic", "granular"))


def _type_must_be(expected: str, node: Node, path: str, keyword: str) -> Iterator[FieldError]:
    kind = node.get("type") or ""
    if kind != expected:
        detail = f"must be {expected} if {keyword} is specified"
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
        child_path = f"{path}.items.properties[{key}]"
        if key not in (items.get("required") or ()) and described.get("default") is None:
            detail = f"this property is in {_KEYS}, so it must have a default or be a required property"
            yield required(f"{child_path}.default", detail)
        if described.get("nullable"):
            yield forbidden(f"{child_path}.nullable", f"this property is in {_KEYS}, so it cannot be nullable")


_ROOT, _ITEM, _FIELD = "at the root", "for specified array items", "for specified object fields"
_INT_OR_STRING: list[Node] = [{"type": "integer"}, {"type": "string"}]

_EMBEDDED_RESOURCE, _KEEP, _EITHER = (
    "x-kubernetes-embedded-resource",
    "x-kubernetes-preserve-unknown-fields",
    "x-kubernetes-int-or-string",
)

# Keyword → the detail of its error, in the order in which upstream reports them.
_ONLY_OUTSIDE = (
    ("default", "must be undefined to be structural"),
    ("title", "must be empty to be structural"),
    ("description", "must be empty to be structural"),
    ("nullable", "must be false to be structural"),
    (_KEEP, "must be false to be structural"),
    (_EMBEDDED_RESOURCE, "must be false to be structural"),
    (_EITHER, "must be false to be structural"),
    ("x-kubernetes-list-map-keys", "must be empty to be structural"),
    ("x-kubernetes-list-type", "must be undefined to be structural"),
    ("x-kubernetes-map-type", "must be undefined to be structural"),
    ("x-kubernetes-validations", "must be empty to be structural"),
)


def structure_errors(root: Node, path: str) -> list[FieldError]:
    """Errors that make a schema non-structural, in upstream's order."""
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
    if node.get(_EITHER) and node.get(_EMBEDDED_RESOURCE):
        yield invalid(f"{path}.{_EMBEDDED_RESOURCE}", True, f"must be false if {_EITHER} is true")
    yield from _value_rules(node, path, skip_any=_is_either(node), skip_first=_is_either((node.get("allOf") or [{}])[0]))
    yield from _type(node, level, path)
    yield from _resource_fields(node, level, path)


def _is_either(node: Node) -> bool:
    return bool(node.get("anyOf") == _INT_OR_STRING)


def _type(node: Node, level: str, path: str) -> Iterator[FieldError]:
    kind = node.get("type") or ""
    if node.get(_EMBEDDED_RESOURCE) and kind != "object":
        detail = f"must be object if {_EMBEDDED_RESOURCE} is true"
        yield invalid(f"{path}.type", kind, detail) if kind else required(f"{path}.type", detail)
    elif not kind and not node.get(_EITHER) and not node.get(_KEEP):
        yield required(f"{path}.type", f"must not be empty {level}")
    if node.get(_EMBEDDED_RESOURCE) and node.get("additionalProperties") is not None:
        yield forbidden(f"{path}.additionalProperties", f"must not be used if {_EMBEDDED_RESOURCE} is set")
    if level is _ROOT and kind and kind != "object":
        yield invalid(f"{path}.type", kind, "must be object at the root")
    if node.get(_EMBEDDED_RESOURCE) and not node.get(_KEEP) and not node.get("properties"):
        yield required(f"{path}.properties", f"must not be empty if {_EMBEDDED_RESOURCE} is true without {_KEEP}")


def _resource_fields(node: Node, level: str, path: str) -> Iterator[FieldError]:
    properties = node.get("properties") or {}
    is_resource = level is _ROOT or bool(node.get(_EMBEDDED_RESOURCE))
    for name in ("kind", "apiVersion") if is_resource else ():
        kind = properties[name].get("type", "") if name in properties else "string"
        if kind != "string":
            yield invalid(f"{path}.properties[{name}].type", kind, "must be string")
    metadata = properties.get("metadata")
    if metadata is None:
        return
    child_path = f"{path}.properties[metadata]"
    if is_resource and metadata.get("type") != "object":
        yield invalid(f"{child_path}.type", metadata.get("type", ""), "must be object")
    if level is _ROOT:
        names = set(metadata.get("properties") or {})
        more = {key for key, value in metadata.items() if value} - {"type", "default", "properties"}
        if more or not names <= {"name", "generateName"}:
            text = "must not specify anything other than name and generateName, but metadata is implicitly specified"
            yield forbidden(child_path, text)


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
            patterns.compile_pattern(node["pattern"])
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


def _completeness(rules: Node, structure: Node, child_path: str, path: str) -> Iterator[FieldError]:
    """Fields mentioned in allOf, anyOf, oneOf or not must also be declared outside of them."""
    if rules.get("not") is not None:
        yield from _covered(rules["not"], structure, child_path, f"{path}.not")
    for keyword in ("allOf", "anyOf", "oneOf"):
        for index, branch in enumerate(rules.get(keyword) or ()):
            yield from _covered(branch, structure, child_path, f"{path}.{keyword}[{index}]")


def _covered(rules: Node, structure: Node | None, child_path: str, path: str) -> Iterator[FieldError]:
    if structure is None:
        yield required(child_path, f"because it is defined in {path}")
        return
    yield from _completeness(rules, structure, child_path, path)
    if isinstance(rules.get("items"), dict):
        items = structure.get("items")
        yield from _covered(rules["items"], items if isinstance(items, dict) else None, f"{child_path}.items", f"{path}.items")
    for name, child in (rules.get("properties") or {}).items():
        below, inside = f"{child_path}.properties[{name}]", f"{path}.properties[{name}]"
        yield from _covered(child, (structure.get("properties") or {}).get(name), below, inside)
