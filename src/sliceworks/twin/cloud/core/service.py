"""Services: the interface of an API, and services declared as rows of data.

A module of `google/` with plain resources only declares them; `build_service` adds storage, operations and IAM policies:

    SERVICE = ServiceSpec("secretmanager", "v1")
    RESOURCES = (ResourceType("secrets", "projects/{project}", "Secret", "secretmanager.secrets", has_policy=True),)

A module whose service has its own behavior defines `create(context)` instead and returns a list of services.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from sliceworks.base.errors import InvalidDocument
from sliceworks.twin.cloud.core import schema
from sliceworks.twin.cloud.core.collection import Collection
from sliceworks.twin.cloud.core.operations import DirectResponse, LongRunningOperations
from sliceworks.twin.cloud.core.routes import Routes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from sliceworks.twin.cloud.core.collection import ResourceType
    from sliceworks.twin.cloud.core.routes import Call, Route
    from sliceworks.twin.store.store import Store
Obj = dict[str, Any]


class Service(Protocol):
    """One of Google's APIs. Its name is the first segment of its paths: `/container/v1/…`."""

    name: str

    @property
    def versions(self) -> Mapping[str, Routes]:
        """Routes by API version."""
        ...

    def attributes(self, call: Call) -> Mapping[str, str]:
        """The attributes by which a fault selects calls."""
        ...

    def resolve_alias(self, path: str) -> str | None:
        """The canonical path of a path without a service name, if it belongs to this service."""
        ...

    def configure(self, settings: Obj) -> None:
        """Change settings of the service; raises InvalidDocument."""
        ...

    def start(self) -> None:
        """Resume unfinished work."""
        ...

    async def stop(self) -> None:
        """Stop all tasks; the stored state stays as it is."""
        ...


class RestService:
    """A service that keeps all state in its tables and runs no tasks. `settings` has the function that changes each setting."""

    def __init__(
        self,
        name: str,
        version: str,
        routes: Iterable[Route],
        *,
        has_messages: bool = True,
        settings: Mapping[str, Callable[[Any], None]] | None = None,
    ) -> None:
        self.name = name
        self._version = version
        self._routes = routes
        self._has_messages = has_messages
        self._settings = settings or {}

    @cached_property
    def versions(self) -> Mapping[str, Routes]:
        """Routes by API version, built on the first call because most twins use few services."""
        return {self._version: Routes(self._routes, schema.load(self.name, self._version) if self._has_messages else None)}

    def attributes(self, call: Call) -> Mapping[str, str]:
        """The parameters of the path, the project and the resource name of the project."""
        project = call.params.get("project", "")
        return {"project": project, "resource": f"projects/{project}", **call.params}

    def resolve_alias(self, path: str) -> str | None:
        return None

    def configure(self, settings: Obj) -> None:
        for key, value in settings.items():
            if key not in self._settings:
                raise InvalidDocument(f"{self.name}.{key}: unknown setting")
            self._settings[key](value)

    def start(self) -> None:
        pass

    async def stop(self) -> None:
        pass


class ServiceContext(NamedTuple):
    """What `create(context)` of a module gets: the store, and the Compute Engine quotas of a project in a region."""

    store: Store
    quotas: Callable[[str, str], list[Obj]]


@dataclass(frozen=True, slots=True)
class ServiceSpec:
    """A service whose resources are all declared as `ResourceType`."""

    name: str
    version: str
    response_type: str = ""
    """Full message name in the response of long-running operations; empty for services that respond directly."""


def build_service(store: Store, spec: ServiceSpec, resources: Iterable[ResourceType]) -> RestService:
    """Build the service of a module that declares SERVICE and RESOURCES."""
    operations = LongRunningOperations(store, spec.name, spec.response_type) if spec.response_type else None
    collections = [Collection(store, spec.name, resource, operations or DirectResponse()) for resource in resources]
    routes = [route for collection in collections for route in collection.routes()]
    return RestService(spec.name, spec.version, [*routes, *(operations.routes() if operations else ())])
