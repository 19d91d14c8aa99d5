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
    """A node of the schema with rules at it or below it. `spine` gives values their types; `schema` holds the rules.

    They differ only inside `allOf`, which adds rules to a value but does not describe it.
    """

    __slots__ = ("fields", "items", "programs", "resource", "schema", "spine", "values", "variants")

    def __init__(self, schema: Schema, spine: Schema, resource: bool) -> None:
        self.schema, self.spine, self.resource = schema, spine, resource
        self.programs: RulePrograms | None = None
        self.fields: dict[str, _Place] = {}
        self.values: _Place | None = None
        self.items: _Place | None = None
        self.variants: list[_Place] = []
        self._fill()

    def _fill(self) -> None:
        schema, spine = self.schema, self.spine
        for name, child in schema.properties.items():
            below = _place(child, spine.properties.get(name))
            if below is not None:
                self.fields[name] = below
        self.values = _place(schema.additional, spine.additional)
        self.items = _place(schema.items, spine.items)
        variants = (_place(variant, spine, resource=self.resource) for variant in schema.all_of)
        self.variants = [one for one in variants if one is not None]

    def __bool__(self) -> bool:
        return bool(self.schema.rules or self.fields or self.values or self.items or self.variants)

    def prepared(self) -> RulePrograms:
        """The rules of this very node, compiled on first use."""
        if self.programs is None:
            from sliceworks.cel.rule_programs import RulePrograms

            self.programs = RulePrograms(self.schema.rules, self.spine, resource=self.resource)
        return self.programs


def _place(schema: Schema | None, spine: Schema | None, *, resource: bool | None = None) -> _Place | None:
    if schema is None or spine is None:
        return None
    made = _Place(schema, spine, spine.embedded_resource if resource is None else resource)
    return made or None


def _root(schema: Schema) -> _Place | None:
    """The places with rules, kept on the schema itself."""
    if _TOPIC not in schema.planned:
        schema.planned[_TOPIC] = _place(schema, schema, resource=True)
    found: _Place | None = schema.planned[_TOPIC]
    return found


def has_rules(schema: Schema) -> bool:
    """Whether there is a rule anywhere in the schema of a custom resource."""
    return _root(schema) is not None


def compile_rules(schema: Schema, path: str) -> list[FieldError]:
    """What is wrong with the rules in the schema of a custom resource; `path` is where the definition has the schema."""
    place = _root(schema)
    if place is None:
        return []
    from sliceworks.cel.rule_checks import rule_errors

    return rule_errors(schema, path, {id(one.schema): one.prepared for one in _all(place)})


def _all(place: _Place) -> list[_Place]:
    below = [*place.fields.values(), *place.variants, *(one for one in (place.values, place.items) if one is not None)]
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
            self.errors += place.prepared().evaluate(value, old, path, correlation)
        for variant in place.variants:
            self.visit(variant, value, old, path, correlation.nearest())
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
