"""State shared by the parts of the container API: clusters, node pools and their instances."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sliceworks import catalog
from sliceworks.base.errors import SliceworksError
from sliceworks.twin.cloud.core.document_store import require
from sliceworks.twin.cloud.core.exceptions import not_found
from sliceworks.twin.cloud.google.container import resource_names
from sliceworks.twin.cloud.google.container.capacity import pool_usage
from sliceworks.twin.cloud.google.container.node_template import (
    DEFAULT_MACHINE,
    Instance,
    build_node,
    is_spot,
    reservation_names,
    resolve_shape,
)
from sliceworks.twin.cloud.google.container.resource_names import location_of, project_of, region_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from sliceworks.twin.cloud.core.document_store import Document, Table
    from sliceworks.twin.cloud.core.faults import Faults
    from sliceworks.twin.cloud.google.container.capacity import Capacity, ContainerSettings
    from sliceworks.twin.cloud.google.container.dependencies import Dependencies
    from sliceworks.twin.cloud.google.container.node_manager import NodeManager

Obj = dict[str, Any]


@dataclass(slots=True)
class GkeState:
    """Clusters by location and node pools by cluster. The instances of a node pool include those that are being created."""

    clusters: Table
    pools: Table
    settings: ContainerSettings
    faults: Faults
    capacity: Capacity
    node_manager: NodeManager
    dependencies: Dependencies
    pool_keys: dict[str, tuple[str, str]] = field(default_factory=dict)
    """The key (parent, name) of the node pool of each Node."""
    on_pool_changed: Callable[[Document], None] = lambda _: None
    """Called with each created or changed node pool."""

    def load(self) -> None:
        """Index the stored node pools."""
        for pool in self.pools.all():
            self._index(pool)
            self.node_manager.start()

    def cluster(self, path: str) -> Document:
        """Return a cluster; raises NOT_FOUND."""
        parent, _, name = path.rpartition("/clusters/")
        return require(self.clusters.get(parent, name), not_found(path))

    def pool(self, cluster: str, name: str) -> Document:
        """Return a node pool; raises NOT_FOUND for it or its cluster."""
        self.cluster(cluster)
        return require(self.pools.get(cluster, name), not_found(f"{cluster}/nodePools/{name}"))

    def put(self, pool: Document) -> None:
        """Write a node pool and update its usage."""
        before = self.pools.get(pool.parent, pool.name)
        for instance in instances(before) if before else ():
            self.pool_keys.pop(instance.name, None)
        self.pools.put(pool)
        self._index(pool)

    def delete(self, pool: Document) -> None:
        """Delete a node pool and release its usage."""
        self.pools.delete(pool)
        self.capacity.delete(pool_path(pool))
        for instance in instances(pool):
            self.pool_keys.pop(instance.name, None)
        self.node_manager.free(instance.number for instance in instances(pool))

    def _index(self, pool: Document) -> None:
        pool_instances = instances(pool)
        self.node_manager.hold(instance.number for instance in pool_instances)
        self.pool_keys.update((instance.name, (pool.parent, pool.name)) for instance in pool_instances)
        self.on_pool_changed(pool)
        if pool.body.get("status") == "ERROR":
            self.capacity.delete(pool_path(pool))
        else:
            zones = (instance.zone for instance in pool_instances)
            self.capacity.put(pool_path(pool), pool_usage(project_of(pool.parent), pool, resolve_shape(pool.body), zones))

    def new_instances(self, pool: Document, zone: str, count: int) -> list[Instance]:
        """Return new instances of a node pool in a zone, with unique names."""
        hashes = pool.inner.setdefault("marks", {})
        group_hash = hashes.setdefault(zone, resource_names.new_hash())
        base = resource_names.instance_group_name(pool.parent.rpartition("/")[2], pool.name, group_hash)
        used = {instance.name.rpartition("-")[2] for instance in instances(pool)}
        numbers = self.node_manager.allocate_numbers(count)
        suffixes = resource_names.new_suffixes(count, used)
        return [Instance(f"{base}-{suffix}", zone, number) for suffix, number in zip(suffixes, numbers, strict=True)]

    def nodes(self, pool: Document, some: Iterable[Instance], boot: float) -> Iterable[Obj]:
        """The Nodes of some instances of a node pool."""
        shape, project = resolve_shape(pool.body), project_of(pool.parent)
        return [build_node(project, pool.body, shape, instance, boot) for instance in some]

    def has_nodes(self, cluster: str) -> bool:
        """Whether the instances of a cluster are Nodes of the twin's Kubernetes."""
        return bool(self.cluster(cluster).inner.get("kubernetes"))

    def attributes(self, cluster: str, pool: Obj | None = None) -> dict[str, str]:
        """The attributes by which faults select clusters and node pools."""
        attributes = {
            "project": project_of(cluster),
            "location": location_of(cluster),
            "region": region_of(location_of(cluster)),
            "cluster": cluster.rpartition("/")[2],
            "resource": cluster,
        }
        if pool is not None:
            config = pool.get("config") or {}
            attributes |= {
                "nodePool": pool.get("name") or "",
                "machineType": config.get("machineType") or "",
                "spot": str(is_spot(config)).lower(),
                "zone": next(iter(pool.get("locations") or ()), location_of(cluster)),
                "reservation": next(iter(reservation_names(config)), ""),
                "serviceAccount": config.get("serviceAccount") or "default",
                "cpus": str(_cpus(pool)),
            }
        return attributes


def _cpus(pool: Obj) -> int:
    """The CPUs that a node pool requests; 0 for an unknown machine type."""
    try:
        machine = catalog.find_machine((pool.get("config") or {}).get("machineType") or DEFAULT_MACHINE)
    except SliceworksError:
        return 0
    return machine.cpu * max(1, int(pool.get("initialNodeCount") or 0)) * max(1, len(pool.get("locations") or ()))


def instances(pool: Document) -> list[Instance]:
    """The instances of a node pool, including those that are being created."""
    return [Instance(*fields) for fields in pool.inner.get("places") or ()]


def set_instances(pool: Document, new: Iterable[Instance]) -> None:
    """Replace the instances of a node pool."""
    pool.inner["places"] = [list(instance) for instance in new]


def pool_path(pool: Document) -> str:
    """The resource path of a node pool."""
    return f"{pool.parent}/nodePools/{pool.name}"
