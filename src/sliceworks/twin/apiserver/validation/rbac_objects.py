"""Roles and bindings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sliceworks.base import names
from sliceworks.schemas.field_errors import invalid, not_supported, required
from sliceworks.twin.apiserver.validation.field_checks import Errors, check_dns_subdomain, check_name, format_go_struct
from sliceworks.twin.apiserver.validation.selectors import selector_errors

if TYPE_CHECKING:
    from collections.abc import Callable

    from sliceworks.twin.apiserver.validation.defaults import Json

GROUP = "rbac.authorization.k8s.io"


def role_errors(obj: Json) -> Errors:
    errors: Errors = []
    _rules(errors, obj.get("rules") or [], namespaced=True)
    return errors


def cluster_role_errors(obj: Json) -> Errors:
    errors: Errors = []
    _rules(errors, obj.get("rules") or [], namespaced=False)
    aggregation = obj.get("aggregationRule")
    if aggregation is not None:
        path, selectors = "aggregationRule.clusterRoleSelectors", aggregation.get("clusterRoleSelectors") or []
        if not selectors:
            errors.append(required(path, "at least one clusterRoleSelector required if aggregationRule is non-nil"))
        for index, selector in enumerate(selectors):
            selector_errors(errors, selector, f"{path}[{index}]")
    return errors


def binding_errors(*, namespaced: bool) -> Callable[[Json], Errors]:
    """Build the validation of a binding. A ClusterRoleBinding can only refer to a ClusterRole, a RoleBinding to both kinds."""
    kinds = ("Role", "ClusterRole") if namespaced else ("ClusterRole",)

    def check(obj: Json) -> Errors:
        errors: Errors = []
        role = obj.get("roleRef") or {}
        if role.get("apiGroup") != GROUP:
            errors.append(not_supported("roleRef.apiGroup", role.get("apiGroup") or "", (GROUP,)))
        if role.get("kind") not in kinds:
            errors.append(not_supported("roleRef.kind", role.get("kind") or "", kinds))
        if not role.get("name"):
            errors.append(required("roleRef.name"))
        else:
            check_name(errors, role["name"], "roleRef.name", names.path_segment_errors)
        for index, subject in enumerate(obj.get("subjects") or ()):
            _subject(errors, subject, f"subjects[{index}]", namespaced)
        return errors

    return check


def binding_update_errors(new: Json, old: Json) -> Errors:
    role = new.get("roleRef") or {}
    if role == old.get("roleRef"):
        return []
    shown = format_go_struct({**role, "APIGroup": role.get("apiGroup")}, "APIGroup", "kind", "name")
    return [invalid("roleRef", shown, "cannot change roleRef")]


def _rules(errors: Errors, rules: list[Json], *, namespaced: bool) -> None:
    for index, rule in enumerate(rules):
        path, urls = f"rules[{index}]", rule.get("nonResourceURLs")
        if not rule.get("verbs"):
            errors.append(required(f"{path}.verbs", "verbs must contain at least one value"))
        if urls:
            if namespaced:
                errors.append(invalid(f"{path}.nonResourceURLs", urls, "namespaced rules cannot apply to non-resource URLs"))
            if rule.get("apiGroups") or rule.get("resources") or rule.get("resourceNames"):
                detail = "rules cannot apply to both regular resources and non-resource URLs"
                errors.append(invalid(f"{path}.nonResourceURLs", urls, detail))
            continue
        if not rule.get("apiGroups"):
            errors.append(required(f"{path}.apiGroups", "resource rules must supply at least one api group"))
        if not rule.get("resources"):
            errors.append(required(f"{path}.resources", "resource rules must supply at least one resource"))


def _subject(errors: Errors, subject: Json, path: str, namespaced: bool) -> None:
    kind, name, group = subject.get("kind") or "", subject.get("name") or "", subject.get("apiGroup") or ""
    if not name:
        errors.append(required(f"{path}.name"))
    if kind == "ServiceAccount":
        if name:
            check_dns_subdomain(errors, name, f"{path}.name")
        if group:
            errors.append(not_supported(f"{path}.apiGroup", group, ("",)))
        if not namespaced and not subject.get("namespace"):
            errors.append(required(f"{path}.namespace"))
    elif kind in ("User", "Group"):
        if group != GROUP:
            errors.append(not_supported(f"{path}.apiGroup", group, (GROUP,)))
    else:
        errors.append(not_supported(f"{path}.kind", kind, ("ServiceAccount", "User", "Group")))
