"""Expressions of resource graphs, checked and ready to run on plain documents."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from sliceworks.cel.dialect import GRAPHS
from sliceworks.cel.environment import EvaluationError
from sliceworks.cel.libraries.graphs import OMIT
from sliceworks.cel.outcomes import document_value
from sliceworks.cel.types import STRING
from sliceworks.cel.values import with_nul_kept
from sliceworks.cel.wording import NO_OVERLOAD, missing_key, run_failure

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sliceworks.cel.reads import Feed, Read
    from sliceworks.cel.types import CelType


class _Absent:
    """The value of an expression that gives none: `omit()`, an empty optional, or a field that nobody set."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "ABSENT"


ABSENT: Final = _Absent()


class MissingValue(EvaluationError):
    """The expression read something that is not there. `reads` are the paths in question, if they were known before."""

    def __init__(self, message: str, reads: tuple[Read, ...]) -> None:
        super().__init__(message)
        self.reads = reads


@dataclass(frozen=True, slots=True, eq=False)
class Formula:
    """An expression. `result` is its static type, `names` the variables it uses, `path` the field that it reads if that is all."""

    text: str
    result: CelType
    names: frozenset[str]
    reads: tuple[Read, ...]
    path: Read | None
    omits: bool
    _feeds: Mapping[str, Feed] = field(repr=False)
    _expression: Any = field(repr=False)

    def run(self, scope: Mapping[str, Any]) -> Any:
        """The value, in JSON's types, or ABSENT. MissingValue where something is not there, EvaluationError for mistakes."""
        path = self.path
        if path is None:
            return self._evaluated(scope)
        position = path.missing_at(scope)
        if position is not None:
            raise MissingValue(f"{path} is not there", (path,))
        value = scope[path.root]
        for step in path.steps:
            value = value[step]
        return value

    def _evaluated(self, scope: Mapping[str, Any]) -> Any:
        data = {feed.called: feed.take(scope[name]) for name, feed in self._feeds.items() if name in scope}
        try:
            found = self._expression.eval(GRAPHS.runtime.Activation(with_nul_kept(data)))
            value = found.plain_value()
        except (RuntimeError, TypeError) as error:
            raise self._failure(str(error), scope) from error
        if isinstance(value, str):
            if found.type().name() == "ERROR":
                raise self._failure(value, scope)
            return value
        try:
            value = document_value(value)
        except ValueError as error:
            raise EvaluationError(str(error)) from error
        return _without_omitted(value) if self.omits else ABSENT if value is None and self.result.kind == "optional" else value

    def _failure(self, message: str, scope: Mapping[str, Any]) -> EvaluationError:
        """What went wrong: something missing, or the expression itself."""
        unknown = tuple(read for read in self.reads if read.root not in scope)
        if unknown:
            return MissingValue(f"{' and '.join(map(str, unknown))} is not there", unknown)
        key, reason = missing_key(message), run_failure(message)
        if key is None and not reason.startswith(NO_OVERLOAD):
            return EvaluationError(reason)
        gone = [(read, at) for read in self.reads if read.needed and (at := read.missing_at(scope)) is not None]
        named = tuple(read for read, at in gone if at < 0 or key is None or str(read.steps[at]) == key)
        if key is None and not named:
            return EvaluationError(reason)
        return MissingValue(f"{' and '.join(map(str, named)) or key} is not there", named)


@dataclass(frozen=True, slots=True, eq=False)
class TextFormula:
    """A text with expressions in it: `parts` are plain pieces and formulas, each of which must give a text."""

    text: str
    parts: tuple[str | Formula, ...]

    @property
    def names(self) -> frozenset[str]:
        return frozenset().union(*(part.names for part in self.parts if isinstance(part, Formula)))

    @property
    def result(self) -> CelType:
        return STRING

    @property
    def omits(self) -> bool:
        return any(part.omits for part in self.parts if isinstance(part, Formula))

    def run(self, scope: Mapping[str, Any]) -> str:
        """The whole text."""
        return "".join([part if isinstance(part, str) else _text(part, scope) for part in self.parts])


def _text(part: Formula, scope: Mapping[str, Any]) -> str:
    value = part.run(scope)
    if isinstance(value, str):
        return value
    shown = "nothing" if value is ABSENT or value is None else f"{value!r}, which is no text"
    raise EvaluationError(f"{part.text} gives {shown}")


def _without_omitted(value: Any) -> Any:
    if isinstance(value, dict):
        if value == {OMIT: True}:
            return ABSENT
        kept = {key: _without_omitted(item) for key, item in value.items()}
        return {key: item for key, item in kept.items() if item is not ABSENT}
    if isinstance(value, list):
        return [item for item in map(_without_omitted, value) if item is not ABSENT]
    return value
