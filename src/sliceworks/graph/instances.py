"""An instance before it is given to any cluster: what is wrong with it, and what it is once its defaults are filled in."""

from __future__ import annotations

import copy
import re
from typing import TYPE_CHECKING

from sliceworks.cel.complaints import closest
from sliceworks.cel.rules import evaluate_rules
from sliceworks.graph.errors import DefinitionError
from sliceworks.graph.model import Issue
from sliceworks.schemas.crds import schema_for_version
from sliceworks.schemas.golang import TypeMismatch
from sliceworks.schemas.structural import prune, set_defaults, validate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sliceworks.graph.model import Graph, Object, Path
    from sliceworks.schemas.structural import Schema

_STEP = re.compile(r"([^.\[\]]+)|\[(\d+)\]|\[([^\]]+)\]")


def is_instance(graph: Graph, document: Object) -> bool:
    """Whether a document is of the kind that a graph defines."""
    block = graph.definition.schema
    return document.get("apiVersion") == block.api_version and document.get("kind") == block.kind


def completed(graph: Graph, document: Object, places: Callable[..., str] | None = None) -> Object:
    """The instance with its defaults; DefinitionError with everything that is wrong with it."""
    schema = schema_for_version(graph.crd, graph.definition.schema.version)
    instance = copy.deepcopy(document)
    unknown: list[str] = []
    try:
        prune(schema, instance, unknown)
    except TypeMismatch as error:
        raise DefinitionError([Issue(("metadata",), str(error), place=_place(places, ("metadata",)))]) from error
    set_defaults(schema, instance)
    issues = [*_unknown(schema, unknown), *_wrong(schema, instance)]
    if not (instance.get("metadata") or {}).get("name"):
        issues.append(Issue(("metadata", "name"), "metadata.name is required"))
    if issues:
        raise DefinitionError(
            [Issue(each.path, each.message, remedy=each.remedy, place=_place(places, each.path)) for each in issues]
        )
    return instance


def _unknown(schema: Schema, paths: list[str]) -> Iterator[Issue]:
    for text in paths:
        path = _steps(text)
        yield Issue(path, f"unknown field {text}", remedy=closest(str(path[-1]), _names(schema, path[:-1])))


def _wrong(schema: Schema, instance: Object) -> Iterator[Issue]:
    for error in validate(schema, instance, cel=evaluate_rules):
        path, _, rest = str(error).partition(": ")
        yield Issue(_steps(path), f"{path}: {rest[:1].lower()}{rest[1:]}" if rest else path)


def _names(schema: Schema, path: Path) -> list[str]:
    """The names that fields could have at a place."""
    found: Schema | None = schema
    for step in path:
        if found is None:
            return []
        found = found.items if isinstance(step, int) else found.properties.get(step) or found.additional
    return list(found.properties) if found is not None else []


def _steps(text: str) -> Path:
    return tuple(int(match[2]) if match[2] else match[1] or match[3] for match in _STEP.finditer(text))


def _place(places: Callable[..., str] | None, path: Path) -> str:
    return places(*path) if places else ""
