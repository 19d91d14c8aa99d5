"""Node pools of an Environment: their Terraform variables and their cost per hour."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sliceworks import catalog
from sliceworks.base.errors import InvalidDocument, SliceworksError
from sliceworks.catalog import gke_rules
from sliceworks.catalog.gke_rules import PoolSize
from sliceworks.catalog.gpus import DRIVERS
from sliceworks.catalog.prices import get_price
from sliceworks.specs.environment.cluster import GpuPool, TpuPool

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sliceworks.catalog.prices import Price
    from sliceworks.specs.environment import EnvironmentSpec
    from sliceworks.specs.environment.cluster import CpuPool, MachinePool, Pool

Object = dict[str, Any]
TPU_MAX_PODS = 32
DEFAULT_PODS = "192.168.64.0/20"
_LARGE_PREFIX = 10
"""The largest range at 10.192.0.0."""
ZONES_PER_REGION = 3
"""GKE spreads a node pool over three zones of a region by default."""

_PLACEMENTS = {"COMPACT": "compact", "WORKLOAD_POLICY": "workload-policy"}


def node_pools(spec: EnvironmentSpec) -> dict[str, Object]:
    """All node pools by name."""
    entries = (compile_pool(spec, name, pool) for _, name, pool in spec.pools.entries())
    return {name: pool for node_pools in entries for name, pool in node_pools.items()}


def compile_pool(spec: EnvironmentSpec, name: str, pool: CpuPool | TpuPool | GpuPool) -> dict[str, Object]:
    """The node pools of one entry by name; a TPU entry with several slices becomes several node pools."""
    if isinstance(pool, TpuPool):
        return {f"{name}-{index}": _tpu(spec, name, pool) for index in range(pool.count)}
    return {name: _gpu(spec, name, pool) if isinstance(pool, GpuPool) else _cpu(spec, name, pool)}


def find_accelerator(pool: TpuPool | GpuPool) -> catalog.Accelerator:
    """The slice or the GPU machine of a pool."""
    if isinstance(pool, TpuPool):
        return catalog.find(pool.type, pool.topology)
    return catalog.find_gpu(pool.machine_type, pool.accelerator, pool.accelerator_count)


def _cpu(spec: EnvironmentSpec, name: str, pool: CpuPool) -> Object:
    machine = catalog.find_machine(pool.machine_type)
    return {**_common(spec, pool, machine.name, machine.disks), **_size(f"pools.cpu.{name}", _spread(spec, pool), pool)}


def _gpu(spec: EnvironmentSpec, name: str, pool: GpuPool) -> Object:
    shape = catalog.find_gpu(pool.machine_type, pool.accelerator, pool.accelerator_count)
    driver = DRIVERS["disabled" if pool.driver == "none" else pool.driver]
    return {
        **_common(spec, pool, shape.machine.name, shape.machine.disks),
        **_size(f"pools.gpu.{name}", _spread(spec, pool), pool),
        "gpu": {
            "type": shape.gpu.label,
            "count": shape.chips,
            "driver": driver,
            "gvnic": pool.gvnic,
            "local_ssds": pool.local_ssds,
        },
    }


def _tpu(spec: EnvironmentSpec, name: str, pool: TpuPool) -> Object:
    shape = find_accelerator(pool)
    if not isinstance(shape, catalog.Slice):
        raise InvalidDocument(f"spec.pools.tpu.{name}.type: {pool.type} is a GPU", hint="move it to pools.gpu")
    placement = shape.placement
    labels = {"sliceworks.dev/slice-group": pool.group} if pool.group else {}
    zones = pool.zones or spec.zones[:1]
    size: Object = {"nodes_per_zone": shape.hosts}
    if pool.autoscaling:
        size = {"autoscaling": {"min": 0, "max": shape.hosts, "initial_per_zone": 0}}
    common = _common(spec, pool, shape.machine.name, shape.machine.disks)
    return {
        **common,
        **size,
        "zones": list(zones[:1]) or None,
        "max_pods": max_pods(pool),
        "labels": {**common["labels"], **labels},
        "tpu": {
            "topology": shape.topology,
            "hosts": shape.hosts,
            "placement": _PLACEMENTS[placement.kind] if placement else "none",
        },
    }


def _common(spec: EnvironmentSpec, pool: Pool, machine: str, disks: Sequence[str]) -> Object:
    return {
        "machine_type": machine,
        "zones": list(pool.zones or spec.zones) or None,
        "max_pods": pool.max_pods,
        "disk_type": pool.disk.type or (disks[0] if disks else None),
        "disk_gib": pool.disk.gib,
        "labels": dict(pool.labels),
        "tags": list(pool.tags),
        "taints": [{"key": taint.key, "value": taint.value, "effect": _EFFECTS[taint.effect]} for taint in pool.taints],
        "spot": pool.spot,
        "reservation": _reservation(pool),
    }


_EFFECTS = {"NoSchedule": "NO_SCHEDULE", "PreferNoSchedule": "PREFER_NO_SCHEDULE", "NoExecute": "NO_EXECUTE"}


def _reservation(pool: Pool) -> str | None:
    """The name of the reservation; its full path if another project shares it."""
    reservation = pool.reservation
    if reservation is None:
        return None
    return f"projects/{reservation.project}/reservations/{reservation.name}" if reservation.project else reservation.name


def _spread(spec: EnvironmentSpec, pool: Pool) -> int:
    """The number of zones of a pool."""
    zones = pool.zones or spec.zones
    return 1 if spec.cluster.zonal else len(zones) or ZONES_PER_REGION


def _size(place: str, spread: int, pool: MachinePool) -> Object:
    """Terraform counts nodes per zone; the document counts all nodes."""
    if scaling := pool.autoscaling:
        return {"autoscaling": {"min": scaling.min, "max": scaling.max, "initial_per_zone": -(-scaling.min // spread)}}
    if pool.nodes is not None and pool.nodes % spread:
        raise InvalidDocument(
            f"spec.{place}.nodes: {pool.nodes} nodes cannot be spread evenly over {spread} zones",
            hint=f"use a multiple of {spread}, or set fewer zones for this pool",
        )
    return {"nodes_per_zone": -(-pool.max_nodes // spread)}


def max_pods(pool: Pool) -> int:
    """The maximum number of pods per node. A TPU host runs one job and the system's pods."""
    return pool.max_pods or (TPU_MAX_PODS if isinstance(pool, TpuPool) else gke_rules.DEFAULT_MAX_PODS)


def pool_sizes(spec: EnvironmentSpec, *, surge: bool = False) -> list[PoolSize]:
    """The largest sizes of all pools, with the extra nodes of upgrades if requested."""
    sizes = []
    for pool in (*spec.pools.cpu.values(), *spec.pools.gpu.values()):
        nodes = pool.max_nodes if pool.autoscaling else min_nodes(spec, pool)
        sizes.append(PoolSize(nodes + (_spread(spec, pool) if surge else 0), max_pods(pool)))
    for tpu in spec.pools.tpu.values():
        slice_ = find_accelerator(tpu)
        hosts = slice_.hosts if isinstance(slice_, catalog.Slice) else 1
        sizes.append(PoolSize(hosts * tpu.count, max_pods(tpu)))
    return sizes


def pods_range(spec: EnvironmentSpec) -> str:
    """The range of pods of a new network: the document's, or one that fits pools of twice the size. It cannot change later."""
    if spec.network.subnet.pods:
        return spec.network.subnet.pods
    prefix = gke_rules.pod_range_prefix(pool_sizes(spec, surge=True) * 2)
    default = ipaddress.IPv4Network(DEFAULT_PODS)
    if prefix >= default.prefixlen:
        return DEFAULT_PODS
    return f"10.192.0.0/{prefix}" if prefix >= _LARGE_PREFIX else "10.0.0.0/9"


@dataclass(frozen=True, slots=True)
class DeployedRanges:
    """The ranges of a subnetwork that exists. Google does not change secondary ranges, and only expands the primary one."""

    nodes: str
    pods: str
    services: str

    @classmethod
    def find(cls, resources: Iterable[tuple[str, Object]]) -> DeployedRanges | None:
        """The ranges of the subnetwork in a Terraform state."""
        for kind, attributes in resources:
            if kind == "google_compute_subnetwork":
                secondary = {item["range_name"]: item["ip_cidr_range"] for item in attributes.get("secondary_ip_range") or ()}
                if {"pods", "services"} <= secondary.keys():
                    return cls(str(attributes["ip_cidr_range"]), str(secondary["pods"]), str(secondary["services"]))
        return None

    def require_fit(self, spec: EnvironmentSpec) -> None:
        """Raise if the document changes a range that cannot change, or has more nodes than the range of pods fits."""
        subnet, secondary = spec.network.subnet, {"pods": self.pods, "services": self.services}
        given = {"pods": subnet.pods or self.pods, "services": subnet.services}
        for name, value in given.items():
            if gke_rules.check_secondary_change({name: secondary[name]}, {name: value}):
                raise InvalidDocument(
                    f"spec.network.subnet.{name}: must stay {secondary[name]}, got {value}: a secondary range cannot change",
                    hint="restore the range, or destroy the environment first",
                )
        if gke_rules.check_primary_change(self.nodes, subnet.nodes):
            raise InvalidDocument(
                f"spec.network.subnet.nodes: must contain {self.nodes}, got {subnet.nodes}: a network in use does not shrink",
                hint="use a larger range that contains it, or destroy the environment first",
            )
        sizes = pool_sizes(spec)
        if gke_rules.check_pod_range(self.pods, sizes):
            nodes, needed = sum(size.nodes for size in sizes), gke_rules.pod_range_prefix(sizes)
            raise InvalidDocument(
                f"spec.pools: up to {nodes:,} nodes need a /{needed} for pods, the network has {self.pods}, which cannot change",
                hint="reduce the pools or their maxPods, or destroy the environment and set spec.network.subnet.pods",
            )


HOURS_PER_MONTH = 730


@dataclass(frozen=True, slots=True)
class Cost:
    """Cost of one pool: number of machines or slices, and the price per hour of each."""

    name: str
    what: str
    count: int
    unit_price: Price | None

    @property
    def hourly(self) -> float | None:
        """Cost per hour; None if the price is unknown."""
        return self.unit_price.usd * self.count if self.unit_price else None


def estimate_costs(spec: EnvironmentSpec) -> list[Cost]:
    """Costs of the node pools; other resources are billed by usage."""
    result = []
    for name, cpu in spec.pools.cpu.items():
        machine = catalog.find_machine(cpu.machine_type)
        result.append(Cost(name, machine.name, min_nodes(spec, cpu), get_price(machine, spec.region, _capacity(cpu))))
    for name, tpu in spec.pools.tpu.items():
        accelerator = find_accelerator(tpu)
        count = 0 if tpu.autoscaling else tpu.count
        result.append(Cost(name, accelerator.type_name, count, get_price(accelerator, spec.region, _capacity(tpu))))
    for name, gpu in spec.pools.gpu.items():
        shape = find_accelerator(gpu)
        what = f"{shape.machine.name} + {shape.type_name}" if gpu.accelerator else shape.machine.name
        result.append(Cost(name, what, min_nodes(spec, gpu), get_price(shape, spec.region, _capacity(gpu))))
    return result


def deployed_costs(resources: Iterable[tuple[str, Object]], region: str) -> list[Cost]:
    """Costs of the node pools in a Terraform state; autoscaled pools count with their minimum."""
    return [_deployed_cost(attributes, region) for kind, attributes in resources if kind == "google_container_node_pool"]


def _deployed_cost(attributes: Object, region: str) -> Cost:
    node: Object = next(iter(attributes.get("node_config") or ()), {})
    scaling: Object = next(iter(attributes.get("autoscaling") or ()), {})
    zones = len(attributes.get("node_locations") or ()) or 1
    nodes = int(attributes.get("node_count") or 0) * zones
    if scaling:
        nodes = int(scaling.get("total_min_node_count") or int(scaling.get("min_node_count") or 0) * zones)
    capacity = "spot" if node.get("spot") else "on-demand"
    price = None
    try:
        machine = catalog.find_machine(str(node.get("machine_type")))
        attached: Object = next(iter(node.get("guest_accelerator") or ()), {})
        gpu = str(attached.get("type") or "")
        shape = catalog.find_gpu(machine.name, gpu, int(attached.get("count") or 0)) if gpu else machine
        price = get_price(shape, region, capacity)
    except SliceworksError:
        pass  # a machine type that the catalog does not know has no price
    return Cost(str(attributes["name"]), str(node.get("machine_type")), nodes, price)


def _capacity(pool: Pool) -> str:
    return "spot" if pool.spot else "reservation" if pool.reservation else "on-demand"


def min_nodes(spec: EnvironmentSpec, pool: MachinePool) -> int:
    """The minimum number of nodes; the default is rounded up to the same number in each zone."""
    if pool.autoscaling is not None:
        return pool.autoscaling.min
    if pool.nodes is not None:
        return pool.nodes
    spread = _spread(spec, pool)
    return -(-pool.default_nodes // spread) * spread
