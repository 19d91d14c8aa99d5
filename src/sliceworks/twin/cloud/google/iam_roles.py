"""IAM: custom roles of projects. A deleted role keeps its id for a week and can be undeleted, as in Google Cloud."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from sliceworks.twin.cloud.core.collection import paginate
from sliceworks.twin.cloud.core.document_store import Document, Table, require
from sliceworks.twin.cloud.core.exceptions import already_exists, invalid_argument, not_found
from sliceworks.twin.cloud.core.routes import Call, Route

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sliceworks.twin.store.store import Store

Obj = dict[str, Any]
_ID = re.compile(r"[a-zA-Z0-9_.]{3,64}")
_PERMISSION = re.compile(r"[a-z][a-zA-Z0-9]*(\.[a-zA-Z0-9]+){2,}")
_FIELDS = ("title", "description", "includedPermissions", "stage")


class CustomRoles:
    """Custom roles of all projects."""

    def __init__(self, store: Store) -> None:
        self._table = Table(store, "iam/roles", "Role")

    def routes(self) -> Iterator[Route]:
        """The methods of custom roles."""
        collection, permissions = "projects/{project}/roles", "iam.roles"
        item = f"{collection}/{{role}}"
        yield Route("GET", collection, "projects.roles.list", self.find_all, f"{permissions}.list")
        yield Route("POST", collection, "projects.roles.create", self.create, f"{permissions}.create", "CreateRoleRequest")
        yield Route("GET", item, "projects.roles.get", self.get, f"{permissions}.get")
        yield Route("PATCH", item, "projects.roles.patch", self.update, f"{permissions}.update", "Role")
        yield Route("DELETE", item, "projects.roles.delete", self.delete, f"{permissions}.delete")
        undelete = f"{item}:undelete"
        yield Route("POST", undelete, "projects.roles.undelete", self.undelete, f"{permissions}.undelete", "UndeleteRoleRequest")

    def find_all(self, call: Call) -> Obj:
        """List the roles of a project, without deleted ones."""
        parent = f"projects/{call.params['project']}"
        page, token = paginate(call, [role for role in self._table.all(parent) if not role.body.get("deleted")], default_size=300)
        return {**({"roles": [document.body for document in page]} if page else {}), **token}

    def create(self, call: Call) -> Obj:
        """Create a role; the id of a deleted role is not free."""
        name, parent = str(call.body.get("roleId") or ""), f"projects/{call.params['project']}"
        if not _ID.fullmatch(name):
            raise invalid_argument(f"The role name must be in the form \"roles/{{role}}\", got roleId '{name}'.")
        if self._table.get(parent, name) is not None:
            raise already_exists(f"{parent}/roles/{name}")
        document = Document(parent, name, {"name": f"{parent}/roles/{name}", "etag": "BwWWja0YfJA="})
        return self._write(document, call.body.get("role") or {}, _FIELDS)

    def get(self, call: Call) -> Obj:
        """Return a role, also a deleted one."""
        return self._get_document(call).body

    def update(self, call: Call) -> Obj:
        """Change the fields in the update mask, or all fields of the body."""
        mask = call.query.get("updateMask") or ",".join(call.body)
        return self._write(self._get_document(call), call.body, tuple(key for key in mask.split(",") if key in _FIELDS))

    def delete(self, call: Call) -> Obj:
        """Mark a role as deleted."""
        document = self._get_document(call)
        document.body["deleted"] = True
        self._table.put(document)
        return document.body

    def undelete(self, call: Call) -> Obj:
        """Restore a deleted role."""
        document = self._get_document(call)
        document.body.pop("deleted", None)
        self._table.put(document)
        return document.body

    def _write(self, document: Document, role: Obj, fields: tuple[str, ...]) -> Obj:
        for permission in role.get("includedPermissions") or ():
            if not _PERMISSION.fullmatch(permission):
                raise invalid_argument(f"Permission {permission} is not valid.")
        document.body = {**document.body, **{key: role[key] for key in fields if role.get(key)}}
        self._table.put(document)
        return document.body

    def _get_document(self, call: Call) -> Document:
        parent = f"projects/{call.params['project']}"
        return require(self._table.get(parent, call.params["role"]), not_found(f"{parent}/roles/{call.params['role']}"))
