"""Service Usage: the enabled services of projects, and their service agents. Operations are done when they are returned."""

from __future__ import annotations

import re
from functools import cached_property
from typing import TYPE_CHECKING, Any

from sliceworks.base.names import numeric_id, project_number
from sliceworks.twin.cloud.core import schema
from sliceworks.twin.cloud.core.collection import paginate
from sliceworks.twin.cloud.core.enabled_services import EnabledServices
from sliceworks.twin.cloud.core.exceptions import GoogleError, invalid_argument
from sliceworks.twin.cloud.core.iam_policy import ServiceAgents
from sliceworks.twin.cloud.core.routes import Call, Route, Routes
from sliceworks.twin.cloud.core.service import RestService
from sliceworks.twin.cloud.google.cloudresourcemanager import check_project_id

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from sliceworks.twin.cloud.core.service import ServiceContext
    from sliceworks.twin.store.store import Store

Obj = dict[str, Any]
_NAME = re.compile(r"[a-z][a-z0-9.-]*\.[a-z0-9.-]+")
_MAX_BATCH = 20


def create(context: ServiceContext) -> list[RestService]:
    """Create the service."""
    return [_ServiceUsageService(ServiceUsage(context.store))]


class _ServiceUsageService(RestService):
    """Both versions have the same methods here; only v1beta1 has service identities."""

    def __init__(self, usage: ServiceUsage) -> None:
        super().__init__("serviceusage", "v1", usage.routes(), settings={"newProjects": usage.manage_projects})
        self._usage = usage

    @cached_property
    def versions(self) -> Mapping[str, Routes]:
        """Routes of v1, and of v1beta1 with service identities."""
        beta = [*self._usage.routes(), self._usage.identity_route()]
        return {
            "v1": Routes(self._usage.routes(), schema.load("serviceusage", "v1")),
            "v1beta1": Routes(beta, schema.load("serviceusage", "v1beta1")),
        }


class ServiceUsage:
    """The methods of services."""

    def __init__(self, store: Store) -> None:
        self._enabled = EnabledServices(store)
        self._agents = ServiceAgents(store)

    def manage_projects(self, projects: Iterable[str]) -> None:
        """Declare that projects start without enabled services."""
        for project in projects:
            self._enabled.manage(project)

    def routes(self) -> Iterator[Route]:
        """The methods of services, and their operations."""
        collection, permission, batch = "projects/{project}/services", "serviceusage.services", "BatchEnableServicesRequest"
        item = f"{collection}/{{service}}"
        yield Route("GET", collection, "services.list", self.find_all, f"{permission}.list")
        yield Route("GET", item, "services.get", self.get, f"{permission}.get")
        yield Route("POST", f"{item}:enable", "services.enable", self.enable, f"{permission}.enable", "EnableServiceRequest")
        yield Route("POST", f"{item}:disable", "services.disable", self.disable, f"{permission}.disable", "DisableServiceRequest")
        yield Route("POST", f"{collection}:batchEnable", "services.batchEnable", self.batch_enable, f"{permission}.enable", batch)
        yield Route("GET", "operations/{operation}", "operations.get", self.get_operation, f"{permission}.get")

    def identity_route(self) -> Route:
        """generateServiceIdentity, which creates the service agent of a service."""
        path, permission = "projects/{project}/services/{service}:generateServiceIdentity", "serviceusage.services.enable"
        return Route("POST", path, "services.generateServiceIdentity", self.generate_identity, permission)

    def generate_identity(self, call: Call) -> Obj:
        """Create the service agent of a service."""
        project = check_project_id(call.params["project"])
        email = self._agents.create(project, call.params["service"])
        return _done({"email": email, "uniqueId": numeric_id(email)} if email else {})

    def find_all(self, call: Call) -> Obj:
        """List the enabled services of a project; disabled services are not listed."""
        state_filter = call.query.get("filter", "").replace(" ", "")
        if state_filter not in ("", "state:ENABLED"):
            return {}
        parent = _parent(call)
        page, token = paginate(call, self._enabled.all(parent.removeprefix("projects/")), default_size=50)
        services = [_render(parent, document.name, enabled=True) for document in page]
        return {**({"services": services} if services else {}), **token}

    def get(self, call: Call) -> Obj:
        """Return a service, enabled or not."""
        parent, name = _parent(call), call.params["service"]
        return _render(parent, name, enabled=self._enabled.has(parent.removeprefix("projects/"), name))

    def enable(self, call: Call) -> Obj:
        """Enable a service."""
        return _done({"service": self._enable(_parent(call), call.params["service"])})

    def batch_enable(self, call: Call) -> Obj:
        """Enable up to 20 services, all or none."""
        names = call.body.get("serviceIds") or []
        if not names or len(names) > _MAX_BATCH:
            raise invalid_argument(f"The number of services must be between 1 and {_MAX_BATCH}.")
        parent = _parent(call)
        for name in names:
            _check_name(name)
        return _done({"services": [self._enable(parent, name) for name in names]})

    def disable(self, call: Call) -> Obj:
        """Disable a service."""
        parent, name = _parent(call), call.params["service"]
        self._enabled.disable(parent.removeprefix("projects/"), name)
        return _done({"service": _render(parent, name, enabled=False)})

    def get_operation(self, call: Call) -> Obj:
        """Return an operation, which is always done."""
        return {"name": f"operations/{call.params['operation']}", "done": True, "response": {}}

    def _enable(self, parent: str, name: str) -> Obj:
        _check_name(name)
        self._enabled.enable(parent.removeprefix("projects/"), name)
        self._agents.on_enabled(parent.removeprefix("projects/"), name)
        return _render(parent, name, enabled=True)


def _parent(call: Call) -> str:
    return f"projects/{check_project_id(call.params['project'])}"


def _done(response: Obj) -> Obj:
    return {"name": "operations/acat.p2", "done": True, "response": response}


def _render(parent: str, name: str, *, enabled: bool) -> Obj:
    project = f"projects/{project_number(parent.removeprefix('projects/'))}"
    state = "ENABLED" if enabled else "DISABLED"
    return {"name": f"{project}/services/{name}", "parent": project, "config": {"name": name}, "state": state}


def _check_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        raise GoogleError("NOT_FOUND", f"Service {name} not found or permission denied.")
