"""Validates and defaults instances against the CustomResourceDefinition that a graph generates."""

from __future__ import annotations

import copy
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sliceworks.base.names import suggest_name
from sliceworks.cel.rules import evaluate_rules
from sliceworks.graph.model import Issue, format_path
from sliceworks.schemas import Schema, set_defaults, validate
from sliceworks.schemas.crds import schema_for_version
from sliceworks.schemas.field_errors import RulesNotChecked

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sliceworks.graph.model import Graph, Object, Path

_STEP = re.compile(r"\[(\d+)\]|\[([^\]]+)\]|\.?([^.\[\]]+)")


def check(instance: Object, graph: Graph, places: Callable[..., str] | None = None) -> list[Issue]:
    """The issues of an instance; empty if it is valid. `places` returns the `file:line` of a path."""
    issues = list(_issues(instance, graph))
    return [replace(issue, place=places(*issue.path)) for issue in issues] if places else issues


def schema_of(graph: Graph) -> Schema:
    """The schema of a graph's instances."""
    return schema_for_version(graph.crd, graph.definition.schema.version)


def with_defaults(instance: Object, graph: Graph) -> Object:
    """A copy of an instance with the defaults that the API server would set."""
    defaulted = copy.deepcopy(instance)
    defaulted.setdefault("spec", {})
    set_defaults(schema_of(graph), defaulted)
    return defaulted


def _issues(instance: Object, graph: Graph) -> Iterator[Issue]:
    block = graph.definition.schema
    for name, expected in (("apiVersion", block.api_version), ("kind", block.kind)):
        if instance.get(name) != expected:
            yield Issue((name,), f"{name}: must be {expected}, got {instance.get(name)}")
    if not isinstance(instance.get("spec", {}), dict):
        yield Issue(("spec",), "spec: must be an object")
        return
    root = schema_of(graph)
    unknown = list(_unknown(instance.get("spec") or {}, root.properties["spec"], ("spec",)))
    yield from unknown
    checked = with_defaults({name: value for name, value in instance.items() if name != "status"}, graph)
    unknown_paths = {issue.path for issue in unknown}
    for error in validate(root, checked, cel=evaluate_rules):
        path = tuple(_steps(error.path))
        if path not in unknown_paths and not isinstance(error, RulesNotChecked):
            yield Issue(path, f"{format_path(path)}: {error.body[:1].lower()}{error.body[1:]}")


def _unknown(value: Any, schema: Schema | None, path: Path) -> Iterator[Issue]:
    if schema is None or schema.preserve_unknown:
        return
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from _unknown(item, schema.items, (*path, index))
    if not isinstance(value, dict):
        return
    for name, child in value.items():
        child_schema = schema.properties.get(name, schema.additional)
        if child_schema is not None:
            yield from _unknown(child, child_schema, (*path, name))
        elif schema.type == "object":
            unused = [field for field in schema.properties if field not in value]
            known_fields = f"known fields: {', '.join(schema.properties)}"
            hint = suggest_name(name, unused) or suggest_name(name, schema.properties) or known_fields
            yield Issue((*path, name), f"unknown field {format_path((*path, name))}", hint=hint)


def _steps(path: str) -> Iterator[str | int]:
    """The steps of a path in the API server's notation."""
    for index, key, name in _STEP.findall(path):
        yield int(index) if index else key or name
