"""Projects: that they are there, who may do what in them, who pays, and which services are enabled."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from sliceworks.twin.cloud.errors import GoogleError, invalid
from sliceworks.twin.cloud.plain.pages import page
from sliceworks.twin.cloud.plain.policies import Policies
from sliceworks.twin.cloud.plain.service import PlainService
from sliceworks.twin.cloud.plain.shelves import number
from sliceworks.twin.cloud.routes import Call, Route
from sliceworks.twin.cloud.state import Document, Table

if TYPE_CHECKING:
    from sliceworks.twin.store.store import Store

Obj = dict[str, Any]
_ID = re.compile(r"[a-z][a-z0-9-]{4,28}[a-z0-9]")
_CREATED = "2024-01-01T00:00:00.000Z"
_LONGEST_BATCH = 20


def project_number(project: str) -> str:
    """A project's number, which follows from its id: every project is there, for as long as nobody says otherwise."""
    return str(int(number(f"projects/{project}")) % 9 * 10**11 + int(number(project)) % 10**11 + 10**11)


def checked(project: str) -> str:
    """A project's id, if it is one; a number stands for nothing here."""
    if not _ID.fullmatch(project):
        raise GoogleError("PERMISSION_DENIED", "The caller does not have permission")
    return project


class Projects:
    """Resource Manager, as far as a project goes."""

    def __init__(self, store: Store) -> None:
        self.policies = Policies(store, "cloudresourcemanager")

    def service(self) -> PlainService:
        """The API."""
        at = "projects/{project}"
        permission = "resourcemanager.projects"
        return PlainService(
            "cloudresourcemanager",
            "v1",
            [
                Route("GET", at, "projects.get", self.get, f"{permission}.get"),
                Route(
                    "POST",
                    f"{at}:getIamPolicy",
                    "projects.getIamPolicy",
                    self.policy,
                    f"{permission}.getIamPolicy",
                    "GetIamPolicyRequest",
                ),
                Route(
                    "POST",
                    f"{at}:setIamPolicy",
                    "projects.setIamPolicy",
                    self.set_policy,
                    f"{permission}.setIamPolicy",
                    "SetIamPolicyRequest",
                ),
            ],
        )

    def get(self, call: Call) -> Obj:
        """A project."""
        project = checked(call.params["project"])
        return {
            "projectNumber": project_number(project),
            "projectId": project,
            "lifecycleState": "ACTIVE",
            "name": project,
            "createTime": _CREATED,
            "parent": {"type": "folder", "id": "123456789012"},
        }

    def policy(self, call: Call) -> Obj:
        """Who may do what in a project."""
        return self.policies.get(f"projects/{checked(call.params['project'])}")

    def set_policy(self, call: Call) -> Obj:
        """Other people, or other rights."""
        return self.policies.set(f"projects/{checked(call.params['project'])}", call.body.get("policy") or {})


def billing() -> PlainService:
    """Cloud Billing: every project has an account that pays."""

    def info(call: Call) -> Obj:
        project = checked(call.params["project"])
        return {
            "name": f"projects/{project}/billingInfo",
            "projectId": project,
            "billingAccountName": "billingAccounts/000000-000000-000000",
            "billingEnabled": True,
        }

    at = "projects/{project}/billingInfo"
    return PlainService("cloudbilling", "v1", [Route("GET", at, "projects.getBillingInfo", info, "resourcemanager.projects.get")])


class Services:
    """Service Usage: which services a project has enabled."""

    def __init__(self, store: Store) -> None:
        self._table = Table(store, "serviceusage/services", "Service")

    def service(self) -> PlainService:
        """The API."""
        at = "projects/{project}/services"
        one = f"{at}/{{service}}"
        permission = "serviceusage.services"
        return PlainService(
            "serviceusage",
            "v1",
            [
                Route("GET", at, "services.list", self.find_all, f"{permission}.list"),
                Route("GET", one, "services.get", self.get, f"{permission}.get"),
                Route("POST", f"{one}:enable", "services.enable", self.enable, f"{permission}.enable", "EnableServiceRequest"),
                Route("POST", f"{one}:disable", "services.disable", self.disable, f"{permission}.disable", "DisableServiceRequest"),
                Route(
                    "POST",
                    f"{at}:batchEnable",
                    "services.batchEnable",
                    self.enable_several,
                    f"{permission}.enable",
                    "BatchEnableServicesRequest",
                ),
                Route("GET", "operations/{operation}", "operations.get", self.operation, f"{permission}.get"),
            ],
        )

    def find_all(self, call: Call) -> Obj:
        """The services of a project; asked for those that are enabled, as everybody does, only these."""
        wanted = call.query.get("filter", "").replace(" ", "")
        if wanted not in ("", "state:ENABLED"):
            return {}
        parent = f"projects/{checked(call.params['project'])}"
        found, more = page(call, self._table.all(parent), usual=50)
        told = [self._shown(parent, each.name, enabled=True) for each in found]
        return {**({"services": told} if told else {}), **more}

    def get(self, call: Call) -> Obj:
        """One service, enabled or not."""
        parent, name = f"projects/{checked(call.params['project'])}", call.params["service"]
        return self._shown(parent, name, enabled=self._table.get(parent, name) is not None)

    def enable(self, call: Call) -> Obj:
        """Enable one."""
        parent = f"projects/{checked(call.params['project'])}"
        shown = self._enable(parent, call.params["service"])
        return {"name": "operations/acat.p2", "done": True, "response": {"service": shown}}

    def enable_several(self, call: Call) -> Obj:
        """Enable up to twenty, all or none."""
        names = call.body.get("serviceIds") or []
        if not names or len(names) > _LONGEST_BATCH:
            raise invalid(f"The number of services must be between 1 and {_LONGEST_BATCH}.")
        parent = f"projects/{checked(call.params['project'])}"
        for name in names:
            _service_name(name)
        return {
            "name": "operations/acat.p2",
            "done": True,
            "response": {"services": [self._enable(parent, name) for name in names]},
        }

    def disable(self, call: Call) -> Obj:
        """Disable one."""
        parent, name = f"projects/{checked(call.params['project'])}", call.params["service"]
        document = self._table.get(parent, name)
        if document is not None:
            self._table.remove(document)
        return {"name": "operations/acat.p2", "done": True, "response": {"service": self._shown(parent, name, enabled=False)}}

    def operation(self, call: Call) -> Obj:
        """Every operation is done when it is answered."""
        return {"name": f"operations/{call.params['operation']}", "done": True, "response": {}}

    def _enable(self, parent: str, name: str) -> Obj:
        _service_name(name)
        if self._table.get(parent, name) is None:
            self._table.put(Document(parent, name, {}))
        return self._shown(parent, name, enabled=True)

    def _shown(self, parent: str, name: str, *, enabled: bool) -> Obj:
        home = f"projects/{project_number(parent.removeprefix('projects/'))}"
        state = "ENABLED" if enabled else "DISABLED"
        return {"name": f"{home}/services/{name}", "parent": home, "config": {"name": name}, "state": state}


def _service_name(name: str) -> None:
    if not re.fullmatch(r"[a-z][a-z0-9.-]*\.[a-z0-9.-]+", name):
        raise GoogleError("NOT_FOUND", f"Service {name} not found or permission denied.")
