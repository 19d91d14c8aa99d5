"""How a schema divides a value into fields that can be owned one by one.

A Schema says what is valid; a Shape keeps only what field ownership needs: where a map or a list is one unit ("atomic") and where
its parts have owners of their own. Shapes are made lazily from schemas and kept, so that the hot paths meet plain attributes.
"""

from __future__ import annotations

from functools import cache, lru_cache
from typing import Any

import orjson

from sliceworks.schemas.builtins import OBJECT_META, catalogue
from sliceworks.schemas.decode import decode
from sliceworks.schemas.model import Schema, build

UNIT = 0  # a scalar, or a map or list that is owned as a whole
MAP = 1  # fields or keys have owners of their own
KEYED = 2  # a list of maps: items are told apart by their keys
SET = 3  # a list of scalars: items are told apart by their values

_RAW = "io.k8s.apimachinery.pkg.runtime.RawExtension"
_QUANTITY = "io.k8s.apimachinery.pkg.api.resource.Quantity"


Layout = tuple[dict[str, Any], list[tuple[str, str, "Shape"]]]


class Unkeyed(Exception):
    """An item of a list that cannot be told apart from the others."""


class Shape:
    """One place in a schema.

    `fields[name]` is `("f:name", Shape)` for every name, declared or not; `names` are the declared ones. `zeros` is what Go shows
    for fields that were never set (None where values are plain JSON and an absent field is just absent). `element` is the shape of
    items and of undeclared fields; a `closed` map has none. `form` is the JSON type that a value must have ("" for any).
    `layouts` remembers, for maps that came with certain keys, what they look like as sets of fields.
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
                return f'k:{{"{name}":{quoted(value)}}}'
        if type(item) is not dict:
            raise Unkeyed(f"associative list with keys may not have {'a null element' if item is None else 'non-map elements'}")
        found = {name: item.get(name, default) for name, default in self.keys if name in item or default is not None}
        if not found:
            listed = " ".join(f'"{name}"' for name, _ in self.keys)
            raise Unkeyed(
                f"associative list with keys has an element that omits all key fields [{listed}]"
                " (and doesn't have default values for any key fields)"
            )
        return "k:" + compact(found)


class _Fields(dict[str, tuple[str, Shape]]):
    """The fields of a shape, made when first asked for. Names that are not declared have the shape of additional ones."""

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
        found = self[name] = "f:" + name, _shape(schema, preserve=self.preserve, typed=self.typed)
        return found


def _scalar_label(item: Any) -> str:
    if item is None:
        raise Unkeyed("associative list without keys has an element that's an explicit null")
    if type(item) is dict:
        raise Unkeyed("associative list without keys has an element that's a map type")
    if type(item) is list:
        raise Unkeyed("not supported: associative list with lists as elements")
    return quoted(item) if type(item) is str else compact(item)


def compact(value: Any) -> str:
    """JSON as Go writes it: keys in order, `<`, `>` and `&` escaped."""
    text = orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()
    if "<" in text or ">" in text or "&" in text:
        text = text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
    return text


@lru_cache(maxsize=8192)
def quoted(text: str) -> str:
    """A string as Go writes it in JSON. Names of items come again and again."""
    return compact(text)


# Untyped values show their own form: maps are divided, lists and scalars are units.
DEDUCED = Shape(MAP)
DEDUCED.element = DEDUCED

_ANYTHING = Shape(UNIT)
_SCALAR = Shape(UNIT, form="scalar")


@lru_cache(maxsize=1024)
def shape_of(schema: Schema) -> Shape:
    """The shape of a whole object. Objects of built-in kinds (whose schema has a name) are seen as Go structs are."""
    shape = _shape(schema, preserve=False, typed=bool(schema.name))
    if not schema.name:
        shape.names = {**shape.names, **_envelope()}
    return shape


@cache
def _envelope() -> dict[str, Schema]:
    """What every custom resource has, whatever its schema says."""
    text = build({"type": "string"})
    return {"apiVersion": text, "kind": text, "metadata": catalogue().component(OBJECT_META)}


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
    return Shape(UNIT, form=schema.type) if plain else _SCALAR


def _map_shape(schema: Schema, *, preserve: bool, typed: bool) -> Shape:
    shape = Shape(UNIT if schema.map_type == "atomic" else MAP, form="map")
    shape.names = {**schema.properties, **_envelope()} if schema.embedded_resource else schema.properties
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
    """Kinds that never named a list type are divided as their patch strategy divides them."""
    match schema.list_type:
        case "map":
            return KEYED, schema.list_map_keys
        case "set":
            return SET, ()
        case None if "merge" in schema.patch_strategy:
            return (KEYED, (schema.patch_merge_key,)) if schema.patch_merge_key else (SET, ())
        case _:
            return UNIT, ()


def _default(schema: Schema | None) -> Any:
    default = getattr(schema, "default", None)
    return orjson.loads(default) if isinstance(default, bytes) else None
