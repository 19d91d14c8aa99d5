"""Expressions of admission: match conditions of webhooks, and the expressions of admission policies."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cache, lru_cache
from typing import Any

from sliceworks.cel.dialect import KUBERNETES, Dialect
from sliceworks.cel.environment import CompileError, Environment, Program, Variable
from sliceworks.cel.libraries.functions import Function, split_types
from sliceworks.cel.object_types import JSON_PATCH, OBJECT, ObjectTypes
from sliceworks.cel.types import DYN, CelType
from sliceworks.cel.values import replace_nul
from sliceworks.schemas.model import Schema, build

Json = dict[str, Any]
Authorize = Callable[[Mapping[str, str]], "tuple[bool, str]"]
"""Whether the attributes of a check (verb, group, resource, …, path) are allowed, and the reason."""

_AUTHORIZER = "kubernetes.authorization.Authorizer"
_PATH = "kubernetes.authorization.PathCheck"
_GROUP = "kubernetes.authorization.GroupCheck"
_RESOURCE = "kubernetes.authorization.ResourceCheck"
_DECISION = "kubernetes.authorization.Decision"
_authorize: ContextVar[Authorize] = ContextVar("authorize")


def _with(name: str) -> Callable[[Json, str], Json]:
    return lambda check, value: {**check, name: value}


def _check(check: Json, verb: str) -> Json:
    allowed, reason = _authorize.get()({**check, "verb": verb})
    return {"allowed": allowed, "reason": reason}


_AUTHORIZER_FUNCTIONS = (
    Function("path", f"{_AUTHORIZER}.path(string)", _PATH, _with("path")),
    Function("group", f"{_AUTHORIZER}.group(string)", _GROUP, _with("group")),
    Function(
        "serviceAccount",
        f"{_AUTHORIZER}.serviceAccount(string, string)",
        _AUTHORIZER,
        lambda check, namespace, name: {**check, "user": f"system:serviceaccount:{namespace}:{name}"},
    ),
    Function("resource", f"{_GROUP}.resource(string)", _RESOURCE, _with("resource")),
    Function("subresource", f"{_RESOURCE}.subresource(string)", _RESOURCE, _with("subresource")),
    Function("namespace", f"{_RESOURCE}.namespace(string)", _RESOURCE, _with("namespace")),
    Function("name", f"{_RESOURCE}.name(string)", _RESOURCE, _with("name")),
    Function("check", f"{_RESOURCE}.check(string)", _DECISION, _check),
    Function("check", f"{_PATH}.check(string)", _DECISION, _check),
    Function("allowed", f"{_DECISION}.allowed()", "bool", lambda decision: decision["allowed"]),
    Function("reason", f"{_DECISION}.reason()", "string", lambda decision: decision["reason"]),
    Function("errored", f"{_DECISION}.errored()", "bool", lambda _: False),
    Function("error", f"{_DECISION}.error()", "string", lambda _: ""),
)
_ESCAPE = Function(
    "jsonpatch.escapeKey",
    "jsonpatch.escapeKey(string)",
    "string",
    lambda key: key.replace("~", "~0").replace("/", "~1"),
)
ADMISSION = Dialect((*KUBERNETES.checked, *_AUTHORIZER_FUNCTIONS), KUBERNETES.run_only)
MUTATION = Dialect((*ADMISSION.checked, _ESCAPE), KUBERNETES.run_only)
_PATCH_RESULTS = {"ApplyConfiguration": OBJECT, "JSONPatch": f"LIST<{JSON_PATCH}>"}

_STRING: Json = {"type": "string"}
_DYN: Json = {"x-kubernetes-int-or-string": True}
_STRINGS: Json = {"type": "array", "items": _STRING}
_USER: dict[str, Json] = {
    "username": _STRING,
    "uid": _STRING,
    "groups": _STRINGS,
    "extra": {"type": "object", "additionalProperties": _STRINGS},
}


def _object(**fields: Json) -> Json:
    return {"type": "object", "properties": fields}


_KIND, _GVR = _object(group=_STRING, version=_STRING, kind=_STRING), _object(group=_STRING, version=_STRING, resource=_STRING)
_REQUEST = _object(
    kind=_KIND,
    resource=_GVR,
    subResource=_STRING,
    requestKind=_KIND,
    requestResource=_GVR,
    requestSubResource=_STRING,
    name=_STRING,
    namespace=_STRING,
    operation=_STRING,
    userInfo=_object(**_USER),
    dryRun={"type": "boolean"},
    options=_DYN,
)
_SCALARS = {"BOOL": "boolean", "STRING": "string", "INT": "integer", "DOUBLE": "number"}
_GO_TYPES = {"BOOL": "bool", "STRING": "string", "NULL": "null_type", "INT": "int", "DOUBLE": "double", "DYN": "dyn"}


@cache
def _request_schema() -> Schema:
    return build(_REQUEST, name="kubernetes.AdmissionRequest")


@cache
def _any_schema() -> Schema:
    return build(_DYN)


@dataclass(frozen=True, slots=True)
class Scope:
    """The variables of an expression: those that all have, and `params`, `authorizer` and composed `variables`."""

    params: bool = False
    authorizer: bool = True
    variables: tuple[tuple[str, str], ...] | None = None
    """Names and result types of composed variables; None where expressions cannot compose."""

    def compile(self, expression: str, *results: str) -> Program:
        """The program of an expression that returns one of these types. Raises CompileError in kube-apiserver's words."""
        program = _environment(self).compile(expression)
        if results and program.result not in results:
            names = [_GO_TYPES.get(result, result.lower()) for result in results]
            expected = names[0] if len(names) == 1 else f"one of [{' '.join(names)}]"
            raise CompileError(f"must evaluate to {expected} but got {_GO_TYPES.get(program.result, program.result.lower())}")
        return program

    def compile_patch(self, expression: str, patch_type: str) -> Program:
        """The program of a mutation, which constructs its result. Raises CompileError."""
        constructed = ObjectTypes(expression)
        program = Environment(_variables(self), MUTATION, constructed).compile(expression)
        expected = _PATCH_RESULTS[patch_type]
        if program.result != expected:
            actual = constructed.show(_go_type(program.result))
            raise CompileError(f"must evaluate to {_go_type(expected)} but got {actual}")
        return program


class TypedScope:
    """The scope of a policy's expressions for one kind, whose schema types `object` and `oldObject`."""

    def __init__(self, schema: Schema, params: Schema | None, variables: Iterable[Mapping[str, str]]) -> None:
        typed = Variable(schema, shown="object")
        self._variables = {**_variables(Scope(params=params is not None)), "object": typed, "oldObject": typed}
        if params is not None:
            self._variables["params"] = Variable(params, shown="params")
        composed: tuple[tuple[str, str], ...] = ()
        for variable in variables:
            composed = (*composed, (variable["name"], self._result(variable["expression"], composed)))
        self._environment = self._compiled(composed)

    def _compiled(self, composed: tuple[tuple[str, str], ...]) -> Environment:
        fields = {name: {"type": _SCALARS[result]} if result in _SCALARS else _DYN for name, result in composed}
        return Environment(
            {**self._variables, "variables": Variable(build(_object(**fields)), shown="kubernetes.variables")}, ADMISSION
        )

    def _result(self, expression: str, composed: tuple[tuple[str, str], ...]) -> str:
        try:
            return self._compiled(composed).compile(expression).result
        except CompileError:
            return "DYN"

    def check(self, expression: str) -> None:
        """Raise CompileError if the expression does not fit the types."""
        self._environment.compile(expression)


def _go_type(name: str) -> str:
    """A type of the engine in cel-go's form: `list(JSONPatch)`."""
    outer, _, inner = name.removesuffix(">").partition("<")
    shown = _GO_TYPES.get(outer, outer.lower() if outer.isupper() else outer)
    return f"{shown}({', '.join(_go_type(part.strip()) for part in split_types(inner))})" if inner else shown


@lru_cache(maxsize=32)
def _environment(scope: Scope) -> Environment:
    return Environment(_variables(scope), ADMISSION)


def _variables(scope: Scope) -> dict[str, Variable | CelType]:
    variables: dict[str, Variable | CelType] = {
        "request": Variable(_request_schema(), shown="kubernetes.AdmissionRequest"),
        "object": DYN,
        "oldObject": DYN,
        "namespaceObject": DYN,
    }
    if scope.params:
        variables["params"] = DYN
    if scope.authorizer:
        variables["authorizer"] = CelType(_AUTHORIZER)
        variables["authorizer.requestResource"] = CelType(_RESOURCE)
    if scope.variables is not None:
        fields = {name: {"type": _SCALARS[result]} if result in _SCALARS else _DYN for name, result in scope.variables}
        variables["variables"] = Variable(build(_object(**fields)), shown="kubernetes.variables")
    return variables


@dataclass(slots=True)
class Bindings:
    """The values of the variables while one request is admitted."""

    values: Json
    authorize: Authorize
    _activation: Any = field(default=None, repr=False)

    def extended(self, **values: Any) -> Bindings:
        return Bindings({**self.values, **replace_nul(values)}, self.authorize)

    def run(self, program: Program) -> Any:
        """The value of an expression. Raises EvaluationError."""
        if self._activation is None:
            self._activation = ADMISSION.runtime.Activation(self.values)
        program.check_growth({name: self.values.get(name) for name in program.names}, _any_schema())
        token = _authorize.set(self.authorize)
        try:
            return program.run(self._activation)
        finally:
            _authorize.reset(token)


def bind(request: Json, obj: Json | None, old: Json | None, namespace: Json | None, authorize: Authorize) -> Bindings:
    """The bindings of a request. `request` is the AdmissionReview's, without the objects."""
    visible = {name: value for name, value in request.items() if name not in ("object", "oldObject", "uid")}
    resource = visible.get("resource") or {}
    own = {"group": resource.get("group", ""), "resource": resource.get("resource", "")}
    optional = {"subresource": "subResource", "namespace": "namespace", "name": "name"}
    own |= {name: visible[key] for name, key in optional.items() if visible.get(key)}
    values = {"request": visible, "object": obj, "oldObject": old, "namespaceObject": namespace}
    return Bindings(replace_nul({**values, "authorizer": {}, "authorizer.requestResource": own}), authorize)
