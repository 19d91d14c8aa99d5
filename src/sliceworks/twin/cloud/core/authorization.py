"""IAM for callers: which permissions the roles of policies grant, and access tokens of service accounts.

The bearer of the twin's own token is the project owner `administrator@example.com`. Any other caller is a service account, whose
token comes from `generateAccessToken` of the IAM Credentials API. Of the conditions of bindings, the one on the roles that a caller
grants is evaluated (`granted_roles`); a binding with another condition grants.
"""

from __future__ import annotations

import hashlib
import re
from fnmatch import fnmatchcase
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any, NamedTuple

from sliceworks.base import clock
from sliceworks.base.names import project_number
from sliceworks.catalog import gke_rules
from sliceworks.twin.cloud.core.document_store import Document, Table

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from sliceworks.twin.store.store import Store

Obj = dict[str, Any]
ADMINISTRATOR = "administrator@example.com"
_OWNER = "roles/owner"
_TOKEN_BYTES = 24
_MODIFIED_GRANTS = "iam.googleapis.com/modifiedGrantsByRole"
_ONLY_ROLES = re.compile(r"\.hasOnly\(\[([^\]]*)\]\)")
_ROLE = re.compile(r"['\"]([^'\"]+)['\"]")
_KUBERNETES_ACCOUNT = re.compile(r"(?P<project>[^.]+)\.svc\.id\.goog\[(?P<namespace>[^/]+)/(?P<name>[^]]+)\]")


class Role(NamedTuple):
    """Patterns of permissions that a role grants, and of those that it does not."""

    grants: tuple[str, ...]
    without: tuple[str, ...] = ()

    def has(self, permission: str) -> bool:
        """Whether the role grants a permission."""
        return _matches(permission, self.grants) and not _matches(permission, self.without)


@cache
def predefined_roles() -> dict[str, Role]:
    """Predefined roles by name."""
    from sliceworks.base import yaml_documents

    file = resources.files(__package__) / "data" / "roles.yaml"
    (document,) = yaml_documents.load_all(file.read_text(), file.name)
    return {name: Role(tuple(raw["grants"]), tuple(raw.get("without") or ())) for name, raw in document.data.items()}


class Authorizer:
    """Evaluates IAM policies of resources and of their projects."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._roles = Table(store, "iam/roles", "Role")

    def is_allowed(self, caller: str, permission: str, project: str, resource: tuple[str, str] = ("", "")) -> bool:
        """Whether a caller has a permission on a resource (service and path of its policy) or on its project."""
        if caller == ADMINISTRATOR and predefined_roles()[_OWNER].has(permission):
            return True
        return next(self._granting(caller, permission, project, resource), None) is not None

    def _granting(self, caller: str, permission: str, project: str, resource: tuple[str, str] = ("", "")) -> Iterator[Obj]:
        """The bindings that grant a caller a permission."""
        members = {f"user:{caller}", f"serviceAccount:{caller}", *_principals(caller), "allAuthenticatedUsers", "allUsers"}
        for service, path in (("cloudresourcemanager", f"projects/{project}"), resource):
            for binding in self._bindings(service, path) if path else ():
                if members & set(binding["members"]) and self._find_role(binding["role"]).has(permission):
                    yield binding

    def may_change_roles(self, caller: str, project: str, roles: set[str]) -> bool:
        """Whether a caller who may write the policy of a project may change its bindings of these roles."""
        if caller == ADMINISTRATOR:
            return True
        bindings = list(self._granting(caller, "resourcemanager.projects.setIamPolicy", project))
        return any(allowed is None or roles <= allowed for binding in bindings for allowed in granted_roles(binding))

    def filter(self, caller: str, permissions: Iterable[str], project: str, resource: tuple[str, str] = ("", "")) -> list[str]:
        """The permissions that a caller has."""
        return [permission for permission in permissions if self.is_allowed(caller, permission, project, resource)]

    def has_role(self, role: str) -> bool:
        """Whether a role can be granted: a predefined role, or an existing custom role."""
        if role.startswith("roles/"):
            return gke_rules.check_role(role) is None
        parent, _, name = role.partition("/roles/")
        document = self._roles.get(parent, name)
        return document is not None and not document.body.get("deleted")

    def _bindings(self, service: str, path: str) -> Iterator[Obj]:
        document = Table(self._store, f"{service}/policies", "Policy").get("policies", path)
        yield from (document.body.get("bindings") or ()) if document else ()

    def _find_role(self, name: str) -> Role:
        predefined = predefined_roles().get(name)
        if predefined is not None:
            return predefined
        parent, _, short = name.partition("/roles/")
        document = self._roles.get(parent, short)
        if document is None or document.body.get("deleted"):
            return Role(())
        return Role(tuple(document.body.get("includedPermissions") or ()))


def granted_roles(binding: Obj) -> Iterator[set[str] | None]:
    """The sets of roles that the condition of a binding lets its members grant together; None for all roles."""
    expression = str((binding.get("condition") or {}).get("expression") or "")
    if _MODIFIED_GRANTS not in expression:
        yield None
    for roles in _ONLY_ROLES.findall(expression):
        yield set(_ROLE.findall(roles))


class AccessTokens:
    """Access tokens of service accounts. Only their hashes are stored."""

    def __init__(self, store: Store) -> None:
        self._table = Table(store, "iamcredentials/tokens", "AccessToken")

    def issue(self, account: str, seconds: float) -> tuple[str, str]:
        """Create a token; returns it and the time at which it expires."""
        token = f"ya29.{clock.rng().randbytes(_TOKEN_BYTES).hex()}"
        until = clock.timestamp_after(seconds)
        self._table.put(Document("", _hash(token), {"account": account, "expireTime": until}))
        return token, until

    def find(self, token: str) -> str | None:
        """The account of a token that has not expired."""
        document = self._table.get("", _hash(token))
        if document is None or clock.seconds_until(document.body["expireTime"]) <= 0:
            return None
        return str(document.body["account"])


def _principals(caller: str) -> Iterator[str]:
    """The principal of a Kubernetes service account such as `project.svc.id.goog[namespace/name]`."""
    if match := _KUBERNETES_ACCOUNT.fullmatch(caller):
        number = project_number(match["project"])
        pool = f"projects/{number}/locations/global/workloadIdentityPools/{match['project']}.svc.id.goog"
        yield f"principal://iam.googleapis.com/{pool}/subject/ns/{match['namespace']}/sa/{match['name']}"


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


def _matches(permission: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(permission, pattern) for pattern in patterns)
