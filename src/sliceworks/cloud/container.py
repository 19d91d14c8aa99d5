"""Google's container API: the node pools and operations of one cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from sliceworks.base.errors import UsageError
from sliceworks.cloud import operations

if TYPE_CHECKING:
    from sliceworks.cloud.operations import Operation
    from sliceworks.cloud.session import Object, Session

ENDPOINT = "https://container.googleapis.com"


class Container:
    """One cluster, by project, location and name. `prefix` is the path before the version: a twin has `/container` there."""

    def __init__(
        self, session: Session, project: str, location: str, cluster: str, *, prefix: str = "", version: str = "v1beta1"
    ) -> None:
        for what, value in (("project", project), ("location", location), ("cluster", cluster)):
            if not value:
                raise UsageError(f"the {what} is not known", hint=f"name the {what} of the cluster whose node pools are meant")
        self.session = session
        self.project, self.location, self.cluster = project, location, cluster
        self._place = f"{prefix.rstrip('/')}/{version}/projects/{quote(project)}/locations/{quote(location)}"
        self._cluster = f"{self._place}/clusters/{quote(cluster)}"

    async def node_pools(self) -> list[Object]:
        """Every node pool of the cluster, whoever made it."""
        found: list[Object] = (await self.session.call("GET", f"{self._cluster}/nodePools")).get("nodePools") or []
        return found

    async def node_pool(self, name: str) -> Object:
        """One node pool; CloudNotFound where there is none."""
        return await self.session.call("GET", f"{self._cluster}/nodePools/{quote(name)}")

    async def create(self, pool: Object) -> Operation:
        """Ask for a node pool; CloudAlreadyExists where there is one of the name."""
        return operations.read(await self.session.call("POST", f"{self._cluster}/nodePools", {"nodePool": pool}))

    async def delete(self, name: str) -> Operation:
        """Ask for the end of a node pool; CloudNotFound where there is none."""
        return operations.read(await self.session.call("DELETE", f"{self._cluster}/nodePools/{quote(name)}"))

    async def set_size(self, name: str, nodes: int) -> Operation:
        """Ask for another number of nodes in a pool."""
        body: dict[str, Any] = {"nodeCount": nodes}
        return operations.read(await self.session.call("POST", f"{self._cluster}/nodePools/{quote(name)}:setSize", body))

    async def operations(self) -> list[Operation]:
        """The operations of the cluster's location, running and past."""
        answer = await self.session.call("GET", f"{self._place}/operations")
        return [operations.read(raw) for raw in answer.get("operations") or ()]

    async def operation(self, name: str) -> Operation:
        """One operation, with its fault if it failed."""
        return operations.read(await self.session.call("GET", f"{self._place}/operations/{quote(name)}"))

    async def cancel(self, name: str) -> None:
        """Ask an operation to stop; it may still go on for a while."""
        await self.session.call("POST", f"{self._place}/operations/{quote(name)}:cancel", {})

    async def get_cluster(self) -> Object:
        """The cluster itself."""
        return await self.session.call("GET", self._cluster)

    async def server_config(self) -> Object:
        """Versions and image types that the location offers."""
        return await self.session.call("GET", f"{self._place}/serverConfig")
