"""Typed environments: compile an expression against schemas, and get a program that runs on plain documents."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sliceworks.cel import descriptors, syntax
from sliceworks.cel.dialect import KUBERNETES
from sliceworks.cel.growth import grows_too_large
from sliceworks.cel.literals import bad_pattern, literal_issues
from sliceworks.cel.positions import Positions
from sliceworks.cel.preparation import Preparation
from sliceworks.cel.types import DYN, CelType, Declarations
from sliceworks.cel.wording import compile_failure, run_failure

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sliceworks.cel.dialect import Dialect
    from sliceworks.schemas.structural import Schema

LONGEST = 16 * 1024
"""Longer expressions are refused: the time to compile one grows with its length."""


_TOO_COSTLY = (
    "estimated rule cost exceeds budget by factor of more than 100x (try simplifying the rule, or adding maxItems, maxProperties, "
    "and maxLength where arrays, maps, and strings are declared)"
)


class CompileError(Exception):
    """An expression that cannot be used: its text lists every issue with its place."""


class TooCostlyError(CompileError):
    """An expression whose values could grow without reasonable bounds."""


class EvaluationError(Exception):
    """An expression that failed when it ran."""


@dataclass(frozen=True, slots=True)
class Variable:
    """A name that expressions may use: its schema, whether it is a whole resource, and whether it may be absent."""

    schema: Schema
    resource: bool = False
    optional: bool = False
    shown: str = "selfType"


@dataclass(frozen=True, slots=True)
class Program:
    """An expression ready to run. `names` are the variables it uses; `result` is its static type."""

    text: str
    result: str
    names: frozenset[str]
    _expression: Any
    _renamed: Mapping[str, str]

    def run(self, activation: Any) -> Any:
        """The value of the expression; EvaluationError where it has none."""
        try:
            found = self._expression.eval(activation)
            value = found.plain_value()
        except RuntimeError as error:
            raise EvaluationError(run_failure(str(error), self._renamed)) from error
        if isinstance(value, str) and found.type().name() == "ERROR":
            raise EvaluationError(run_failure(value, self._renamed))
        return value

    def holds(self, activation: Any) -> bool:
        """Whether a condition is true."""
        try:
            found = self._expression.eval(activation)
        except RuntimeError as error:
            raise EvaluationError(run_failure(str(error), self._renamed)) from error
        value = found.value()
        if value is True or value is False:
            return bool(value)
        raise EvaluationError(run_failure(str(value), self._renamed))


class Environment:
    """What expressions may refer to. Compiling is for once; keep the programs and let go of this."""

    def __init__(self, variables: Mapping[str, Variable | CelType], dialect: Dialect = KUBERNETES) -> None:
        self._dialect = dialect
        self._declarations = Declarations()
        self._variables = {name: one for name, one in variables.items() if isinstance(one, Variable)}
        types = {name: self._type(one) for name, one in variables.items()}
        optional = {name: types.pop(name) for name, one in self._variables.items() if one.optional}
        self._checker = dialect.checker(descriptors.pool(self._declarations), types, optional)

    def _type(self, variable: Variable | CelType) -> CelType:
        if isinstance(variable, CelType):
            return variable
        return self._declarations.declare(variable.schema, variable.shown, resource=variable.resource) or DYN

    def compile(self, text: str) -> Program:
        """The program of an expression; CompileError where it breaks the language or the types."""
        if len(text) > LONGEST:
            raise CompileError(
                f"compilation failed: ERROR: <input>:1:1: expression of {len(text)} characters is longer than {LONGEST}"
            )
        if "\x00" in text:
            raise CompileError("compilation failed: ERROR: <input>:1:1: Syntax error: token recognition error at: NUL")
        try:
            checked = self._checker.compile(text)
            result = str(checked.return_type().name())
            serialized = checked.serialize()
        except RuntimeError as error:
            raise CompileError("compilation failed: " + compile_failure(str(error), text, self._shown_names())) from error
        tree = syntax.parse(serialized)
        issues = literal_issues(tree, Positions(tree.checked, text))
        if issues:
            raise CompileError("compilation failed: " + "\n".join(issues))
        reason = bad_pattern(tree)
        if reason:
            raise CompileError(f"program instantiation failed: {reason}")
        if grows_too_large(tree):
            raise TooCostlyError(_TOO_COSTLY)
        names = tree.names()
        preparation = Preparation(tree, self._declarations, self._variables)
        preparation.run()
        runnable = self._dialect.runtime.deserialize(syntax.serialize(tree))
        return Program(text, result, names, runnable, preparation.renamed)

    def _shown_names(self) -> dict[str, str]:
        return {message.name: message.shown for message in self._declarations.messages.values()}
