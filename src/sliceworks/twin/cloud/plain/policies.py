"""IAM policies: who has which role on a thing. Read, changed and written back with an etag; a stale one is refused."""

from __future__ import annotations

import base64
import hashlib
from typing import TYPE_CHECKING, Any

import orjson

from sliceworks.twin.cloud.errors import GoogleError, invalid
from sliceworks.twin.cloud.state import Document, Table

if TYPE_CHECKING:
    from sliceworks.twin.store.store import Store

Obj = dict[str, Any]
_FIRST_ETAG = "ACAB"
_PREFIXES = (
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
_EVERYBODY = ("allUsers", "allAuthenticatedUsers")


class Policies:
    """The policies of one service's things, by their paths. A stale etag is 409 with most APIs, and 412 with some."""

    def __init__(self, store: Store, service: str, *, stale: int = 409) -> None:
        self._table = Table(store, f"{service}/policies", "Policy")
        self._stale = stale

    def get(self, path: str) -> Obj:
        """The policy of a thing; one that nobody wrote has no bindings."""
        document = self._table.get("policies", path)
        return document.body if document else {"version": 1, "etag": _FIRST_ETAG}

    def set(self, path: str, policy: Obj) -> Obj:
        """Write a policy; its etag must be the present one, or be left out."""
        present = self.get(path)
        etag = policy.get("etag")
        if etag and etag != present["etag"]:
            raise GoogleError(
                "ABORTED",
                "There were concurrent policy changes. Please retry the whole read-modify-write with exponential backoff. "
                f"The request's ETag '{etag}' did not match the current policy's ETag '{present['etag']}'.",
                http=self._stale,
                reason="conditionNotMet" if self._stale == 412 else "",
            )
        bindings = _merged(policy.get("bindings") or [])
        kept = {key: value for key, value in policy.items() if key not in ("etag", "bindings", "kind", "resourceId")}
        body = {
            "version": 1,
            **kept,
            **({"bindings": bindings} if bindings else {}),
            "etag": _etag(path, present["etag"], bindings),
        }
        self._table.put(Document("policies", path, body))
        return body

    def forget(self, path: str) -> None:
        """The thing is gone."""
        document = self._table.get("policies", path)
        if document is not None:
            self._table.remove(document)


def _merged(bindings: list[Obj]) -> list[Obj]:
    """Bindings of one role and condition are one; members stand once each, and bindings without members not at all."""
    found: dict[bytes, Obj] = {}
    for binding in bindings:
        role = binding.get("role") or ""
        if not role.startswith(("roles/", "projects/", "organizations/")):
            raise invalid(f"Role {role} is not supported for this resource.")
        key = orjson.dumps([role, binding.get("condition")], option=orjson.OPT_SORT_KEYS)
        kept = found.setdefault(key, {**binding, "members": []})
        for member in binding.get("members") or ():
            if member not in _EVERYBODY and not member.startswith(_PREFIXES):
                raise invalid(f"The member {member} is of an unknown type. Please set a valid type prefix for the member.")
            if member not in kept["members"]:
                kept["members"].append(member)
    return [binding for binding in found.values() if binding["members"]]


def _etag(path: str, before: str, bindings: list[Obj]) -> str:
    digest = hashlib.sha256(orjson.dumps([path, before, bindings])).digest()[:8]
    return base64.b64encode(digest).decode()
