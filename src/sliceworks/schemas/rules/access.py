"""Roles and bindings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sliceworks.base import names
from sliceworks.schemas.field_errors import invalid, not_supported, required
from sliceworks.schemas.rules.selectors import selector_errors
from sliceworks.schemas.rules.texts import Errors, go_struct, named, subdomain

if TYPE_CHECKING:
    from collections.abc import Callable

    from sliceworks.schemas.rules.shape import Json

GROUP = "rbac.authorization.k8s.io"


def role_errors(obj: Json) -> Errors:
    out: Errors = []
    _rules(out, obj.get("rules") or [], namespaced=True)
    return out


def cluster_role_errors(obj: Json) -> Errors:
    out: Errors = []
    _rules(out, obj.get("rules") or [], namespaced=False)
    aggregation = obj.get("aggregationRule")
    if aggregation is not None:
        path, selectors = "aggregationRule.clusterRoleSelectors", aggregation.get("clusterRoleSelectors") or []
        if not selectors:
            out.append(required(path, "at least one clusterRoleSelector required if aggregationRule is non-nil"))
        for index, selector in enumerate(selectors):
            selector_errors(out, selector, f"{path}[{index}]")
    return out


def binding_errors(*, namespaced: bool) -> Callable[[Json], Errors]:
    """Namespaced bindings may refer to both kinds of roles; cluster-wide ones only to cluster roles."""
    kinds = ("Role", "ClusterRole") if namespaced else ("ClusterRole",)

    def check(obj: Json) -> Errors:
        out: Errors = []
        role = obj.get("roleRef") or {}
        if role.get("apiGroup") != GROUP:
            out.append(not_supported("roleRef.apiGroup", role.get("apiGroup") or "", (GROUP,)))
        if role.get("kind") not in kinds:
            out.append(not_supported("roleRef.kind", role.get("kind") or "", kinds))
        if not role.get("name"):
            out.append(required("roleRef.name"))
        else:
            named(out, role["name"], "roleRef.name", names.path_segment_errors)
        for index, subject in enumerate(obj.get("subjects") or ()):
            _subject(out, subject, f"subjects[{index}]", namespaced)
        return out

    return check


def binding_update_errors(new: Json, old: Json) -> Errors:
    role = new.get("roleRef") or {}
    if role == old.get("roleRef"):
        return []
    shown = go_struct({**role, "APIGroup": role.get("apiGroup")}, "APIGroup", "kind", "name")
    return [invalid("roleRef", shown, "cannot change roleRef")]


def _rules(out: Errors, rules: list[Json], *, namespaced: bool) -> None:
    for index, rule in enumerate(rules):
        path, urls = f"rules[{index}]", rule.get("nonResourceURLs")
        if not rule.get("verbs"):
            out.append(required(f"{path}.verbs", "verbs must contain at least one value"))
        if urls:
            if namespaced:
                out.append(invalid(f"{path}.nonResourceURLs", urls, "namespaced rules cannot apply to non-resource URLs"))
            if rule.get("apiGroups") or rule.get("resources") or rule.get("resourceNames"):
                detail = "rules cannot apply to both regular resources and non-resource URLs"
                out.append(invalid(f"{path}.nonResourceURLs", urls, detail))
            continue
        if not rule.get("apiGroups"):
            out.append(required(f"{path}.apiGroups", "resource rules must supply at least one api group"))
        if not rule.get("resources"):
            out.append(required(f"{path}.resources", "resource rules must supply at least one resource"))


def _subject(out: Errors, subject: Json, path: str, namespaced: bool) -> None:
    kind, name, group = subject.get("kind") or "", subject.get("name") or "", subject.get("apiGroup") or ""
    if not name:
        out.append(required(f"{path}.name"))
    if kind == "ServiceAccount":
        if name:
            subdomain(out, name, f"{path}.name")
        if group:
            out.append(not_supported(f"{path}.apiGroup", group, ("",)))
        if not namespaced and not subject.get("namespace"):
            out.append(required(f"{path}.namespace"))
    elif kind in ("User", "Group"):
        if group != GROUP:
            out.append(not_supported(f"{path}.apiGroup", group, (GROUP,)))
    else:
        out.append(not_supported(f"{path}.kind", kind, ("ServiceAccount", "User", "Group")))
