"""The reference of a document, made from its models: every field with its type, default and meaning."""

from __future__ import annotations

import types
import typing
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel
from pydantic_core import PydanticUndefined

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pydantic.fields import FieldInfo

Words = typing.Sequence[tuple[Any, str]]
"""Types that have words of their own."""
_FIELDS = "fields"
_PLAIN: dict[Any, str] = {str: "text", bool: "true or false", int: "number", float: "number", type(None): "nothing"}


def page(opening: str, spec: type[BaseModel], words: Sequence[tuple[Any, str]]) -> str:
    """The page of a document whose fields lie under `spec`."""
    return "\n".join([opening, *(_section(path, model, words) for path, model in _models("spec", spec))])


def _models(path: str, model: type[BaseModel]) -> Iterator[tuple[str, type[BaseModel]]]:
    """A model and those below it, each at the path where it is used first."""
    yield path, model
    for name, field in model.model_fields.items():
        for child, keyed in _nested(_whole(field)):
            yield from _models(f"{path}.{field.alias or name}{keyed}", child)


def _nested(kind: Any, keyed: str = "") -> Iterator[tuple[type[BaseModel], str]]:
    """The models within a type, and how they are reached."""
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        yield kind, keyed
        return
    origin = typing.get_origin(kind)
    within = ".NAME" if origin is dict else "[]" if origin is list else ""
    for part in typing.get_args(kind) if origin is not Literal else ():
        yield from _nested(part, keyed + within)


def _section(path: str, model: type[BaseModel], words: Words) -> str:
    rows = "".join(_row(path, field.alias or name, field, words) for name, field in model.model_fields.items())
    doc = " ".join((model.__doc__ or "").split())
    return f"## `{path}`\n\n{doc}\n\n| field | type | default | |\n| --- | --- | --- | --- |\n{rows}"


def _row(path: str, name: str, field: FieldInfo, words: Words) -> str:
    kind = _type(_whole(field), words)
    for _child, keyed in _nested(_whole(field)):
        kind = kind.replace(_FIELDS, f"[fields](#{_anchor(f'{path}.{name}{keyed}')})")
    return f"| `{name}` | {kind} | {_default(field)} | {field.description or ''} |\n"


def _anchor(path: str) -> str:
    return "".join(letter for letter in path.lower() if letter.isalnum())


def _whole(field: FieldInfo) -> Any:
    """A field's type with the notes that pydantic keeps beside it."""
    return typing.Annotated[field.annotation, *field.metadata] if field.metadata else field.annotation


def _type(kind: Any, words: Words) -> str:
    known = next((each for known, each in words if known == kind), None)
    if known:
        return known
    if kind in _PLAIN:
        return _PLAIN[kind]
    origin, parts = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Annotated:
        return _type(parts[0], words)
    if origin is Literal:
        return " or ".join(f"`{part}`" for part in parts)
    if origin is list:
        return f"list of: {_type(parts[0], words)}"
    if origin is dict:
        return f"by {_type(parts[0], words)}: {_type(parts[1], words)}"
    if origin in (typing.Union, types.UnionType):
        return " or ".join(_type(part, words) for part in parts if part is not type(None))
    return _FIELDS


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "**required**"
    found = field.get_default(call_default_factory=True, validated_data={})
    if isinstance(found, BaseModel):
        return "as there"
    if found is None or found is PydanticUndefined or found in ("", {}, []):
        return "none"
    if isinstance(found, bool):
        return "true" if found else "false"
    if isinstance(found, dict):
        return ", ".join(f"`{key}`: {value}" for key, value in found.items())
    return ", ".join(f"`{each}`" for each in found) if isinstance(found, list) else f"`{found}`"
