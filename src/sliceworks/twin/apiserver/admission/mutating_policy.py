"""MutatingAdmissionPolicies: which of them apply to a write, and how their expressions change its object."""

from __future__ import annotations

from datetime import timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson

from sliceworks.base.errors import ApiError
from sliceworks.cel.admission import Scope
from sliceworks.cel.engine import CostExceeded, EvaluationError
from sliceworks.cel.object_types import OBJECT, TYPE, plain, type_problems
from sliceworks.cel.values import to_document
from sliceworks.twin.apiserver.admission.match_criteria import MatchConditions, MatchCriteria
from sliceworks.twin.apiserver.admission.policy_variables import PolicyVariables, describe
from sliceworks.twin.apiserver.admission.validating_policy import ConfigurationError, PolicyBinding
from sliceworks.twin.apiserver.admission.webhook_dispatcher import decode_patched, patch_problem
from sliceworks.twin.apiserver.codec import deep_copy
from sliceworks.twin.apiserver.fieldmanager.merge import merge
from sliceworks.twin.apiserver.fieldmanager.typed_value import ATOMIC, MAP, shape_of, type_errors
from sliceworks.twin.apiserver.patch.jsonpatch import json_patch

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from sliceworks.cel.admission import Bindings
    from sliceworks.cel.environment import Program
    from sliceworks.twin.apiserver.admission.match_criteria import Target, WriteAttributes
    from sliceworks.twin.apiserver.admission.webhook_dispatcher import Reinvocation
    from sliceworks.twin.apiserver.fieldmanager.typed_value import Shape

Obj = dict[str, Any]
POLICIES = "admissionregistration.k8s.io/mutatingadmissionpolicies"
BINDINGS = "admissionregistration.k8s.io/mutatingadmissionpolicybindings"


_NO_VALUE = "optional.none() dereference"
_NOT_JSON = "JSONPath valueExpression evaluated to a type that could not marshal to JSON"
_NOT_TYPED = "error applying patch: failed to convert patch object to typed object"


class _Invocation(NamedTuple):
    """A policy that applies to a write, with a binding and one of its params."""

    policy: MutatingPolicy
    binding: PolicyBinding
    target: Target
    param: Obj | None

    @property
    def key(self) -> tuple[str, ...]:
        metadata = (self.param or {}).get("metadata") or {}
        return self.policy.name, self.binding.name, metadata.get("namespace", ""), metadata.get("name", "")


class _Denial(Exception):
    """A policy that could not be applied: the message, and the reason of the error."""

    def __init__(
        self, invocation: _Invocation | tuple[MutatingPolicy, PolicyBinding | None], message: str, reason: str = ""
    ) -> None:
        policy, binding = invocation[0], invocation[1]
        bound = f"policy '{policy.name}' with binding '{binding.name}'" if binding is not None else f'policy "{policy.name}"'
        super().__init__(f"{bound} denied request: {message}")
        self.reason, self.ignored = reason, policy.ignores_failures


class _Mutation(NamedTuple):
    kind: str
    expression: str
    program: Program


class MutatingPolicy:
    """A MutatingAdmissionPolicy; its expressions are compiled at first use."""

    def __init__(self, obj: Mapping[str, Any]) -> None:
        self.name = str(obj["metadata"]["name"])
        self._spec: Obj = obj["spec"]
        constraints = self._spec.get("matchConstraints") or {}
        rules, excluded = constraints.get("resourceRules") or [], constraints.get("excludeResourceRules") or []
        self.criteria = MatchCriteria(constraints, rules, excluded)
        self.ignores_failures = self._spec.get("failurePolicy") == "Ignore"
        self.reinvocable = self._spec.get("reinvocationPolicy") == "IfNeeded"
        self.param_kind: Obj | None = self._spec.get("paramKind")
        conditions, policy = self._spec.get("matchConditions") or [], self._spec.get("failurePolicy") or "Fail"
        self._conditions = MatchConditions(conditions, Scope(params=self.param_kind is not None), policy) if conditions else None

    @cached_property
    def _variables(self) -> PolicyVariables:
        return PolicyVariables(self._spec)

    @cached_property
    def mutations(self) -> list[_Mutation]:
        """The mutations in order."""
        scope = Scope(params=self.param_kind is not None, variables=self._variables.types)
        fields = {"ApplyConfiguration": "applyConfiguration", "JSONPatch": "jsonPatch"}
        expressions = [(item["patchType"], item[fields[item["patchType"]]]["expression"]) for item in self._spec["mutations"]]
        return [_Mutation(kind, text, scope.compile_patch(text.strip(), kind)) for kind, text in expressions]

    def matches(self, bindings: Bindings) -> bool:
        """Whether the match conditions hold. Raises EvaluationError."""
        return self._conditions is None or self._conditions.hold(bindings)

    def evaluate(self, mutation: _Mutation, bindings: Bindings) -> Any:
        """The value of a mutation's expression. Raises EvaluationError."""
        composed, failures = self._variables.compose(bindings)
        try:
            return composed.run(mutation.program)
        except CostExceeded:
            raise
        except EvaluationError as error:
            problem = describe(error, failures)
            if problem == _NO_VALUE and mutation.kind == "JSONPatch":
                raise EvaluationError(f"{_NOT_JSON}: {problem}") from error
            raise EvaluationError(f"expression '{mutation.expression}' resulted in error: {problem}") from error


class MutatingPolicyDispatcher:
    """Applies policies with their bindings, in the order of their names."""

    def __init__(self) -> None:
        self.hooks: list[tuple[MutatingPolicy, list[PolicyBinding]]] = []

    def configure(self, policies: Iterable[Obj], bindings: Iterable[Obj]) -> None:
        """Use these policies and bindings."""
        parsed = [PolicyBinding(obj) for obj in sorted(bindings, key=_name)]
        hooks = [
            (policy, [binding for binding in parsed if binding.policy == policy.name])
            for policy in map(MutatingPolicy, sorted(policies, key=_name))
        ]
        self.hooks = [(policy, own) for policy, own in hooks if own]

    def mutate(self, attributes: WriteAttributes, state: Reinvocation, *, again: bool = False) -> bool:
        """Apply the policies; returns whether any was applied. Raises the error of the first that fails."""
        if attributes.obj is None or not self.hooks:
            return False
        denials: list[_Denial] = []
        invocations = list(self._invocations(attributes, denials))
        applied = False
        for invocation in invocations:
            try:
                applied = _invoke(invocation, attributes, state, again=again) or applied
            except _Denial as denial:
                denials.append(denial)
        if applied:
            state.require()
        failed = [denial for denial in denials if not denial.ignored]
        if failed:
            raise _denied(attributes, failed)
        return applied

    def _invocations(self, attributes: WriteAttributes, denials: list[_Denial]) -> Iterator[_Invocation]:
        for policy, bindings in self.hooks:
            target = policy.criteria.find_target(attributes)
            if target is None:
                continue
            for binding in bindings:
                if binding.criteria.find_target(attributes) is None:
                    continue
                try:
                    params = binding.find_params(attributes, policy.param_kind)
                except ConfigurationError as error:
                    bound = binding if error.subject == "binding" else None
                    denials.append(_Denial((policy, bound), f"failed to configure {error.subject}: {error}"))
                    continue
                yield from (_Invocation(policy, binding, target, param) for param in params)


def _invoke(invocation: _Invocation, attributes: WriteAttributes, state: Reinvocation, *, again: bool) -> bool:
    """Apply a policy, unless its conditions do not hold; returns whether it was applied. Raises _Denial."""
    policy = invocation.policy
    extended = {"params": invocation.param} if policy.param_kind is not None else {}
    try:
        if not policy.matches(attributes.bindings(invocation.target).extended(**extended)):
            return False
    except EvaluationError as error:
        raise _Denial(invocation, str(error), "Invalid") from error
    if again and invocation.key not in state.due:
        return False
    before, failure = orjson.dumps(attributes.obj), None
    for mutation in policy.mutations:
        bindings = attributes.bindings(invocation.target, namespaced=True).extended(**extended)
        try:
            _apply(mutation.kind, policy.evaluate(mutation, bindings), attributes, invocation.target)
        except (EvaluationError, _InvalidPatch) as error:
            failure = failure or _Denial(invocation, str(error), "Invalid")
    if orjson.dumps(attributes.obj) != before:
        state.require()
    if policy.reinvocable:
        state.ran.add(invocation.key)
    if failure is not None:
        raise failure
    return True


class _InvalidPatch(Exception):
    """A result of an expression that cannot be applied."""


def _apply(kind: str, result: Any, attributes: WriteAttributes, target: Target) -> None:
    """Replace the object by the result of a mutation, with defaults."""
    obj = attributes.in_version(target)[0]
    assert obj is not None
    patched = _applied(result, obj, target) if kind == "ApplyConfiguration" else _patched(result, obj)
    if patched is not None:
        decoded = decode_patched(attributes, target, patched, strict=kind == "JSONPatch")
        attributes.set_object(attributes.from_version(decoded, target))


def _applied(result: Any, obj: Obj, target: Target) -> Obj:
    """The object merged with an apply configuration."""
    if problems := list(type_problems(result, OBJECT)):
        raise _InvalidPatch("type mismatch: " + "\n".join(problems))
    if problem := next(_key_problems(result, ""), ""):
        raise _InvalidPatch(f"{_NOT_TYPED}: {problem}")
    configuration = {**plain(result), "apiVersion": obj["apiVersion"], "kind": obj["kind"]}
    shape = shape_of(target.schema())
    if errors := list(type_errors(shape, configuration)):
        problem = errors[0] if len(errors) == 1 else "errors:\n" + "\n".join(f"  {error}" for error in errors)
        raise _InvalidPatch(f"{_NOT_TYPED}: {problem}")
    if atomics := list(_atomics(shape, configuration, "")):
        problem = f"may not mutate atomic arrays, maps or structs: {', '.join(atomics)}"
        raise _InvalidPatch(f"error applying patch: invalid ApplyConfiguration: {problem}")
    merged: Obj = merge(shape, deep_copy(obj), configuration)
    return merged


def _key_problems(value: Any, path: str) -> Iterator[str]:
    """Maps whose keys are not strings, in the words of cel-go."""
    for field, item in value.items() if isinstance(value, dict) else ():
        key = next((key for key in item if not isinstance(key, str)), None) if isinstance(item, dict) else None
        if key is not None:
            shown = f"map key {_quote_key(key)} is of type types.{type(key).__name__.capitalize()}, not string"
            yield f'{path}: expected map, got &{{fail to convert field "{field}": {shown}}}'
        else:
            yield from _key_problems(item, f"{path}.{field}")


def _quote_key(key: Any) -> str:
    """A key as Go's %q shows it: a number is a character."""
    return repr(chr(key)) if type(key) is int and 0 <= key < 0x110000 else str(key)


def _atomics(shape: Shape, value: Any, path: str) -> Iterator[str]:
    """The paths of atomic maps and lists in an apply configuration."""
    if isinstance(value, dict | list) and shape.kind == ATOMIC and shape.form in ("map", "list"):
        yield path
    elif isinstance(value, dict) and shape.kind == MAP:
        for key, item in value.items():
            yield from _atomics(shape.fields[key][1], item, f"{path}.{key}")
    elif isinstance(value, list) and shape.element is not None:
        for index, item in enumerate(value):
            yield from _atomics(shape.element, item, f"{path}[{index}]")


def _patched(result: Any, obj: Obj) -> Any:
    """The object after a JSON patch; None if a test of the patch fails."""
    patched = deep_copy(obj)
    for item in result:
        value = item.get("value")
        name = value.get(TYPE) if isinstance(value, dict) else None
        if name is not None and (problems := list(type_problems(value, name))):
            raise _InvalidPatch("type mismatch: " + "\n".join(problems))
        operation = {"op": item.get("op", ""), "path": item.get("path", "")}
        operation |= {key: _json(item[key]) for key in ("from", "value") if key in item}
        try:
            patched = json_patch(patched, [operation])
        except ApiError as error:
            if operation["op"] == "test":
                return None
            raise _InvalidPatch(f"JSON Patch: {patch_problem(patched, operation)}") from error
    return patched


def _json(value: Any) -> Any:
    """A value of an expression in JSON's types. Raises _InvalidPatch."""
    try:
        return to_document(_with_seconds(plain(value)))
    except ValueError as error:
        raise _InvalidPatch(f"{_NOT_JSON}: {_unsupported(value)}") from error


def _with_seconds(value: Any) -> Any:
    """A value with durations as Go's protobuf library writes them, such as `90s`."""
    if isinstance(value, timedelta):
        return f"{value.total_seconds():.9f}".rstrip("0").rstrip(".") + "s"
    if isinstance(value, dict):
        return {key: _with_seconds(item) for key, item in value.items()}
    return [_with_seconds(item) for item in value] if isinstance(value, list) else value


def _unsupported(value: Any) -> str:
    """Why a value has no form in JSON, in the words of cel-go."""
    if isinstance(value, dict):
        key = next((key for key in value if not isinstance(key, str)), None)
        if key is not None:
            return f"unsupported type conversion from '{type(key).__name__}' to string"
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return next(map(_unsupported, inner), "type conversion not supported for 'type'")


def _denied(attributes: WriteAttributes, denials: list[_Denial]) -> ApiError:
    from sliceworks.twin.apiserver.auth.rbac import new_forbidden

    resource, admission = attributes.call.resource, attributes.call.admission
    if admission is not None:
        error: ApiError = admission.forbidden(attributes.obj or attributes.old, "")
    else:
        error = new_forbidden(resource.group, resource.plural, attributes.name, "")
    error.message = str(denials[0])
    error.args = (error.message,)
    if denials[0].reason:
        error.reason = denials[0].reason
    error.details = {**(error.details or {}), "causes": [{"message": str(denial)} for denial in denials]}
    return error


def _name(obj: Obj) -> str:
    return str(obj["metadata"]["name"])
