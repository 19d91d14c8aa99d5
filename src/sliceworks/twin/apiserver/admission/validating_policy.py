"""ValidatingAdmissionPolicies: bindings, params, variables, and the decisions of their CEL expressions."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from sliceworks.cel.admission import Scope
from sliceworks.cel.engine import CostExceeded, EvaluationError
from sliceworks.kube.selectors import from_label_selector
from sliceworks.twin.apiserver import codec
from sliceworks.twin.apiserver.admission.match_criteria import MatchConditions, MatchCriteria
from sliceworks.twin.apiserver.admission.policy_variables import PolicyVariables, describe
from sliceworks.twin.apiserver.auth.rbac import new_forbidden

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from sliceworks.base.errors import ApiError
    from sliceworks.cel.admission import Bindings
    from sliceworks.cel.environment import Program
    from sliceworks.twin.apiserver.admission.match_criteria import Target, WriteAttributes

Obj = dict[str, Any]
POLICIES = "admissionregistration.k8s.io/validatingadmissionpolicies"
BINDINGS = "admissionregistration.k8s.io/validatingadmissionpolicybindings"
_EVERYTHING: Obj = {"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"]}
_CODES = {"Unauthorized": 401, "Forbidden": 403, "RequestEntityTooLarge": 413, "Invalid": 422}
_MAX_MESSAGE_BYTES = 5 * 1024
_OUT_OF_BUDGET = "validation failed due to running out of cost budget, no further validation rules will be run"


class ConfigurationError(Exception):
    """A binding that cannot be evaluated."""

    subject = "binding"


class UnknownParamKind(ConfigurationError):
    """A policy whose `paramKind` the API does not serve."""

    subject = "policy"


class Denial(NamedTuple):
    """A validation that failed."""

    message: str
    reason: str = "Invalid"


@dataclass(frozen=True, slots=True)
class _Validation:
    spec: Mapping[str, Any]
    program: Program
    message: Program | None


class _Programs:
    """The compiled expressions of a policy. Validations see the variables, and each variable the ones before it."""

    def __init__(self, spec: Mapping[str, Any]) -> None:
        params = spec.get("paramKind") is not None
        self.variables = PolicyVariables(spec)
        names = self.variables.types
        scope, messages = Scope(params=params, variables=names), Scope(params=params, authorizer=False, variables=names)
        self.validations = [
            _Validation(
                item, scope.compile(item["expression"]), messages.compile(text) if (text := item.get("messageExpression")) else None
            )
            for item in spec.get("validations") or ()
        ]
        self.annotations = [scope.compile(item["valueExpression"].strip()) for item in spec.get("auditAnnotations") or ()]


class Policy:
    """A ValidatingAdmissionPolicy; its expressions are compiled at first use."""

    def __init__(self, obj: Mapping[str, Any]) -> None:
        self.name = str(obj["metadata"]["name"])
        self._spec: Obj = obj["spec"]
        constraints = self._spec.get("matchConstraints") or {}
        rules, excluded = constraints.get("resourceRules") or [], constraints.get("excludeResourceRules") or []
        self.criteria = MatchCriteria(constraints, rules, excluded)
        self.ignores_failures = self._spec.get("failurePolicy") == "Ignore"
        self.param_kind: Obj | None = self._spec.get("paramKind")
        conditions, policy = self._spec.get("matchConditions") or [], self._spec.get("failurePolicy") or "Fail"
        scope = Scope(params=self.param_kind is not None)
        self._conditions = MatchConditions(conditions, scope, policy) if conditions else None

    @cached_property
    def _programs(self) -> _Programs:
        return _Programs(self._spec)

    def evaluate(self, bindings: Bindings, conditions: Bindings) -> Iterator[Denial]:
        """The validations that fail. `conditions` are the bindings of match conditions, which do not see the namespace."""
        if self._conditions is not None:
            try:
                if not self._conditions.hold(conditions):
                    return
            except EvaluationError as error:
                yield Denial(str(error))
                return
        bindings, failures = self._programs.variables.compose(bindings)
        try:
            for validation in self._programs.validations:
                yield from self._validate(validation, bindings, failures)
        except CostExceeded:
            if not self.ignores_failures:
                yield Denial(_OUT_OF_BUDGET)
            return
        for annotation, program in zip(self._spec.get("auditAnnotations") or (), self._programs.annotations, strict=True):
            try:
                bindings.run(program)
            except EvaluationError as error:
                if not self.ignores_failures:
                    yield Denial(f"expression '{annotation['valueExpression'].strip()}' resulted in error: {error}")

    def _validate(self, validation: _Validation, bindings: Bindings, failures: dict[str, str]) -> Iterator[Denial]:
        text = validation.spec["expression"]
        try:
            if bindings.run(validation.program) is True:
                return
        except CostExceeded:
            raise
        except EvaluationError as error:
            if not self.ignores_failures:
                yield Denial(f"expression '{text.strip()}' resulted in error: {describe(error, failures)}")
            return
        yield Denial(self._message(validation, bindings), validation.spec.get("reason") or "Invalid")

    def _message(self, validation: _Validation, bindings: Bindings) -> str:
        default = str(validation.spec.get("message") or "").strip() or f"failed expression: {validation.spec['expression'].strip()}"
        if validation.message is None:
            return default
        try:
            message = str(bindings.run(validation.message)).strip()
        except EvaluationError:
            return default
        return message if message and "\n" not in message and len(message.encode()) <= _MAX_MESSAGE_BYTES else default


class PolicyBinding:
    """A binding of a validating or mutating policy."""

    def __init__(self, obj: Mapping[str, Any]) -> None:
        spec = obj["spec"]
        self.name, self.policy = str(obj["metadata"]["name"]), str(spec["policyName"])
        resources = spec.get("matchResources") or {}
        rules = resources.get("resourceRules") or [_EVERYTHING]
        self.criteria = MatchCriteria(resources, rules, resources.get("excludeResourceRules") or [])
        self.actions: list[str] = spec.get("validationActions") or []
        self._param_ref: Obj | None = spec.get("paramRef")

    def find_params(self, attributes: WriteAttributes, param_kind: Obj | None) -> list[Obj | None]:
        """The params of the policy for this write; [None] if it has none. Raises ConfigurationError."""
        reference = self._param_ref
        if param_kind is None or reference is None:
            return [None]
        resource, version = _find_kind(attributes, param_kind)
        namespace = ""
        if resource.namespaced:
            namespace = reference.get("namespace") or attributes.namespace
            if not namespace:
                raise ConfigurationError("cannot use namespaced paramRef in policy binding that matches cluster-scoped resources")
        elif reference.get("namespace"):
            raise ConfigurationError("paramRef.namespace must not be provided for a cluster-scoped `paramKind`")
        store = attributes.server.store
        if reference.get("name"):
            entry = store.get(resource.storage_key, namespace, reference["name"])
            entries = [entry] if entry is not None else []
        else:
            selector = from_label_selector(reference.get("selector"))
            scanned = store.scan(resource.storage_key, namespace or None)
            entries = [entry for entry in scanned if selector.matches(entry.object()["metadata"].get("labels"))]
        if not entries and reference.get("parameterNotFoundAction") == "Deny":
            raise ConfigurationError("no params found for policy binding with `Deny` parameterNotFoundAction")
        return [codec.to_served(resource, version, entry) for entry in entries]


def _find_kind(attributes: WriteAttributes, kind: Obj) -> tuple[Any, Any]:
    group, _, version = kind["apiVersion"].rpartition("/")
    for resource in attributes.server.registry:
        if (resource.group, resource.kind) == (group, kind["kind"]) and version in resource.versions:
            return resource, resource.versions[version]
    name = f"{group}/{version}, Kind={kind['kind']}"
    raise UnknownParamKind(f"failed to find resource referenced by paramKind: '{name}'")


class PolicyDispatcher:
    """Evaluates policies with their bindings."""

    def __init__(self) -> None:
        self._hooks: list[tuple[Policy, list[PolicyBinding]]] = []

    def configure(self, policies: Iterable[Obj], bindings: Iterable[Obj]) -> None:
        """Use these policies and bindings."""
        parsed = [PolicyBinding(obj) for obj in sorted(bindings, key=_name)]
        hooks = [
            (policy, [binding for binding in parsed if binding.policy == policy.name])
            for policy in map(Policy, sorted(policies, key=_name))
        ]
        self._hooks = [(policy, own) for policy, own in hooks if own]

    def validate(self, attributes: WriteAttributes) -> None:
        """Raise the error of the first denial, and add warnings."""
        denials = [denial for policy, bindings in self._hooks for denial in self._decide(attributes, policy, bindings)]
        if denials:
            raise denials[0]

    def _decide(self, attributes: WriteAttributes, policy: Policy, bindings: list[PolicyBinding]) -> Iterator[ApiError]:
        target = policy.criteria.find_target(attributes)
        if target is None:
            return
        for binding in bindings:
            if binding.criteria.find_target(attributes) is None:
                continue
            try:
                params = binding.find_params(attributes, policy.param_kind)
            except ConfigurationError as error:
                if not policy.ignores_failures:
                    message = f"failed to configure {error.subject}: {error}"
                    yield _denied(attributes, policy, binding if error.subject == "binding" else None, Denial(message, "Invalid"))
                continue
            for denial in self._denials(attributes, policy, target, params):
                if "Deny" in binding.actions:
                    yield _denied(attributes, policy, binding, denial)
                if "Warn" in binding.actions:
                    about = f"ValidatingAdmissionPolicy '{policy.name}' with binding '{binding.name}'"
                    attributes.call.warnings.append(f"Validation failed for {about}: {denial.message}")

    def _denials(self, attributes: WriteAttributes, policy: Policy, target: Target, params: list[Obj | None]) -> Iterator[Denial]:
        bindings, conditions = attributes.bindings(target, namespaced=True), attributes.bindings(target)
        for param in params:
            if policy.param_kind is None:
                yield from policy.evaluate(bindings, conditions)
            else:
                yield from policy.evaluate(bindings.extended(params=param), conditions.extended(params=param))


def _name(obj: Obj) -> str:
    return str(obj["metadata"]["name"])


def _denied(attributes: WriteAttributes, policy: Policy, binding: PolicyBinding | None, denial: Denial) -> ApiError:
    bound = f" with binding '{binding.name}'" if binding is not None else ""
    message = f"ValidatingAdmissionPolicy '{policy.name}'{bound} denied request: {denial.message}"
    resource, admission = attributes.call.resource, attributes.call.admission
    if admission is not None:
        error = admission.forbidden(attributes.obj or attributes.old, message)
    else:
        error = new_forbidden(resource.group, resource.plural, attributes.name, message)
    error.reason, error.code = denial.reason, _CODES.get(denial.reason, 422)
    error.details = {**(error.details or {}), "causes": [{"message": message}]}
    return error
