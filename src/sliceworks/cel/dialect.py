"""Function libraries of an expression, as engine configuration for type checking and for evaluation.

Expressions are checked with full types and evaluated without types, on plain dicts and lists.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from sliceworks.cel import ast_transform
from sliceworks.cel.engine import load_engine
from sliceworks.cel.libraries import addresses, aggregates, formats, kro, quantities, regex, semver, standard, urls
from sliceworks.cel.libraries.functions import split_types
from sliceworks.cel.types import DYN
from sliceworks.cel.values import to_engine

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from sliceworks.cel.libraries.functions import Function
    from sliceworks.cel.types import CelType

_ENGINE_TYPES = {
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
    """A set of libraries. Expressions may call `checked` functions; `run_only` functions implement rewritten calls."""

    checked: tuple[Function, ...]
    run_only: tuple[Function, ...]
    extensions: tuple[str, ...] = _CHECKED_EXTENSIONS

    def checker(self, pool: Any, variables: Mapping[str, CelType], optional: Mapping[str, CelType]) -> Any:
        """An environment for type checking. `optional` variables require the engine's slower YAML configuration."""
        cel = load_engine()
        config = cel.NewEnvConfigFromYaml(self._checked_config + _optional_variables(optional)) if optional else self._base_config
        return cel.NewEnv(pool, config=config, variables={name: _engine_type(cel, kind) for name, kind in variables.items()})

    @cached_property
    def _base_config(self) -> Any:
        return load_engine().NewEnvConfigFromYaml(self._checked_config)

    @cached_property
    def _checked_config(self) -> str:
        by_name: dict[str, list[Function]] = {}
        for function in self.checked:
            by_name.setdefault(function.name, []).append(function)
        replaced = "stdlib:\n  exclude_functions:\n" + "".join(f'    - name: "{name}"\n' for name in standard.REPLACED)
        functions = "".join(_declare_function(name, overloads) for name, overloads in by_name.items())
        return _extensions(self.extensions) + replaced + "functions:\n" + functions

    @cached_property
    def runtime(self) -> Any:
        """An environment for evaluation of checked expressions."""
        cel = load_engine()
        overloads: dict[tuple[str, bool], dict[tuple[str, ...], Callable[..., Any]]] = {}
        for function in (*self.checked, *self.run_only):
            if function.run is not None:
                implementations = overloads.setdefault((function.name, function.member), {})
                for kinds in _runtime_signatures(function.parameters):
                    implementations.setdefault(kinds, function.run)
        declared = [
            cel.FunctionDecl(name, [_overload(cel, name, kinds, member, run) for kinds, run in implementations.items()])
            for (name, member), implementations in overloads.items()
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
    if kind.kind == "dyn" or kind.kind in _ENGINE_TYPES:
        return getattr(cel.Type, _ENGINE_TYPES.get(kind.kind, "DYN"))
    return cel.Type(kind.kind)


def _declare_function(name: str, overloads: Iterable[Function]) -> str:
    declarations = (
        f'      - id: "{overload.id}"\n{_declare_parameters(overload)}        return: "{overload.result}"\n'
        for overload in overloads
    )
    return f'  - name: "{name}"\n    overloads:\n' + "".join(declarations)


def _declare_parameters(function: Function) -> str:
    if not function.name.isidentifier():  # signatures support neither operators nor namespaced functions
        arguments = "".join(_argument(kind, "          ") for kind in function.parameters)
        return "        args:\n" + arguments if arguments else ""
    return f'        signature: "{function.signature}"\n'


def _argument(kind: str, indent: str) -> str:
    """A type expression with type parameters; `~A` is a parameter."""
    name, _, inner = kind.removesuffix(">").partition("<")
    if name.startswith("~"):
        return f'{indent}- type_name: "{name[1:]}"\n{indent}  is_type_param: true\n'
    below = "".join(_argument(part, indent + "    ") for part in split_types(inner) if part)
    return f'{indent}- type_name: "{name}"\n' + (f"{indent}  params:\n{below}" if below else "")


def _runtime_signatures(parameters: list[str]) -> list[tuple[str, ...]]:
    """Run-time argument types of an overload: `dyn` for a type parameter, a map for an opaque type."""
    signatures: list[tuple[str, ...]] = [()]
    for parameter in parameters:
        name = parameter.partition("<")[0]
        options = list(_ENGINE_TYPES.values()) if name.startswith("~") else [_ENGINE_TYPES.get(name, "MAP")]
        signatures = [(*signature, option) for signature in signatures for option in options]
    return signatures


def _overload(cel: Any, name: str, kinds: tuple[str, ...], member: bool, run: Callable[..., Any]) -> Any:
    parameters = [getattr(cel.Type, kind) for kind in kinds]
    identity = f"{name}/{'member' if member else 'plain'}/{','.join(kinds)}"
    return cel.Overload(identity, cel.Type.DYN, parameters, is_member=member, impl=lambda *values: to_engine(run(*values)))


_COMMON = (
    *aggregates.FUNCTIONS,
    *regex.FUNCTIONS,
    *urls.FUNCTIONS,
    *quantities.FUNCTIONS,
    *semver.FUNCTIONS,
    *standard.ORDER_FUNCTIONS,
    *addresses.FUNCTIONS,
)
KUBERNETES = Dialect(
    (*standard.FUNCTIONS, *_COMMON, *formats.FUNCTIONS),
    (*aggregates.LIST_RUN_ONLY, *aggregates.MAP_FUNCTIONS, *ast_transform.LIST_TYPE_FUNCTIONS),
)
"""For validation rules in CustomResourceDefinitions."""

KRO = Dialect(
    (*standard.GRAPH_FUNCTIONS, *_COMMON, *kro.CONDITION_FUNCTIONS, *kro.FUNCTIONS),
    (
        *aggregates.LIST_RUN_ONLY,
        *aggregates.MAP_FUNCTIONS,
        *ast_transform.LIST_TYPE_FUNCTIONS,
        *kro.RUN_ONLY,
        *ast_transform.MAP_ORDER_FUNCTIONS,
    ),
    _GRAPH_EXTENSIONS,
)
"""For expressions in resource graphs."""
