"""The roles and bindings a new cluster has, from `data/policy.json`.

A rule there is one line: `get,list on pods,pods/log in core,apps named x`, or `get on /healthz` for paths; the core group is meant
when none is given.
"""

from __future__ import annotations

from importlib.resources import files
from typing import TYPE_CHECKING, Any

import orjson

from sliceworks.kube.selectors import from_label_selector
from sliceworks.twin.auth.rules import GROUP

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_AGGREGATE = "rbac.authorization.k8s.io/aggregate-to-"


def policy() -> list[dict[str, Any]]:
    """Every ClusterRole, ClusterRoleBinding, Role and RoleBinding; aggregated roles already hold what they gather."""
    data = orjson.loads((files("sliceworks.twin.auth") / "data" / "policy.json").read_bytes())
    roles = [_cluster_role(name, entry) for name, entry in data["clusterRoles"].items()]
    _gather(roles)
    bindings = [
        _binding("ClusterRoleBinding", name, "ClusterRole", name, subjects)
        for name, subjects in data["clusterRoleBindings"].items()
    ]
    local = [_object("Role", name, rules=[rule(text) for text in rules]) for name, rules in data["roles"].items()]
    bound = [
        _binding("RoleBinding", name, "Role", entry["role"], entry["subjects"]) for name, entry in data["roleBindings"].items()
    ]
    return [*roles, *bindings, *local, *bound]


def aggregated_rules(role: Mapping[str, Any], roles: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]] | None:
    """The rules an aggregated ClusterRole should hold, gathered from the others by name; None when it is not aggregated."""
    rule = role.get("aggregationRule")
    if rule is None:
        return None
    gathered: dict[bytes, dict[str, Any]] = {}
    by_name = sorted(roles, key=lambda other: str(other["metadata"]["name"]))
    for selector in map(from_label_selector, rule.get("clusterRoleSelectors") or ()):
        for other in by_name:
            if other["metadata"]["name"] != role["metadata"]["name"] and selector.matches(other["metadata"].get("labels") or {}):
                for each in other.get("rules") or ():
                    gathered.setdefault(orjson.dumps(each, option=orjson.OPT_SORT_KEYS), each)
    return list(gathered.values())


def rule(text: str) -> dict[str, Any]:
    """The PolicyRule that one line of the data stands for."""
    verbs, _, rest = text.partition(" on ")
    if rest == "*" or rest.startswith("/"):
        return {"verbs": verbs.split(","), "nonResourceURLs": rest.split(",")}
    rest, _, names = rest.partition(" named ")
    resources, _, groups = rest.partition(" in ")
    found: dict[str, Any] = {
        "verbs": verbs.split(","),
        "apiGroups": ["" if group == "core" else group for group in (groups or "core").split(",")],
        "resources": resources.split(","),
    }
    return {**found, "resourceNames": names.split(",")} if names else found


def _gather(roles: list[dict[str, Any]]) -> None:
    """Fill aggregated roles until nothing changes: one may gather from another."""
    changed = True
    while changed:
        changed = False
        for role in roles:
            rules = aggregated_rules(role, roles)
            if rules is not None and rules != role["rules"]:
                role["rules"] = rules
                changed = True


def _cluster_role(name: str, entry: Mapping[str, Any]) -> dict[str, Any]:
    role = _object("ClusterRole", name, rules=[rule(text) for text in entry.get("rules", ())])
    for target in entry.get("aggregateTo", ()):
        role["metadata"]["labels"][_AGGREGATE + target] = "true"
    if source := entry.get("aggregates"):
        role["aggregationRule"] = {"clusterRoleSelectors": [{"matchLabels": {_AGGREGATE + source: "true"}}]}
    return role


def _binding(kind: str, name: str, role_kind: str, role: str, subjects: Iterable[str]) -> dict[str, Any]:
    return _object(
        kind,
        name,
        roleRef={"apiGroup": GROUP, "kind": role_kind, "name": role},
        subjects=[_subject(text) for text in subjects],
    )


def _subject(text: str) -> dict[str, str]:
    kind, _, name = text.partition(" ")
    if kind == "ServiceAccount":
        namespace, _, name = name.partition("/")
        return {"kind": kind, "name": name, "namespace": namespace}
    return {"kind": kind, "apiGroup": GROUP, "name": name}


def _object(kind: str, place: str, **fields: Any) -> dict[str, Any]:
    namespace, _, name = place.rpartition("/")
    metadata: dict[str, Any] = {"name": name, "namespace": namespace} if namespace else {"name": name}
    metadata["labels"] = {"kubernetes.io/bootstrapping": "rbac-defaults"}
    metadata["annotations"] = {"rbac.authorization.kubernetes.io/autoupdate": "true"}
    return {
        "kind": kind,
        "apiVersion": f"{GROUP}/v1",
        "metadata": metadata,
        **{key: value for key, value in fields.items() if value or key == "rules"},
    }
