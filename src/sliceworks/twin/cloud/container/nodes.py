"""A machine of a node pool as the Node that its kubelet registers: GKE's labels, taints, and what it has for pods."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from sliceworks.twin.cloud.container.places import region_of
from sliceworks.twin.nodes.player import LABEL

if TYPE_CHECKING:
    from sliceworks.twin.cloud.container.machines import Formation

Obj = dict[str, Any]
_GKE = "cloud.google.com/gke-"
_PODS = 110
_DISK_GB = 100
_EFFECTS = {"NO_SCHEDULE": "NoSchedule", "PREFER_NO_SCHEDULE": "PreferNoSchedule", "NO_EXECUTE": "NoExecute"}
_BOOT = "sliceworks.dev/boot-seconds"
_FIRST_HOST = 2


class Place(NamedTuple):
    """One machine: its name, its zone, and its number among all nodes of the cluster, which its addresses follow from."""

    name: str
    zone: str
    number: int


def node(project: str, pool: Obj, formation: Formation, place: Place, boot: float) -> Obj:
    """The Node of a machine, as it is before its kubelet has come up, `boot` seconds from now."""
    config = pool.get("config") or {}
    taints = [*formation.taints(), *_taints(config)]
    spec: Obj = {
        "podCIDR": _pods(place.number),
        "podCIDRs": [_pods(place.number)],
        "providerID": f"gce://{project}/{place.zone}/{place.name}",
        **({"taints": taints} if taints else {}),
    }
    metadata = {"name": place.name, "labels": _labels(project, pool, formation, place), "annotations": {_BOOT: f"{boot:g}"}}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": spec, "status": _status(pool, formation, place)}


def is_spot(config: Obj) -> bool:
    """Whether the machines of a pool may be taken away at any time."""
    return bool(config.get("spot") or config.get("preemptible"))


def _labels(project: str, pool: Obj, formation: Formation, place: Place) -> dict[str, str]:
    config, machine, region = pool.get("config") or {}, formation.machine, region_of(place.zone)
    found = {
        LABEL: "simulated",
        "beta.kubernetes.io/arch": "arm64" if machine.arm else "amd64",
        "beta.kubernetes.io/instance-type": machine.name,
        "beta.kubernetes.io/os": "linux",
        "cloud.google.com/machine-family": machine.family,
        f"{_GKE}boot-disk": config.get("diskType") or (machine.disks[0] if machine.disks else "pd-balanced"),
        f"{_GKE}container-runtime": "containerd",
        f"{_GKE}max-pods-per-node": str(_most_pods(pool)),
        f"{_GKE}nodepool": pool["name"],
        f"{_GKE}os-distribution": "cos",
        f"{_GKE}provisioning": "spot" if config.get("spot") else "preemptible" if config.get("preemptible") else "standard",
        "failure-domain.beta.kubernetes.io/region": region,
        "failure-domain.beta.kubernetes.io/zone": place.zone,
        "kubernetes.io/arch": "arm64" if machine.arm else "amd64",
        "kubernetes.io/hostname": place.name,
        "kubernetes.io/os": "linux",
        "node.kubernetes.io/instance-type": machine.name,
        "topology.gke.io/zone": place.zone,
        "topology.kubernetes.io/region": region,
        "topology.kubernetes.io/zone": place.zone,
        **formation.labels(),
        **_kinds(config, project),
    }
    return {**found, **(config.get("labels") or {})}


def _kinds(config: Obj, project: str) -> dict[str, str]:
    """Labels that only some nodes have: how they are paid for, and how pods on them get credentials."""
    found: dict[str, str] = {}
    for field in ("spot", "preemptible"):
        if config.get(field):
            found[f"{_GKE}{field}"] = "true"
    if config.get("flexStart"):
        found[f"{_GKE}flex-start"] = "true"
    if (config.get("workloadMetadataConfig") or {}).get("mode") == "GKE_METADATA":
        found["iam.gke.io/gke-metadata-server-enabled"] = "true"
    for name in reservations(config):
        owner, _, short = name.rpartition("/reservations/")
        found["cloud.google.com/reservation-name"] = short.partition("/")[0]
        found["cloud.google.com/reservation-project"] = owner.rpartition("/")[2] or project
        found["cloud.google.com/reservation-affinity"] = "specific"
    return found


def reservations(config: Obj) -> list[str]:
    """The reservations that a pool names."""
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


def _most_pods(pool: Obj) -> int:
    return int((pool.get("maxPodsConstraint") or {}).get("maxPodsPerNode") or _PODS)


def _status(pool: Obj, formation: Formation, place: Place) -> Obj:
    disk = int((pool.get("config") or {}).get("diskSizeGb") or _DISK_GB)
    devices, pods = formation.devices(), str(_most_pods(pool))
    capacity = {**formation.machine.capacity(), **devices, "ephemeral-storage": f"{disk}Gi", "pods": pods}
    allocatable = {**formation.machine.allocatable(), **devices, "ephemeral-storage": f"{disk // 2}Gi", "pods": pods}
    host = place.number + _FIRST_HOST
    address = f"172.{16 + (host >> 16 & 15)}.{host >> 8 & 255}.{host & 255}"
    addresses = [{"type": "InternalIP", "address": address}, {"type": "Hostname", "address": place.name}]
    return {"capacity": capacity, "allocatable": allocatable, "addresses": addresses}


def _pods(number: int) -> str:
    return f"10.{number >> 8 & 255}.{number & 255}.0/24"
