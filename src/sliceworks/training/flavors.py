"""What an environment has to share: its accelerator types as Kueue's flavors, and how much there is of each. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from sliceworks import catalog
from sliceworks.base import names, quantity
from sliceworks.catalog.labels import RESERVATION_NAME, SPOT

if TYPE_CHECKING:
    from sliceworks.specs.environment import EnvironmentSpec
    from sliceworks.specs.environment.pools import Autoscaling, Pool

Object = dict[str, Any]
TPU, GPU = "google.com/tpu", "nvidia.com/gpu"
CPU_NODES, GPU_NODES = 3, 1
"""Nodes of a pool that names no number."""


@dataclass(frozen=True, slots=True)
class Flavor:
    """One type of accelerator with one kind of capacity: its nodes, and how many chips there are in all."""

    name: str
    type: str
    resource: str
    labels: dict[str, str]
    chips: int

    def manifest(self) -> Object:
        """The ResourceFlavor. Kueue gives pods the labels as selectors, and lets them stay on nodes that others avoid."""
        tolerations = [{"key": self.resource, "operator": "Exists", "effect": "NoSchedule"}]
        return {
            "apiVersion": "kueue.x-k8s.io/v1beta2",
            "kind": "ResourceFlavor",
            "metadata": {"name": self.name},
            "spec": {"nodeLabels": dict(self.labels), "tolerations": tolerations},
        }


def flavors(spec: EnvironmentSpec) -> list[Flavor]:
    """The flavors of an environment's pools, each once, in the order of the document."""
    found: dict[str, Flavor] = {}
    for tpu in spec.pools.tpu.values():
        shape = catalog.find(tpu.type, tpu.topology or None)
        flavor = _flavor(tpu, Flavor(shape.type_name, shape.type_name, TPU, _labels(shape), shape.chips * tpu.count))
        _count(found, flavor)
    for gpu in spec.pools.gpu.values():
        machine = catalog.gpu_for(gpu.machine_type, gpu.accelerator, gpu.accelerator_count or 0)
        chips = machine.chips * most(gpu.nodes, gpu.autoscaling, GPU_NODES)
        _count(found, _flavor(gpu, Flavor(machine.gpu.name, machine.gpu.name, GPU, _labels(machine), chips)))
    return list(found.values())


def _labels(accelerator: catalog.Accelerator) -> dict[str, str]:
    """What tells its nodes from others; how many chips a node has is no matter of choice."""
    return {key: value for key, value in accelerator.node_labels().items() if not key.endswith("-count")}


def _flavor(pool: Pool, plain: Flavor) -> Flavor:
    """The flavor of a pool's kind of capacity."""
    if pool.spot:
        return replace(plain, name=names.shorten(f"{plain.name}-spot"), labels={**plain.labels, SPOT: "true"})
    if pool.reservation:
        held = pool.reservation.name
        return replace(plain, name=names.shorten(f"{plain.name}-{held}"), labels={**plain.labels, RESERVATION_NAME: held})
    return plain


def _count(found: dict[str, Flavor], flavor: Flavor) -> None:
    before = found[flavor.name].chips if flavor.name in found else 0
    found[flavor.name] = replace(flavor, chips=before + flavor.chips)


def machines(spec: EnvironmentSpec) -> dict[str, str]:
    """CPU and memory that all nodes together leave to pods, unless the document says how much may be used."""
    cpu, memory = quantity.parse("0"), quantity.parse("0")
    for machine, count in _all_machines(spec):
        left = machine.allocatable()
        cpu += quantity.parse(left["cpu"]) * count
        memory += quantity.parse(left["memory"]) * count
    gib = 2**30
    return {"cpu": spec.queues.cpu or str(int(cpu)), "memory": spec.queues.memory or f"{int(memory) // gib}Gi"}


def _all_machines(spec: EnvironmentSpec) -> list[tuple[catalog.Machine, int]]:
    found = [(catalog.machine(cpu.machine_type), most(cpu.nodes, cpu.autoscaling, CPU_NODES)) for cpu in spec.pools.cpu.values()]
    for tpu in spec.pools.tpu.values():
        shape = catalog.find(tpu.type, tpu.topology or None)
        found.append((shape.machine, shape.hosts * tpu.count))
    for gpu in spec.pools.gpu.values():
        machine = catalog.gpu_for(gpu.machine_type, gpu.accelerator, gpu.accelerator_count or 0)
        found.append((machine.machine, most(gpu.nodes, gpu.autoscaling, GPU_NODES)))
    return found


def most(nodes: int | None, scaling: Autoscaling | None, usual: int) -> int:
    """How many nodes there may be at most."""
    return scaling.max if scaling else usual if nodes is None else nodes
