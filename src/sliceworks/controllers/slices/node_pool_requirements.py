"""Node pool requirements of a pod or pod template, read from its node selector, resource requests and annotations."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import lru_cache
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Literal

import orjson

from sliceworks.base.errors import SliceworksError, UsageError
from sliceworks.catalog import labels as gke
from sliceworks.controllers.slices import capacity, well_known
from sliceworks.kube.node_affinity import Tolerations
from sliceworks.kube.pod_requests import exact_requests

if TYPE_CHECKING:
    from collections.abc import Mapping
    from fractions import Fraction

    from sliceworks.controllers.slices.capacity import Capacity

AcceleratorType = Literal["tpu", "gpu", "cpu"]
_GOOGLE = ("cloud.google.com/", "google.com/")
_KUBERNETES = ("kubernetes.io", "k8s.io")  # labels of these domains are set by GKE alone
_COPIED = (well_known.ICI_RESILIENCY, well_known.LOCATION_HINT)
_TPU_SELECTORS = {gke.TPU_ACCELERATOR: "tpu-v5p-slice", gke.TPU_TOPOLOGY: "2x2x2"}
HASH_PREFIX = "s1-"


@dataclass(frozen=True, slots=True)
class NodePoolRequirements:
    """The requirements of a workload on its node pool. `digest` is a hash of all other fields, which labels the node pool."""

    kind: AcceleratorType
    accelerator: str = ""
    topology: str = ""
    machine: str = ""
    chips: int = 0  # one pod's
    pods: int = 1  # of the Job
    per_node: int = 0  # chips of a node, where the pod selects by it
    cpu: float = 0.0
    memory: float = 0.0
    labels: tuple[tuple[str, str], ...] = ()
    reservation: str = ""
    spot: bool = False
    tolerates_spot: bool = False
    service_account: str = ""
    networks: tuple[tuple[str, str], ...] = ()
    zones: tuple[str, ...] = ()
    capacity: tuple[Capacity, ...] = ()
    digest: str = field(default="", compare=False)

    def __str__(self) -> str:
        return " ".join(part for part in (self.accelerator or self.machine, self.topology) if part)


def accelerator_type(metadata: Mapping[str, Any], spec: Mapping[str, Any]) -> AcceleratorType | None:
    """The accelerator type of the pod's node pool; None if the controller does not provision one."""
    if any((metadata.get(part) or {}).get(well_known.DISABLED) == "true" for part in ("labels", "annotations")):
        return None
    selector = spec.get("nodeSelector") or {}
    if gke.NODE_POOL not in selector and _requested(spec, gke.TPU) is not None:
        return "tpu"
    if gke.GPU_ACCELERATOR in selector and _requested(spec, gke.GPU) is not None:
        return "gpu"
    if well_known.MACHINE_TYPE in selector:
        return "cpu"
    return None


def read(
    kind: AcceleratorType,
    metadata: Mapping[str, Any],
    spec: Mapping[str, Any],
    copied: tuple[str, ...] = (),
) -> NodePoolRequirements:
    """The requirements of a pod or pod template. `copied` are pod labels to copy to nodes."""
    selector: dict[str, str] = spec.get("nodeSelector") or {}
    annotations: dict[str, str] = metadata.get("annotations") or {}
    for name, example in _TPU_SELECTORS.items() if kind == "tpu" else ():
        if not selector.get(name):
            raise SliceworksError(f"spec.nodeSelector: {name} is required", hint=f"such as {example}")
    if selector.get(well_known.SPOT) == "true" and not _tolerates_spot(spec):
        raise SliceworksError(
            f"spec.tolerations: a pod that selects {well_known.SPOT} must tolerate the taint {well_known.SPOT}=true:NoSchedule",
            hint=f'add {{key: {well_known.SPOT}, operator: Equal, value: "true", effect: NoSchedule}}',
        )
    resource = {"tpu": gke.TPU, "gpu": gke.GPU}.get(kind)
    requirements = NodePoolRequirements(
        kind=kind,
        accelerator=selector.get(gke.TPU_ACCELERATOR if kind == "tpu" else gke.GPU_ACCELERATOR, "") if resource else "",
        topology=selector.get(gke.TPU_TOPOLOGY, "") if kind == "tpu" else "",
        machine=selector.get(well_known.MACHINE_TYPE) or selector.get(well_known.INSTANCE_TYPE, ""),
        chips=int(_requested(spec, resource) or 0) if resource else 0,
        per_node=_number(selector.get(gke.ACCELERATOR_COUNT, "")),
        cpu=float(_requested(spec, "cpu") or 0) if kind == "cpu" else 0.0,
        memory=float(_requested(spec, "memory") or 0) if kind == "cpu" else 0.0,
        labels=_labels(metadata, selector, copied),
        reservation=_reservation(selector),
        spot=selector.get(well_known.SPOT) == "true",
        tolerates_spot=_tolerates_spot(spec),
        service_account=annotations.get(well_known.NODE_SERVICE_ACCOUNT, ""),
        networks=parse_networks(annotations.get(well_known.NODE_NETWORKS, "")),
        zones=_zones(selector, annotations),
        capacity=_capacity(annotations),
    )
    return _with_digest(requirements)


@lru_cache(maxsize=4096)
def for_job(requirements: NodePoolRequirements, pods: int) -> NodePoolRequirements:
    """The requirements of a whole Job with this number of pods."""
    return _with_digest(replace(requirements, pods=max(pods, 1)))


def _with_digest(requirements: NodePoolRequirements) -> NodePoolRequirements:
    """The requirements with their digest."""
    text = orjson.dumps(replace(requirements, digest=""), option=orjson.OPT_SORT_KEYS)
    return replace(requirements, digest=HASH_PREFIX + sha256(text).hexdigest()[:20])


def _requested(spec: Mapping[str, Any], resource: str) -> Fraction | None:
    """The request of the pod; None if no container has one."""
    try:
        return exact_requests(spec).get(resource)
    except ValueError as error:
        raise SliceworksError(f"invalid resource request: {error}") from error


def _labels(metadata: Mapping[str, Any], selector: Mapping[str, str], copied: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    pod_labels = metadata.get("labels") or {}
    requested = (metadata.get("annotations") or {}).get(well_known.COPY_LABELS, "")
    names = [*copied, *(name.strip() for name in requested.split(","))]
    node_labels = {name: pod_labels[name] for name in names if name and name in pod_labels}
    node_labels |= {name: value for name, value in selector.items() if name in _COPIED or not _is_reserved(name)}
    return tuple(sorted(node_labels.items()))


def _is_reserved(name: str) -> bool:
    return name.startswith(_GOOGLE) or name.partition("/")[0].endswith(_KUBERNETES)


def _reservation(selector: Mapping[str, str]) -> str:
    name = selector.get(well_known.RESERVATION_NAME, "")
    return capacity.reservation(name, selector.get(well_known.RESERVATION_PROJECT, "")).reservation if name else ""


def _tolerates_spot(spec: Mapping[str, Any]) -> bool:
    return Tolerations(spec.get("tolerations") or ()).tolerates((well_known.SPOT, "true", "NoSchedule"))


def parse_networks(text: str) -> tuple[tuple[str, str], ...]:
    """Parse additional networks with their subnetworks: `vpc1:subnet1, vpc2:subnet2`."""
    networks = []
    for part in (piece.strip() for piece in text.split(",")):
        if part:
            network, _, subnetwork = part.partition(":")
            if not (network.strip() and subnetwork.strip(": ")):
                raise SliceworksError(f"invalid additional network {part!r}", hint="use NETWORK:SUBNETWORK, separated by commas")
            networks.append((network.strip(), subnetwork.strip()))
    return tuple(networks)


def _zones(selector: Mapping[str, str], annotations: Mapping[str, str]) -> tuple[str, ...]:
    if zone := selector.get(well_known.ZONE):
        return (zone,)
    return tuple(zone for part in annotations.get(well_known.ZONES, "").split(",") if (zone := part.strip()))


def _capacity(annotations: Mapping[str, str]) -> tuple[Capacity, ...]:
    try:
        return capacity.parse(annotations.get(well_known.CAPACITY, ""))
    except UsageError as error:
        raise SliceworksError(f"annotation {well_known.CAPACITY}: {error.message}", hint=error.hint) from error


def _number(text: str) -> int:
    return int(text) if text.isdigit() else 0
