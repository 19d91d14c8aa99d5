"""IAM: service accounts and their policies."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sliceworks.base import clock
from sliceworks.base.names import numeric_id
from sliceworks.twin.cloud.core.authorization import Authorizer
from sliceworks.twin.cloud.core.collection import paginate
from sliceworks.twin.cloud.core.document_store import Document, Table, require
from sliceworks.twin.cloud.core.enabled_services import EnabledServices
from sliceworks.twin.cloud.core.exceptions import already_exists, invalid_argument, not_found
from sliceworks.twin.cloud.core.iam_policy import IamPolicies, default_account
from sliceworks.twin.cloud.core.routes import Call, Route
from sliceworks.twin.cloud.core.service import RestService
from sliceworks.twin.cloud.google.cloudresourcemanager import find_projects
from sliceworks.twin.cloud.google.iam_roles import CustomRoles

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sliceworks.twin.cloud.core.service import ServiceContext
    from sliceworks.twin.store.store import Store

Obj = dict[str, Any]
_ID = re.compile(r"[a-z][a-z0-9-]{4,28}[a-z0-9]")


def create(context: ServiceContext) -> list[RestService]:
    """Create the service."""
    accounts, roles = ServiceAccounts(context.store), CustomRoles(context.store)
    settings = {"propagationSeconds": accounts.set_propagation_seconds}
    return [RestService("iam", "v1", [*accounts.routes(), *roles.routes()], settings=settings)]


class ServiceAccounts:
    """Service accounts of all projects."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._table = Table(store, "iam/serviceAccounts", "ServiceAccount")
        self._policies = IamPolicies(store, "iam")
        self._authorizer, self._services = Authorizer(store), EnabledServices(store)
        self._propagation_seconds = 0.0

    def set_propagation_seconds(self, seconds: float) -> None:
        """Delay the time from which policies and node pools can refer to a new service account."""
        self._propagation_seconds = float(seconds)

    def routes(self) -> Iterator[Route]:
        """The methods of service accounts."""
        collection, permissions = "projects/{project}/serviceAccounts", "iam.serviceAccounts"
        item = f"{collection}/{{account}}"
        yield Route("GET", collection, "serviceAccounts.list", self.find_all, f"{permissions}.list")
        yield Route(
            "POST", collection, "serviceAccounts.create", self.create, f"{permissions}.create", "CreateServiceAccountRequest"
        )
        yield Route("GET", item, "serviceAccounts.get", self.get, f"{permissions}.get")
        yield Route("PATCH", item, "serviceAccounts.patch", self.update, f"{permissions}.update", "PatchServiceAccountRequest")
        yield Route("DELETE", item, "serviceAccounts.delete", self.delete, f"{permissions}.delete")
        for verb, disabled in (("enable", False), ("disable", True)):
            message = f"{verb.capitalize()}ServiceAccountRequest"
            handler = self._set_disabled(disabled=disabled)
            yield Route("POST", f"{item}:{verb}", f"serviceAccounts.{verb}", handler, f"{permissions}.{verb}", message)
        get, put = "getIamPolicy", "setIamPolicy"
        # Google reads the policies of service accounts with POST.
        yield Route("POST", f"{item}:{get}", f"serviceAccounts.{get}", self.get_policy, f"{permissions}.{get}")
        yield Route(
            "POST", f"{item}:{put}", f"serviceAccounts.{put}", self.set_policy, f"{permissions}.{put}", "SetIamPolicyRequest"
        )

        test = "testIamPermissions"
        yield Route("POST", f"{item}:{test}", f"serviceAccounts.{test}", self.test_permissions, "", "TestIamPermissionsRequest")

    def has(self, project: str, email: str) -> bool:
        """Whether a project has a service account."""
        return any(document.name == email for document in self._all(project))

    def create(self, call: Call) -> Obj:
        """Create a service account."""
        name, project = str(call.body.get("accountId") or ""), call.params["project"]
        if not _ID.fullmatch(name):
            raise invalid_argument(
                f'Invalid service account ID "{name}": it must be 6 to 30 lower-case letters, digits and hyphens.'
            )
        email = f"{name}@{project}.iam.gserviceaccount.com"
        parent = f"projects/{project}"
        if self._table.get(parent, email) is not None:
            raise already_exists(f"{parent}/serviceAccounts/{email}")
        account = call.body.get("serviceAccount") or {}
        body = _new_account(project, email, {key: account[key] for key in ("displayName", "description") if account.get(key)})
        visible = clock.timestamp_after(self._propagation_seconds)
        self._table.put(Document(parent, email, body, {"visible": visible} if self._propagation_seconds else {}))
        return body

    def get(self, call: Call) -> Obj:
        """Return a service account."""
        return self._get_document(call).body

    def find_all(self, call: Call) -> Obj:
        """List the service accounts of a project."""
        page, token = paginate(call, self._all(call.params["project"]), default_size=20)
        return {**({"accounts": [document.body for document in page]} if page else {}), **token}

    def update(self, call: Call) -> Obj:
        """Change the display name or description."""
        document = self._get_document(call)
        account = call.body.get("serviceAccount") or {}
        mask = str(call.body.get("updateMask") or "displayName,description").replace("display_name", "displayName")
        for key in mask.split(","):
            if key in ("displayName", "description"):
                document.body[key] = account.get(key, "")
        self._table.put(document)
        return document.body

    def delete(self, call: Call) -> Obj:
        """Delete a service account and its policy."""
        document = self._get_document(call)
        if document.name == default_account(document.body["projectId"]):
            self._table.put(replace(document, inner={"deleted": True}))
        else:
            self._table.delete(document)
        self._policies.delete(document.body["name"])
        return {}

    def _set_disabled(self, *, disabled: bool) -> Any:
        def handle(call: Call) -> Obj:
            document = self._get_document(call)
            document.body["disabled"] = disabled
            self._table.put(document)
            return {}

        return handle

    def get_policy(self, call: Call) -> Obj:
        """Return the IAM policy of a service account."""
        return self._policies.get(self._get_document(call).body["name"])

    def set_policy(self, call: Call) -> Obj:
        """Replace the IAM policy of a service account."""
        return self._policies.set(self._get_document(call).body["name"], call.body.get("policy") or {})

    def test_permissions(self, call: Call) -> Obj:
        """Return the permissions of the request that the caller has on a service account."""
        account = self._get_document(call).body
        resource = ("iam", account["name"])
        permissions = self._authorizer.filter(call.caller, call.body.get("permissions") or (), account["projectId"], resource)
        return {"permissions": permissions} if permissions else {}

    def _get_document(self, call: Call) -> Document:
        """Return a service account by email or unique ID; project `-` is the project of the email."""
        project, key = call.params["project"], call.params["account"]
        if project == "-":
            own = key.partition("@")[2].partition(".")[0]
            project = next((name for name in find_projects(self._store) if default_account(name) == key), own)
        parent = f"projects/{project}"
        document = next((item for item in self._all(project) if key in (item.name, item.body["uniqueId"])), None)
        return require(document, not_found(f"{parent}/serviceAccounts/{key}"))

    def _all(self, project: str) -> Iterator[Document]:
        """The accounts of a project by name; its default one exists as soon as Compute Engine is enabled."""
        parent, email = f"projects/{project}", default_account(project)
        accounts = {document.name: document for document in self._table.all(parent)}
        if email not in accounts and self._services.allows("compute", project):
            body = _new_account(project, email, {"displayName": "Compute Engine default service account"})
            accounts[email] = Document(parent, email, body)
        return (accounts[name] for name in sorted(accounts) if not accounts[name].inner.get("deleted"))


def _new_account(project: str, email: str, descriptions: Obj) -> Obj:
    return {
        "name": f"projects/{project}/serviceAccounts/{email}",
        "projectId": project,
        "uniqueId": numeric_id(email),
        "email": email,
        "etag": "MDEwMjE5MjA=",
        "oauth2ClientId": numeric_id(email),
        **descriptions,
    }
