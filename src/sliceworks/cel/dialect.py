"""Which libraries expressions may use, as configuration of the engine: once for checking types, once for running.

Expressions are checked where every type is known and run where none is: there, plain dicts and lists are the values.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from sliceworks.cel import equality, ordering
from sliceworks.cel.engine import engine
from sliceworks.cel.libraries import (
    addresses,
    conditions,
    formats,
    graphs,
    lists,
    maps,
    order,
    patterns,
    quantities,
    standard,
    urls,
    versions,
)
from sliceworks.cel.libraries.functions import top_level
from sliceworks.cel.types import DYN
from sliceworks.cel.values import to_engine

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from sliceworks.cel.libraries.functions import Function
    from sliceworks.cel.types import CelType

_KINDS = {
    "bool": "BOOL",
    "int": "INT",
    "uint": "UINT",
    "double": "DOUBLE",
    "string": "STRING",
    "bytes": "BYTES",
    "null": "NULL",
    "list": "LIST",
    "map": "MAP",
    "google.protobuf.Timestamp": "TIMESTAMP",
    "google.protobuf.Duration": "DURATION",
}
_CHECKED_EXTENSIONS = ("optional", "lists", "sets", "two-var-comprehensions")
_GRAPH_EXTENSIONS = ("optional", "lists", "two-var-comprehensions", "bindings", "encoders")
_RUN_EXTENSIONS = ("optional", "lists", "sets", "strings", "encoders")


@dataclass(frozen=True, eq=False)
class Dialect:
    """A choice of libraries. `checked` functions may be called; `run_only` ones stand in for calls that were rewritten."""

    checked: tuple[Function, ...]
    run_only: tuple[Function, ...]
    extensions: tuple[str, ...] = _CHECKED_EXTENSIONS

    def checker(self, pool: Any, variables: Mapping[str, CelType], optional: Mapping[str, CelType]) -> Any:
        """An environment that checks types. Only the engine's configuration can declare `optional` variables, and takes longer."""
        cel = engine()
        config = cel.NewEnvConfigFromYaml(self._checked_text + _optional_variables(optional)) if optional else self._configuration
        return cel.NewEnv(pool, config=config, variables={name: _engine_type(cel, kind) for name, kind in variables.items()})

    @cached_property
    def _configuration(self) -> Any:
        return engine().NewEnvConfigFromYaml(self._checked_text)

    @cached_property
    def _checked_text(self) -> str:
        by_name: dict[str, list[Function]] = {}
        for function in self.checked:
            by_name.setdefault(function.name, []).append(function)
        replaced = "stdlib:\n  exclude_functions:\n" + "".join(f'    - name: "{name}"\n' for name in standard.REPLACED)
        functions = "".join(_declared(name, overloads) for name, overloads in by_name.items())
        return _extensions(self.extensions) + replaced + "functions:\n" + functions

    @cached_property
    def runtime(self) -> Any:
        """The environment in which checked expressions run."""
        cel = engine()
        overloads: dict[tuple[str, bool], dict[tuple[str, ...], Callable[..., Any]]] = {}
        for function in (*self.checked, *self.run_only):
            if function.run is not None:
                found = overloads.setdefault((function.name, function.member), {})
                for kinds in _kinds(function.parameters):
                    found.setdefault(kinds, function.run)
        declared = [
            cel.FunctionDecl(name, [_overload(cel, name, kinds, member, run) for kinds, run in found.items()])
            for (name, member), found in overloads.items()
        ]
        return cel.NewEnv(config=cel.NewEnvConfigFromYaml(_extensions(_RUN_EXTENSIONS)), functions=declared)


def _extensions(names: Iterable[str]) -> str:
    return "extensions:\n" + "".join(f'  - name: "{name}"\n' for name in names)


def _optional_variables(types: Mapping[str, CelType]) -> str:
    lines = (f'  - name: "{name}"\n    type: "optional_type<{kind.text}>"\n' for name, kind in types.items())
    return "variables:\n" + "".join(lines)


def _engine_type(cel: Any, kind: CelType) -> Any:
    if kind.kind == "list":
        return cel.Type.List(_engine_type(cel, kind.element or DYN))
    if kind.kind == "map":
        return cel.Type.Map(cel.Type.STRING, _engine_type(cel, kind.element or DYN))
    if kind.kind == "message":
        return cel.Type(kind.message)
    if kind.kind == "dyn" or kind.kind in _KINDS:
        return getattr(cel.Type, _KINDS.get(kind.kind, "DYN"))
    return cel.Type(kind.kind)


def _declared(name: str, overloads: Iterable[Function]) -> str:
    texts = (f'      - id: "{one.id}"\n{_taken(one)}        return: "{one.result}"\n' for one in overloads)
    return f'  - name: "{name}"\n    overloads:\n' + "".join(texts)


def _taken(function: Function) -> str:
    if not function.name.isidentifier():  # a signature cannot name operators or functions in a namespace
        arguments = "".join(_argument(kind, "          ") for kind in function.parameters)
        return "        args:\n" + arguments if arguments else ""
    return f'        signature: "{function.signature}"\n'


def _argument(kind: str, indent: str) -> str:
    """A type with its parameters written out; `~A` is itself a parameter."""
    name, _, inner = kind.removesuffix(">").partition("<")
    if name.startswith("~"):
        return f'{indent}- type_name: "{name[1:]}"\n{indent}  is_type_param: true\n'
    below = "".join(_argument(part, indent + "    ") for part in top_level(inner) if part)
    return f'{indent}- type_name: "{name}"\n' + (f"{indent}  params:\n{below}" if below else "")


def _kinds(parameters: list[str]) -> list[tuple[str, ...]]:
    """The kinds of values that an overload takes when it runs: any where the type is a parameter, a map where it is opaque."""
    found: list[tuple[str, ...]] = [()]
    for parameter in parameters:
        name = parameter.partition("<")[0]
        options = list(_KINDS.values()) if name.startswith("~") else [_KINDS.get(name, "MAP")]
        found = [(*one, option) for one in found for option in options]
    return found


def _overload(cel: Any, name: str, kinds: tuple[str, ...], member: bool, run: Callable[..., Any]) -> Any:
    parameters = [getattr(cel.Type, kind) for kind in kinds]
    identity = f"{name}/{'member' if member else 'plain'}/{','.join(kinds)}"
    return cel.Overload(identity, cel.Type.DYN, parameters, is_member=member, impl=lambda *values: to_engine(run(*values)))


_LIBRARIES = (standard, lists, patterns, urls, quantities, versions, order, addresses, formats)
KUBERNETES = Dialect(
    tuple(function for library in _LIBRARIES for function in library.FUNCTIONS),
    (*lists.RUN_ONLY, *maps.RUN_ONLY, *equality.RUN_ONLY),
)
"""What rules in custom resource definitions may use."""

_GRAPH_LIBRARIES = (lists, patterns, urls, quantities, versions, order, addresses, graphs, conditions)
GRAPHS = Dialect(
    (*standard.GRAPH_FUNCTIONS, *(function for library in _GRAPH_LIBRARIES for function in library.FUNCTIONS)),
    (*lists.RUN_ONLY, *maps.RUN_ONLY, *equality.RUN_ONLY, *graphs.RUN_ONLY, *ordering.RUN_ONLY),
    _GRAPH_EXTENSIONS,
)
"""What expressions in resource graphs may use."""
