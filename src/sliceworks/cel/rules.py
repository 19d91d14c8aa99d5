"""`x-kubernetes-validations`: the rules of a custom resource's schema, checked when it is defined and run when objects are written.

This module loads nothing heavy: the engine comes in with the first schema that has a rule.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.cel.correlation import Correlation
from sliceworks.schemas.structural import MISSING

if TYPE_CHECKING:
    from sliceworks.cel.rule_programs import RulePrograms
    from sliceworks.schemas.field_errors import FieldError
    from sliceworks.schemas.structural import Schema

_TOPIC = "cel"


class _Place:
    """A node of the schema with rules at it or below it."""

    __slots__ = ("_programs", "_resource", "fields", "items", "schema", "values")

    def __init__(self, schema: Schema, *, resource: bool) -> None:
        self.schema, self._resource = schema, resource
        self._programs: RulePrograms | None = None
        below = {name: _place(child) for name, child in schema.properties.items()}
        self.fields = {name: child for name, child in below.items() if child is not None}
        self.values = _place(schema.additional)
        self.items = _place(schema.items)

    def __bool__(self) -> bool:
        return bool(self.schema.rules or self.fields or self.values or self.items)

    def programs(self) -> RulePrograms:
        """The rules of this very node, compiled on first use."""
        if self._programs is None:
            from sliceworks.cel.rule_programs import RulePrograms

            self._programs = RulePrograms(self.schema.rules, self.schema, resource=self._resource)
        return self._programs


def _place(schema: Schema | None) -> _Place | None:
    return _Place(schema, resource=schema.embedded_resource) or None if schema is not None else None


def _root(schema: Schema) -> _Place | None:
    """The places with rules, kept on the schema itself."""
    if _TOPIC not in schema.planned:
        schema.planned[_TOPIC] = _Place(schema, resource=True) or None
    found: _Place | None = schema.planned[_TOPIC]
    return found


def compile_rules(schema: Schema, path: str) -> list[FieldError]:
    """What is wrong with the rules in the schema of a custom resource; `path` is where the definition has the schema."""
    place = _root(schema)
    if place is None:
        return []
    from sliceworks.cel.rule_checks import rule_errors

    return rule_errors(schema, path, {id(one.schema): one.programs for one in _all(place)})


def _all(place: _Place) -> list[_Place]:
    below = [*place.fields.values(), *(one for one in (place.values, place.items) if one is not None)]
    return [place, *(one for child in below for one in _all(child))]


def evaluate_rules(schema: Schema, value: Any, old: Any = MISSING, path: str = "") -> list[FieldError]:
    """What the rules of a custom resource's schema say of an object, the whole of it. `old` is what an update replaces."""
    place = _root(schema)
    if place is None:
        return []
    walk = _Walk()
    walk.visit(place, value, old, path, Correlation(schema, value, MISSING if old is None else old))
    return walk.errors


class _Walk:
    """One pass over an object, collecting what the rules say."""

    def __init__(self) -> None:
        self.errors: list[FieldError] = []

    def visit(self, place: _Place, value: Any, old: Any, path: str, correlation: Correlation) -> None:
        if value is None:
            return
        if place.schema.rules:
            self.errors += place.programs().evaluate(value, old, path, correlation)
        if isinstance(value, dict):
            self._visit_fields(place, value, old if isinstance(old, dict) else {}, path, correlation)
        elif isinstance(value, list) and place.items is not None:
            for index, item in enumerate(value):
                below = correlation.index(index)
                self.visit(place.items, item, below.old if below.known else MISSING, f"{path}[{index}]", below)

    def _visit_fields(self, place: _Place, value: dict[str, Any], old: dict[str, Any], path: str, correlation: Correlation) -> None:
        if place.values is not None:
            for key, item in value.items():
                self.visit(place.values, item, old.get(key, MISSING), f"{path}[{key}]", correlation.key(key))
        for name, child in place.fields.items():
            if name in value:
                self.visit(child, value[name], old.get(name, MISSING), f"{path}.{name}" if path else name, correlation.key(name))
