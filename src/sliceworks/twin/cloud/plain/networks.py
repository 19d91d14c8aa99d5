"""Compute Engine, as far as networks go: networks, subnets, routers, policies, and which zones there are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.twin.cloud.errors import GoogleError
from sliceworks.twin.cloud.plain import bodies, regions
from sliceworks.twin.cloud.plain.groups import Groups
from sliceworks.twin.cloud.plain.operations import ComputeOperations
from sliceworks.twin.cloud.plain.service import PlainService
from sliceworks.twin.cloud.plain.shelves import Kind, Shelf
from sliceworks.twin.cloud.plain.subnets import Subnets

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sliceworks.twin.cloud.routes import Route
    from sliceworks.twin.store.store import Store

Obj = dict[str, Any]
_GLOBAL, _REGIONAL = "projects/{project}/global", "projects/{project}/regions/{region}"


class Compute:
    """Networks and what hangs on them. `quotas` knows those of a project in a region."""

    def __init__(self, store: Store, quotas: Callable[[str, str], list[Obj]]) -> None:
        self._quotas = quotas
        self.operations = ComputeOperations(store, "compute")
        self.groups = Groups(store)
        self.networks = Shelf(store, self._kind("networks", _GLOBAL, "Network", bodies.network, guarded=self._network_used))
        self.subnets = Subnets(store, self.networks, self.operations)
        self.routers = Shelf(store, self._kind("routers", _REGIONAL, "Router", bodies.router))
        self.policies = Shelf(store, self._kind("resourcePolicies", _REGIONAL, "ResourcePolicy", bodies.policy))
        self.addresses = Shelf(store, self._kind("addresses", _REGIONAL, "Address", bodies.address))
        self.firewalls = Shelf(store, self._kind("firewalls", _GLOBAL, "Firewall", bodies.firewall))

    def _kind(self, plural: str, parent: str, message: str, filled: Any, guarded: Any = lambda path: None) -> Kind:
        return Kind(
            "compute", plural, parent, message, f"compute.{plural}", self.operations, "items", filled=filled, guarded=guarded
        )

    def service(self) -> PlainService:
        """The API."""
        return PlainService("compute", "v1", self._routes())

    def _routes(self) -> Iterator[Route]:
        for shelf in (self.networks, self.routers, self.policies, self.addresses, self.firewalls):
            yield from shelf.routes()
        for part in (self.subnets, self.operations, self.groups):
            yield from part.routes()
        yield from regions.routes(self._quotas)

    def _network_used(self, path: str) -> GoogleError | None:
        for shelf in (self.subnets.shelf, self.routers, self.firewalls):
            for document in shelf.everything():
                if bodies.path_of(document.body.get("network", "")) == path:
                    user = bodies.path_of(document.body["selfLink"])
                    said = f"The network resource '{path}' is already being used by '{user}'"
                    return GoogleError("INVALID_ARGUMENT", said, reason="resourceInUseByAnotherResource")
        return None
