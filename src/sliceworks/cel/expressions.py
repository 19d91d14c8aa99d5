"""Compiled expressions and string templates of resource graphs, evaluated on plain documents."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from sliceworks.cel.dialect import KRO
from sliceworks.cel.engine import EvaluationError, NoSuchOverload, find_missing_key, plain_value, runtime_error
from sliceworks.cel.libraries.kro import OMIT
from sliceworks.cel.types import STRING
from sliceworks.cel.values import to_document, wrap_nul_strings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sliceworks.cel.references import Projection, Reference
    from sliceworks.cel.types import CelType


class _Absent:
    """The result of an expression without a value: `omit()`, an empty optional, or an unset field."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "ABSENT"


ABSENT: Final = _Absent()


class MissingValue(EvaluationError):
    """A field or key that the expression reads does not exist. `reads` are its paths, if they are static; `subject` names it."""

    def __init__(self, reads: tuple[Reference, ...], key: str = "") -> None:
        self.reads = reads
        self.subject = " and ".join(map(str, reads)) or key
        super().__init__(f"{self.subject} not found")


@dataclass(frozen=True, slots=True, eq=False)
class CompiledExpression:
    """A compiled expression. `result` is its static type, `names` its variables, `path` the field if it only reads a field."""

    text: str
    result: CelType
    names: frozenset[str]
    reads: tuple[Reference, ...]
    path: Reference | None
    omits: bool
    _feeds: Mapping[str, Projection] = field(repr=False)
    _expression: Any = field(repr=False)
    _has_optionals: bool = field(repr=False)

    def run(self, scope: Mapping[str, Any]) -> Any:
        """The value, in JSON's types, or ABSENT. Raises MissingValue for unset data, EvaluationError for other failures."""
        path = self.path
        if path is None:
            return self._evaluate(scope)
        position = path.missing_at(scope)
        if position is not None:
            raise MissingValue((path,))
        value = scope[path.root]
        for step in path.steps:
            value = value[step]
        return value

    def _evaluate(self, scope: Mapping[str, Any]) -> Any:
        data = {projection.called: projection.take(scope[name]) for name, projection in self._feeds.items() if name in scope}
        try:
            result = self._expression.eval(KRO.runtime.Activation(wrap_nul_strings(data)))
            value = plain_value(result, has_optionals=self._has_optionals)
        except (RuntimeError, TypeError) as error:
            raise self._failure(str(error), scope) from error
        if isinstance(value, str):
            if result.type().name() == "ERROR":
                raise self._failure(value, scope)
            return value
        try:
            value = to_document(value)
        except ValueError as error:
            raise EvaluationError(str(error)) from error
        return _without_omitted(value) if self.omits else ABSENT if value is None and self.result.kind == "optional" else value

    def _failure(self, message: str, scope: Mapping[str, Any]) -> EvaluationError:
        """The typed error for a message of the engine: unset data, or a failure of the expression."""
        unknown = tuple(read for read in self.reads if read.root not in scope)
        if unknown:
            return MissingValue(unknown)
        key, failure = find_missing_key(message), runtime_error(message)
        if key is None and not isinstance(failure, NoSuchOverload):
            return failure
        missing = [(read, at) for read in self.reads if read.needed and (at := read.missing_at(scope)) is not None]
        reads = tuple(read for read, at in missing if at < 0 or key is None or str(read.steps[at]) == key)
        if key is None and not reads:
            return failure
        return MissingValue(reads, key or "")


@dataclass(frozen=True, slots=True, eq=False)
class StringTemplate:
    """A string with embedded expressions. `parts` are literals and expressions that return strings."""

    text: str
    parts: tuple[str | CompiledExpression, ...]

    @property
    def names(self) -> frozenset[str]:
        return frozenset().union(*(part.names for part in self.parts if isinstance(part, CompiledExpression)))

    @property
    def result(self) -> CelType:
        return STRING

    @property
    def omits(self) -> bool:
        return any(part.omits for part in self.parts if isinstance(part, CompiledExpression))

    def run(self, scope: Mapping[str, Any]) -> str:
        """The rendered string."""
        return "".join([part if isinstance(part, str) else _string(part, scope) for part in self.parts])


def _string(part: CompiledExpression, scope: Mapping[str, Any]) -> str:
    value = part.run(scope)
    if isinstance(value, str):
        return value
    returned = "no value" if value is ABSENT or value is None else repr(value)
    raise EvaluationError(f"{part.text} must return a string, got {returned}")


def _without_omitted(value: Any) -> Any:
    if isinstance(value, dict):
        if value == {OMIT: True}:
            return ABSENT
        items = {key: _without_omitted(item) for key, item in value.items()}
        return {key: item for key, item in items.items() if item is not ABSENT}
    if isinstance(value, list):
        return [item for item in map(_without_omitted, value) if item is not ABSENT]
    return value
