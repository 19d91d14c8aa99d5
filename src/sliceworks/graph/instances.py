"""Instances against the kind that a graph generates: what a user wrote that cannot be right, with the closest known name."""

from __future__ import annotations

import copy
import re
from typing import TYPE_CHECKING, Any

from sliceworks.base.words import closest
from sliceworks.cel.rules import evaluate_rules
from sliceworks.graph.model import Issue
from sliceworks.graph.templates import shown_path
from sliceworks.schemas.crds import schema_for_version
from sliceworks.schemas.structural import Schema, set_defaults, validate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sliceworks.graph.model import Graph, Object, Path

_STEP = re.compile(r"\[(\d+)\]|\[([^\]]+)\]|\.?([^.\[\]]+)")
_UNTOLD = "some validation rules were not checked"


def check(instance: Object, graph: Graph, places: Callable[..., str] | None = None) -> list[Issue]:
    """All that is wrong with an instance; nothing where it can be applied. `places` tells the `file:line` of a path."""
    found = list(_issues(instance, graph))
    return [Issue(one.path, one.message, one.expression, one.remedy, places(*one.path)) for one in found] if places else found


def schema(graph: Graph) -> Schema:
    """The schema of a graph's instances."""
    return schema_for_version(graph.crd, graph.definition.schema.version)


def with_defaults(instance: Object, graph: Graph) -> Object:
    """A copy of an instance with the defaults that the API server would fill in."""
    completed = copy.deepcopy(instance)
    completed.setdefault("spec", {})
    set_defaults(schema(graph), completed)
    return completed


def _issues(instance: Object, graph: Graph) -> Iterator[Issue]:
    block = graph.definition.schema
    for name, wanted in (("apiVersion", block.api_version), ("kind", block.kind)):
        if instance.get(name) != wanted:
            yield Issue((name,), f"{name} must be {wanted}, not {instance.get(name)}")
    if not isinstance(instance.get("spec", {}), dict):
        yield Issue(("spec",), "spec must be a mapping of fields")
        return
    root = schema(graph)
    unknown = list(_unknown(instance.get("spec") or {}, root.properties["spec"], ("spec",)))
    yield from unknown
    checked = with_defaults({name: value for name, value in instance.items() if name != "status"}, graph)
    missing = {issue.path for issue in unknown}
    for error in validate(root, checked, cel=evaluate_rules):
        path = tuple(_steps(error.path))
        if path not in missing and not error.detail.startswith(_UNTOLD):
            yield Issue(path, f"{shown_path(path)}: {error.body[:1].lower()}{error.body[1:]}")


def _unknown(value: Any, known: Schema | None, path: Path) -> Iterator[Issue]:
    if known is None or known.preserve_unknown:
        return
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from _unknown(item, known.items, (*path, index))
    if not isinstance(value, dict):
        return
    for name, child in value.items():
        below = known.properties.get(name, known.additional)
        if below is not None:
            yield from _unknown(child, below, (*path, name))
        elif known.type == "object":
            free = [each for each in known.properties if each not in value]
            remedy = closest(name, free) or closest(name, known.properties) or f"known are {', '.join(known.properties)}"
            yield Issue((*path, name), f"unknown field {shown_path((*path, name))}", remedy=remedy)


def _steps(path: str) -> Iterator[str | int]:
    """The steps of a path as the API server writes it."""
    for index, key, name in _STEP.findall(path):
        yield int(index) if index else key or name
