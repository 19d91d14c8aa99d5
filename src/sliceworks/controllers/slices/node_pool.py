"""Node pools: machine shape by the catalog, name and labels, and conversion to and from the container API."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from hashlib import sha1
from math import ceil
from typing import TYPE_CHECKING, Any

from sliceworks import catalog
from sliceworks.base import quantity
from sliceworks.base.errors import InvalidShape, SliceworksError, UnknownAccelerator
from sliceworks.base.names import join_words
from sliceworks.catalog import gpus, tpus
from sliceworks.cloud.container import fault_from_conditions
from sliceworks.controllers.slices import well_known
from sliceworks.controllers.slices.model import ANY_CLUSTER, ClusterView, NodePool
from sliceworks.controllers.slices.node_pool_requirements import parse_networks
from sliceworks.kube.resources import Key

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sliceworks.catalog import GpuShape, Placement
    from sliceworks.controllers.slices.capacity import Candidate
    from sliceworks.controllers.slices.node_pool_requirements import NodePoolRequirements
    from sliceworks.controllers.slices.settings import Settings

Object = dict[str, Any]
_MAX_NAME_LENGTH = 40
_KEY_BYTES = 10  # 80 bits: no collision is expected below a billion slices


@dataclass(frozen=True, slots=True)
class NodeShape:
    """A number of nodes of one machine type."""

    machine: str
    nodes: int
    placement: Placement | None = None
    gpu: GpuShape | None = None
    name: str = ""  # the type name: v5p-128, h100-80gb-8, n2-standard-8

    @property
    def topology(self) -> str:
        return self.placement.topology if self.placement is not None else ""

    def accelerators(self, driver: str) -> list[dict[str, Any]]:
        """The node pool's `config.accelerators`; empty for TPUs, which the machine type implies."""
        return self.gpu.guest_accelerators(driver) if self.gpu is not None else []


@lru_cache(maxsize=4096)
def shape_of(requirements: NodePoolRequirements) -> NodeShape:
    """The shape for requirements. Raises UnknownAccelerator or InvalidShape."""
    if requirements.kind == "tpu":
        return _tpu(requirements)
    if requirements.kind == "gpu":
        return _gpu(requirements)
    return _cpu(requirements)


def _tpu(requirements: NodePoolRequirements) -> NodeShape:
    accelerator = catalog.find_slice(requirements.accelerator, requirements.topology, requirements.chips)
    if requirements.machine and requirements.machine != accelerator.machine.name:
        raise InvalidShape(f"{requirements} uses machine type {accelerator.machine.name}, got {requirements.machine}")
    if requirements.pods > accelerator.hosts:
        raise InvalidShape(
            f"{requirements.pods} pods of {requirements.chips} chips do not fit on {requirements} with {accelerator.chips} chips",
            hint=f"parallelism must be at most {accelerator.hosts}",
        )
    return NodeShape(accelerator.machine.name, accelerator.hosts, accelerator.placement, name=accelerator.type_name)


def _gpu(requirements: NodePoolRequirements) -> NodeShape:
    count = requirements.per_node or requirements.chips
    if requirements.machine:
        accelerator = catalog.find_gpu(requirements.machine, requirements.accelerator, count)
    else:
        gpu = gpus.find_by_label(requirements.accelerator)
        if gpu is None:
            catalog.find_gpu("", requirements.accelerator)  # raises an error that lists the known ones
            raise UnknownAccelerator(f"unknown GPU {requirements.accelerator!r}")
        shape = gpus.find_by_type_name(f"{gpu.name}-{count}")
        if shape is None:
            available = sorted({known.chips for known in gpus.shapes() if known.gpu is gpu})
            raise InvalidShape(
                f"no machine type has {count} × {requirements.accelerator}", hint=f"available: {join_words(available, 'or')}"
            )
        accelerator = shape
    pods_per_node = accelerator.chips // requirements.chips if requirements.chips else 0
    if not pods_per_node:
        raise InvalidShape(f"a pod requests {requirements.chips} GPUs, but {accelerator.machine.name} has {accelerator.chips}")
    return NodeShape(accelerator.machine.name, ceil(requirements.pods / pods_per_node), gpu=accelerator, name=accelerator.type_name)


def _cpu(requirements: NodePoolRequirements) -> NodeShape:
    machine = catalog.find_machine(requirements.machine)
    if machine.chips:
        raise InvalidShape(f"{machine.name} has accelerators: select nodes by accelerator", hint="see sliceworks accelerators list")
    allocatable = {name: float(quantity.parse(amount)) for name, amount in machine.allocatable().items()}
    fitting = [
        int(allocatable[name] // amount) for name, amount in (("cpu", requirements.cpu), ("memory", requirements.memory)) if amount
    ]
    pods_per_node = min(fitting, default=requirements.pods)
    if not pods_per_node:
        raise InvalidShape(
            f"a pod that requests {requirements.cpu:g} CPUs and {requirements.memory / 2**30:g} GiB does not fit on {machine.name}"
        )
    return NodeShape(machine.name, ceil(requirements.pods / pods_per_node), name=machine.name)


def shape_of_pool(raw: Mapping[str, Any], pool: NodePool) -> catalog.Accelerator | catalog.Machine | None:
    """The catalog entry of a node pool; None if the catalog does not know its machine type."""
    try:
        machine = catalog.find_machine(pool.machine)
        generation = next((known for known in tpus.GENERATIONS if machine in known.machines), None)
        if generation is not None:
            name = f"{generation.prefix}-{machine.chips * max(pool.nodes, 1) * generation.cores}"
            return catalog.find(name, pool.topology, machine.chips)
        attached: Mapping[str, Any] = next(iter((raw.get("config") or {}).get("accelerators") or ()), {})
        if attached or machine.chips:
            return catalog.find_gpu(machine.name, attached.get("acceleratorType", ""), int(attached.get("acceleratorCount") or 0))
    except SliceworksError:
        return None
    return machine


@lru_cache(maxsize=32_768)
def job_key(job: Key) -> str:
    """The value of JobSet's job-key label."""
    return sha1(f"{job.namespace}/{job.name}".encode()).hexdigest()


@lru_cache(maxsize=32_768)
def pool_name(jobset: str, key: str) -> str:
    """The name of a slice's node pool; the same for every attempt, so that a pool is never created twice."""
    digest = bytes.fromhex(key)[:_KEY_BYTES] if _is_hex(key) else sha1(key.encode()).digest()[:_KEY_BYTES]
    suffix = base64.b32encode(digest).decode().lower()
    prefix = jobset[: _MAX_NAME_LENGTH - len(suffix) - 1].rstrip("-.").replace(".", "-")
    return f"{prefix}-{suffix}"


def alternative_pool_name(jobset: str, key: str, number: int) -> str:
    """The name of another node pool for a slice, if another JobSet occupies the first."""
    return pool_name(jobset, sha1(f"{key} {number}".encode()).hexdigest())


def pool_labels(job: Key, kind: str, jobset: Key) -> dict[str, str]:
    """The labels that identify the owner of a node pool."""
    return {
        well_known.MANAGER: well_known.MANAGER_VALUE,
        well_known.PARENT_KIND: kind.lower(),
        well_known.PARENT_NAME: job.name.lower(),
        well_known.PARENT_NAMESPACE: job.namespace.lower(),
        well_known.POOL_JOBSET_NAME: jobset.name,
        well_known.POOL_JOBSET_NAMESPACE: jobset.namespace,
    }


def pool_body(
    name: str,
    labels: Mapping[str, str],
    requirements: NodePoolRequirements,
    candidate: Candidate,
    settings: Settings,
    *,
    cluster: ClusterView = ANY_CLUSTER,
) -> Object:
    """The NodePool resource to create. Raises UnknownAccelerator or InvalidShape."""
    shape = shape_of(requirements)
    config: Object = {
        "machineType": shape.machine,
        "labels": {**dict(requirements.labels), **labels},
        "shieldedInstanceConfig": {"enableIntegrityMonitoring": True, "enableSecureBoot": settings.node_secure_boot},
        **_optional(requirements, shape, settings),
        **_capacity(requirements, candidate),
    }
    if cluster.has_workload_pool:
        config["workloadMetadataConfig"] = {"mode": "GKE_METADATA"}
    body: Object = {
        "name": name,
        "initialNodeCount": shape.nodes,
        "locations": [candidate.zone],
        "config": config,
        # GKE requires auto-upgrade in a release channel; elsewhere an upgrade would only interrupt the slice.
        "management": {"autoRepair": True, "autoUpgrade": cluster.has_release_channel},
        "upgradeSettings": {"maxSurge": 1},
    }
    if requirements.kind != "cpu":
        body["maxPodsConstraint"] = {"maxPodsPerNode": str(settings.max_pods_per_node)}
    if shape.placement is not None:
        policy = settings.workload_policy.replace("{topology}", shape.placement.topology)
        body["placementPolicy"] = {**shape.placement.policy(policy), "tpuTopology": shape.placement.topology}
    attached = requirements.networks or parse_networks(settings.node_additional_networks)
    if attached:
        if not cluster.has_multi_networking:
            place = f"annotation {well_known.NODE_NETWORKS}" if requirements.networks else "GCP_NODE_ADDITIONAL_NETWORKS"
            raise SliceworksError(
                f"{place}: additional networks need a cluster with multi-networking", hint="it is enabled when a cluster is created"
            )
        configs = [{"network": network, "subnetwork": subnetwork} for network, subnetwork in attached]
        body["networkConfig"] = {"additionalNodeNetworkConfigs": configs}
    return body


def _optional(requirements: NodePoolRequirements, shape: NodeShape, settings: Settings) -> Object:
    disks = [{"diskImage": settings.node_secondary_disk, "mode": "CONTAINER_IMAGE_CACHE"}] if settings.node_secondary_disk else []
    fields: Object = {
        "serviceAccount": requirements.service_account or settings.node_service_account,
        "tags": list(settings.node_tags),
        "secondaryBootDisks": disks,
        "gcfsConfig": {"enabled": True} if disks else {},
        "diskType": settings.node_disk_type,
        "bootDiskKmsKey": settings.node_boot_disk_kms_key,
        "enableConfidentialStorage": settings.node_confidential_storage,
        "accelerators": shape.accelerators(settings.gpu_driver),
    }
    return {name: value for name, value in fields.items() if value}


def _capacity(requirements: NodePoolRequirements, candidate: Candidate) -> Object:
    kind = candidate.capacity.kind
    if kind == "reservation":
        values = [candidate.capacity.reservation]
        affinity = {
            "consumeReservationType": "SPECIFIC_RESERVATION",
            "key": "compute.googleapis.com/reservation-name",
            "values": values,
        }
        return {"reservationAffinity": affinity}
    if kind == "spot":
        # Taint spot nodes as GKE's autoprovisioning does, but only for pods that tolerate the taint.
        taints = (
            [{"key": well_known.SPOT, "value": "true", "effect": "NO_SCHEDULE"}]
            if requirements.spot or requirements.tolerates_spot
            else []
        )
        return {"spot": True, **({"taints": taints} if taints else {})}
    return {}


def read_pool(raw: Mapping[str, Any]) -> NodePool:
    """Convert a NodePool resource of the container API."""
    config = raw.get("config") or {}
    labels: dict[str, str] = config.get("labels") or {}
    status = str(raw.get("status") or "")
    jobset = labels.get(well_known.POOL_JOBSET_NAME) or labels.get(well_known.OLD_POOL_JOBSET_NAME, "")
    failed = status in ("ERROR", "RUNNING_WITH_ERROR")
    return NodePool(
        name=str(raw.get("name") or ""),
        status=status,
        is_managed=labels.get(well_known.MANAGER) == well_known.MANAGER_VALUE,
        jobset=Key(labels.get(well_known.POOL_JOBSET_NAMESPACE, "default"), jobset),
        job=Key(labels.get(well_known.PARENT_NAMESPACE, ""), labels.get(well_known.PARENT_NAME, "")),
        digest=labels.get(well_known.POOL_HASH, ""),
        attempt=_int(labels.get(well_known.ATTEMPT)),
        created=float(_int(labels.get(well_known.CREATED))),
        zone=next(iter(raw.get("locations") or ()), ""),
        machine=str(config.get("machineType") or ""),
        nodes=_int(raw.get("initialNodeCount")),
        topology=str((raw.get("placementPolicy") or {}).get("tpuTopology") or ""),
        spot=bool(config.get("spot")),
        fault=fault_from_conditions(raw.get("conditions"), str(raw.get("statusMessage") or "")) if failed else None,
    )


def read_cluster(raw: Mapping[str, Any]) -> ClusterView:
    """Convert a Cluster resource of the container API."""
    channel = (raw.get("releaseChannel") or {}).get("channel")
    networking = (raw.get("networkConfig") or {}).get("enableMultiNetworking")
    workload_pool = (raw.get("workloadIdentityConfig") or {}).get("workloadPool")
    return ClusterView(channel not in (None, "", "UNSPECIFIED"), bool(networking), bool(workload_pool))


def from_timestamp(seconds: float) -> datetime:
    """Unix time to datetime."""
    return datetime.fromtimestamp(seconds, UTC)


def _is_hex(text: str) -> bool:
    return len(text) >= 2 * _KEY_BYTES and len(text) % 2 == 0 and all(character in "0123456789abcdef" for character in text)


def _int(value: Any) -> int:
    return int(value) if isinstance(value, int) or (isinstance(value, str) and value.isdigit()) else 0
