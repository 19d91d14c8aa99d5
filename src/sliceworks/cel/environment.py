"""Typed environments: compile an expression against schemas to a program that runs on plain documents."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson

from sliceworks.cel import descriptors, syntax
from sliceworks.cel.ast_transform import AstTransformer
from sliceworks.cel.cost import Cost, estimate
from sliceworks.cel.dialect import KUBERNETES
from sliceworks.cel.engine import CostExceeded, plain_value, runtime_error, translate_compile_error
from sliceworks.cel.sizes import MAX_REQUEST_SIZE, schema_sizes, value_sizes
from sliceworks.cel.syntax import Positions
from sliceworks.cel.types import DYN, CelType, Declarations
from sliceworks.cel.validators import find_literal_issues, find_pattern_error

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sliceworks.cel.dialect import Dialect
    from sliceworks.cel.object_types import ObjectTypes
    from sliceworks.cel.sizes import Size
    from sliceworks.schemas import Schema

MAX_LENGTH = 16 * 1024
"""Maximum length of an expression; compile time grows with it."""

_MAX_BUILT = 64 * 1024 * 1024
"""An expression that could build more characters and items than this is checked against the actual values before it runs."""


class CompileError(Exception):
    """An expression does not compile; the message lists every issue with its position."""


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable: its schema, whether it is a whole resource, whether it is optional, and its type's name in errors."""

    schema: Schema
    resource: bool = False
    optional: bool = False
    shown: str = "selfType"


@dataclass(frozen=True, slots=True)
class Program:
    """An expression ready to run. `names` are the variables it uses; `result` is its static type; `cost` is an estimate."""

    text: str
    result: str
    names: frozenset[str]
    cost: Cost
    _expression: Any
    _renamed: Mapping[str, str]
    _growing: bytes | None = None
    """The checked expression, if it could build values that are too large."""
    _has_optionals: bool = False

    def check_growth(self, values: Mapping[str, Any], schema: Schema) -> None:
        """Raise EvaluationError if the expression could fill the memory with these values: the engine does not limit it."""
        if self._growing is None:
            return
        unknown = len(orjson.dumps(values)) + MAX_LENGTH
        if estimate(syntax.parse(self._growing), value_sizes(values, schema), unknown).built > _MAX_BUILT:
            raise CostExceeded

    def run(self, activation: Any) -> Any:
        """The value of the expression; EvaluationError if evaluation fails."""
        try:
            result = self._expression.eval(activation)
            value = plain_value(result, has_optionals=self._has_optionals)
        except RuntimeError as error:
            raise runtime_error(str(error), self._renamed) from error
        if isinstance(value, str) and result.type().name() == "ERROR":
            raise runtime_error(value, self._renamed)
        return value

    def holds(self, activation: Any) -> bool:
        """Whether a condition is true."""
        try:
            result = self._expression.eval(activation)
        except RuntimeError as error:
            raise runtime_error(str(error), self._renamed) from error
        value = result.value()
        if value is True or value is False:
            return bool(value)
        raise runtime_error(str(value), self._renamed)


class Environment:
    """Variables and functions that expressions can use. Keep the compiled programs; the environment holds more memory."""

    def __init__(
        self, variables: Mapping[str, Variable | CelType], dialect: Dialect = KUBERNETES, constructed: ObjectTypes | None = None
    ) -> None:
        """`constructed` are the types that the expression constructs; the environment is for this expression only."""
        self._constructed = constructed
        self._dialect = dialect
        self._declarations = Declarations()
        self._variables = {name: variable for name, variable in variables.items() if isinstance(variable, Variable)}
        types = {name: self._type(variable) for name, variable in variables.items()}
        optional = {name: types.pop(name) for name, variable in self._variables.items() if variable.optional}
        self._checker = dialect.checker(
            descriptors.build_pool(self._declarations, constructed.messages() if constructed else None), types, optional
        )

    def _type(self, variable: Variable | CelType) -> CelType:
        if isinstance(variable, CelType):
            return variable
        return self._declarations.declare(variable.schema, variable.shown, resource=variable.resource) or DYN

    def compile(self, expression: str) -> Program:
        """The program of an expression; CompileError if its syntax or types are invalid."""
        if len(expression) > MAX_LENGTH:
            raise CompileError(
                f"compilation failed: ERROR: <input>:1:1: expression of {len(expression)} characters is longer than {MAX_LENGTH}"
            )
        if "\x00" in expression:
            raise CompileError("compilation failed: ERROR: <input>:1:1: Syntax error: token recognition error at: NUL")
        try:
            checked = self._checker.compile(expression if self._constructed is None else self._constructed.source)
            result = str(checked.return_type() if self._constructed is not None else checked.return_type().name())
            serialized = checked.serialize()
        except RuntimeError as error:
            source = expression if self._constructed is None else self._constructed.source
            message = translate_compile_error(str(error), source, self._shown_names())
            shown = message if self._constructed is None else self._constructed.show(message)
            raise CompileError(f"compilation failed: {shown}") from error
        tree = syntax.parse(serialized)
        issues = find_literal_issues(tree, Positions(tree.checked, expression))
        if issues:
            raise CompileError("compilation failed: " + "\n".join(issues))
        reason = find_pattern_error(tree)
        if reason:
            raise CompileError(f"program instantiation failed: {reason}")
        if self._constructed is not None:
            self._constructed.construct_maps(tree)
        cost = estimate(tree, self._sizes)
        built = estimate(tree, self._known_sizes, MAX_REQUEST_SIZE).built
        names = tree.names()
        preparation = AstTransformer(tree, self._declarations, self._variables)
        preparation.run()
        tree.unwrap_result(or_null=False)
        runnable = self._dialect.runtime.deserialize(syntax.serialize(tree))
        growing = serialized if built > _MAX_BUILT else None
        return Program(expression, result, names, cost, runnable, preparation.renamed, growing, tree.has_optionals)

    def _sizes(self, path: tuple[str, ...]) -> Size | None:
        """The size in the schema of `self`: Kubernetes looks it up there for every variable, also for items of computed lists."""
        variable = self._variables.get("self") or next(iter(self._variables.values()), None)
        return schema_sizes(variable.schema, resource=variable.resource)(path) if variable is not None else None

    def _known_sizes(self, path: tuple[str, ...]) -> Size | None:
        return self._sizes(path) if path and path[0] in self._variables else None

    def _shown_names(self) -> dict[str, str]:
        return {message.name: message.shown for message in self._declarations.messages.values()}
