"""How a schema divides values into fields that can be owned, and whether an applied value fits."""

from __future__ import annotations

from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

import orjson

from sliceworks.base.errors import BadRequest
from sliceworks.schemas.builtins import OBJECT_META, builtin_scheme
from sliceworks.schemas.decoder import decode
from sliceworks.schemas.golang import encode_json
from sliceworks.schemas.model import Schema, build
from sliceworks.twin.apiserver.fieldmanager.fieldpath import format_path_element

if TYPE_CHECKING:
    from collections.abc import Iterator

ATOMIC = 0  # a scalar, or an atomic map or list
MAP = 1  # a map whose fields or keys are owned separately
KEYED = 2  # a list of maps, identified by their keys
SET = 3  # a list of scalars, identified by their values
_RAW = "io.k8s.apimachinery.pkg.runtime.RawExtension"
_QUANTITY = "io.k8s.apimachinery.pkg.api.resource.Quantity"
Layout = tuple[dict[str, Any], list[tuple[str, str, "Shape"]]]


class MissingKeyError(Exception):
    """A list item without its key fields."""


class Shape:
    """The ownership structure of a schema node.

    `fields[name]` is `("f:name", Shape)` for every name, declared or not; `names` are the declared ones. `zeros` is what Go shows
    for unset fields (None for untyped JSON, where an absent field has no value). `element` is the shape of
    items and of undeclared fields; a `closed` map has none. `form` is the JSON type that a value must have ("" for any).
    `layouts` caches field set nodes of maps by their keys.
    """

    __slots__ = ("closed", "element", "fields", "form", "keys", "kind", "layouts", "names", "zeros")

    def __init__(self, kind: int, *, form: str = "") -> None:
        self.kind = kind
        self.form = form
        self.names: dict[str, Schema] = {}
        self.fields: _Fields = _Fields(self, preserve=False, typed=False)
        self.element: Shape | None = None
        self.keys: tuple[tuple[str, Any], ...] = ()
        self.zeros: dict[str, Any] | None = None
        self.closed = False
        self.layouts: dict[tuple[str, ...], Layout] = {}

    def label(self, item: Any) -> str:
        """The path element of an item of this list: `k:{"name":"x"}` or `v:"x"`."""
        if self.kind == SET:
            return "v:" + _scalar_label(item)
        if type(item) is dict and len(self.keys) == 1:
            name, default = self.keys[0]
            value = item.get(name, default)
            if type(value) is str:
                return f'k:{{"{name}":{quote_json(value)}}}'
        if type(item) is not dict:
            raise MissingKeyError(
                f"associative list with keys may not have {'a null element' if item is None else 'non-map elements'}"
            )
        keys = {name: item.get(name, default) for name, default in self.keys if name in item or default is not None}
        if not keys:
            listed = " ".join(f'"{name}"' for name, _ in self.keys)
            raise MissingKeyError(
                f"associative list with keys has an element that omits all key fields [{listed}]"
                " (and doesn't have default values for any key fields)"
            )
        return "k:" + encode_json(keys)


class _Fields(dict[str, tuple[str, Shape]]):
    """The fields of a shape, built on first access. Undeclared names have the shape of additional properties."""

    __slots__ = ("preserve", "shape", "typed")

    def __init__(self, shape: Shape, *, preserve: bool, typed: bool) -> None:
        super().__init__()
        self.shape = shape
        self.preserve = preserve
        self.typed = typed

    def __missing__(self, name: str) -> tuple[str, Shape]:
        schema = self.shape.names.get(name)
        if schema is None:
            return "f:" + name, self.shape.element or DEDUCED
        result = self[name] = "f:" + name, _shape(schema, preserve=self.preserve, typed=self.typed)
        return result


def _scalar_label(item: Any) -> str:
    if item is None:
        raise MissingKeyError("associative list without keys has an element that's an explicit null")
    if type(item) is dict:
        raise MissingKeyError("associative list without keys has an element that's a map type")
    if type(item) is list:
        raise MissingKeyError("not supported: associative list with lists as elements")
    return quote_json(item) if type(item) is str else encode_json(item)


@lru_cache(maxsize=8192)
def quote_json(text: str) -> str:
    """A string as Go encodes it in JSON. Cached, since item names repeat."""
    return encode_json(text)


# Untyped values: maps are divided into fields, lists and scalars are atomic.
DEDUCED = Shape(MAP)
DEDUCED.element = DEDUCED
_ANYTHING = Shape(ATOMIC)
_SCALAR = Shape(ATOMIC, form="scalar")


@lru_cache(maxsize=1024)
def shape_of(schema: Schema) -> Shape:
    """The shape of an object. Built-in kinds (whose schema has a name) are treated as Go structs."""
    shape = _shape(schema, preserve=False, typed=bool(schema.name))
    if not schema.name:
        shape.names = {**shape.names, **envelope()}
    return shape


@cache
def envelope() -> dict[str, Schema]:
    """The schema with the type and metadata fields of every custom resource."""
    string = build({"type": "string"})
    return {"apiVersion": string, "kind": string, "metadata": builtin_scheme().component(OBJECT_META)}


def _shape(schema: Schema, *, preserve: bool, typed: bool) -> Shape:
    preserve = preserve or bool(schema.preserve_unknown)
    if schema.name == _QUANTITY:
        return _SCALAR
    if schema.name == _RAW or schema.int_or_string:
        return _ANYTHING
    if schema.type == "array":
        return _list_shape(schema, preserve=preserve, typed=typed)
    if schema.type == "object":
        return _map_shape(schema, preserve=preserve, typed=typed)
    if not schema.type:
        return DEDUCED
    plain = schema.type != "string" or schema.format in (None, "", "byte")
    return Shape(ATOMIC, form=schema.type) if plain else _SCALAR


def _map_shape(schema: Schema, *, preserve: bool, typed: bool) -> Shape:
    shape = Shape(ATOMIC if schema.map_type == "atomic" else MAP, form="map")
    shape.names = {**schema.properties, **envelope()} if schema.embedded_resource else schema.properties
    shape.fields = _Fields(shape, preserve=preserve, typed=typed)
    if schema.additional is not None:
        shape.element = _shape(schema.additional, preserve=preserve, typed=typed)
    elif preserve or not schema.properties:
        shape.element = DEDUCED
    else:
        shape.closed = True
    if typed:
        shape.zeros = decode(schema, {}, []) if schema.go else {}
    return shape


def _list_shape(schema: Schema, *, preserve: bool, typed: bool) -> Shape:
    kind, keys = _list_kind(schema)
    shape = Shape(kind, form="list")
    if schema.items is not None:
        shape.element = _shape(schema.items, preserve=preserve, typed=typed)
        shape.keys = tuple((key, _default(schema.items.properties.get(key))) for key in keys)
    return shape


def _list_kind(schema: Schema) -> tuple[int, tuple[str, ...]]:
    """The list type; a list without a declared type is divided by its patch strategy."""
    match schema.list_type:
        case "map":
            return KEYED, schema.list_map_keys
        case "set":
            return SET, ()
        case None if "merge" in schema.patch_strategy:
            return (KEYED, (schema.patch_merge_key,)) if schema.patch_merge_key else (SET, ())
        case _:
            return ATOMIC, ()


def _default(schema: Schema | None) -> Any:
    default = getattr(schema, "default", None)
    return orjson.loads(default) if isinstance(default, bytes) else None


GO_TYPES = {str: "string", bool: "bool", int: "int64", float: "float64", dict: "map[string]interface {}", list: "[]interface {}"}

_FORMS: dict[str, frozenset[type]] = {
    "string": frozenset((str,)),
    "integer": frozenset((int, float)),
    "number": frozenset((int, float)),
    "boolean": frozenset((bool,)),
    "scalar": frozenset((str, int, float, bool)),
}


def check_applied(applied: dict[str, Any], shape: Shape, api_version: str, kind: str) -> None:
    """Reject an applied object of another kind, with managedFields, or with values of wrong types."""
    named = str(applied.get("apiVersion") or ""), str(applied.get("kind") or "")
    if named != (api_version, kind or named[1]):
        group, _, version = named[0].rpartition("/")
        raise BadRequest(f"invalid object type: {group}/{version}, Kind={named[1]}")
    metadata = applied.get("metadata")
    if isinstance(metadata, dict) and metadata.get("managedFields") is not None:
        raise BadRequest("metadata.managedFields must be nil")
    if not has_type(shape, applied):
        problems = list(type_errors(shape, applied))
        listed = problems[0] if len(problems) == 1 else "\n  ".join(["errors:", *problems])
        raise BadRequest(f"failed to create typed patch object ({_describe(applied)}): {listed}")


def _describe(applied: dict[str, Any]) -> str:
    metadata = applied.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    group, _, version = str(applied["apiVersion"]).rpartition("/")
    return f"{metadata.get('namespace') or ''}/{metadata.get('name') or ''}; {group}/{version}, Kind={applied['kind']}"


def has_type(shape: Shape, value: Any) -> bool:
    """Whether a value and all its children have the types that the shape requires."""
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
        if item.__class__ not in kinds if kinds is not None and item is not None else not has_type(sub, item):
            return False
    return True


def _list_fits(shape: Shape, items: list[Any]) -> bool:
    if shape.kind in (KEYED, SET):
        try:
            if len({shape.label(item) for item in items}) < len(items):
                return False
        except MissingKeyError:
            return False
    return shape.element is None or all(has_type(shape.element, item) for item in items)


def type_errors(shape: Shape, value: Any, path: str = "") -> Iterator[str]:
    """Errors of all values that do not have the type that the shape requires."""
    form = shape.form
    if value is None or not form:
        return
    if form == "map" and type(value) is dict:
        yield from _map_errors(shape, value, path)
    elif form == "list" and type(value) is list:
        yield from _list_errors(shape, value, path)
    elif problem := _type_problem(form, value):
        yield _format_error(path, problem)


def _map_errors(shape: Shape, value: dict[str, Any], path: str) -> Iterator[str]:
    for key in sorted(value):
        if shape.closed and key not in shape.names:
            yield _format_error(f"{path}.{key}", "field not declared in schema")
            return
        yield from type_errors(shape.fields[key][1], value[key], f"{path}.{key}")


def _list_errors(shape: Shape, items: list[Any], path: str) -> Iterator[str]:
    seen: set[str] = set()
    for index, item in enumerate(items):
        place = f"[{index}]"
        if shape.kind in (KEYED, SET):
            try:
                label = shape.label(item)
            except MissingKeyError as problem:
                yield _format_error(path, f"element {index}: {problem}")
                return
            place = format_path_element(label)
            if label in seen:
                yield _format_error(path, f"duplicate entries for key {place}")
            seen.add(label)
        if shape.element is not None:
            yield from type_errors(shape.element, item, path + place)


def _type_problem(form: str, value: Any) -> str:
    kind = type(value)
    if form in ("map", "list"):
        return f"expected {form}, got &{{{format_go_value(value)}}}"
    if form in ("integer", "number"):
        return "" if kind in (int, float) else f"expected numeric (int or float), got {GO_TYPES[kind]}"
    if form == "string":
        return (
            "" if kind is str else f"expected string, got &value.valueUnstructured{{Value:{format_go_value(value, quoted=True)}}}"
        )
    if form == "boolean":
        return "" if kind is bool else f"expected boolean, got &{{{format_go_value(value)}}}"
    return "" if kind not in (dict, list) else f"expected any scalar, got &{{{format_go_value(value)}}}"


def _format_error(path: str, problem: str) -> str:
    return f"{path}: {problem}" if path else problem


def format_go_value(value: Any, *, quoted: bool = False) -> str:
    """A value as Go prints it."""
    if value is None:
        return "<nil>"
    if value is True or value is False:
        return "true" if value else "false"
    if isinstance(value, dict):
        return "map[" + " ".join(f"{key}:{format_go_value(item)}" for key, item in sorted(value.items())) + "]"
    if isinstance(value, list):
        return "[" + " ".join(format_go_value(item) for item in value) + "]"
    return f'"{value}"' if quoted and isinstance(value, str) else str(value)
