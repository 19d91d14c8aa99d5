"""Cloud Resource Manager: projects and their IAM policies. Every valid project ID exists."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from itertools import chain
from typing import TYPE_CHECKING, Any

from sliceworks.base.names import project_number
from sliceworks.twin.cloud.core.authorization import Authorizer
from sliceworks.twin.cloud.core.collection import paginate
from sliceworks.twin.cloud.core.document_store import Document, Table
from sliceworks.twin.cloud.core.exceptions import GoogleError, refuse
from sliceworks.twin.cloud.core.iam_policy import IamPolicies, modified_roles
from sliceworks.twin.cloud.core.routes import Call, Route
from sliceworks.twin.cloud.core.service import RestService

if TYPE_CHECKING:
    from sliceworks.twin.cloud.core.service import ServiceContext
    from sliceworks.twin.store.store import Store

Obj = dict[str, Any]
_ID = re.compile(r"[a-z][a-z0-9-]{4,28}[a-z0-9]")
_PROJECT = re.compile(r"\bprojects/(?P<project>[^/]+)")
_IN_PROJECTS = {
    "cloudresourcemanager/policies": "Policy",
    "container/clusters": "Cluster",
    "iam/serviceAccounts": "ServiceAccount",
    "serviceusage/services": "Service",
}
"""What projects have in them: a project without any is not listed."""

_CREATED = "2024-01-01T00:00:00.000Z"


def check_project_id(project: str) -> str:
    """Return a valid project ID; raises PERMISSION_DENIED, also for project numbers."""
    if not _ID.fullmatch(project):
        raise GoogleError("PERMISSION_DENIED", "The caller does not have permission")
    return project


def create(context: ServiceContext) -> list[RestService]:
    """Create the service."""
    projects, path, permission = Projects(context.store), "projects/{project}", "resourcemanager.projects"
    get, put, test = "getIamPolicy", "setIamPolicy", "testIamPermissions"
    routes = [
        Route("GET", "projects", "projects.list", projects.find_all, ""),
        Route("GET", path, "projects.get", projects.get, f"{permission}.get"),
        Route("POST", f"{path}:{get}", f"projects.{get}", projects.get_policy, f"{permission}.{get}", "GetIamPolicyRequest"),
        Route("POST", f"{path}:{put}", f"projects.{put}", projects.set_policy, f"{permission}.{put}", "SetIamPolicyRequest"),
        Route("POST", f"{path}:{test}", f"projects.{test}", projects.test_permissions, "", "TestIamPermissionsRequest"),
    ]
    return [RestService("cloudresourcemanager", "v1", routes)]


def find_projects(store: Store) -> set[str]:
    """The projects that have something in them."""
    keys = chain.from_iterable(Table(store, name, kind).keys() for name, kind in _IN_PROJECTS.items())
    return {match["project"] for key in keys if (match := _PROJECT.search("/".join(key)))}


class Projects:
    """All projects."""

    def __init__(self, store: Store) -> None:
        self._policies = IamPolicies(store, "cloudresourcemanager")
        self._authorizer = Authorizer(store)
        self._store = store

    def find_all(self, call: Call) -> Obj:
        """List the projects that the caller may get, of those that have something in them."""
        names = find_projects(self._store)
        names = {name for name in names if self._authorizer.is_allowed(call.caller, "resourcemanager.projects.get", name)}
        described = (Document("", name, self._describe(name)) for name in sorted(names))
        terms = call.query.get("filter", "").split()
        page, token = paginate(call, (document for document in described if all(_matches(document.body, term) for term in terms)))
        return {**({"projects": [document.body for document in page]} if page else {}), **token}

    def get(self, call: Call) -> Obj:
        """Return a project."""
        return self._describe(check_project_id(call.params["project"]))

    def _describe(self, project: str) -> Obj:
        return {
            "projectNumber": project_number(project),
            "projectId": project,
            "lifecycleState": "ACTIVE",
            "name": project,
            "createTime": _CREATED,
            "parent": {"type": "folder", "id": "123456789012"},
        }

    def get_policy(self, call: Call) -> Obj:
        """Return the IAM policy of a project."""
        return self._policies.get(f"projects/{check_project_id(call.params['project'])}")

    def set_policy(self, call: Call) -> Obj:
        """Replace the IAM policy of a project."""
        project, policy = check_project_id(call.params["project"]), call.body.get("policy") or {}
        roles = modified_roles(self._policies.get(f"projects/{project}"), policy)
        if not self._authorizer.may_change_roles(call.caller, project, roles):
            raise refuse("policy-condition")
        return self._policies.set(f"projects/{project}", policy)

    def test_permissions(self, call: Call) -> Obj:
        """Return the permissions of the request that the caller has on a project."""
        project = check_project_id(call.params["project"])
        permissions = self._authorizer.filter(call.caller, call.body.get("permissions") or (), project)
        return {"permissions": permissions} if permissions else {}


def _matches(project: Obj, term: str) -> bool:
    """Whether a project matches one term of a filter, such as `lifecycleState:ACTIVE` or `id:train*`; labels do not exist here."""
    field, _, value = term.replace("=", ":", 1).partition(":")
    actual = str(project.get({"id": "projectId"}.get(field, field), ""))
    return fnmatchcase(actual.lower(), value.strip('"').lower())
