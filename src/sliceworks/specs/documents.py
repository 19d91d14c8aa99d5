"""Parses YAML documents into typed ones, or lists every problem with file, line, field and the closest known name."""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar, get_args, get_origin

from pydantic import BaseModel, ValidationError

from sliceworks.base.errors import InvalidDocument
from sliceworks.base.names import suggest_name
from sliceworks.specs.common import API_VERSION, GROUP, InvalidFields

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sliceworks.base.yaml_documents import Document


@dataclass(frozen=True, slots=True)
class DocumentProblem:
    """One problem of a document: the path of the field, a message and a hint."""

    path: tuple[str | int, ...]
    message: str
    hint: str = ""

    def to_error(self, document: Document) -> InvalidDocument:
        """The problem as an error with file and line."""
        return InvalidDocument(self.message, place=document.place(*self.path), hint=self.hint)


Kind = TypeVar("Kind", bound=BaseModel)

# The module of each kind, imported on first use: loading all models takes longer than most commands run.
KINDS = {
    "Environment": "sliceworks.specs.environment",
    "Gateway": "sliceworks.specs.gateway",
    "ModelService": "sliceworks.specs.model_service",
    "ImageMap": "sliceworks.specs.image_map",
    "LoadTest": "sliceworks.specs.load_test",
    "Scenario": "sliceworks.specs.scenario",
    "TrainingJob": "sliceworks.specs.training",
}

_MAPPINGS = ("model_type", "model_attributes_type", "dict_type")
_SUBJECT = re.compile(r"^\w+ should ")
"""How pydantic begins most messages: `Input should be a valid integer`."""
_QUOTED = re.compile(r"'([^']*)'")


def is_sliceworks_document(document: Document) -> bool:
    """Whether a document is a Sliceworks document rather than a Kubernetes object."""
    return str(document.data.get("apiVersion", "")).partition("/")[0] == GROUP


def read(document: Document) -> BaseModel:
    """The typed document; raises the InvalidDocument of its first problem, which holds the others."""
    model, problems = check(document)
    if problems:
        raise InvalidDocument.first_of(problems)
    assert model is not None
    return model


def read_as(document: Document, kind: type[Kind]) -> Kind:
    """The typed document; raises InvalidDocument if it is invalid or of another kind."""
    model = read(document)
    if not isinstance(model, kind):
        raise InvalidDocument(f"expected a {kind.__name__}, found {document.data['kind']}", place=document.place("kind"))
    return model


def check(document: Document) -> tuple[BaseModel | None, list[InvalidDocument]]:
    """The typed document, or all its problems."""
    data = document.data
    version, kind = data.get("apiVersion"), data.get("kind")
    if version != API_VERSION:
        actual = f", found {version}" if version else ""
        return None, [InvalidDocument(f"apiVersion must be {API_VERSION}{actual}", place=document.place("apiVersion"))]
    if not kind:
        return None, [InvalidDocument(f"kind is required, one of {', '.join(KINDS)}", place=document.place("kind"))]
    if str(kind) not in KINDS:
        return None, [InvalidDocument(f"unknown kind {kind}{_closest(str(kind), KINDS)}", place=document.place("kind"))]
    model: type[BaseModel] = getattr(import_module(KINDS[str(kind)]), str(kind))
    try:
        return model.model_validate(data), []
    except ValidationError as error:
        # A misspelled field is also a missing one: report unknown fields first.
        unknown_first = sorted(error.errors(), key=lambda item: item["type"] != "extra_forbidden")
        return None, [problem for item in unknown_first for problem in _problems(document, model, item)]


def _problems(document: Document, model: type[BaseModel], error: Any) -> Iterator[InvalidDocument]:
    cause = error["ctx"]["error"] if error["type"] == "value_error" else None
    if not isinstance(cause, InvalidFields):
        yield _problem(document, model, error)
        return
    for below, message in cause.problems:
        path = (*error["loc"], *below)
        yield InvalidDocument(f"{_format_path(path)}: {message}", place=document.place(*path))


def _problem(document: Document, model: type[BaseModel], error: Any) -> InvalidDocument:
    is_unknown = error["type"] == "extra_forbidden"
    last = len(error["loc"]) - 1
    # The name of an unknown field is the user's, whatever it looks like.
    path = tuple(step for at, step in enumerate(error["loc"]) if (is_unknown and at == last) or not _is_choice(step))
    shown = _format_path(path)
    if is_unknown:
        message = f"unknown field {shown}{_closest(str(path[-1]), _fields(model, path[:-1]))}"
    elif error["type"] == "missing":
        message = f"{shown} is required"
    elif error["type"] == "value_error":
        message = f"{shown}: {error['ctx']['error']}"
    elif error["type"] in _MAPPINGS:
        message = f"{shown}: must be a mapping of fields, got {error['input']!r}"
    elif error["type"] == "string_type" and (scalar := _yaml_scalar(error["input"])):
        quoted = f'write "{scalar}" in quotes: without, YAML reads another type'
        return InvalidDocument(f"{shown}: must be a string, got {scalar}", place=document.place(*path), hint=quoted)
    else:
        given = error["input"]
        got = f", got {given!r}" if isinstance(given, str | int | float) else ""
        message = f"{shown}: {_SUBJECT.sub('must ', error['msg'])}{got}"
    if error["type"] == "literal_error":
        message += _closest(str(error["input"]), _QUOTED.findall(error["ctx"]["expected"]))
    return InvalidDocument(message, place=document.place(*path))


def _yaml_scalar(value: Any) -> str:
    """A number or boolean as YAML writes it; empty for other values."""
    return str(value).lower() if isinstance(value, bool | int | float) else ""


def _is_choice(step: str | int) -> bool:
    """Whether pydantic added the step to name a variant of a union."""
    return isinstance(step, str) and ("[" in step or step.startswith("function-"))


def _format_path(path: tuple[str | int, ...]) -> str:
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else f".{step}"
    return text.removeprefix(".") or "document"


def _fields(model: type[BaseModel], path: tuple[str | int, ...]) -> list[str]:
    """The known fields at a path."""
    current: Any = model
    is_user_key = False  # the next step is a key that the user chose, such as a pool's name
    for step in path:
        if isinstance(step, int) or is_user_key:
            is_user_key = False
            continue
        field = next((field for field in current.model_fields.values() if field.alias == step), None)
        current = _model_in(field.annotation) if field is not None else None
        if field is None or current is None:
            return []
        is_user_key = _is_mapping(field.annotation)
    return [str(field.alias) for field in current.model_fields.values()]


def _model_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((model for part in getattr(annotation, "__args__", ()) if (model := _model_in(part)) is not None), None)


def _is_mapping(annotation: Any) -> bool:
    return get_origin(annotation) is dict or any(get_origin(part) is dict for part in get_args(annotation))


def _closest(name: str, known: Any) -> str:
    close = suggest_name(name, known, cutoff=0.5)
    return f"; {close}" if close else ""
