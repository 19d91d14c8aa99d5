"""The composed variables of a policy: each expression sees the variables before it, and has the type of its result."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.cel.admission import Scope
from sliceworks.cel.engine import EvaluationError
from sliceworks.cel.values import to_engine

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sliceworks.cel.admission import Bindings
    from sliceworks.cel.environment import Program

Obj = dict[str, Any]


class PolicyVariables:
    """The compiled variables of a policy. `types` are their names and result types; None if it has no variables."""

    def __init__(self, spec: Mapping[str, Any]) -> None:
        params = spec.get("paramKind") is not None
        composed: tuple[tuple[str, str], ...] = ()
        self._programs: list[tuple[str, Program]] = []
        for variable in spec.get("variables") or ():
            program = Scope(params=params, variables=composed).compile(variable["expression"])
            self._programs.append((variable["name"], program))
            composed = (*composed, (variable["name"], program.result))
        self.types = composed or None

    def compose(self, bindings: Bindings) -> tuple[Bindings, dict[str, str]]:
        """The bindings with the variables, and why variables have no value."""
        values: Obj = {}
        failures: dict[str, str] = {}
        for name, program in self._programs:
            try:
                values[name] = to_engine(bindings.extended(variables=values).run(program))
            except EvaluationError as error:
                failures[name] = f'composited variable "{name}" fails to evaluate: {describe(error, failures)}'
        return (bindings.extended(variables=values) if self._programs else bindings), failures


def describe(error: EvaluationError, failures: Mapping[str, str]) -> str:
    """An error; that of a variable if the expression used one without a value."""
    return failures.get(str(error).removeprefix("no such key: "), str(error))
