"""Node pools as the Terraform module takes them: machines, hosts and topologies come from the catalogue."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks import catalog
from sliceworks.base.errors import InvalidDocument
from sliceworks.catalog.gpus import DRIVERS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sliceworks.specs.environment import EnvironmentSpec
    from sliceworks.specs.environment.pools import Autoscaling, CpuPool, GpuPool, Pool, TpuPool

Object = dict[str, Any]
ZONES_OF_A_REGION = 3
"""GKE spreads a pool over three zones of a region when it is told none."""
_PLACEMENTS = {"COMPACT": "compact", "WORKLOAD_POLICY": "workload-policy"}
_CPU_NODES, _GPU_NODES = 3, 1


def pools(spec: EnvironmentSpec) -> dict[str, Object]:
    """All pools by name; a TPU entry of several slices is several pools."""
    found: dict[str, Object] = {name: _cpu(spec, name, pool) for name, pool in spec.pools.cpu.items()}
    for name, tpu in spec.pools.tpu.items():
        found.update({f"{name}-{index}": _tpu(spec, name, tpu) for index in range(tpu.count)})
    found.update({name: _gpu(spec, name, pool) for name, pool in spec.pools.gpu.items()})
    return found


def _cpu(spec: EnvironmentSpec, name: str, pool: CpuPool) -> Object:
    machine = catalog.machine(pool.machine_type)
    return {
        **_common(spec, pool, machine.name, machine.disks),
        **_size(f"pools.cpu.{name}", _spread(spec, pool), pool.nodes, pool.autoscaling, _CPU_NODES),
    }


def _gpu(spec: EnvironmentSpec, name: str, pool: GpuPool) -> Object:
    shape = catalog.gpu_for(pool.machine_type, pool.accelerator, pool.accelerator_count or 0)
    driver = DRIVERS["disabled" if pool.driver == "none" else pool.driver]
    return {
        **_common(spec, pool, shape.machine.name, shape.machine.disks),
        **_size(f"pools.gpu.{name}", _spread(spec, pool), pool.nodes, pool.autoscaling, _GPU_NODES),
        "gpu": {
            "type": shape.gpu.label,
            "count": shape.chips,
            "driver": driver,
            "gvnic": pool.gvnic,
            "local_ssds": pool.local_ssds,
        },
    }


def _tpu(spec: EnvironmentSpec, name: str, pool: TpuPool) -> Object:
    found = catalog.find(pool.type, pool.topology or None)
    if not isinstance(found, catalog.Slice):
        raise InvalidDocument(f"spec.pools.tpu.{name}.type: {pool.type} is a GPU", hint="move it to pools.gpu")
    placement = found.placement
    labels = {"sliceworks.dev/slice-group": pool.group} if pool.group else {}
    zones = pool.zones or spec.zones[:1]
    size: Object = {"nodes_per_zone": found.hosts}
    if pool.autoscaling:
        size = {"autoscaling": {"min": 0, "max": found.hosts, "initial_per_zone": 0}}
    common = _common(spec, pool, found.machine.name, found.machine.disks)
    return {
        **common,
        **size,
        "zones": list(zones[:1]) or None,
        "labels": {**common["labels"], **labels},
        "tpu": {
            "topology": found.topology,
            "hosts": found.hosts,
            "placement": _PLACEMENTS[placement.kind] if placement else "none",
        },
    }


def _common(spec: EnvironmentSpec, pool: Pool, machine: str, disks: Sequence[str]) -> Object:
    return {
        "machine_type": machine,
        "zones": list(pool.zones or spec.zones) or None,
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
    """The reservation's name, in full when another project shares it."""
    held = pool.reservation
    if held is None:
        return None
    return f"projects/{held.project}/reservations/{held.name}" if held.project else held.name


def _spread(spec: EnvironmentSpec, pool: Pool) -> int:
    """Over how many zones a pool is spread."""
    zones = pool.zones or spec.zones
    return 1 if spec.cluster.zonal else len(zones) or ZONES_OF_A_REGION


def _size(place: str, spread: int, nodes: int | None, scaling: Autoscaling | None, usual: int) -> Object:
    """Terraform counts nodes in each zone, people count them all."""
    if scaling is not None:
        return {"autoscaling": {"min": scaling.min, "max": scaling.max, "initial_per_zone": -(-scaling.min // spread)}}
    if nodes is None:
        return {"nodes_per_zone": -(-usual // spread)}
    if nodes % spread:
        raise InvalidDocument(
            f"spec.{place}.nodes: {nodes} nodes cannot be spread evenly over {spread} zones",
            hint=f"give a multiple of {spread}, or name fewer zones for this pool",
        )
    return {"nodes_per_zone": nodes // spread}
