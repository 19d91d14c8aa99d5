"""From a YAML document to a typed one, or to all that is wrong with it: file and line, the field, and the closest known name."""

from __future__ import annotations

import re
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar, get_args, get_origin

from pydantic import BaseModel, ValidationError

from sliceworks.base.errors import InvalidDocument
from sliceworks.base.words import closest
from sliceworks.specs.model import API_VERSION, GROUP

if TYPE_CHECKING:
    from sliceworks.base.yamls import Document

Kind = TypeVar("Kind", bound=BaseModel)

# Where each kind is. A command reads one or two of them, and the models of all take longer to load than most commands run.
KINDS = {
    "Environment": "sliceworks.specs.environment",
    "Gateway": "sliceworks.specs.gateway",
    "ModelService": "sliceworks.specs.serving",
    "LoadTest": "sliceworks.specs.load_test",
    "Scenario": "sliceworks.specs.scenario",
    "TrainingJob": "sliceworks.specs.training",
}
_MAPPINGS = ("model_type", "model_attributes_type", "dict_type")
_QUOTED = re.compile(r"'([^']*)'")


def is_ours(document: Document) -> bool:
    """Whether a document is one of the product's own, and not an object of a cluster."""
    return str(document.data.get("apiVersion", "")).partition("/")[0] == GROUP


def read(document: Document) -> BaseModel:
    """The typed document; raises the InvalidDocument of its first problem."""
    found, problems = check(document)
    if problems:
        raise problems[0]
    assert found is not None
    return found


def read_as(document: Document, kind: type[Kind]) -> Kind:
    """The typed document, which is of this kind; raises InvalidDocument also where it is of another."""
    found = read(document)
    if not isinstance(found, kind):
        raise InvalidDocument(f"a {kind.__name__} is wanted, found {document.data['kind']}", place=document.place("kind"))
    return found


def check(document: Document) -> tuple[BaseModel | None, list[InvalidDocument]]:
    """The typed document, or all that is wrong with it."""
    data = document.data
    version, kind = data.get("apiVersion"), data.get("kind")
    if version != API_VERSION:
        found = f", found {version}" if version else ""
        return None, [InvalidDocument(f"apiVersion must be {API_VERSION}{found}", place=document.place("apiVersion"))]
    if not kind:
        return None, [InvalidDocument(f"kind is required, one of {', '.join(KINDS)}", place=document.place("kind"))]
    if str(kind) not in KINDS:
        return None, [InvalidDocument(f"unknown kind {kind}{_closest(str(kind), KINDS)}", place=document.place("kind"))]
    model: type[BaseModel] = getattr(import_module(KINDS[str(kind)]), str(kind))
    try:
        return model.model_validate(data), []
    except ValidationError as error:
        # A field that is misspelled is also missing: what was written comes before what was not.
        unknown_first = sorted(error.errors(), key=lambda found: found["type"] != "extra_forbidden")
        return None, [_problem(document, model, found) for found in unknown_first]


def _problem(document: Document, model: type[BaseModel], found: Any) -> InvalidDocument:
    path = tuple(step for step in found["loc"] if not _is_choice(step))
    shown = _shown(path)
    if found["type"] == "extra_forbidden":
        text = f"unknown field {shown}{_closest(str(path[-1]), _fields(model, path[:-1]))}"
    elif found["type"] == "missing":
        text = f"{shown} is required"
    elif found["type"] == "value_error":
        text = f"{shown}: {found['ctx']['error']}"
    elif found["type"] in _MAPPINGS:
        text = f"{shown}: must be a mapping of fields, found {found['input']!r}"
    else:
        text = f"{shown}: {found['msg'][:1].lower()}{found['msg'][1:]}"
    if found["type"] == "literal_error":
        text += _closest(str(found["input"]), _QUOTED.findall(found["ctx"]["expected"]))
    return InvalidDocument(text, place=document.place(*path))


def _is_choice(step: str | int) -> bool:
    """Steps that name a variant of a union are pydantic's, not the document's."""
    return isinstance(step, str) and ("[" in step or step.startswith("function-"))


def _shown(path: tuple[str | int, ...]) -> str:
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else f".{step}"
    return text.removeprefix(".") or "document"


def _fields(model: type[BaseModel], path: tuple[str | int, ...]) -> list[str]:
    """The names that a place in a document could have had."""
    found: Any = model
    own_name = False  # in a mapping people choose the names: of a pool, of a team
    for step in path:
        if isinstance(step, int) or own_name:
            own_name = False
            continue
        field = next((each for each in found.model_fields.values() if each.alias == step), None)
        found = _model_in(field.annotation) if field is not None else None
        if field is None or found is None:
            return []
        own_name = _is_mapping(field.annotation)
    return [str(each.alias) for each in found.model_fields.values()]


def _model_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for part in getattr(annotation, "__args__", ()) if (found := _model_in(part)) is not None), None)


def _is_mapping(annotation: Any) -> bool:
    return get_origin(annotation) is dict or any(get_origin(part) is dict for part in get_args(annotation))


def _closest(name: str, known: Any) -> str:
    close = closest(name, known, cutoff=0.5)
    return f"; {close}" if close else ""
