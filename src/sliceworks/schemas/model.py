"""The schema of a value, built from an OpenAPI node, and plans: the nodes of a schema that a pass has to visit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, cast

import orjson

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from sliceworks.schemas.field_errors import FieldError

    Node = dict[str, Any]
    Resolve = Callable[[str], "Schema"]
    Check = Callable[[Any, str], Iterable[FieldError]]
    Defaulter = Callable[[Any], None]
    Decoder = Callable[[Any, list[str]], Any]

# Schema has an attribute `type`, which shadows the built-in in annotations.
Class = type
REFERENCE: Final = "#/components/schemas/"
_LISTS = {"allOf": "all_of", "anyOf": "any_of", "oneOf": "one_of"}
_OF_THE_FIELD = ("x-kubernetes-patch-strategy", "allOf")
_SCALARS: dict[str, type] = {"string": str, "integer": int, "boolean": bool}
_NO_LIMITS = frozenset({"type", "description", "title", "default", "nullable", "example", "externalDocs", "go"})
_LAZY = frozenset({"properties", "additional", "items", "all_of", "any_of", "one_of", "negated"})


class _Missing:
    """The absence of a default, as distinct from the default `null`."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "MISSING"


MISSING: Final = _Missing()


@dataclass(init=False, eq=False, repr=False, slots=True)
class Schema:
    """A schema node. Children (`properties`, `items`, `additional` and the logical branches) are built on first access.

    Lazy children allow recursive types, and unused kinds cost nothing.
    """

    node: Node
    _resolve: Resolve | None
    name: str
    type: str | None
    properties: dict[str, Schema]
    additional: Schema | None
    additional_allowed: bool
    items: Schema | None
    all_of: tuple[Schema, ...]
    any_of: tuple[Schema, ...]
    one_of: tuple[Schema, ...]
    negated: Schema | None
    required: tuple[str, ...]
    nullable: bool
    int_or_string: bool
    preserve_unknown: bool
    embedded_resource: bool
    default: bytes | _Missing
    plain: Class | None
    enum: tuple[Any, ...] | None
    pattern: str | None
    format: str | None
    minimum: float | None
    maximum: float | None
    exclusive_minimum: bool
    exclusive_maximum: bool
    multiple_of: float | None
    min_length: int | None
    max_length: int | None
    min_items: int | None
    max_items: int | None
    unique_items: bool
    min_properties: int | None
    max_properties: int | None
    list_type: str | None
    list_map_keys: tuple[str, ...]
    map_type: str | None
    patch_strategy: frozenset[str]
    patch_merge_key: str | None
    rules: list[Node]
    go: dict[str, str]
    checks: list[Check]
    defaulters: list[Defaulter]
    # Caches of other modules, one slot each, filled on first use.
    decoder: Decoder | None
    planned: dict[str, Any]

    def __init__(self, node: Node, resolve: Resolve | None, name: str) -> None:
        self.node, self._resolve, self.name = node, resolve, name
        self._read_shape(node)
        self._read_limits(node)
        self._read_merging(node)
        self.checks, self.defaulters = [], []
        self.decoder = None
        self.planned = {}

    def _read_shape(self, node: Node) -> None:
        self.type = node.get("type")
        self.format = node.get("format")
        self.required = tuple(node.get("required", ()))
        self.nullable = bool(node.get("nullable"))
        self.int_or_string = bool(node.get("x-kubernetes-int-or-string")) or self.format == "int-or-string"
        self.preserve_unknown = bool(node.get("x-kubernetes-preserve-unknown-fields"))
        self.embedded_resource = bool(node.get("x-kubernetes-embedded-resource"))
        self.default = orjson.dumps(node["default"]) if "default" in node else MISSING
        self.additional_allowed = node.get("additionalProperties") is True
        self.go = {field: child["go"] for field, child in node.get("properties", {}).items() if "go" in child}
        self.rules = node.get("x-kubernetes-validations", [])

    def _read_limits(self, node: Node) -> None:
        # The Python class of an unrestricted scalar: its instances need no further validation.
        self.plain = _SCALARS.get(node.get("type", "")) if node.keys() <= _NO_LIMITS else None
        self.enum = tuple(node["enum"]) if "enum" in node else None
        self.pattern = node.get("pattern")
        self.minimum, self.maximum = node.get("minimum"), node.get("maximum")
        self.exclusive_minimum, self.exclusive_maximum = bool(node.get("exclusiveMinimum")), bool(node.get("exclusiveMaximum"))
        self.multiple_of = node.get("multipleOf")
        self.min_length, self.max_length = node.get("minLength"), node.get("maxLength")
        self.min_items, self.max_items = node.get("minItems"), node.get("maxItems")
        self.unique_items = bool(node.get("uniqueItems"))
        self.min_properties, self.max_properties = node.get("minProperties"), node.get("maxProperties")

    def _read_merging(self, node: Node) -> None:
        self.list_type = node.get("x-kubernetes-list-type")
        self.list_map_keys = tuple(node.get("x-kubernetes-list-map-keys", ()))
        self.map_type = node.get("x-kubernetes-map-type")
        self.patch_strategy = frozenset(filter(None, node.get("x-kubernetes-patch-strategy", "").split(",")))
        self.patch_merge_key = node.get("x-kubernetes-patch-merge-key")

    def __getattr__(self, attribute: str) -> Any:
        # Python calls it only for an empty slot, so access to a built child is a plain attribute read.
        if attribute not in _LAZY:
            raise AttributeError(attribute)
        child = self._child(attribute)
        setattr(self, attribute, child)
        return child

    def _child(self, attribute: str) -> Any:
        node, resolve = self.node, self._resolve
        if attribute == "properties":
            return {field: build(child, resolve) for field, child in node.get("properties", {}).items()}
        if attribute in ("additional", "items", "negated"):
            child = node.get({"additional": "additionalProperties", "negated": "not"}.get(attribute, attribute))
            return build(child, resolve) if isinstance(child, dict) else None
        keyword = next(keyword for keyword, name in _LISTS.items() if name == attribute)
        return tuple(build(child, resolve) for child in node.get(keyword, ()))

    def at(self, path: Iterable[str | int]) -> Schema | None:
        """The schema of a value below this one: field names, keys of maps and list indices lead to it; None if it is unknown."""
        schema: Schema | None = self
        for step in path:
            if schema is None:
                return None
            schema = schema.items if isinstance(step, int) else schema.properties.get(step, schema.additional)
        return schema

    def __repr__(self) -> str:
        return f"Schema({self.name or self.type or 'any'})"


def build(node: Node, resolve: Resolve | None = None, name: str = "") -> Schema:
    """The schema of an OpenAPI node; `resolve` returns the schema of a component by name (and should cache it)."""
    reference = node.get("$ref") or _single_reference(node)
    if reference is None:
        return Schema(node, resolve, name)
    if resolve is None:
        raise ValueError(f"nothing to resolve the reference {reference} with")
    target = resolve(reference.removeprefix(REFERENCE))
    own = {keyword: node[keyword] for keyword in _OF_THE_FIELD if keyword in node} if "$ref" in node else {}
    return _derived(target, own) if own else target


def _single_reference(node: Node) -> str | None:
    branches = node.get("allOf")
    if branches and len(branches) == 1 and "type" not in node:
        return cast("str | None", branches[0].get("$ref"))
    return None


def _derived(target: Schema, own: Node) -> Schema:
    """The component's schema with the keywords that a field sets next to its reference."""
    copy = Schema({**target.node, **own}, target._resolve, target.name)
    copy.checks, copy.defaulters = target.checks, target.defaulters
    return copy


Work = TypeVar("Work")


class Plan(Generic[Work]):
    """The work at one schema node, and the plans of its children."""

    __slots__ = ("fields", "items", "schema", "values", "work")

    def __init__(self, schema: Schema, work: Work | None) -> None:
        self.schema, self.work = schema, work
        self.fields: dict[str, Plan[Work]] = {}
        self.items: Plan[Work] | None = None
        self.values: Plan[Work] | None = None

    def __bool__(self) -> bool:
        return bool(self.work or self.fields or self.items is not None or self.values is not None)


def plan(schema: Schema, topic: str, work_of: Callable[[Schema], Work | None]) -> Plan[Work] | None:
    """The plan of a schema for one topic, or None if it has no work. Cached on the schema, once it is complete."""
    if topic not in schema.planned:
        plans: dict[int, tuple[Schema, Plan[Work] | None]] = {}
        _build_plan(schema, topic, work_of, plans)
        for planned, new_plan in plans.values():
            planned.planned[topic] = new_plan
    result: Plan[Work] | None = schema.planned[topic]
    return result


def _build_plan(
    schema: Schema,
    topic: str,
    work_of: Callable[[Schema], Work | None],
    plans: dict[int, tuple[Schema, Plan[Work] | None]],
) -> Plan[Work] | None:
    if topic in schema.planned:
        result: Plan[Work] | None = schema.planned[topic]
        return result
    if id(schema) in plans:
        return plans[id(schema)][1]
    new_plan = Plan(schema, work_of(schema))
    # A recursive type sees its own unfinished plan here and counts it as work: some needless visits, none missed.
    plans[id(schema)] = schema, new_plan
    for field, child in schema.properties.items():
        below = _build_plan(child, topic, work_of, plans)
        if below is not None:
            new_plan.fields[field] = below
    if schema.items is not None:
        new_plan.items = _build_plan(schema.items, topic, work_of, plans)
    if schema.additional is not None:
        new_plan.values = _build_plan(schema.additional, topic, work_of, plans)
    plans[id(schema)] = schema, new_plan or None
    return new_plan or None
