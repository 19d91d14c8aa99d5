"""IAM: service accounts, and who may act as them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from sliceworks.twin.cloud.errors import already_exists, invalid, not_found
from sliceworks.twin.cloud.plain.pages import page
from sliceworks.twin.cloud.plain.policies import Policies
from sliceworks.twin.cloud.plain.service import PlainService
from sliceworks.twin.cloud.plain.shelves import number
from sliceworks.twin.cloud.routes import Call, Route
from sliceworks.twin.cloud.state import Document, Table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sliceworks.twin.store.store import Store

Obj = dict[str, Any]
_ID = re.compile(r"[a-z][a-z0-9-]{4,28}[a-z0-9]")


class Accounts:
    """Service accounts of all projects."""

    def __init__(self, store: Store) -> None:
        self._table = Table(store, "iam/serviceAccounts", "ServiceAccount")
        self._policies = Policies(store, "iam")

    def service(self) -> PlainService:
        """The API."""
        return PlainService("iam", "v1", self._routes())

    def _routes(self) -> Iterator[Route]:
        at = "projects/{project}/serviceAccounts"
        one = f"{at}/{{account}}"
        may = "iam.serviceAccounts"
        yield Route("GET", at, "serviceAccounts.list", self.find_all, f"{may}.list")
        yield Route("POST", at, "serviceAccounts.create", self.create, f"{may}.create", "CreateServiceAccountRequest")
        yield Route("GET", one, "serviceAccounts.get", self.get, f"{may}.get")
        yield Route("PATCH", one, "serviceAccounts.patch", self.change, f"{may}.update", "PatchServiceAccountRequest")
        yield Route("DELETE", one, "serviceAccounts.delete", self.delete, f"{may}.delete")
        for verb, disabled in (("enable", False), ("disable", True)):
            message = f"{verb.capitalize()}ServiceAccountRequest"
            yield Route("POST", f"{one}:{verb}", f"serviceAccounts.{verb}", self._able(disabled=disabled), f"{may}.{verb}", message)
        # Asked with POST, although it only reads: so Google has it for accounts.
        yield Route("POST", f"{one}:getIamPolicy", "serviceAccounts.getIamPolicy", self.policy, f"{may}.getIamPolicy")
        yield Route(
            "POST",
            f"{one}:setIamPolicy",
            "serviceAccounts.setIamPolicy",
            self.set_policy,
            f"{may}.setIamPolicy",
            "SetIamPolicyRequest",
        )

    def has(self, project: str, email: str) -> bool:
        """Whether a project has that account."""
        return self._table.get(f"projects/{project}", email) is not None

    def create(self, call: Call) -> Obj:
        """A new account."""
        name, project = str(call.body.get("accountId") or ""), call.params["project"]
        if not _ID.fullmatch(name):
            raise invalid(f'Invalid service account ID "{name}": it must be 6 to 30 lower-case letters, digits and hyphens.')
        email = f"{name}@{project}.iam.gserviceaccount.com"
        parent = f"projects/{project}"
        if self._table.get(parent, email) is not None:
            raise already_exists(f"{parent}/serviceAccounts/{email}")
        asked = call.body.get("serviceAccount") or {}
        body = {
            "name": f"{parent}/serviceAccounts/{email}",
            "projectId": project,
            "uniqueId": number(email),
            "email": email,
            "etag": "MDEwMjE5MjA=",
            "oauth2ClientId": number(email),
            **{key: asked[key] for key in ("displayName", "description") if asked.get(key)},
        }
        self._table.put(Document(parent, email, body))
        return body

    def get(self, call: Call) -> Obj:
        """An account."""
        return self._found(call).body

    def find_all(self, call: Call) -> Obj:
        """The accounts of a project."""
        found, more = page(call, self._table.all(f"projects/{call.params['project']}"), usual=20)
        return {**({"accounts": [each.body for each in found]} if found else {}), **more}

    def change(self, call: Call) -> Obj:
        """Another name or description."""
        document = self._found(call)
        asked = call.body.get("serviceAccount") or {}
        mask = str(call.body.get("updateMask") or "displayName,description").replace("display_name", "displayName")
        for key in mask.split(","):
            if key in ("displayName", "description"):
                document.body[key] = asked.get(key, "")
        self._table.put(document)
        return document.body

    def delete(self, call: Call) -> Obj:
        """Remove an account, and who might act as it."""
        document = self._found(call)
        self._table.remove(document)
        self._policies.forget(document.body["name"])
        return {}

    def _able(self, *, disabled: bool) -> Any:
        def answer(call: Call) -> Obj:
            document = self._found(call)
            document.body["disabled"] = disabled
            self._table.put(document)
            return {}

        return answer

    def policy(self, call: Call) -> Obj:
        """Who may act as an account."""
        return self._policies.get(self._found(call).body["name"])

    def set_policy(self, call: Call) -> Obj:
        """Others may act as it."""
        return self._policies.set(self._found(call).body["name"], call.body.get("policy") or {})

    def _found(self, call: Call) -> Document:
        """By e-mail address or number; `-` stands for the account's own project."""
        project, wanted = call.params["project"], call.params["account"]
        if project == "-":
            project = wanted.partition("@")[2].partition(".")[0]
        parent = f"projects/{project}"
        document = self._table.get(parent, wanted) or next(
            (each for each in self._table.all(parent) if each.body["uniqueId"] == wanted), None
        )
        if document is None:
            raise not_found(f"{parent}/serviceAccounts/{wanted}")
        return document
