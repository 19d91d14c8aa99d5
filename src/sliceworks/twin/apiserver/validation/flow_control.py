"""FlowSchemas and PriorityLevelConfigurations."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from sliceworks.twin.apiserver.validation.error_list import (
    dns1123_label_errors,
    dns1123_subdomain_errors,
    format_go_struct,
    list_items,
)

if TYPE_CHECKING:
    from sliceworks.twin.apiserver.validation.defaults import Json
    from sliceworks.twin.apiserver.validation.error_list import ErrorList

_EXEMPT, _CATCH_ALL = "exempt", "catch-all"
_MAX_PRECEDENCE = 10_000
_MAX_QUEUES = 10_000_000
_MAX_HASH_BITS = 60
_DISTINGUISHERS = ("ByNamespace", "ByUser")
_SUBJECT_FIELDS = {"Group": "group", "ServiceAccount": "serviceAccount", "User": "user"}
_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch")
_EVERYONE = [
    {"kind": "Group", "group": {"name": "system:unauthenticated"}},
    {"kind": "Group", "group": {"name": "system:authenticated"}},
]
_MASTERS = [{"kind": "Group", "group": {"name": "system:masters"}}]


def _everything(subjects: list[Json]) -> list[Json]:
    """The rules of a FlowSchema that matches all requests of these subjects."""
    return [
        {
            "subjects": subjects,
            "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "clusterScope": True, "namespaces": ["*"]}],
            "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
        }
    ]


_MANDATORY_SCHEMAS: dict[str, Json] = {
    _EXEMPT: {
        "priorityLevelConfiguration": {"name": _EXEMPT},
        "matchingPrecedence": 1,
        "rules": _everything(_MASTERS),
    },
    _CATCH_ALL: {
        "priorityLevelConfiguration": {"name": _CATCH_ALL},
        "matchingPrecedence": _MAX_PRECEDENCE,
        "distinguisherMethod": {"type": "ByUser"},
        "rules": _everything(_EVERYONE),
    },
}
_CATCH_ALL_LEVEL: Json = {
    "type": "Limited",
    "limited": {"nominalConcurrencyShares": 5, "lendablePercent": 0, "limitResponse": {"type": "Reject"}},
}


def validate_flow_schema(errors: ErrorList, obj: Json) -> None:
    spec, name = obj.get("spec") or {}, obj["metadata"].get("name", "")
    precedence = spec.get("matchingPrecedence", 0)
    path = "spec.matchingPrecedence"
    if precedence <= 0:
        errors.invalid(path, precedence, "must be a positive value")
    if precedence > _MAX_PRECEDENCE:
        errors.invalid(path, precedence, f"must not be greater than {_MAX_PRECEDENCE}")
    if precedence == 1 and name != _EXEMPT:
        errors.invalid(path, precedence, "only the schema named 'exempt' may have matchingPrecedence 1")
    distinguisher = spec.get("distinguisherMethod")
    if distinguisher is not None and distinguisher.get("type") not in _DISTINGUISHERS:
        shown = format_go_struct(distinguisher, "type")
        errors.not_supported("spec.distinguisherMethod.type", shown, _DISTINGUISHERS)
    level, path = spec.get("priorityLevelConfiguration") or {}, "spec.priorityLevelConfiguration"
    errors.check_required_name(level, path, "name", dns1123_subdomain_errors, "must reference a priority level")
    for rule, rule_path in list_items(spec, "spec", "rules"):
        _validate_rule(errors, rule, rule_path)
    if name in _MANDATORY_SCHEMAS and spec != _MANDATORY_SCHEMAS[name]:
        errors.invalid("spec", spec, f"spec of '{name}' must equal the fixed value")
    validate_conditions(errors, obj)


def validate_conditions(errors: ErrorList, obj: Json, _old: Json | None = None) -> None:
    """Validate the conditions in the status of both kinds."""
    seen: set[str] = set()
    for condition, path in list_items(obj.get("status") or {}, "status", "conditions"):
        errors.check_unique(seen, condition.get("type") or "", f"{path}.type")
        errors.check_required(condition, path, "type")


def _validate_rule(errors: ErrorList, rule: Json, path: str) -> None:
    if not rule.get("subjects"):
        errors.required(f"{path}.subjects", "subjects must contain at least one value")
    for subject, subject_path in list_items(rule, path, "subjects"):
        _validate_subject(errors, subject, subject_path)
    if not rule.get("resourceRules") and not rule.get("nonResourceRules"):
        errors.required(path, "at least one of resourceRules and nonResourceRules has to be non-empty")
    for resource_rule, rule_path in list_items(rule, path, "resourceRules"):
        _validate_resource_rule(errors, resource_rule, rule_path)
    for url_rule, rule_path in list_items(rule, path, "nonResourceRules"):
        _validate_non_resource_rule(errors, url_rule, rule_path)


def _validate_subject(errors: ErrorList, subject: Json, path: str) -> None:
    errors.check_supported(subject, path, "kind", tuple(_SUBJECT_FIELDS))
    kind = subject.get("kind")
    if kind not in _SUBJECT_FIELDS:
        return
    field = _SUBJECT_FIELDS[kind]
    value = subject.get(field)
    if value is None:
        errors.required(f"{path}.{field}", f"{field} is required when subject kind is '{kind}'")
    elif kind == "ServiceAccount":
        _validate_service_account(errors, value, f"{path}.{field}")
    else:
        errors.check_required(value, f"{path}.{field}", "name")
    for other, other_field in _SUBJECT_FIELDS.items():
        if other != kind:
            errors.check_unset(subject, path, f"{other_field} is forbidden when subject kind is not '{other}'", other_field)


def _validate_service_account(errors: ErrorList, account: Json, path: str) -> None:
    if account.get("name") != "*":
        errors.check_required_name(account, path, "name", dns1123_subdomain_errors)
    absent = "must specify namespace for service account"
    errors.check_required_name(account, path, "namespace", dns1123_label_errors, absent)


def _validate_verbs(errors: ErrorList, rule: Json, path: str) -> None:
    verbs = rule.get("verbs") or []
    if not verbs:
        errors.required(f"{path}.verbs", "verbs must contain at least one value")
    elif "*" in verbs:
        errors.check_wildcard(verbs, f"{path}.verbs", "verbs")
    elif not set(verbs) <= set(_VERBS):
        errors.not_supported(f"{path}.verbs", verbs, _VERBS)


def _validate_resource_rule(errors: ErrorList, rule: Json, path: str) -> None:
    _validate_verbs(errors, rule, path)
    for field, singular, plural in (("apiGroups", "api group", "api groups"), ("resources", "resource", "resources")):
        values = rule.get(field) or []
        if not values:
            errors.required(f"{path}.{field}", f"resource rules must supply at least one {singular}")
        errors.check_wildcard(values, f"{path}.{field}", plural)
    namespaces = rule.get("namespaces") or []
    if not namespaces and not rule.get("clusterScope"):
        detail = "resource rules that are not cluster scoped must supply at least one namespace"
        errors.required(f"{path}.namespaces", detail)
    elif "*" in namespaces:
        errors.check_wildcard(namespaces, f"{path}.namespaces", "namespaces")
    else:
        for namespace, namespace_path in list_items(rule, path, "namespaces"):
            for problem in dns1123_label_errors(namespace):
                detail = f"each member of this list must be '*' or a DNS-1123 label; {problem}"
                errors.invalid(namespace_path, namespace, detail)


def _validate_non_resource_rule(errors: ErrorList, rule: Json, path: str) -> None:
    _validate_verbs(errors, rule, path)
    urls = rule.get("nonResourceURLs") or []
    if not urls:
        errors.required(f"{path}.nonResourceURLs", "nonResourceURLs must contain at least one value")
    elif "*" in urls:
        errors.check_wildcard(urls, f"{path}.nonResourceURLs", "non-resource URLs")
    else:
        for url, url_path in list_items(rule, path, "nonResourceURLs"):
            if problem := _url_problem(url):
                errors.invalid(url_path, url, problem)


def _url_problem(url: str) -> str:
    if not url:
        return "must not be empty"
    if url == "/":
        return ""
    if not url.startswith("/"):
        return "must start with slash"
    if " " in url:
        return "must not contain white-space"
    if "//" in url:
        return "must not contain double slash"
    wildcards = url.count("*")
    return "wildcard can only do suffix matching" if wildcards > 1 or (wildcards and not url.endswith("/*")) else ""


def validate_priority_level(errors: ErrorList, obj: Json) -> None:
    spec, name = obj.get("spec") or {}, obj["metadata"].get("name", "")
    kind, exempt, limited = spec.get("type") or "", spec.get("exempt"), spec.get("limited")
    if (name == _EXEMPT) != (kind == "Exempt"):
        errors.invalid("spec.type", kind, "must be 'Exempt' if and only if `name` is 'exempt'")
    if kind == "Exempt":
        errors.check_unset(spec, "spec", "must be nil if the type is not Limited", "limited")
        if exempt is not None:
            _validate_shares(errors, exempt, "spec.exempt")
    elif kind == "Limited":
        errors.check_unset(spec, "spec", "must be nil if the type is Limited", "exempt")
        if limited is None:
            errors.required("spec.limited", "must not be empty when type is Limited")
        else:
            _validate_limited(errors, limited, "spec.limited")
    else:
        errors.not_supported("spec.type", kind, ("Exempt", "Limited"))
    if name == _CATCH_ALL and spec != _CATCH_ALL_LEVEL:
        errors.invalid("spec", spec, f"spec of '{name}' must equal the fixed value")
    validate_conditions(errors, obj)


def _validate_shares(errors: ErrorList, level: Json, path: str) -> None:
    shares, lendable = level.get("nominalConcurrencyShares"), level.get("lendablePercent")
    if shares is not None and shares < 0:
        errors.invalid(f"{path}.nominalConcurrencyShares", shares, "must be a non-negative integer")
    if lendable is not None:
        errors.check_range(lendable, f"{path}.lendablePercent", 0, 100)


def _validate_limited(errors: ErrorList, limited: Json, path: str) -> None:
    _validate_shares(errors, limited, path)
    response = limited.get("limitResponse") or {}
    kind, queuing, response_path = response.get("type"), response.get("queuing"), f"{path}.limitResponse"
    errors.check_supported(response, response_path, "type", ("Queue", "Reject"))
    if kind == "Reject":
        errors.check_unset(response, response_path, "must be nil if limited.limitResponse.type is not Limited", "queuing")
    elif kind == "Queue":
        if queuing is None:
            errors.required(f"{response_path}.queuing", "must not be empty if limited.limitResponse.type is Limited")
        else:
            _validate_queuing(errors, queuing, f"{response_path}.queuing")
    borrowing = limited.get("borrowingLimitPercent")
    if borrowing is not None and borrowing < 0:
        errors.invalid(f"{path}.borrowingLimitPercent", borrowing, "if specified, must be a non-negative integer")


def _validate_queuing(errors: ErrorList, queuing: Json, path: str) -> None:
    length, queues, hand = (queuing.get(field, 0) for field in ("queueLengthLimit", "queues", "handSize"))
    if length <= 0:
        errors.invalid(f"{path}.queueLengthLimit", length, "must be positive")
    if queues <= 0:
        errors.invalid(f"{path}.queues", queues, "must be positive")
    elif queues > _MAX_QUEUES:
        errors.invalid(f"{path}.queues", queues, f"must not be greater than {_MAX_QUEUES}")
    if hand <= 0:
        errors.invalid(f"{path}.handSize", hand, "must be positive")
    elif hand > queues:
        errors.invalid(f"{path}.handSize", hand, f"should not be greater than queues ({queues})")
    elif _entropy_bits(queues, hand) > _MAX_HASH_BITS:
        detail = f"required entropy bits of deckSize {queues} and handSize {hand} should not be greater than {_MAX_HASH_BITS}"
        errors.invalid(f"{path}.handSize", hand, detail)


def _entropy_bits(queues: int, hand: int) -> int:
    """The bits that kube-apiserver's shuffle sharding needs to deal a hand of this many queues."""
    return math.ceil(math.log2(queues) * hand)
