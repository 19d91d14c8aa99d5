"""Generates the reference page of a document from its pydantic models: every field with type, default and description."""

from __future__ import annotations

import types
import typing
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from sliceworks.specs import common

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pydantic.fields import FieldInfo

TypeNames = typing.Sequence[tuple[Any, str]]
"""Display names of annotated types."""
_COMMON_TYPES = [
    (common.Positive, "number, 1 or more"),
    (common.Natural, "number, 0 or more"),
    (common.Ratio, "number, 0 to 1"),
    (common.Amount, "quantity, such as `500m` or `2Gi`"),
    (common.Seconds, "duration, such as `90s` or `1h30m`"),
    (common.Timestamp, "time, such as `2026-11-16T08:00:00Z`"),
    (common.Name, "name"),
    (common.Variable, "variable name"),
]
_FIELDS = "fields"
_PLAIN: dict[Any, str] = {str: "string", bool: "true or false", int: "number", float: "number", type(None): "none"}


def page(opening: str, spec: type[BaseModel], type_names: Sequence[tuple[Any, str]]) -> str:
    """Return the page of a document with this spec model; `type_names` are the display names of the document's own types."""
    all_names = [*type_names, *_COMMON_TYPES]
    return "\n".join([opening, *(_section(path, model, all_names) for path, model in _models("spec", spec))])


def _models(path: str, model: type[BaseModel]) -> Iterator[tuple[str, type[BaseModel]]]:
    """Yield a model and its nested models, each with its path."""
    yield path, model
    for name, field in model.model_fields.items():
        for child, keyed in _nested(_whole(field)):
            yield from _models(f"{path}.{field.alias or name}{keyed}", child)


def _nested(kind: Any, keyed: str = "") -> Iterator[tuple[type[BaseModel], str]]:
    """Yield the models inside a type, with their path suffix."""
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        yield kind, keyed
        return
    origin = typing.get_origin(kind)
    within = ".NAME" if origin is dict else "[]" if origin is list else ""
    for part in typing.get_args(kind) if origin is not Literal else ():
        yield from _nested(part, keyed + within)


def _section(path: str, model: type[BaseModel], type_names: TypeNames) -> str:
    rows = "".join(_row(path, field.alias or name, field, type_names) for name, field in model.model_fields.items())
    doc = " ".join((model.__doc__ or "").split())
    return f"## `{path}`\n\n{doc}\n\n| field | type | default | description |\n| --- | --- | --- | --- |\n{rows}"


def _row(path: str, name: str, field: FieldInfo, type_names: TypeNames) -> str:
    kind = _type(_whole(field), type_names)
    for _child, keyed in _nested(_whole(field)):
        kind = kind.replace(_FIELDS, f"[fields](#{_anchor(f'{path}.{name}{keyed}')})")
    return f"| `{name}` | {kind} | {_default(field)} | {field.description or ''} |\n"


def _anchor(path: str) -> str:
    return "".join(letter for letter in path.lower() if letter.isalnum())


def _whole(field: FieldInfo) -> Any:
    """Return a field's type with its pydantic metadata."""
    return typing.Annotated[field.annotation, *field.metadata] if field.metadata else field.annotation


def _type(kind: Any, type_names: TypeNames) -> str:
    name = next((name for known, name in type_names if known == kind), None)
    if name:
        return name
    if kind in _PLAIN:
        return _PLAIN[kind]
    origin, parts = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Annotated:
        return _type(parts[0], type_names)
    if origin is Literal:
        return " or ".join(f"`{part}`" for part in parts)
    if origin is list:
        return f"list of: {_type(parts[0], type_names)}"
    if origin is dict:
        return f"by {_type(parts[0], type_names)}: {_type(parts[1], type_names)}"
    if origin in (typing.Union, types.UnionType):
        return " or ".join(_type(part, type_names) for part in parts if part is not type(None))
    return _FIELDS


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "**required**"
    default = field.get_default(call_default_factory=True, validated_data={})
    if isinstance(default, BaseModel):
        return "see there"
    if default is None or default is PydanticUndefined or default in ("", {}, []):
        return "none"
    if isinstance(default, bool):
        return "true" if default else "false"
    if isinstance(default, dict):
        return ", ".join(f"`{key}`: {value}" for key, value in default.items())
    return ", ".join(f"`{item}`" for item in default) if isinstance(default, list) else f"`{default}`"
