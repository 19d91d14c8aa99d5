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
    from collections.abc import Iterable, Iterator

    from sliceworks.twin.cloud.state import Document
    from sliceworks.twin.store.store import Store

Obj = dict[str, Any]


class Groups:
    """Managed instance groups, which are the container API's own."""

    def __init__(self, store: Store) -> None:
        self._pools = Table(store, "container/nodePools", "NodePool")
        self._seen: set[tuple[str, str]] = set()
        self._homes: dict[str, tuple[str, str]] = {}
        """By the name of a group, the pool that it was last seen in: one of many is asked for again and again."""

    def routes(self) -> Iterator[Route]:
        """They are only read."""
        at, may = "projects/{project}/zones/{zone}/instanceGroupManagers", "compute.instanceGroupManagers"
        yield Route("GET", at, "instanceGroupManagers.list", self._groups, f"{may}.list")
        yield Route("GET", f"{at}/{{group}}", "instanceGroupManagers.get", self._group, f"{may}.get")

    def _groups(self, call: Call) -> Obj:
        found = list(self._of_pools(call))
        return {"kind": "compute#instanceGroupManagerList", "id": "groups", **({"items": found} if found else {})}

    def _group(self, call: Call) -> Obj:
        home = self._home(call.params["group"])
        pool = self._pools.get(*home) if home else None
        found = next((each for each in self._of_pools(call, [pool] if pool else ()) if each["name"] == call.params["group"]), None)
        if found is None:
            raise GoogleError("NOT_FOUND", f"The resource '{call.params['group']}' was not found")
        return found

    def _home(self, group: str) -> tuple[str, str] | None:
        """The pool of a group. Pools that came since the last look are looked at first, then those that may have changed."""
        present = set(self._pools.keys()) if group not in self._homes else set()
        for keys in (present - self._seen, present):
            if group in self._homes:
                break
            for key in keys:
                pool = self._pools.get(*key)
                urls = (pool.body.get("instanceGroupUrls") if pool else None) or ()
                self._homes.update({url.rpartition("/")[2]: key for url in urls})
        self._seen |= present
        return self._homes.get(group)

    def _of_pools(self, call: Call, pools: Iterable[Document] | None = None) -> Iterator[Obj]:
        zone = call.params["zone"]
        for pool in self._pools.all() if pools is None else pools:
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
