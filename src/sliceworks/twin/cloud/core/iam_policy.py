"""IAM policies of resources: getIamPolicy and setIamPolicy with etags."""

from __future__ import annotations

import base64
import hashlib
import re
from typing import TYPE_CHECKING, Any

import orjson

from sliceworks.base import clock
from sliceworks.base.names import project_number
from sliceworks.twin.cloud.core.authorization import Authorizer
from sliceworks.twin.cloud.core.document_store import Document, Table
from sliceworks.twin.cloud.core.exceptions import refuse

if TYPE_CHECKING:
    from sliceworks.twin.store.store import Store


Obj = dict[str, Any]
_FIRST_ETAG = "ACAB"
_MEMBER_PREFIXES = (
    "user:",
    "serviceAccount:",
    "group:",
    "domain:",
    "principal:",
    "principalSet:",
    "deleted:",
    "projectOwner:",
    "projectEditor:",
    "projectViewer:",
)
_PUBLIC_MEMBERS = ("allUsers", "allAuthenticatedUsers")


_AGENT_DOMAINS = {
    "aiplatform": "gcp-sa-aiplatform",
    "artifactregistry": "gcp-sa-artifactregistry",
    "cloudbuild": "gcp-sa-cloudbuild",
    "container": "container-engine-robot",
    "gkehub": "gcp-sa-gkehub",
    "mesh": "gcp-sa-servicemesh",
    "meshconfig": "gcp-sa-meshdataplane",
    "pubsub": "gcp-sa-pubsub",
    "secretmanager": "gcp-sa-secretmanager",
}
_EAGER_AGENTS = frozenset({"container"})
"""Services whose agent exists as soon as the service is enabled."""
_ACCOUNT_DOMAIN = ".iam.gserviceaccount.com"
_AGENT = re.compile(r"service-[0-9]+@.*")


class ServiceAgents:
    """The service agents of projects. Most exist after `generateServiceIdentity` or the first use of their service only."""

    def __init__(self, store: Store) -> None:
        self._table = Table(store, "iam/serviceAgents", "ServiceAgent")

    def create(self, project: str, service: str) -> str:
        """Create the agent of a service, and return its email; empty if the service has none."""
        domain = _AGENT_DOMAINS.get(service.partition(".")[0])
        if domain is None:
            return ""
        email = f"service-{project_number(project)}@{domain}{_ACCOUNT_DOMAIN}"
        if self._table.get("", email) is None:
            self._table.put(Document("", email, {"project": project}))
        return email

    def on_enabled(self, project: str, service: str) -> None:
        """Create the agents that exist with their service."""
        if service.partition(".")[0] in _EAGER_AGENTS:
            self.create(project, service)

    def has(self, email: str) -> bool:
        """Whether an agent exists."""
        return self._table.get("", email) is not None


class PolicyMembers:
    """Checks that the service accounts of policies exist."""

    def __init__(self, store: Store) -> None:
        self._accounts = Table(store, "iam/serviceAccounts", "ServiceAccount")
        self._agents = ServiceAgents(store)
        self._pools = Table(store, "container/identityPools", "IdentityPool")

    def check(self, member: str) -> None:
        """Raise INVALID_ARGUMENT if a member is a service account or workload identity pool that does not exist."""
        kind, _, name = member.partition(":")
        if kind != "serviceAccount":
            return
        if "[" in name:
            pool = name.partition("[")[0]
            if self._pools.get("", pool) is None:
                raise refuse("identity-pool-missing", pool=pool)
            return
        project = name.partition("@")[2].removesuffix(_ACCOUNT_DOMAIN)
        if _AGENT.fullmatch(name) or name.endswith("@cloudbuild.gserviceaccount.com"):
            exists = self._agents.has(name)
        elif name.endswith(_ACCOUNT_DOMAIN):
            account = self._accounts.get(f"projects/{project}", name)
            exists = account is not None and is_visible(account)
        else:
            exists = True
        if not exists:
            raise refuse("policy-account-missing", account=name)


def default_account(project: str) -> str:
    """The email of a project's default service account, which Compute Engine creates; nodes without an account have it."""
    return f"{project_number(project)}-compute@developer.gserviceaccount.com"


def is_visible(account: Document) -> bool:
    """Whether a new service account has reached all of Google's systems."""
    since = account.inner.get("visible")
    return not since or clock.seconds_until(since) <= 0


class IamPolicies:
    """IAM policies of one service's resources by path. `conflict` is the rule that a stale etag breaks."""

    def __init__(self, store: Store, service: str, *, conflict: str = "policy-conflict") -> None:
        self._table = Table(store, f"{service}/policies", "Policy")
        self._conflict = conflict
        self._members = PolicyMembers(store)
        self._authorizer = Authorizer(store)

    def get(self, path: str) -> Obj:
        """Return the policy of a resource; without a stored one, a policy without bindings."""
        document = self._table.get("policies", path)
        return document.body if document else {"version": 1, "etag": _FIRST_ETAG}

    def set(self, path: str, policy: Obj) -> Obj:
        """Replace a policy; raises ABORTED if its etag is set and not the current one."""
        current = self.get(path)
        etag = policy.get("etag")
        if etag and not is_same_etag(etag, current["etag"]):
            raise refuse(self._conflict, etag=etag, current=current["etag"])
        bindings = _merge_bindings(policy.get("bindings") or [])
        self._check_new(bindings, current.get("bindings") or [])
        extra = {key: value for key, value in policy.items() if key not in ("etag", "bindings", "kind", "resourceId")}
        body = {
            "version": 1,
            **extra,
            **({"bindings": bindings} if bindings else {}),
            "etag": _etag(path, current["etag"], bindings),
        }
        self._table.put(Document("policies", path, body))
        return body

    def _check_new(self, bindings: list[Obj], before: list[Obj]) -> None:
        """Raise INVALID_ARGUMENT for a new role or member that does not exist."""
        known = {member for binding in before for member in binding["members"]}
        for binding in bindings:
            if not self._authorizer.has_role(binding["role"]):
                raise refuse("policy-role", role=binding["role"])
            for member in binding["members"]:
                if member not in known:
                    self._members.check(member)

    def delete(self, path: str) -> None:
        """Delete the policy of a deleted resource."""
        document = self._table.get("policies", path)
        if document is not None:
            self._table.delete(document)


def modified_roles(before: Obj, after: Obj) -> set[str]:
    """The roles whose members differ between two policies."""

    def grants(policy: Obj) -> set[tuple[str, str, str]]:
        return {
            (binding.get("role") or "", member, str((binding.get("condition") or {}).get("expression")))
            for binding in policy.get("bindings") or ()
            for member in binding.get("members") or ()
        }

    return {role for role, _, _ in grants(before) ^ grants(after)}


def _merge_bindings(bindings: list[Obj]) -> list[Obj]:
    """Merge bindings with the same role and condition; drop duplicate members and bindings without members."""
    merged: dict[bytes, Obj] = {}
    for binding in bindings:
        role = binding.get("role") or ""
        if not role.startswith(("roles/", "projects/", "organizations/")):
            raise refuse("policy-role", role=role)
        key = orjson.dumps([role, binding.get("condition")], option=orjson.OPT_SORT_KEYS)
        entry = merged.setdefault(key, {**binding, "members": []})
        for member in binding.get("members") or ():
            if member not in _PUBLIC_MEMBERS and not member.startswith(_MEMBER_PREFIXES):
                raise refuse("policy-member", member=member)
            if member not in entry["members"]:
                entry["members"].append(member)
    return [binding for binding in merged.values() if binding["members"]]


def _etag(path: str, before: str, bindings: list[Obj]) -> str:
    digest = hashlib.sha256(orjson.dumps([path, before, bindings])).digest()[:8]
    return base64.b64encode(digest).decode()


def is_same_etag(first: str, second: str) -> bool:
    """Whether two etags are the same bytes, in the standard or the URL-safe base64 alphabet."""
    return first == second or _decode_etag(first) == _decode_etag(second)


def _decode_etag(etag: str) -> bytes:
    normal = etag.replace("-", "+").replace("_", "/").rstrip("=")
    try:
        return base64.b64decode(normal + "=" * (-len(normal) % 4), validate=True)
    except ValueError:
        return etag.encode()
