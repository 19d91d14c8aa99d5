"""Paths that an expression reads from its variables, found by static analysis.

Only these paths are passed to the engine, which copies every value, and they name the missing field in errors.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sliceworks.cel import syntax
from sliceworks.cel.source_rewrite import engine_name
from sliceworks.cel.values import converter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from sliceworks.schemas import Schema

Steps = tuple[str | int, ...]
_MISSING = object()


@dataclass(frozen=True, slots=True)
class Reference:
    """A path into a variable. If `needed`, evaluation fails when the path does not exist."""

    root: str
    steps: Steps
    needed: bool = True

    def __str__(self) -> str:
        return self.root + "".join(f"[{step}]" if isinstance(step, int) else _shown(step) for step in self.steps)

    def missing_at(self, scope: Mapping[str, Any]) -> int | None:
        """Index of the first missing step, or None if the path exists."""
        value = scope.get(self.root, _MISSING)
        if value is _MISSING or value is None:
            return -1
        for position, step in enumerate(self.steps):
            value = _below(value, step)
            if value is _MISSING or (value is None and position + 1 < len(self.steps)):
                return position
        return None


def _shown(step: str) -> str:
    return f".{step}" if step.isidentifier() else f'["{step}"]'


def _below(value: Any, step: str | int) -> Any:
    if isinstance(step, int):
        return value[step] if isinstance(value, list) and -1 < step < len(value) else _MISSING
    return value.get(step, _MISSING) if isinstance(value, dict) else _MISSING


def find_references(root: Any, variables: Iterable[str]) -> list[Reference]:
    """Every variable path that a checked tree reads."""
    references: dict[Reference, None] = {}
    _visit(root, frozenset(variables), references)
    return list(references)


def find_single_reference(root: Any, variables: Iterable[str]) -> Reference | None:
    """The path of an expression that only reads one field, else None."""
    reference = _chain(root, frozenset(variables))
    return reference if reference is not None and reference.needed else None


def _visit(node: Any, variables: frozenset[str], references: dict[Reference, None]) -> None:
    reference = _chain(node, variables)
    if reference is not None:
        references[reference] = None
        return
    if syntax.kind(node) == "comprehension":
        loop = node.comprehension
        inner = variables - {loop.variable, loop.second, loop.accumulator}
        for part, names in ((loop.range, variables), (loop.init, variables), (loop.condition, inner), (loop.step, inner)):
            _visit(part, names, references)
        _visit(loop.result, variables - {loop.accumulator}, references)
        return
    for child in syntax.children(node):
        _visit(child, variables, references)


def _chain(node: Any, variables: frozenset[str]) -> Reference | None:
    kind = syntax.kind(node)
    if kind == "ident":
        return Reference(node.ident.name, ()) if node.ident.name in variables else None
    if kind == "select":
        return _extend(node.select.operand, node.select.field, variables, needed=not node.select.test)
    if kind != "call" or node.call.function not in ("_[_]", "_?._", "_[?_]") or len(node.call.args) != 2:
        return None
    step = node.call.args[1]
    if syntax.kind(step) != "const" or not (step.const.HasField("string") or step.const.HasField("int")):
        return None
    literal = step.const.string if step.const.HasField("string") else step.const.int
    return _extend(node.call.args[0], literal, variables, needed=node.call.function == "_[_]")


def _extend(operand: Any, step: str | int, variables: frozenset[str], *, needed: bool) -> Reference | None:
    before = _chain(operand, variables)
    return Reference(before.root, (*before.steps, step), before.needed and needed) if before is not None else None


@dataclass(slots=True)
class Projection:
    """The parts of a variable that are passed to the engine, their conversion, and the variable's name in the engine."""

    called: str = ""
    whole: bool = False
    convert: Callable[[Any], Any] | None = None
    below: dict[str, Projection] = field(default_factory=dict)

    def take(self, value: Any) -> Any:
        if self.whole:
            return self.convert(value) if self.convert is not None and value is not None else value
        if not isinstance(value, dict):
            return value
        return {step: projection.take(value[step]) for step, projection in self.below.items() if step in value}


def build_projections(references: Iterable[Reference], schemas: Mapping[str, Schema | None]) -> dict[str, Projection]:
    """The projection of each variable that is read."""
    projections: dict[str, Projection] = {}
    for reference in references:
        projection = projections.setdefault(reference.root, Projection(engine_name(reference.root)))
        schema = schemas.get(reference.root)
        for step in reference.steps:
            # Pass whole lists, so that indices stay valid.
            if projection.whole or isinstance(step, int):
                break
            projection = projection.below.setdefault(step, Projection())
            schema = schema.properties.get(step, schema.additional) if schema is not None else None
        projection.whole, projection.convert = True, converter(schema)
    return projections
