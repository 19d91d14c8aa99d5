"""Webhook configurations, and ValidatingAdmissionPolicies with their bindings."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from sliceworks.base import names
from sliceworks.twin.apiserver.validation.crd import client_config_errors, review_version_errors
from sliceworks.twin.apiserver.validation.error_list import list_items
from sliceworks.twin.apiserver.validation.selectors import validate_label_selector

if TYPE_CHECKING:
    from sliceworks.cel.admission import Scope
    from sliceworks.twin.apiserver.validation.defaults import Json
    from sliceworks.twin.apiserver.validation.error_list import ErrorList

_OPERATIONS = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
_FAILURE_POLICIES, _MATCH_POLICIES = ("Fail", "Ignore"), ("Equivalent", "Exact")
_MAX_CONDITIONS = 64
_MUTATING_OPERATIONS = ("*", "CONNECT", "CREATE", "UPDATE")
_PATCH_FIELDS = {"ApplyConfiguration": "applyConfiguration", "JSONPatch": "jsonPatch"}
_ACTIONS = ("Audit", "Deny", "Warn")
_MAX_ANNOTATIONS, _MAX_ANNOTATION_BYTES = 20, 5 * 1024
_ABSENT = "validations or auditAnnotations must contain at least one item"
_IDENTIFIER = re.compile(r"[_a-zA-Z][_a-zA-Z0-9]*\Z")


def validate_webhook_configuration(errors: ErrorList, obj: Json) -> None:
    """Validate a MutatingWebhookConfiguration or a ValidatingWebhookConfiguration."""
    seen: set[str] = set()
    for hook, path in list_items(obj, "", "webhooks"):
        _validate_webhook(errors, hook, path)
        versions = hook.get("admissionReviewVersions") or []
        errors += review_version_errors(versions, f"{path}.admissionReviewVersions", "must specify one of v1, v1beta1")
        if hook.get("name"):
            errors.check_unique(seen, hook["name"], f"{path}.name")


def _validate_webhook(errors: ErrorList, hook: Json, path: str) -> None:
    _validate_fully_qualified_name(errors, hook.get("name") or "", f"{path}.name")
    for rule, rule_path in list_items(hook, path, "rules"):
        _validate_rule(errors, rule, rule_path)
    errors.check_optional_enum(hook, path, "failurePolicy", _FAILURE_POLICIES)
    errors.check_optional_enum(hook, path, "matchPolicy", _MATCH_POLICIES)
    if hook.get("sideEffects") is None:
        errors.required(f"{path}.sideEffects", "must specify one of None, NoneOnDryRun")
    errors.check_optional_enum(hook, path, "sideEffects", ("None", "NoneOnDryRun"))
    timeout = hook.get("timeoutSeconds")
    if timeout is not None and not 1 <= timeout <= 30:
        errors.invalid(f"{path}.timeoutSeconds", timeout, "the timeout value must be between 1 and 30 seconds")
    _validate_selectors(errors, hook, path)
    errors.check_optional_enum(hook, path, "reinvocationPolicy", ("IfNeeded", "Never"))
    errors += client_config_errors(hook.get("clientConfig") or {}, f"{path}.clientConfig")
    from sliceworks.cel.admission import Scope

    _validate_match_conditions(errors, hook, Scope(), path)


def _validate_selectors(errors: ErrorList, value: Json, path: str) -> None:
    for field in ("namespaceSelector", "objectSelector"):
        validate_label_selector(errors, value.get(field), f"{path}.{field}")


def _validate_fully_qualified_name(errors: ErrorList, name: str, path: str) -> None:
    if not name:
        errors.required(path)
    elif problems := names.dns1123_subdomain_errors(name):
        errors.invalid(path, name, ",".join(problems))
    elif name.count(".") < 2:
        errors.invalid(path, name, "should be a domain with at least three segments separated by dots")


def _validate_rule(errors: ErrorList, rule: Json, path: str) -> None:
    for field, noun in (("operations", "operations"), ("apiGroups", "API groups"), ("apiVersions", "API versions")):
        errors.check_required(rule, path, field)
        errors.check_wildcard(rule.get(field) or (), f"{path}.{field}", noun)
        for value, value_path in list_items(rule, path, field):
            if field == "operations" and value not in _OPERATIONS:
                errors.not_supported(value_path, value, _OPERATIONS)
            elif field == "apiVersions" and not value:
                errors.required(value_path)
    _validate_resources(errors, rule.get("resources") or [], f"{path}.resources")
    errors.check_optional_enum(rule, path, "scope", ("*", "Cluster", "Namespaced"))


def _validate_resources(errors: ErrorList, resources: list[str], path: str) -> None:
    if not resources:
        errors.required(path)
    all_subresources: set[str] = set()
    of_all_resources: set[str] = set()
    plain = False
    for index, item in enumerate(resources):
        if not item:
            errors.required(f"{path}[{index}]")
            continue
        resource, slash, subresource = item.partition("/")
        if not slash:
            plain = item != "*"
            continue
        if resource in all_subresources:
            errors.invalid(f"{path}[{index}]", item, f"if '{resource}/*' is present, must not specify {item}")
        if subresource in of_all_resources:
            errors.invalid(f"{path}[{index}]", item, f"if '*/{subresource}' is present, must not specify {item}")
        if subresource == "*":
            all_subresources.add(resource)
        if resource == "*":
            of_all_resources.add(subresource)
    if len(resources) > 1 and "*/*" in resources:
        errors.invalid(path, resources, "if '*/*' is present, must not specify other resources")
    if "*" in resources and plain:
        errors.invalid(path, resources, "if '*' is present, must not specify other resources without subresources")


def _validate_match_conditions(errors: ErrorList, spec: Json, scope: Scope, path: str) -> None:
    errors.check_count(spec.get("matchConditions") or (), f"{path}.matchConditions", _MAX_CONDITIONS)
    seen: set[str] = set()
    for condition, condition_path in list_items(spec, path, "matchConditions"):
        text = (condition.get("expression") or "").strip()
        if text:
            _validate_expression(errors, text, scope, f"{condition_path}.expression", "BOOL")
        else:
            errors.required(f"{condition_path}.expression")
        errors.check_required_name(condition, condition_path, "name", names.qualified_name_errors)
        if name := condition.get("name"):
            errors.check_unique(seen, name, f"{condition_path}.name")


def validate_admission_policy(errors: ErrorList, obj: Json) -> None:
    """Validate a ValidatingAdmissionPolicy."""
    from sliceworks.cel.admission import Scope

    spec = obj.get("spec") or {}
    errors.check_enum(spec, "spec", "failurePolicy", _FAILURE_POLICIES)
    has_params = spec.get("paramKind") is not None
    if has_params:
        _validate_param_kind(errors, spec["paramKind"], "spec.paramKind")
    constraints = spec.get("matchConstraints")
    if constraints is None:
        errors.required("spec.matchConstraints")
    else:
        _validate_match_resources(errors, constraints, "spec.matchConstraints")
        errors.check_required(constraints, "spec.matchConstraints", "resourceRules")
    _validate_match_conditions(errors, spec, Scope(params=has_params), "spec")
    variables = _validate_variables(errors, spec, has_params)
    scope, messages = Scope(params=has_params, variables=variables), Scope(params=has_params, authorizer=False, variables=variables)
    annotations = spec.get("auditAnnotations") or []
    if not spec.get("validations") and not annotations:
        errors.required("spec.validations", _ABSENT)
        errors.required("spec.auditAnnotations", _ABSENT)
    for validation, path in list_items(spec, "spec", "validations"):
        _validate_validation(errors, validation, (scope, messages), path)
    if len(annotations) > _MAX_ANNOTATIONS:
        detail = f"must not have more than {_MAX_ANNOTATIONS} auditAnnotations"
        errors.invalid("spec.auditAnnotations", annotations, detail)
    seen: set[str] = set()
    for annotation, path in list_items(spec, "spec", "auditAnnotations"):
        _validate_annotation(errors, annotation, str(obj["metadata"].get("name") or ""), scope, path)
        errors.check_unique(seen, annotation.get("key") or "", f"{path}.key")


def _validate_param_kind(errors: ErrorList, kind: Json, path: str) -> None:
    api_version, name = kind.get("apiVersion") or "", kind.get("kind") or ""
    group, slash, version = api_version.partition("/")
    group, version = (group, version) if slash else ("", api_version)
    if not api_version:
        errors.required(f"{path}.apiVersion")
    elif api_version.count("/") > 1:
        errors.invalid(f"{path}.apiVersion", api_version, f"unexpected GroupVersion string: {api_version}")
    else:
        if group and (problems := names.dns1123_subdomain_errors(group)):
            errors.invalid(f"{path}.apiVersion", group, ",".join(problems))
        if not version:
            errors.invalid(f"{path}.apiVersion", api_version, "version must be specified")
        elif problems := names.dns1035_label_errors(version):
            errors.invalid(f"{path}.apiVersion", version, ",".join(problems))
    if not name:
        errors.required(f"{path}.kind")
    elif problems := names.dns1035_label_errors(name.lower()):
        detail = f"may have mixed case, but should otherwise match: {','.join(problems)}"
        errors.invalid(f"{path}.kind", name, detail)


def _validate_match_resources(errors: ErrorList, resources: Json, path: str) -> None:
    errors.check_enum(resources, path, "matchPolicy", _MATCH_POLICIES)
    _validate_selectors(errors, resources, path)
    for field in ("resourceRules", "excludeResourceRules"):
        for rule, rule_path in list_items(resources, path, field):
            seen: set[str] = set()
            for name, name_path in list_items(rule, rule_path, "resourceNames"):
                errors.check_name(name, name_path, names.path_segment_errors)
                errors.check_unique(seen, name, name_path)
            _validate_rule(errors, rule, rule_path)


def _validate_variables(errors: ErrorList, spec: Json, has_params: bool) -> tuple[tuple[str, str], ...] | None:
    """The names and result types of a policy's variables; None if it has none."""
    from sliceworks.cel.admission import Scope

    composed: tuple[tuple[str, str], ...] = ()
    for variable, path in list_items(spec, "spec", "variables"):
        name, text = variable.get("name") or "", variable.get("expression") or ""
        if not name.strip():
            errors.required(f"{path}.name", "name is not specified")
        elif not _IDENTIFIER.match(name):
            errors.invalid(f"{path}.name", name, "must be a valid CEL identifier")
        if not text.strip():
            errors.required(f"{path}.expression", "expression is not specified")
            continue
        result = _validate_expression(errors, text, Scope(params=has_params, variables=composed), f"{path}.expression")
        composed = (*composed, (name, result))
    return composed if spec.get("variables") else None


def _validate_validation(errors: ErrorList, validation: Json, scopes: tuple[Scope, Scope], path: str) -> None:
    text, message = validation.get("expression") or "", validation.get("message") or ""
    message_expression = validation.get("messageExpression") or ""
    if text.strip():
        _validate_expression(errors, text, scopes[0], f"{path}.expression", "BOOL")
    else:
        errors.required(f"{path}.expression", "expression is not specified")
    if message_expression.strip():
        _validate_expression(errors, message_expression, scopes[1], f"{path}.messageExpression", "STRING")
    elif message_expression:
        errors.invalid(f"{path}.messageExpression", message_expression, "must be non-empty if specified")
    if message and not message.strip():
        errors.invalid(f"{path}.message", message, "must be non-empty if specified")
    elif re.search(r"[\n\r]", message.strip()):
        errors.invalid(f"{path}.message", message, "must not contain line breaks")
    errors.check_optional_enum(validation, path, "reason", ("Forbidden", "Invalid", "RequestEntityTooLarge"))


def _validate_annotation(errors: ErrorList, annotation: Json, policy: str, scope: Scope, path: str) -> None:
    key, text = annotation.get("key") or "", (annotation.get("valueExpression") or "").strip()
    if policy:
        errors.check_qualified_name(f"{policy}/{key}", f"{path}.key")
    else:
        errors.invalid(f"{path}.key", key, "requires metadata.name be non-empty")
    if not text:
        errors.required(f"{path}.valueExpression", "valueExpression is not specified")
    elif len(text) > _MAX_ANNOTATION_BYTES:
        errors.required(f"{path}.valueExpression", f"must not exceed {_MAX_ANNOTATION_BYTES} bytes in length")
    else:
        _validate_expression(errors, text, scope, f"{path}.valueExpression", "STRING", "NULL")


def validate_admission_policy_binding(errors: ErrorList, obj: Json) -> None:
    """Validate a ValidatingAdmissionPolicyBinding."""
    spec = obj.get("spec") or {}
    errors.check_required_name(spec, "spec", "policyName", names.dns1123_subdomain_errors)
    if spec.get("paramRef") is not None:
        _validate_param_ref(errors, spec["paramRef"], "spec.paramRef")
    if spec.get("matchResources") is not None:
        _validate_match_resources(errors, spec["matchResources"], "spec.matchResources")
    _validate_actions(errors, spec.get("validationActions") or [], "spec.validationActions")


def validate_mutating_policy(errors: ErrorList, obj: Json) -> None:
    """Validate a MutatingAdmissionPolicy."""
    from sliceworks.cel.admission import Scope

    spec = obj.get("spec") or {}
    errors.check_enum(spec, "spec", "failurePolicy", _FAILURE_POLICIES)
    has_params = spec.get("paramKind") is not None
    if has_params:
        _validate_param_kind(errors, spec["paramKind"], "spec.paramKind")
    constraints = spec.get("matchConstraints")
    if constraints is None:
        errors.required("spec.matchConstraints")
    else:
        _validate_match_resources(errors, constraints, "spec.matchConstraints")
        errors.check_required(constraints, "spec.matchConstraints", "resourceRules")
        _validate_mutating_operations(errors, constraints, "spec.matchConstraints")
    _validate_match_conditions(errors, spec, Scope(params=has_params), "spec")
    variables = _validate_variables(errors, spec, has_params)
    if not spec.get("mutations"):
        errors.required("spec.mutations", "mutations must contain at least one item")
    for mutation, path in list_items(spec, "spec", "mutations"):
        _validate_mutation(errors, mutation, Scope(params=has_params, variables=variables), path)
    errors.check_enum(spec, "spec", "reinvocationPolicy", ("IfNeeded", "Never"))


def _validate_mutating_operations(errors: ErrorList, resources: Json, path: str) -> None:
    """Deletions cannot be mutated."""
    for rule in resources.get("resourceRules") or ():
        for operation in rule.get("operations") or ():
            if operation not in _MUTATING_OPERATIONS:
                errors.not_supported(f"{path}.resourceRules.operations", operation, _MUTATING_OPERATIONS)


def _validate_mutation(errors: ErrorList, mutation: Json, scope: Scope, path: str) -> None:
    kind = mutation.get("patchType")
    if kind not in _PATCH_FIELDS:
        errors.check_enum(mutation, path, "patchType", sorted(_PATCH_FIELDS))
        return
    for other, field in _PATCH_FIELDS.items():
        patch = mutation.get(field)
        if other != kind:
            continue
        if patch is None:
            errors.required(f"{path}.{field}", f"must be specified when patchType is {kind}")
        else:
            _validate_patch(errors, (patch.get("expression") or "").strip(), scope, kind, f"{path}.{field}.expression")
    for other, field in _PATCH_FIELDS.items():
        if other != kind and mutation.get(field) is not None:
            errors.invalid(f"{path}.{field}", f"{{{field}}}", f"must not be specified when patchType is {kind}")


def _validate_patch(errors: ErrorList, text: str, scope: Scope, kind: str, path: str) -> None:
    from sliceworks.cel.environment import CompileError

    if not text:
        errors.required(path)
        return
    try:
        scope.compile_patch(text, kind)
    except CompileError as error:
        errors.invalid(path, text, str(error))


def validate_mutating_policy_binding(errors: ErrorList, obj: Json) -> None:
    """Validate a MutatingAdmissionPolicyBinding."""
    spec = obj.get("spec") or {}
    errors.check_required_name(spec, "spec", "policyName", names.dns1123_subdomain_errors)
    if spec.get("paramRef") is not None:
        _validate_param_ref(errors, spec["paramRef"], "spec.paramRef")
    if spec.get("matchResources") is not None:
        _validate_match_resources(errors, spec["matchResources"], "spec.matchResources")
        _validate_mutating_operations(errors, spec["matchResources"], "spec.matchResources")


def _validate_param_ref(errors: ErrorList, reference: Json, path: str) -> None:
    name, selector = reference.get("name"), reference.get("selector")
    errors.check_optional_names(reference, path, names.path_segment_errors, "name")
    if name and selector is not None:
        errors.forbidden(f"{path}.name", "name and selector are mutually exclusive")
    validate_label_selector(errors, selector, f"{path}.selector")
    if name and selector is not None:
        errors.forbidden(f"{path}.selector", "name and selector are mutually exclusive")
    if not name and selector is None:
        errors.required(path, "one of name or selector must be specified")
    errors.check_enum(reference, path, "parameterNotFoundAction", ("Deny", "Allow"))


def _validate_actions(errors: ErrorList, actions: list[str], path: str) -> None:
    seen: set[str] = set()
    for index, action in enumerate(actions):
        if action not in _ACTIONS:
            errors.not_supported(f"{path}[{index}]", action, _ACTIONS)
        errors.check_unique(seen, action, f"{path}[{index}]")
    if {"Deny", "Warn"} <= seen:
        detail = "repeating the same validation failure information in the API response and headers serves no purpose"
        errors.invalid(path, actions, f"must not contain both Deny and Warn ({detail})")
    if not seen:
        errors.required(path, "at least one validation action is required")


def _validate_expression(errors: ErrorList, text: str, scope: Scope, path: str, *results: str) -> str:
    """The result type of an expression; DYN if it does not compile."""
    from sliceworks.cel.environment import CompileError

    try:
        return scope.compile(text, *results).result
    except CompileError as error:
        errors.invalid(path, text, str(error))
        return "DYN"
