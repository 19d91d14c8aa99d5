"""Nobody gives rights they do not have: checks on writes of roles and bindings, unless `escalate` or `bind` was granted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from sliceworks.base.errors import NotFound
from sliceworks.twin.auth.rbac import Rbac, refused
from sliceworks.twin.auth.rules import GROUP, Attributes, Rule, aggregate, listed, missing, quoted

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from sliceworks.twin.auth.identity import User

_ALL = (Rule({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}), Rule({"verbs": ["*"], "nonResourceURLs": ["*"]}))


class Write(NamedTuple):
    """A create or update of an object of the RBAC group: who makes it and where. `resource` is the plural."""

    user: User
    resource: str
    namespace: str
    name: str


def check(rbac: Rbac, write: Write, new: Mapping[str, Any], old: Mapping[str, Any] | None = None) -> None:
    """Refuse a write that gives more than its user has."""
    if write.user.is_master or (old is not None and _only_gc_fields(new, old)):
        return
    if write.resource in {"roles", "clusterroles"}:
        _check_role(rbac, write, new, old)
    elif write.resource in {"rolebindings", "clusterrolebindings"}:
        _check_binding(rbac, write, new)


def _check_role(rbac: Rbac, write: Write, new: Mapping[str, Any], old: Mapping[str, Any] | None) -> None:
    user, resource, namespace, name = write
    asked = Attributes(user, "escalate", GROUP, "*", resource, "", namespace, name if old is not None else "")
    if rbac.authorize(asked).allowed:
        return
    _require(rbac, write, _name(new), [Rule(raw) for raw in new.get("rules") or ()])
    if (_aggregates(new) or _aggregates(old or {})) and missing(_owned(rbac, write), _ALL):
        raise refused(GROUP, resource, _name(new), "must have cluster-admin privileges to use the aggregationRule")


def _check_binding(rbac: Rbac, write: Write, new: Mapping[str, Any]) -> None:
    user, resource, namespace, _ = write
    role = new.get("roleRef") or {}
    kind, name = role.get("kind", ""), role.get("name", "")
    plural = {"Role": "roles", "ClusterRole": "clusterroles"}.get(kind)
    if plural and rbac.authorize(Attributes(user, "bind", role.get("apiGroup", ""), "*", plural, "", namespace, name)).allowed:
        return
    wanted = rbac.role_rules(kind, namespace, name)
    if wanted is None:
        details = {"name": name, "group": GROUP, "kind": resource}
        raise NotFound(f"{resource}.{GROUP} {quoted(name)} not found", details=details)
    _require(rbac, write, _name(new), wanted)


def _require(rbac: Rbac, write: Write, name: str, wanted: Iterable[Rule]) -> None:
    lacking = missing(_owned(rbac, write), wanted)
    if not lacking:
        return
    who = f"user {quoted(write.user.name)} (groups={listed(write.user.groups)})"
    why = f"{who} is attempting to grant RBAC permissions not currently held:\n" + "\n".join(lacking)
    absent = [f"{write.resource}.{GROUP} {quoted(role)} not found" for _, role in rbac.grants(write.user, write.namespace).missing]
    raise refused(GROUP, write.resource, name, f"{why}; resolution errors: [{aggregate(absent)}]" if absent else why)


def _owned(rbac: Rbac, write: Write) -> list[Rule]:
    return [rule for rule, _ in rbac.grants(write.user, write.namespace).rules]


def _name(obj: Mapping[str, Any]) -> str:
    return str(obj.get("metadata", {}).get("name", ""))


def _aggregates(role: Mapping[str, Any]) -> bool:
    return bool((role.get("aggregationRule") or {}).get("clusterRoleSelectors"))


def _only_gc_fields(new: Mapping[str, Any], old: Mapping[str, Any]) -> bool:
    """Whether only what the garbage collector needs was changed: finalizers and owner references."""
    return _without_gc_fields(new) == _without_gc_fields(old)


def _without_gc_fields(obj: Mapping[str, Any]) -> dict[str, Any]:
    dropped = {"finalizers", "ownerReferences", "managedFields", "selfLink"}
    return {**obj, "metadata": {key: value for key, value in obj.get("metadata", {}).items() if key not in dropped}}
