"""Roles and bindings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sliceworks.base import names
from sliceworks.twin.apiserver.auth.rbac import GROUP
from sliceworks.twin.apiserver.validation.error_list import dns1123_subdomain_errors, format_go_struct, list_items
from sliceworks.twin.apiserver.validation.selectors import validate_label_selector

if TYPE_CHECKING:
    from sliceworks.twin.apiserver.validation.defaults import Json
    from sliceworks.twin.apiserver.validation.error_list import ErrorList


def validate_role(errors: ErrorList, obj: Json) -> None:
    _validate_rules(errors, obj, namespaced=True)


def validate_cluster_role(errors: ErrorList, obj: Json) -> None:
    _validate_rules(errors, obj, namespaced=False)
    aggregation = obj.get("aggregationRule")
    if aggregation is not None:
        if not aggregation.get("clusterRoleSelectors"):
            detail = "at least one clusterRoleSelector required if aggregationRule is non-nil"
            errors.required("aggregationRule.clusterRoleSelectors", detail)
        for selector, path in list_items(aggregation, "aggregationRule", "clusterRoleSelectors"):
            validate_label_selector(errors, selector, path)


def validate_role_binding(errors: ErrorList, obj: Json) -> None:
    _validate_binding(errors, obj, ("Role", "ClusterRole"), namespaced=True)


def validate_cluster_role_binding(errors: ErrorList, obj: Json) -> None:
    _validate_binding(errors, obj, ("ClusterRole",), namespaced=False)


def _validate_binding(errors: ErrorList, obj: Json, kinds: tuple[str, ...], *, namespaced: bool) -> None:
    role = obj.get("roleRef") or {}
    errors.check_supported(role, "roleRef", "apiGroup", (GROUP,))
    errors.check_supported(role, "roleRef", "kind", kinds)
    errors.check_required_name(role, "roleRef", "name", names.path_segment_errors)
    for subject, path in list_items(obj, "", "subjects"):
        _validate_subject(errors, subject, path, namespaced)


def validate_binding_update(errors: ErrorList, new: Json, old: Json) -> None:
    role = new.get("roleRef") or {}
    if role != old.get("roleRef"):
        shown = format_go_struct({**role, "APIGroup": role.get("apiGroup")}, "APIGroup", "kind", "name")
        errors.invalid("roleRef", shown, "cannot change roleRef")


def _validate_rules(errors: ErrorList, role: Json, *, namespaced: bool) -> None:
    for rule, path in list_items(role, "", "rules"):
        urls = rule.get("nonResourceURLs")
        if not rule.get("verbs"):
            errors.required(f"{path}.verbs", "verbs must contain at least one value")
        if urls:
            if namespaced:
                errors.invalid(f"{path}.nonResourceURLs", urls, "namespaced rules cannot apply to non-resource URLs")
            if rule.get("apiGroups") or rule.get("resources") or rule.get("resourceNames"):
                detail = "rules cannot apply to both regular resources and non-resource URLs"
                errors.invalid(f"{path}.nonResourceURLs", urls, detail)
            continue
        if not rule.get("apiGroups"):
            errors.required(f"{path}.apiGroups", "resource rules must supply at least one api group")
        if not rule.get("resources"):
            errors.required(f"{path}.resources", "resource rules must supply at least one resource")


def _validate_subject(errors: ErrorList, subject: Json, path: str, namespaced: bool) -> None:
    errors.check_required(subject, path, "name")
    if subject.get("kind") == "ServiceAccount":
        errors.check_optional_names(subject, path, dns1123_subdomain_errors, "name")
        if subject.get("apiGroup"):
            errors.not_supported(f"{path}.apiGroup", subject["apiGroup"], ("",))
        if not namespaced:
            errors.check_required(subject, path, "namespace")
    elif subject.get("kind") in ("User", "Group"):
        errors.check_supported(subject, path, "apiGroup", (GROUP,))
    else:
        errors.check_supported(subject, path, "kind", ("ServiceAccount", "User", "Group"))
