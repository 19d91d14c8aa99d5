"""Service accounts with roles, for tests of access."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.support.http import Api

RBAC = "/apis/rbac.authorization.k8s.io/v1"
Object = dict[str, Any]


def account(api: Api, ns: str, name: str = "robot") -> Api:
    """A client with a fresh service account's token."""
    path = f"/api/v1/namespaces/{ns}/serviceaccounts"
    api.post(path, {"metadata": {"name": name}}).ok(201)
    return api.as_token(api.post(f"{path}/{name}/token", {"spec": {}}).ok(201).json["status"]["token"])


def grant(api: Api, ns: str, *rules: Object, name: str = "robot") -> None:
    """Grant the service account these rules in its namespace."""
    api.post(f"{RBAC}/namespaces/{ns}/roles", {"metadata": {"name": name}, "rules": list(rules)}).ok(201)
    bind(api, ns, {"kind": "Role", "name": name}, name)


def bind(api: Api, ns: str, role: Object, name: str = "robot") -> None:
    """Bind a role to the service account of that name."""
    reference = {"apiGroup": "rbac.authorization.k8s.io", **role}
    subjects = [{"kind": "ServiceAccount", "name": name, "namespace": ns}]
    api.post(f"{RBAC}/namespaces/{ns}/rolebindings", {"metadata": {"name": name}, "roleRef": reference, "subjects": subjects}).ok(
        201
    )


def rule(verbs: str, resources: str, group: str = "", **extra: Any) -> Object:
    """Build a policy rule from space-separated verbs and resources."""
    return {"apiGroups": [group], "resources": resources.split(), "verbs": verbs.split(), **extra}
