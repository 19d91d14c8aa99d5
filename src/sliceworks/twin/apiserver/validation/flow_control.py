"""FlowSchemas and PriorityLevelConfigurations."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from sliceworks.schemas.field_errors import duplicate, forbidden, invalid, not_supported, required
from sliceworks.twin.apiserver.validation.field_checks import (
    Errors,
    check_dns_subdomain,
    check_name,
    dns1123_label_errors,
    dns1123_subdomain_errors,
    format_go_struct,
)

if TYPE_CHECKING:
    from sliceworks.twin.apiserver.validation.defaults import Json

_EXEMPT, _CATCH_ALL = "exempt", "catch-all"
_MAX_PRECEDENCE = 10_000
_MAX_QUEUES = 10_000_000
_MAX_HASH_BITS = 60
_DISTINGUISHERS = ("ByNamespace", "ByUser")
_SUBJECT_KINDS = ("Group", "ServiceAccount", "User")
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


def flow_schema_errors(obj: Json) -> Errors:
    errors: Errors = []
    spec, name = obj.get("spec") or {}, obj["metadata"].get("name", "")
    precedence = spec.get("matchingPrecedence", 0)
    path = "spec.matchingPrecedence"
    if precedence <= 0:
        errors.append(invalid(path, precedence, "must be a positive value"))
    if precedence > _MAX_PRECEDENCE:
        errors.append(invalid(path, precedence, f"must not be greater than {_MAX_PRECEDENCE}"))
    if precedence == 1 and name != _EXEMPT:
        errors.append(invalid(path, precedence, "only the schema named 'exempt' may have matchingPrecedence 1"))
    distinguisher = spec.get("distinguisherMethod")
    if distinguisher is not None and distinguisher.get("type") not in _DISTINGUISHERS:
        shown = format_go_struct(distinguisher, "type")
        errors.append(not_supported("spec.distinguisherMethod.type", shown, _DISTINGUISHERS))
    level = (spec.get("priorityLevelConfiguration") or {}).get("name")
    if level:
        check_dns_subdomain(errors, level, "spec.priorityLevelConfiguration.name")
    else:
        errors.append(required("spec.priorityLevelConfiguration.name", "must reference a priority level"))
    for index, rule in enumerate(spec.get("rules") or ()):
        _rule(errors, rule, f"spec.rules[{index}]")
    if name in _MANDATORY_SCHEMAS and spec != _MANDATORY_SCHEMAS[name]:
        errors.append(invalid("spec", spec, f"spec of '{name}' must equal the fixed value"))
    return errors + condition_errors(obj, None)


def condition_errors(obj: Json, _old: Json | None) -> Errors:
    """The conditions in the status of both kinds."""
    errors: Errors = []
    seen: set[str] = set()
    for index, condition in enumerate((obj.get("status") or {}).get("conditions") or ()):
        path, kind = f"status.conditions[{index}].type", condition.get("type") or ""
        if kind in seen:
            errors.append(duplicate(path, kind))
        seen.add(kind)
        if not kind:
            errors.append(required(path))
    return errors


def _rule(errors: Errors, rule: Json, path: str) -> None:
    subjects = rule.get("subjects") or []
    if not subjects:
        errors.append(required(f"{path}.subjects", "subjects must contain at least one value"))
    for index, subject in enumerate(subjects):
        _subject(errors, subject, f"{path}.subjects[{index}]")
    resources, urls = rule.get("resourceRules") or [], rule.get("nonResourceRules") or []
    if not resources and not urls:
        errors.append(required(path, "at least one of resourceRules and nonResourceRules has to be non-empty"))
    for index, resource in enumerate(resources):
        _resource_rule(errors, resource, f"{path}.resourceRules[{index}]")
    for index, url in enumerate(urls):
        _non_resource_rule(errors, url, f"{path}.nonResourceRules[{index}]")


def _subject(errors: Errors, subject: Json, path: str) -> None:
    kind = subject.get("kind") or ""
    if kind not in _SUBJECT_KINDS:
        errors.append(not_supported(f"{path}.kind", kind, _SUBJECT_KINDS))
        return
    own = _SUBJECT_FIELDS[kind]
    value = subject.get(own)
    if value is None:
        errors.append(required(f"{path}.{own}", f"{own} is required when subject kind is '{kind}'"))
    elif kind == "ServiceAccount":
        _service_account(errors, value, f"{path}.{own}")
    elif not value.get("name"):
        errors.append(required(f"{path}.{own}.name"))
    for other, field in _SUBJECT_FIELDS.items():
        if other != kind and subject.get(field) is not None:
            errors.append(forbidden(f"{path}.{field}", f"{field} is forbidden when subject kind is not '{other}'"))


def _service_account(errors: Errors, account: Json, path: str) -> None:
    name, namespace = account.get("name"), account.get("namespace")
    if not name:
        errors.append(required(f"{path}.name"))
    elif name != "*":
        check_name(errors, name, f"{path}.name", dns1123_subdomain_errors)
    if namespace:
        check_name(errors, namespace, f"{path}.namespace", dns1123_label_errors)
    else:
        errors.append(required(f"{path}.namespace", "must specify namespace for service account"))


def _verbs(errors: Errors, rule: Json, path: str) -> None:
    verbs = rule.get("verbs") or []
    if not verbs:
        errors.append(required(f"{path}.verbs", "verbs must contain at least one value"))
    elif "*" in verbs:
        _alone(errors, verbs, f"{path}.verbs", "verbs")
    elif not set(verbs) <= set(_VERBS):
        errors.append(not_supported(f"{path}.verbs", verbs, _VERBS))


def _alone(errors: Errors, values: list[str], path: str, noun: str) -> None:
    if len(values) > 1 and "*" in values:
        errors.append(invalid(path, values, f"if '*' is present, must not specify other {noun}"))


def _resource_rule(errors: Errors, rule: Json, path: str) -> None:
    _verbs(errors, rule, path)
    for field, one, many in (("apiGroups", "api group", "api groups"), ("resources", "resource", "resources")):
        values = rule.get(field) or []
        if not values:
            errors.append(required(f"{path}.{field}", f"resource rules must supply at least one {one}"))
        _alone(errors, values, f"{path}.{field}", many)
    namespaces = rule.get("namespaces") or []
    if not namespaces and not rule.get("clusterScope"):
        message = "resource rules that are not cluster scoped must supply at least one namespace"
        errors.append(required(f"{path}.namespaces", message))
    elif "*" in namespaces:
        _alone(errors, namespaces, f"{path}.namespaces", "namespaces")
    else:
        for index, namespace in enumerate(namespaces):
            for problem in dns1123_label_errors(namespace):
                message = f"each member of this list must be '*' or a DNS-1123 label; {problem}"
                errors.append(invalid(f"{path}.namespaces[{index}]", namespace, message))


def _non_resource_rule(errors: Errors, rule: Json, path: str) -> None:
    _verbs(errors, rule, path)
    urls = rule.get("nonResourceURLs") or []
    if not urls:
        errors.append(required(f"{path}.nonResourceURLs", "nonResourceURLs must contain at least one value"))
    elif "*" in urls:
        _alone(errors, urls, f"{path}.nonResourceURLs", "non-resource URLs")
    else:
        for index, url in enumerate(urls):
            if problem := _url_problem(url):
                errors.append(invalid(f"{path}.nonResourceURLs[{index}]", url, problem))


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


def priority_level_errors(obj: Json) -> Errors:
    errors: Errors = []
    spec, name = obj.get("spec") or {}, obj["metadata"].get("name", "")
    kind, exempt, limited = spec.get("type") or "", spec.get("exempt"), spec.get("limited")
    if (name == _EXEMPT) != (kind == "Exempt"):
        errors.append(invalid("spec.type", kind, "must be 'Exempt' if and only if `name` is 'exempt'"))
    if kind == "Exempt":
        if limited is not None:
            errors.append(forbidden("spec.limited", "must be nil if the type is not Limited"))
        if exempt is not None:
            _shares(errors, exempt, "spec.exempt")
    elif kind == "Limited":
        if exempt is not None:
            errors.append(forbidden("spec.exempt", "must be nil if the type is Limited"))
        if limited is None:
            errors.append(required("spec.limited", "must not be empty when type is Limited"))
        else:
            _limited(errors, limited, "spec.limited")
    else:
        errors.append(not_supported("spec.type", kind, ("Exempt", "Limited")))
    if name == _CATCH_ALL and spec != _CATCH_ALL_LEVEL:
        errors.append(invalid("spec", spec, f"spec of '{name}' must equal the fixed value"))
    return errors + condition_errors(obj, None)


def _shares(errors: Errors, level: Json, path: str) -> None:
    shares, lendable = level.get("nominalConcurrencyShares"), level.get("lendablePercent")
    if shares is not None and shares < 0:
        errors.append(invalid(f"{path}.nominalConcurrencyShares", shares, "must be a non-negative integer"))
    if lendable is not None and not 0 <= lendable <= 100:
        errors.append(invalid(f"{path}.lendablePercent", lendable, "must be between 0 and 100, inclusive"))


def _limited(errors: Errors, limited: Json, path: str) -> None:
    _shares(errors, limited, path)
    response = limited.get("limitResponse") or {}
    kind, queuing = response.get("type") or "", response.get("queuing")
    where = f"{path}.limitResponse"
    if kind == "Reject":
        if queuing is not None:
            errors.append(forbidden(f"{where}.queuing", "must be nil if limited.limitResponse.type is not Limited"))
    elif kind == "Queue":
        if queuing is None:
            errors.append(required(f"{where}.queuing", "must not be empty if limited.limitResponse.type is Limited"))
        else:
            _queuing(errors, queuing, f"{where}.queuing")
    else:
        errors.append(not_supported(f"{where}.type", kind, ("Queue", "Reject")))
    borrowing = limited.get("borrowingLimitPercent")
    if borrowing is not None and borrowing < 0:
        errors.append(invalid(f"{path}.borrowingLimitPercent", borrowing, "if specified, must be a non-negative integer"))


def _queuing(errors: Errors, queuing: Json, path: str) -> None:
    length, queues, hand = (queuing.get(field, 0) for field in ("queueLengthLimit", "queues", "handSize"))
    if length <= 0:
        errors.append(invalid(f"{path}.queueLengthLimit", length, "must be positive"))
    if queues <= 0:
        errors.append(invalid(f"{path}.queues", queues, "must be positive"))
    elif queues > _MAX_QUEUES:
        errors.append(invalid(f"{path}.queues", queues, f"must not be greater than {_MAX_QUEUES}"))
    if hand <= 0:
        errors.append(invalid(f"{path}.handSize", hand, "must be positive"))
    elif hand > queues:
        errors.append(invalid(f"{path}.handSize", hand, f"should not be greater than queues ({queues})"))
    elif _entropy_bits(queues, hand) > _MAX_HASH_BITS:
        message = f"required entropy bits of deckSize {queues} and handSize {hand} should not be greater than {_MAX_HASH_BITS}"
        errors.append(invalid(f"{path}.handSize", hand, message))


def _entropy_bits(queues: int, hand: int) -> int:
    """The bits that kube-apiserver's shuffle sharding needs to deal a hand of this many queues."""
    return math.ceil(math.log2(queues) * hand)


def flow_schema_spec_defaults(spec: dict[str, Any]) -> None:
    if not spec.get("matchingPrecedence"):
        spec["matchingPrecedence"] = 1000


def queuing_defaults(queuing: dict[str, Any]) -> None:
    for field, value in (("handSize", 8), ("queues", 64), ("queueLengthLimit", 50)):
        if not queuing.get(field):
            queuing[field] = value
