"""What the parts of the container API share: its clusters and pools, what they have taken, and who works on them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sliceworks import catalog
from sliceworks.base.errors import SliceworksError
from sliceworks.twin.cloud.container import names
from sliceworks.twin.cloud.container.machines import DEFAULT_MACHINE, formation
from sliceworks.twin.cloud.container.nodes import Place, is_spot, node, reservations
from sliceworks.twin.cloud.container.places import location_of, project_of, region_of
from sliceworks.twin.cloud.container.stock import taken
from sliceworks.twin.cloud.errors import not_found

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from sliceworks.twin.cloud.container.fleet import Fleet
    from sliceworks.twin.cloud.container.settings import Settings
    from sliceworks.twin.cloud.container.stock import Stock
    from sliceworks.twin.cloud.faults import Faults
    from sliceworks.twin.cloud.state import Document, Table

Obj = dict[str, Any]


@dataclass(slots=True)
class Yard:
    """Clusters by location, pools by cluster. A pool's `places` are its machines, there or about to be."""

    clusters: Table
    pools: Table
    settings: Settings
    faults: Faults
    stock: Stock
    fleet: Fleet
    owners: dict[str, tuple[str, str]] = field(default_factory=dict)
    """The pool of each node."""
    saw: Callable[[Document], None] = lambda _: None
    """Called with each pool that is new or has changed."""

    def load(self) -> None:
        """Know what there is, after a start."""
        for pool in self.pools.all():
            self._know(pool)
            self.fleet.start()

    def cluster(self, path: str) -> Document:
        """A cluster; NOT_FOUND where there is none."""
        parent, _, name = path.rpartition("/clusters/")
        found = self.clusters.get(parent, name)
        if found is None:
            raise not_found(path)
        return found

    def pool(self, cluster: str, name: str) -> Document:
        """A pool of a cluster that must be there, as the pool must."""
        self.cluster(cluster)
        found = self.pools.get(cluster, name)
        if found is None:
            raise not_found(f"{cluster}/nodePools/{name}")
        return found

    def put(self, pool: Document) -> None:
        """Write a pool, and count what it has taken."""
        before = self.pools.get(pool.parent, pool.name)
        for place in places(before) if before else ():
            self.owners.pop(place.name, None)
        self.pools.put(pool)
        self._know(pool)

    def remove(self, pool: Document) -> None:
        """A pool is gone, with all it had."""
        self.pools.remove(pool)
        self.stock.drop(_path(pool))
        for place in places(pool):
            self.owners.pop(place.name, None)
        self.fleet.free(place.number for place in places(pool))

    def _know(self, pool: Document) -> None:
        found = places(pool)
        self.fleet.hold(place.number for place in found)
        self.owners.update(dict.fromkeys((place.name for place in found), (pool.parent, pool.name)))
        project = project_of(pool.parent)
        self.saw(pool)
        if pool.body.get("status") == "ERROR":
            self.stock.drop(_path(pool))
        else:
            self.stock.put(_path(pool), taken(project, pool.body, formation(pool.body), (place.zone for place in found)))

    def new_places(self, pool: Document, zone: str, count: int) -> list[Place]:
        """So many more machines for a pool in a zone, with names that no other has."""
        marks = pool.inner.setdefault("marks", {})
        mark = marks.setdefault(zone, names.mark())
        base = names.base_name(pool.parent.rpartition("/")[2], pool.name, mark)
        used = {place.name.rpartition("-")[2] for place in places(pool)}
        return [Place(f"{base}-{suffix}", zone, self.fleet.number()) for suffix in names.suffixes(count, used)]

    def nodes(self, pool: Document, which: Iterable[Place], boot: float) -> Iterable[Obj]:
        """The Nodes of some machines of a pool."""
        what, project = formation(pool.body), project_of(pool.parent)
        return [node(project, pool.body, what, place, boot) for place in which]

    def has_nodes(self, cluster: str) -> bool:
        """Whether the machines of a cluster are nodes of the twin's own Kubernetes."""
        return bool(self.cluster(cluster).inner.get("kubernetes"))

    def facts(self, cluster: str, pool: Obj | None = None) -> dict[str, str]:
        """What faults may select by."""
        found = {
            "project": project_of(cluster),
            "location": location_of(cluster),
            "region": region_of(location_of(cluster)),
            "cluster": cluster.rpartition("/")[2],
            "resource": cluster,
        }
        if pool is not None:
            config = pool.get("config") or {}
            found |= {
                "nodePool": pool.get("name") or "",
                "machineType": config.get("machineType") or "",
                "spot": str(is_spot(config)).lower(),
                "zone": next(iter(pool.get("locations") or ()), location_of(cluster)),
                "reservation": next(iter(reservations(config)), ""),
                "serviceAccount": config.get("serviceAccount") or "default",
                "cpus": str(_cpus(pool)),
            }
        return found


def _cpus(pool: Obj) -> int:
    """How many CPUs a pool asks for, as far as that is known."""
    try:
        machine = catalog.machine((pool.get("config") or {}).get("machineType") or DEFAULT_MACHINE)
    except SliceworksError:
        return 0
    return machine.cpu * max(1, int(pool.get("initialNodeCount") or 0)) * max(1, len(pool.get("locations") or ()))


def places(pool: Document) -> list[Place]:
    """The machines of a pool."""
    return [Place(*each) for each in pool.inner.get("places") or ()]


def set_places(pool: Document, found: Iterable[Place]) -> None:
    """A pool has these machines, there or about to be."""
    pool.inner["places"] = [list(place) for place in found]


def _path(pool: Document) -> str:
    return f"{pool.parent}/nodePools/{pool.name}"
