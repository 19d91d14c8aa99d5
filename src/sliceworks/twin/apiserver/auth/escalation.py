"""Privilege escalation checks on writes of roles and bindings (`escalate` and `bind`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from sliceworks.base.errors import NotFound
from sliceworks.schemas.field_errors import quoted
from sliceworks.twin.apiserver.auth.rbac import (
    GROUP,
    Attributes,
    Rbac,
    Rule,
    aggregate_errors,
    format_go_list,
    new_forbidden,
    uncovered_rules,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from sliceworks.twin.apiserver.auth.authentication import User

_ALL = (Rule({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}), Rule({"verbs": ["*"], "nonResourceURLs": ["*"]}))


_MAX_LISTED = 1000


class Write(NamedTuple):
    """A create or update of an RBAC object. `resource` is the plural name."""

    user: User
    resource: str
    namespace: str
    name: str


def check(rbac: Rbac, write: Write, new: Mapping[str, Any], old: Mapping[str, Any] | None = None) -> None:
    """Raise Forbidden for a write that grants more than its user has."""
    if write.user.is_master or (old is not None and _only_gc_fields(new, old)):
        return
    if write.resource in {"roles", "clusterroles"}:
        _check_role(rbac, write, new, old)
    elif write.resource in {"rolebindings", "clusterrolebindings"}:
        _check_binding(rbac, write, new)


def _check_role(rbac: Rbac, write: Write, new: Mapping[str, Any], old: Mapping[str, Any] | None) -> None:
    user, resource, namespace, name = write
    attributes = Attributes(user, "escalate", GROUP, "*", resource, "", namespace, name if old is not None else "")
    if rbac.authorize(attributes).allowed:
        return
    _require(rbac, write, _name(new), [Rule(raw) for raw in new.get("rules") or ()])
    if (_aggregates(new) or _aggregates(old or {})) and uncovered_rules(_owned(rbac, write), _ALL):
        raise new_forbidden(GROUP, resource, _name(new), "must have cluster-admin privileges to use the aggregationRule")


def _check_binding(rbac: Rbac, write: Write, new: Mapping[str, Any]) -> None:
    user, resource, namespace, _ = write
    role = new.get("roleRef") or {}
    kind, name = role.get("kind", ""), role.get("name", "")
    plural = {"Role": "roles", "ClusterRole": "clusterroles"}.get(kind)
    if plural and rbac.authorize(Attributes(user, "bind", role.get("apiGroup", ""), "*", plural, "", namespace, name)).allowed:
        return
    rules = rbac.role_rules(kind, namespace, name)
    if rules is None:
        details = {"name": name, "group": GROUP, "kind": resource}
        raise NotFound(f"{resource}.{GROUP} {quoted(name)} not found", details=details)
    _require(rbac, write, _name(new), rules)


def _require(rbac: Rbac, write: Write, name: str, rules: Iterable[Rule]) -> None:
    uncovered = uncovered_rules(_owned(rbac, write), rules)
    if not uncovered:
        return
    user = f"user {quoted(write.user.name)} (groups={format_go_list(write.user.groups)})"
    reason = f"{user} is attempting to grant RBAC permissions not currently held:\n" + "\n".join(uncovered[:_MAX_LISTED])
    if len(uncovered) > _MAX_LISTED:
        reason += f"\n(and {len(uncovered) - _MAX_LISTED:,} more)"
    missing = [f"{write.resource}.{GROUP} {quoted(role)} not found" for _, role in rbac.grants(write.user, write.namespace).missing]
    if missing:
        reason += f"; resolution errors: [{aggregate_errors(missing)}]"
    raise new_forbidden(GROUP, write.resource, name, reason)


def _owned(rbac: Rbac, write: Write) -> list[Rule]:
    return [rule for rule, _ in rbac.grants(write.user, write.namespace).rules]


def _name(obj: Mapping[str, Any]) -> str:
    return str(obj.get("metadata", {}).get("name", ""))


def _aggregates(role: Mapping[str, Any]) -> bool:
    return bool((role.get("aggregationRule") or {}).get("clusterRoleSelectors"))


def _only_gc_fields(new: Mapping[str, Any], old: Mapping[str, Any]) -> bool:
    """Whether only finalizers and owner references changed, which the garbage collector needs."""
    return _without_gc_fields(new) == _without_gc_fields(old)


def _without_gc_fields(obj: Mapping[str, Any]) -> dict[str, Any]:
    dropped = {"finalizers", "ownerReferences", "managedFields", "selfLink"}
    return {**obj, "metadata": {key: value for key, value in obj.get("metadata", {}).items() if key not in dropped}}
