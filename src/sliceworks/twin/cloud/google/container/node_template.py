"""The machine shape of a node pool, and the Node object of each of its instances."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from sliceworks import catalog
from sliceworks.base.errors import SliceworksError
from sliceworks.catalog import gke_rules, labels, tpus
from sliceworks.twin.cloud.core.exceptions import enforce, refuse
from sliceworks.twin.cloud.google.container.resource_names import region_of
from sliceworks.twin.nodes.simulated_node import node_addresses, pod_cidr

if TYPE_CHECKING:
    from sliceworks.catalog import GpuShape, Machine, Slice
Obj = dict[str, Any]
DEFAULT_MACHINE = "e2-medium"


@dataclass(frozen=True, slots=True)
class PoolShape:
    """The machine type and accelerators of a node pool. `slice_hosts` is the size of a multi-host slice, else 0."""

    machine: Machine
    slice: Slice | None = None
    gpu: GpuShape | None = None
    slice_hosts: int = 0

    def labels(self) -> dict[str, str]:
        """The accelerator labels of its Nodes."""
        if self.slice is not None:
            return self.slice.node_labels()
        return self.gpu.node_labels() if self.gpu is not None else {}

    def taints(self) -> list[dict[str, str]]:
        """The accelerator taints of its Nodes."""
        if self.slice is not None:
            return self.slice.node_taints()
        return self.gpu.node_taints() if self.gpu is not None else []

    def devices(self) -> dict[str, str]:
        """The extended resources of one Node."""
        if self.slice is not None:
            return {labels.TPU: str(self.machine.chips)}
        return {labels.GPU: str(self.gpu.chips)} if self.gpu is not None else {}


def resolve_shape(pool: Obj) -> PoolShape:
    """Return the shape of a node pool; raises GoogleError for an invalid one."""
    config = pool.get("config") or {}
    name = config.get("machineType") or DEFAULT_MACHINE
    try:
        machine = catalog.find_machine(name)
    except SliceworksError as error:
        raise refuse("machine-type", machine=name) from error
    generation = next((generation for generation in tpus.GENERATIONS if machine in generation.machines), None)
    if generation is not None:
        return _tpu_shape(pool, machine, generation)
    accelerators = config.get("accelerators") or []
    if accelerators and name == DEFAULT_MACHINE:
        raise refuse("gpu-machine-type")
    if accelerators or machine.chips:
        accelerator = accelerators[0] if accelerators else {}
        try:
            count = int(accelerator.get("acceleratorCount") or 0)
            return PoolShape(machine, gpu=catalog.find_gpu(name, accelerator.get("acceleratorType") or "", count))
        except SliceworksError as error:
            raise refuse("gpu-attachment", accelerator=accelerator.get("acceleratorType", ""), problem=error.message) from error
    return PoolShape(machine)


def _tpu_shape(pool: Obj, machine: Machine, generation: tpus.Generation) -> PoolShape:
    policy = pool.get("placementPolicy") or {}
    topology, count = policy.get("tpuTopology") or "", int(pool.get("initialNodeCount") or 0)
    if not topology and policy.get("policyName"):
        # The topology is in the named resource policy; only one fits this number of instances.
        topologies = generation.topologies(count * machine.chips)
        if topologies and count > 1:
            return _multi_host(generation.slice(topologies[0], machine), count)
    if not topology:
        return _single_host(generation, machine)
    try:
        tpu_slice = catalog.find_slice(generation.label, topology, machine.chips)
    except SliceworksError as error:
        raise refuse("tpu-topology", topology=topology, machine=machine.name, problem=error.message) from error
    if not tpu_slice.multi_host:
        raise refuse("tpu-single-host-topology")
    return _multi_host(tpu_slice, count)


def _multi_host(tpu_slice: Slice, count: int) -> PoolShape:
    enforce(gke_rules.check_slice_nodes(tpu_slice, count))
    return PoolShape(tpu_slice.machine, slice=tpu_slice, slice_hosts=tpu_slice.hosts)


def _single_host(generation: tpus.Generation, machine: Machine) -> PoolShape:
    axes = generation.topologies(machine.chips)[0]
    return PoolShape(machine, slice=generation.slice(axes, machine))


_GKE = "cloud.google.com/gke-"
_DEFAULT_DISK_GB = 100
_EFFECTS = {"NO_SCHEDULE": "NoSchedule", "PREFER_NO_SCHEDULE": "PreferNoSchedule", "NO_EXECUTE": "NoExecute"}
_BOOT = "sliceworks.dev/boot-seconds"


class Instance(NamedTuple):
    """An instance of a node pool. `number` is unique among the Nodes of the cluster and determines addresses."""

    name: str
    zone: str
    number: int


def build_node(project: str, pool: Obj, shape: PoolShape, instance: Instance, boot: float) -> Obj:
    """The Node of an instance whose kubelet starts after `boot` seconds."""
    config = pool.get("config") or {}
    taints = [*shape.taints(), *_taints(config)]
    spec: Obj = {
        **pod_cidr(instance.number),
        "providerID": f"gce://{project}/{instance.zone}/{instance.name}",
        **({"taints": taints} if taints else {}),
    }
    metadata = {"name": instance.name, "labels": _labels(project, pool, shape, instance), "annotations": {_BOOT: f"{boot:g}"}}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": spec, "status": _status(pool, shape, instance)}


def is_spot(config: Obj) -> bool:
    """Whether instances are spot or preemptible."""
    return bool(config.get("spot") or config.get("preemptible"))


def _labels(project: str, pool: Obj, shape: PoolShape, instance: Instance) -> dict[str, str]:
    config, machine, region = pool.get("config") or {}, shape.machine, region_of(instance.zone)
    node_labels = {
        labels.NODE_RUNTIME: labels.SIMULATED,
        "beta.kubernetes.io/arch": "arm64" if machine.arm else "amd64",
        "beta.kubernetes.io/instance-type": machine.name,
        "beta.kubernetes.io/os": "linux",
        "cloud.google.com/machine-family": machine.family,
        f"{_GKE}boot-disk": config.get("diskType") or (machine.disks[0] if machine.disks else "pd-balanced"),
        f"{_GKE}container-runtime": "containerd",
        f"{_GKE}max-pods-per-node": str(max_pods(pool)),
        f"{_GKE}nodepool": pool["name"],
        f"{_GKE}os-distribution": "cos",
        f"{_GKE}provisioning": "spot" if config.get("spot") else "preemptible" if config.get("preemptible") else "standard",
        "failure-domain.beta.kubernetes.io/region": region,
        "failure-domain.beta.kubernetes.io/zone": instance.zone,
        "kubernetes.io/arch": "arm64" if machine.arm else "amd64",
        "kubernetes.io/hostname": instance.name,
        "kubernetes.io/os": "linux",
        "node.kubernetes.io/instance-type": machine.name,
        "topology.gke.io/zone": instance.zone,
        "topology.kubernetes.io/region": region,
        "topology.kubernetes.io/zone": instance.zone,
        **shape.labels(),
        **_optional_labels(config, project),
    }
    return {**node_labels, **(config.get("labels") or {})}


def _optional_labels(config: Obj, project: str) -> dict[str, str]:
    """Labels of provisioning models, Workload Identity and reservations."""
    optional: dict[str, str] = {}
    for field in ("spot", "preemptible"):
        if config.get(field):
            optional[f"{_GKE}{field}"] = "true"
    if config.get("flexStart"):
        optional[f"{_GKE}flex-start"] = "true"
    if (config.get("workloadMetadataConfig") or {}).get("mode") == "GKE_METADATA":
        optional["iam.gke.io/gke-metadata-server-enabled"] = "true"
    for name in reservation_names(config):
        owner, _, short = name.rpartition("/reservations/")
        optional["cloud.google.com/reservation-name"] = short.partition("/")[0]
        optional["cloud.google.com/reservation-project"] = owner.rpartition("/")[2] or project
        optional["cloud.google.com/reservation-affinity"] = "specific"
    return optional


def reservation_names(config: Obj) -> list[str]:
    """The specific reservations of a node pool."""
    affinity = config.get("reservationAffinity") or {}
    return list(affinity.get("values") or ()) if affinity.get("consumeReservationType") == "SPECIFIC_RESERVATION" else []


def _taints(config: Obj) -> list[Obj]:
    return [
        {
            "key": taint.get("key", ""),
            "value": taint.get("value", ""),
            "effect": _EFFECTS.get(taint.get("effect", ""), "NoSchedule"),
        }
        for taint in config.get("taints") or ()
    ]


def max_pods(pool: Obj) -> int:
    """The maximum number of pods on each node of a node pool."""
    return int((pool.get("maxPodsConstraint") or {}).get("maxPodsPerNode") or gke_rules.DEFAULT_MAX_PODS)


def _status(pool: Obj, shape: PoolShape, instance: Instance) -> Obj:
    disk = int((pool.get("config") or {}).get("diskSizeGb") or _DEFAULT_DISK_GB)
    devices, pods = shape.devices(), str(max_pods(pool))
    capacity = {**shape.machine.capacity(), **devices, "ephemeral-storage": f"{disk}Gi", "pods": pods}
    allocatable = {**shape.machine.allocatable(), **devices, "ephemeral-storage": f"{disk // 2}Gi", "pods": pods}
    return {"capacity": capacity, "allocatable": allocatable, "addresses": node_addresses(instance.number, instance.name)}
