"""Decode built-in objects as Go does: check types, drop unknown fields, fill zero values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.schemas import golang
from sliceworks.schemas.golang import TypeMismatch, mismatch

if TYPE_CHECKING:
    from collections.abc import Callable

    from sliceworks.schemas.model import Decoder, Schema

    Field = tuple[type | None, bool, Decoder | None, str, str]
    Zero = Callable[[], Any]

_CLASSES: dict[str | None, type] = {"string": str, "integer": int, "boolean": bool, "array": list, "object": dict}
_LIMITS = {"int32": golang.INT32, "int64": golang.INT64}


def _string_list_reader(go_type: str, expected: str) -> Decoder:
    """Build a reader of `[]string`; `null` items become empty strings."""

    def read(value: Any, unknown: list[str]) -> Any:
        if value.__class__ is not list:
            raise mismatch(value, go_type)
        for index, item in enumerate(value):
            if item.__class__ is not str:
                if item is not None:
                    raise mismatch(item, expected)
                value[index] = ""
        return value

    return read


def _string_map_reader(go_type: str, expected: str) -> Decoder:
    """Build a reader of `map[string]string`; `null` values become empty strings."""

    def read(value: Any, unknown: list[str]) -> Any:
        if value.__class__ is not dict:
            raise mismatch(value, go_type)
        for key, item in value.items():
            if item.__class__ is not str:
                if item is not None:
                    raise mismatch(item, expected)
                value[key] = ""
        return value

    return read


def _scalar_reader(schema: Schema, go_type: str) -> Decoder:
    """Build a reader of a scalar."""
    if schema.format == "byte":
        return lambda value, unknown: golang.read_bytes(value)
    if schema.type == "integer":
        limits, integer_type = _LIMITS.get(schema.format or "", golang.INT64), go_type or schema.format or "int64"
        return lambda value, unknown: golang.read_integer(value, limits, integer_type)
    if schema.type == "number":
        return lambda value, unknown: _number(value)
    expected = _CLASSES.get(schema.type)

    def read(value: Any, unknown: list[str]) -> Any:
        if expected is not None and value.__class__ is not expected:
            raise mismatch(value, go_type or "string")
        return value

    return read


def _number(value: Any) -> Any:
    if value.__class__ is bool or not isinstance(value, int | float):
        raise mismatch(value, "float64")
    return value


def _read_any(value: Any, unknown: list[str]) -> Any:
    """Read a value of any type, unchanged."""
    return value


def _reader_from(read_value: Callable[[Any], Any]) -> Callable[[Schema], Decoder]:
    """Build a reader from a function that takes only the value."""

    def make(_: Schema) -> Decoder:
        return lambda value, unknown: read_value(value)

    return make


_META = "io.k8s.apimachinery.pkg.apis.meta.v1."
_CRD = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1."


def decode(schema: Schema, value: Any, unknown: list[str]) -> Any:
    """Decode in place and return the value. Appends the paths of unknown fields; raises TypeMismatch for a wrong type."""
    return (schema.decoder or _decoder_of(schema))(value, unknown)


def _decoder_of(schema: Schema, go_type: str = "") -> Decoder:
    """The compiled decoder of a schema, cached on it."""
    if schema.decoder is not None:
        return schema.decoder
    decoder = _SPECIAL[schema.name](schema) if schema.name in _SPECIAL else _ordinary(schema, go_type)
    if schema.name:
        schema.decoder = decoder
    return decoder


def _ordinary(schema: Schema, go_type: str) -> Decoder:
    if schema.type == "object" and (schema.go or schema.name):
        return _struct(schema)
    if schema.type == "object":
        return _map(schema, go_type)
    if schema.type == "array":
        return _list(schema, go_type)
    return _scalar_reader(schema, go_type)


def _struct(schema: Schema) -> Decoder:
    name = schema.name.rpartition(".")[2]
    fields: dict[str, Field] = {}
    always: list[tuple[str, Zero]] = []
    get = fields.get

    def read(value: Any, unknown: list[str]) -> Any:
        if not fields and schema.go:
            _compile_fields(schema, fields, always)
        if value.__class__ is not dict:
            raise mismatch(value, "v1." + name)
        dropped: list[str] | None = None
        for key, item in value.items():
            field = get(key)
            if field is None:
                unknown.append(key)
                dropped = [*dropped, key] if dropped else [key]
                continue
            expected, omit, below, label, go_type = field
            if item.__class__ is expected or (expected is None and item is not None):
                if below is not None:
                    count = len(unknown)
                    try:
                        new = below(item, unknown)
                    except TypeMismatch as error:
                        error.within(name, label)
                        raise
                    if len(unknown) != count:
                        prefix_paths(unknown, count, key)
                    if new is not item:
                        value[key] = new
                    if new or not omit:
                        continue
                elif item or not omit:
                    continue
            elif item is not None:
                raise _wrong(item, expected, go_type, name, label)
            dropped = [*dropped, key] if dropped else [key]
        if dropped:
            for key in dropped:
                del value[key]
        for key, zero in always:
            if key not in value:
                value[key] = zero()
        return value

    return read


def _wrong(value: Any, expected: type | None, go_type: str, struct: str, label: str) -> TypeMismatch:
    fraction = expected is int and value.__class__ is float
    error = TypeMismatch(f"number {value}", go_type) if fraction else mismatch(value, go_type)
    error.within(struct, label)
    return error


def prefix_paths(unknown: list[str], start: int, key: str) -> None:
    """Prefix the paths from index `start` with a key or an index in brackets."""
    for index in range(start, len(unknown)):
        below = unknown[index]
        unknown[index] = f"{key}{below}" if below[:1] == "[" else f"{key}.{below}"


def _compile_fields(schema: Schema, fields: dict[str, Field], always: list[tuple[str, Zero]]) -> None:
    """Fill both at once, when they are complete: several threads may decode by one schema."""
    compiled: dict[str, Field] = {}
    zeros: list[tuple[str, Zero]] = []
    for key, child in schema.properties.items():
        flags, go_type, *embedded = schema.go.get(key, "o ?").split(" ")
        label = f"{embedded[0]}.{key}" if embedded and embedded[0] != "TypeMeta" else key
        special = child.name in _SPECIAL
        below = (
            None if child.type in ("string", "boolean") and not special and child.format != "byte" else _decoder_of(child, go_type)
        )
        reads_itself = special or child.type == "number" or child.format == "byte"
        omit_empty = ("p" not in flags and "s" not in flags) or ("p" not in flags and child.int_or_string)
        if "o" not in flags and child.type not in ("array", "object"):
            omit_empty = omit_empty and child.int_or_string
        compiled[key] = (None if reads_itself else _CLASSES.get(child.type), omit_empty, below, label, go_type)
        zero = _zero(child, flags, go_type)
        if zero is not None:
            zeros.append((key, zero))
    always[:] = zeros
    fields.update(compiled)


def _zero(child: Schema, flags: str, go_type: str) -> Zero | None:
    """The zero value that Go writes for an unset field, or None if Go omits it."""
    if "z" in flags or child.int_or_string:
        return None
    if "s" in flags:
        if child.name in _STRUCT_ZEROS:
            return _STRUCT_ZEROS[child.name]
        return lambda: decode(child, {}, [])
    if "o" in flags:
        return None
    if "p" in flags or go_type.startswith(("[]", "map[")):
        return _nothing
    return {"string": str, "integer": int, "boolean": bool}.get(child.type or "", _nothing)


def _nothing() -> None:
    return None


def _list(schema: Schema, go_type: str) -> Decoder:
    element = schema.items
    below_type = go_type.removeprefix("[]") if go_type.startswith("[]") else ""
    if element is None:
        return _read_any
    if element.type == "string" and not element.name and element.format is None:
        return _string_list_reader(go_type, below_type or "string")
    below = _decoder_of(element, below_type)
    struct = element.type == "object" and bool(element.name)

    def read(value: Any, unknown: list[str]) -> Any:
        if value.__class__ is not list:
            raise mismatch(value, go_type)
        for index, item in enumerate(value):
            if struct and item is not None and item.__class__ is not dict:
                raise mismatch(item, below_type)
            count = len(unknown)
            new = below(_empty(element) if item is None else item, unknown)
            if len(unknown) != count:
                prefix_paths(unknown, count, f"[{index}]")
            if new is not item:
                value[index] = new
        return value

    return read


def _map(schema: Schema, go_type: str) -> Decoder:
    element = schema.additional
    below_type = go_type.partition("]")[2]
    if element is None:
        return _read_any
    if element.type == "string" and not element.name and element.format is None:
        return _string_map_reader(go_type, below_type or "string")
    below = _decoder_of(element, below_type)

    def read(value: Any, unknown: list[str]) -> Any:
        if value.__class__ is not dict:
            raise mismatch(value, go_type)
        for key, item in value.items():
            count = len(unknown)
            new = below(_empty(element) if item is None else item, unknown)
            if len(unknown) != count:
                prefix_paths(unknown, count, key)
            if new is not item:
                value[key] = new
        return value

    return read


def _empty(element: Schema) -> Any:
    """The zero value that Go decodes `null` into, in a list or map."""
    if element.name in _SPECIAL:
        return None
    return {"string": "", "integer": 0, "boolean": False, "number": 0, "array": []}.get(element.type or "", {})


def _props_or_bool(schema: Schema) -> Decoder:
    def read(value: Any, unknown: list[str]) -> Any:
        if value.__class__ is bool:
            return value
        if value.__class__ is not dict:
            raise TypeMismatch("", "", "boolean or JSON schema expected")
        return decode(_props(schema), value, [])

    return read


def _props_or_array(schema: Schema) -> Decoder:
    def read(value: Any, unknown: list[str]) -> Any:
        if value.__class__ is dict:
            return decode(_props(schema), value, [])
        return [decode(_props(schema), item, []) for item in value] if value.__class__ is list else None

    return read


def _props(schema: Schema) -> Schema:
    if schema._resolve is None:
        raise ValueError("a schema of schemas needs its components")
    return schema._resolve(_CRD + "JSONSchemaProps")


_SPECIAL: dict[str, Callable[[Schema], Decoder]] = {
    _META + "Time": _reader_from(golang.read_time),
    _META + "MicroTime": _reader_from(golang.read_micro_time),
    _META + "FieldsV1": lambda _: _read_any,
    "io.k8s.apimachinery.pkg.api.resource.Quantity": _reader_from(golang.read_quantity),
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": _reader_from(golang.read_int_or_string),
    "io.k8s.apimachinery.pkg.runtime.RawExtension": lambda _: _read_any,
    _CRD + "JSON": lambda _: _read_any,
    _CRD + "JSONSchemaPropsOrBool": _props_or_bool,
    _CRD + "JSONSchemaPropsOrArray": _props_or_array,
    _CRD + "JSONSchemaPropsOrStringArray": lambda _: _read_any,
}

_STRUCT_ZEROS: dict[str, Zero] = {
    _META + "Time": _nothing,
    _META + "MicroTime": _nothing,
    "io.k8s.apimachinery.pkg.runtime.RawExtension": _nothing,
    "io.k8s.apimachinery.pkg.api.resource.Quantity": lambda: "0",
}
