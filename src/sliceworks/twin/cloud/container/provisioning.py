"""Node pools that nobody has asked for: what an Autopilot cluster makes for a pod that no pool of it suits. Pure.

A pod that selects a TPU topology gets that slice, one that asks for GPUs the smallest machine with them, and any other the smallest
machine that holds it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks import catalog
from sliceworks.base.errors import SliceworksError
from sliceworks.catalog import gpus, labels
from sliceworks.twin.cloud.container import names
from sliceworks.twin.scheduler.requests import amounts, pod_requests

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sliceworks.catalog import Machine

Obj = dict[str, Any]
PREFIX = "nap-"
_MOST = 1_000
_SERIES = (("e2-standard", (4, 8, 16, 32)), ("n2-standard", (48, 64, 80, 96, 128)))
_SPOT, _ZONE = "cloud.google.com/gke-spot", "topology.kubernetes.io/zone"


def pool_for(pod: Obj, zones: list[str]) -> Obj | None:
    """The node pool that a pod needs; None where there is no such machine."""
    spec = pod["spec"]
    selector, asked = spec.get("nodeSelector") or {}, pod_requests(spec)
    config: Obj = {"spot": True} if selector.get(_SPOT) == "true" else {}
    found = _tpu(selector, asked) if labels.TPU in asked else _gpu(selector, asked) if labels.GPU in asked else _cpu(asked)
    if found is None:
        return None
    machine, more = found
    zone = selector.get(_ZONE)
    count = more.get("initialNodeCount", 1)
    return {
        "name": f"{PREFIX}{machine.name}-{names.mark()}"[:40].rstrip("-"),
        "initialNodeCount": count,
        "autoscaling": {"enabled": True, "minNodeCount": 0, "maxNodeCount": count if "placementPolicy" in more else _MOST},
        "management": {"autoRepair": True, "autoUpgrade": True},
        "locations": [zone] if zone in zones else zones[:1],
        **more,
        "config": {"machineType": machine.name, **config, **more.get("config", {})},
    }


def _tpu(selector: Obj, asked: dict[str, int]) -> tuple[Machine, Obj] | None:
    try:
        wanted = catalog.slice_for(
            selector.get(labels.TPU_ACCELERATOR, ""), selector.get(labels.TPU_TOPOLOGY, ""), asked[labels.TPU] or None
        )
    except SliceworksError:
        return None
    placement = wanted.placement
    if placement is None:
        return wanted.machine, {}
    policy = {**placement.policy("workload-policy"), "tpuTopology": wanted.topology}
    return wanted.machine, {"initialNodeCount": wanted.hosts, "placementPolicy": policy}


def _gpu(selector: Obj, asked: dict[str, int]) -> tuple[Machine, Obj] | None:
    label = selector.get(labels.GPU_ACCELERATOR, "")
    for shape in gpus.shapes():
        if label in ("", shape.accelerator) and shape.chips >= asked[labels.GPU] and _holds(shape.machine, asked):
            return shape.machine, {"config": {"accelerators": shape.guest_accelerators()}}
    return None


def _cpu(asked: dict[str, int]) -> tuple[Machine, Obj] | None:
    return next(((machine, {}) for machine in _machines() if _holds(machine, asked)), None)


def _machines() -> Iterator[Machine]:
    return (catalog.machine(f"{series}-{size}") for series, sizes in _SERIES for size in sizes)


def _holds(machine: Machine, asked: dict[str, int]) -> bool:
    room = amounts(machine.allocatable())
    return all(asked.get(name, 0) <= room[name] for name in ("cpu", "memory"))
