"""Webhook configurations, and ValidatingAdmissionPolicies with their bindings."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from sliceworks.base import names
from sliceworks.schemas.field_errors import forbidden, invalid, not_supported, required, too_many
from sliceworks.twin.apiserver.validation.crd import client_config_errors, review_version_errors
from sliceworks.twin.apiserver.validation.field_checks import Errors, check_enum, check_name, check_qualified_name, check_unique
from sliceworks.twin.apiserver.validation.selectors import selector_errors

if TYPE_CHECKING:
    from collections.abc import Callable

    from sliceworks.cel.admission import Scope
    from sliceworks.twin.apiserver.validation.defaults import Json

_OPERATIONS = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
_SCOPES = ("*", "Cluster", "Namespaced")
_FAILURE_POLICIES, _MATCH_POLICIES = ("Fail", "Ignore"), ("Equivalent", "Exact")
_SIDE_EFFECTS = ("None", "NoneOnDryRun")
_REINVOCATION_POLICIES = ("IfNeeded", "Never")
_MAX_CONDITIONS = 64


def webhook_configuration_errors(*, mutating: bool) -> Callable[[Json], Errors]:
    """Build the validation of a MutatingWebhookConfiguration or a ValidatingWebhookConfiguration."""

    def check(obj: Json) -> Errors:
        errors: Errors = []
        seen: set[str] = set()
        for index, hook in enumerate(obj.get("webhooks") or ()):
            path = f"webhooks[{index}]"
            _webhook(errors, hook, path, mutating=mutating)
            versions = hook.get("admissionReviewVersions") or []
            errors += review_version_errors(versions, f"{path}.admissionReviewVersions", "must specify one of v1, v1beta1")
            if hook.get("name"):
                check_unique(errors, seen, hook["name"], f"{path}.name")
        return errors

    return check


def _webhook(errors: Errors, hook: Json, path: str, *, mutating: bool) -> None:
    _fully_qualified_name(errors, hook.get("name") or "", f"{path}.name")
    for index, rule in enumerate(hook.get("rules") or ()):
        _rule(errors, rule, f"{path}.rules[{index}]")
    _policies(errors, hook, path)
    effects = hook.get("sideEffects")
    if effects is None:
        errors.append(required(f"{path}.sideEffects", f"must specify one of {', '.join(_SIDE_EFFECTS)}"))
    elif effects not in _SIDE_EFFECTS:
        errors.append(not_supported(f"{path}.sideEffects", effects, _SIDE_EFFECTS))
    timeout = hook.get("timeoutSeconds")
    if timeout is not None and not 1 <= timeout <= 30:
        errors.append(invalid(f"{path}.timeoutSeconds", timeout, "the timeout value must be between 1 and 30 seconds"))
    _selectors(errors, hook, path)
    if mutating:
        check_enum(errors, hook.get("reinvocationPolicy") or "Never", f"{path}.reinvocationPolicy", _REINVOCATION_POLICIES)
    errors += client_config_errors(hook.get("clientConfig") or {}, f"{path}.clientConfig")
    from sliceworks.cel.admission import Scope

    _match_conditions(errors, hook.get("matchConditions") or [], Scope(), f"{path}.matchConditions")


def _policies(errors: Errors, value: Json, path: str) -> None:
    for field, allowed in (("failurePolicy", _FAILURE_POLICIES), ("matchPolicy", _MATCH_POLICIES)):
        if value.get(field) is not None and value[field] not in allowed:
            errors.append(not_supported(f"{path}.{field}", value[field], allowed))


def _selectors(errors: Errors, value: Json, path: str) -> None:
    for field in ("namespaceSelector", "objectSelector"):
        if value.get(field) is not None:
            selector_errors(errors, value[field], f"{path}.{field}")


def _fully_qualified_name(errors: Errors, name: str, path: str) -> None:
    if not name:
        errors.append(required(path))
    elif problems := names.dns1123_subdomain_errors(name):
        errors.append(invalid(path, name, ",".join(problems)))
    elif name.count(".") < 2:
        errors.append(invalid(path, name, "should be a domain with at least three segments separated by dots"))


def _rule(errors: Errors, rule: Json, path: str) -> None:
    operations = rule.get("operations") or []
    if not operations:
        errors.append(required(f"{path}.operations"))
    _wildcard(errors, operations, f"{path}.operations", "operations")
    for index, operation in enumerate(operations):
        if operation not in _OPERATIONS:
            errors.append(not_supported(f"{path}.operations[{index}]", operation, _OPERATIONS))
    groups, versions = rule.get("apiGroups") or [], rule.get("apiVersions") or []
    if not groups:
        errors.append(required(f"{path}.apiGroups"))
    _wildcard(errors, groups, f"{path}.apiGroups", "API groups")
    if not versions:
        errors.append(required(f"{path}.apiVersions"))
    _wildcard(errors, versions, f"{path}.apiVersions", "API versions")
    errors += [required(f"{path}.apiVersions[{index}]") for index, version in enumerate(versions) if not version]
    _resources(errors, rule.get("resources") or [], f"{path}.resources")
    if rule.get("scope") is not None and rule["scope"] not in _SCOPES:
        errors.append(not_supported(f"{path}.scope", rule["scope"], _SCOPES))


def _wildcard(errors: Errors, values: list[str], path: str, what: str) -> None:
    if len(values) > 1 and "*" in values:
        errors.append(invalid(path, values, f"if '*' is present, must not specify other {what}"))


def _resources(errors: Errors, resources: list[str], path: str) -> None:
    if not resources:
        errors.append(required(path))
    all_subresources: set[str] = set()
    of_all_resources: set[str] = set()
    plain = False
    for index, item in enumerate(resources):
        if not item:
            errors.append(required(f"{path}[{index}]"))
            continue
        resource, slash, subresource = item.partition("/")
        if not slash:
            plain = item != "*"
            continue
        if resource in all_subresources:
            errors.append(invalid(f"{path}[{index}]", item, f"if '{resource}/*' is present, must not specify {item}"))
        if subresource in of_all_resources:
            errors.append(invalid(f"{path}[{index}]", item, f"if '*/{subresource}' is present, must not specify {item}"))
        if subresource == "*":
            all_subresources.add(resource)
        if resource == "*":
            of_all_resources.add(subresource)
    if len(resources) > 1 and "*/*" in resources:
        errors.append(invalid(path, resources, "if '*/*' is present, must not specify other resources"))
    if "*" in resources and plain:
        errors.append(invalid(path, resources, "if '*' is present, must not specify other resources without subresources"))


def _match_conditions(errors: Errors, conditions: list[Json], scope: Scope, path: str) -> None:
    if len(conditions) > _MAX_CONDITIONS:
        errors.append(too_many(path, len(conditions), _MAX_CONDITIONS))
    seen: set[str] = set()
    for index, condition in enumerate(conditions):
        place, name = f"{path}[{index}]", condition.get("name") or ""
        text = (condition.get("expression") or "").strip()
        if text:
            _expression(errors, text, scope, f"{place}.expression", "BOOL")
        else:
            errors.append(required(f"{place}.expression"))
        if name:
            check_qualified_name(errors, name, f"{place}.name")
            check_unique(errors, seen, name, f"{place}.name")
        else:
            errors.append(required(f"{place}.name"))


_REASONS = ("Forbidden", "Invalid", "RequestEntityTooLarge")
_ACTIONS = ("Audit", "Deny", "Warn")
_MAX_ANNOTATIONS, _MAX_ANNOTATION_BYTES = 20, 5 * 1024
_ABSENT = "validations or auditAnnotations must contain at least one item"
_IDENTIFIER = re.compile(r"[_a-zA-Z][_a-zA-Z0-9]*\Z")


def policy_errors(obj: Json) -> Errors:
    """Errors of a ValidatingAdmissionPolicy."""
    from sliceworks.cel.admission import Scope

    errors: Errors = []
    spec = obj.get("spec") or {}
    check_enum(errors, spec.get("failurePolicy") or "", "spec.failurePolicy", _FAILURE_POLICIES)
    has_params = spec.get("paramKind") is not None
    if has_params:
        _param_kind(errors, spec["paramKind"], "spec.paramKind")
    constraints = spec.get("matchConstraints")
    if constraints is None:
        errors.append(required("spec.matchConstraints"))
    else:
        _match_resources(errors, constraints, "spec.matchConstraints")
        if not constraints.get("resourceRules"):
            errors.append(required("spec.matchConstraints.resourceRules"))
    _match_conditions(errors, spec.get("matchConditions") or [], Scope(params=has_params), "spec.matchConditions")
    variables = _variables(errors, spec.get("variables") or [], has_params)
    scope, messages = Scope(params=has_params, variables=variables), Scope(params=has_params, authorizer=False, variables=variables)
    validations, annotations = spec.get("validations") or [], spec.get("auditAnnotations") or []
    if not validations and not annotations:
        return [*errors, required("spec.validations", _ABSENT), required("spec.auditAnnotations", _ABSENT)]
    for index, validation in enumerate(validations):
        _validation(errors, validation, (scope, messages), f"spec.validations[{index}]")
    if len(annotations) > _MAX_ANNOTATIONS:
        detail = f"must not have more than {_MAX_ANNOTATIONS} auditAnnotations"
        errors.append(invalid("spec.auditAnnotations", annotations, detail))
    seen: set[str] = set()
    for index, annotation in enumerate(annotations):
        path = f"spec.auditAnnotations[{index}]"
        _annotation(errors, annotation, str(obj["metadata"].get("name") or ""), scope, path)
        check_unique(errors, seen, annotation.get("key") or "", f"{path}.key")
    return errors


def _param_kind(errors: Errors, kind: Json, path: str) -> None:
    api_version, name = kind.get("apiVersion") or "", kind.get("kind") or ""
    group, slash, version = api_version.partition("/")
    group, version = (group, version) if slash else ("", api_version)
    if not api_version:
        errors.append(required(f"{path}.apiVersion"))
    elif api_version.count("/") > 1:
        errors.append(invalid(f"{path}.apiVersion", api_version, f"unexpected GroupVersion string: {api_version}"))
    else:
        if group and (problems := names.dns1123_subdomain_errors(group)):
            errors.append(invalid(f"{path}.apiVersion", group, ",".join(problems)))
        if not version:
            errors.append(invalid(f"{path}.apiVersion", api_version, "version must be specified"))
        elif problems := names.dns1035_label_errors(version):
            errors.append(invalid(f"{path}.apiVersion", version, ",".join(problems)))
    if not name:
        errors.append(required(f"{path}.kind"))
    elif problems := names.dns1035_label_errors(name.lower()):
        detail = f"may have mixed case, but should otherwise match: {','.join(problems)}"
        errors.append(invalid(f"{path}.kind", name, detail))


def _match_resources(errors: Errors, resources: Json, path: str) -> None:
    check_enum(errors, resources.get("matchPolicy") or "", f"{path}.matchPolicy", _MATCH_POLICIES)
    _selectors(errors, resources, path)
    for field in ("resourceRules", "excludeResourceRules"):
        for index, rule in enumerate(resources.get(field) or ()):
            place = f"{path}.{field}[{index}]"
            seen: set[str] = set()
            for position, name in enumerate(rule.get("resourceNames") or ()):
                check_name(errors, name, f"{place}.resourceNames[{position}]", names.path_segment_errors)
                check_unique(errors, seen, name, f"{place}.resourceNames[{position}]")
            _rule(errors, rule, place)


def _variables(errors: Errors, variables: list[Json], has_params: bool) -> tuple[tuple[str, str], ...] | None:
    """The names and result types of a policy's variables; None if it has none."""
    from sliceworks.cel.admission import Scope

    composed: tuple[tuple[str, str], ...] = ()
    for index, variable in enumerate(variables):
        path, name, text = f"spec.variables[{index}]", variable.get("name") or "", variable.get("expression") or ""
        if not name.strip():
            errors.append(required(f"{path}.name", "name is not specified"))
        elif not _IDENTIFIER.match(name):
            errors.append(invalid(f"{path}.name", name, "must be a valid CEL identifier"))
        if not text.strip():
            errors.append(required(f"{path}.expression", "expression is not specified"))
            continue
        result = _expression(errors, text, Scope(params=has_params, variables=composed), f"{path}.expression")
        composed = (*composed, (name, result))
    return composed if variables else None


def _validation(errors: Errors, validation: Json, scopes: tuple[Scope, Scope], path: str) -> None:
    text, message = validation.get("expression") or "", validation.get("message") or ""
    message_expression = validation.get("messageExpression") or ""
    if text.strip():
        _expression(errors, text, scopes[0], f"{path}.expression", "BOOL")
    else:
        errors.append(required(f"{path}.expression", "expression is not specified"))
    if message_expression.strip():
        _expression(errors, message_expression, scopes[1], f"{path}.messageExpression", "STRING")
    elif message_expression:
        errors.append(invalid(f"{path}.messageExpression", message_expression, "must be non-empty if specified"))
    if message and not message.strip():
        errors.append(invalid(f"{path}.message", message, "must be non-empty if specified"))
    elif re.search(r"[\n\r]", message.strip()):
        errors.append(invalid(f"{path}.message", message, "must not contain line breaks"))
    if validation.get("reason") is not None and validation["reason"] not in _REASONS:
        errors.append(not_supported(f"{path}.reason", validation["reason"], _REASONS))


def _annotation(errors: Errors, annotation: Json, policy: str, scope: Scope, path: str) -> None:
    key, text = annotation.get("key") or "", (annotation.get("valueExpression") or "").strip()
    if policy:
        check_qualified_name(errors, f"{policy}/{key}", f"{path}.key")
    else:
        errors.append(invalid(f"{path}.key", key, "requires metadata.name be non-empty"))
    if not text:
        errors.append(required(f"{path}.valueExpression", "valueExpression is not specified"))
    elif len(text) > _MAX_ANNOTATION_BYTES:
        errors.append(required(f"{path}.valueExpression", f"must not exceed {_MAX_ANNOTATION_BYTES} bytes in length"))
    else:
        _expression(errors, text, scope, f"{path}.valueExpression", "STRING", "NULL")


def policy_binding_errors(obj: Json) -> Errors:
    """Errors of a ValidatingAdmissionPolicyBinding."""
    errors: Errors = []
    spec = obj.get("spec") or {}
    if spec.get("policyName"):
        check_name(errors, spec["policyName"], "spec.policyName", names.dns1123_subdomain_errors)
    else:
        errors.append(required("spec.policyName"))
    if spec.get("paramRef") is not None:
        _param_ref(errors, spec["paramRef"], "spec.paramRef")
    if spec.get("matchResources") is not None:
        _match_resources(errors, spec["matchResources"], "spec.matchResources")
    _actions(errors, spec.get("validationActions") or [], "spec.validationActions")
    return errors


def _param_ref(errors: Errors, reference: Json, path: str) -> None:
    name, selector = reference.get("name") or "", reference.get("selector")
    if name:
        check_name(errors, name, f"{path}.name", names.path_segment_errors)
    both = bool(name) and selector is not None
    if both:
        errors.append(forbidden(f"{path}.name", "name and selector are mutually exclusive"))
    if selector is not None:
        selector_errors(errors, selector, f"{path}.selector")
    if both:
        errors.append(forbidden(f"{path}.selector", "name and selector are mutually exclusive"))
    if not name and selector is None:
        errors.append(required(path, "one of name or selector must be specified"))
    check_enum(errors, reference.get("parameterNotFoundAction") or "", f"{path}.parameterNotFoundAction", ("Deny", "Allow"))


def _actions(errors: Errors, actions: list[str], path: str) -> None:
    seen: set[str] = set()
    for index, action in enumerate(actions):
        if action not in _ACTIONS:
            errors.append(not_supported(f"{path}[{index}]", action, _ACTIONS))
        check_unique(errors, seen, action, f"{path}[{index}]")
    if {"Deny", "Warn"} <= seen:
        detail = "repeating the same validation failure information in the API response and headers serves no purpose"
        errors.append(invalid(path, actions, f"must not contain both Deny and Warn ({detail})"))
    if not seen:
        errors.append(required(path, "at least one validation action is required"))


def _expression(errors: Errors, text: str, scope: Scope, path: str, *results: str) -> str:
    """The result type of an expression; DYN if it does not compile."""
    from sliceworks.cel.environment import CompileError

    try:
        return scope.compile(text, *results).result
    except CompileError as error:
        errors.append(invalid(path, text, str(error)))
        return "DYN"
