"""The groups that node pools' machines are in: how many nodes a pool has is read from these."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.twin.cloud.container.places import project_of
from sliceworks.twin.cloud.container.yard import places
from sliceworks.twin.cloud.errors import GoogleError
from sliceworks.twin.cloud.plain.operations import link
from sliceworks.twin.cloud.plain.shelves import number
from sliceworks.twin.cloud.routes import Call, Route
from sliceworks.twin.cloud.state import Table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sliceworks.twin.store.store import Store

Obj = dict[str, Any]


class Groups:
    """Managed instance groups, which are the container API's own."""

    def __init__(self, store: Store) -> None:
        self._pools = Table(store, "container/nodePools", "NodePool")

    def routes(self) -> Iterator[Route]:
        """They are only read."""
        at, may = "projects/{project}/zones/{zone}/instanceGroupManagers", "compute.instanceGroupManagers"
        yield Route("GET", at, "instanceGroupManagers.list", self._groups, f"{may}.list")
        yield Route("GET", f"{at}/{{group}}", "instanceGroupManagers.get", self._group, f"{may}.get")

    def _groups(self, call: Call) -> Obj:
        found = list(self._of_pools(call))
        return {"kind": "compute#instanceGroupManagerList", "id": "groups", **({"items": found} if found else {})}

    def _group(self, call: Call) -> Obj:
        found = next((each for each in self._of_pools(call) if each["name"] == call.params["group"]), None)
        if found is None:
            raise GoogleError("NOT_FOUND", f"The resource '{call.params['group']}' was not found")
        return found

    def _of_pools(self, call: Call) -> Iterator[Obj]:
        zone = call.params["zone"]
        for pool in self._pools.all():
            if project_of(pool.parent) != call.params["project"]:
                continue
            for url in pool.body.get("instanceGroupUrls") or ():
                if f"/zones/{zone}/" in url:
                    yield {
                        "kind": "compute#instanceGroupManager",
                        "id": number(url),
                        "name": url.rpartition("/")[2],
                        "zone": link(call, f"projects/{call.params['project']}/zones/{zone}"),
                        "selfLink": url,
                        "instanceGroup": url.replace("/instanceGroupManagers/", "/instanceGroups/"),
                        "targetSize": sum(place.zone == zone for place in places(pool)),
                        "status": {"isStable": True},
                    }
