"""What a pod asks its pool to be: read from its selectors, requests and annotations; the same for a pod and for its template."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import lru_cache
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Literal

import orjson

from sliceworks.base import quantity
from sliceworks.base.errors import SliceworksError, UsageError
from sliceworks.catalog import labels as gke
from sliceworks.controllers.slices import capacity, words

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sliceworks.controllers.slices.capacity import Capacity

Kind = Literal["tpu", "gpu", "cpu"]
_GOOGLE = ("cloud.google.com/", "google.com/")
_KUBERNETES = ("kubernetes.io", "k8s.io")  # labels of these domains are set by GKE alone
_COPIED = (words.ICI_RESILIENCY, words.LOCATION_HINT)
HASH_PREFIX = "s1-"


@dataclass(frozen=True, slots=True)
class Ask:
    """A pool as a workload wants it. Two pods with the same Ask could share a pool's shape; its hash goes on the pool."""

    kind: Kind
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


def wanted(metadata: Mapping[str, Any], spec: Mapping[str, Any]) -> Kind | None:
    """Whether pods like this get a pool, and of what kind."""
    if any((metadata.get(part) or {}).get(words.DISABLED) == "true" for part in ("labels", "annotations")):
        return None
    selector = spec.get("nodeSelector") or {}
    if gke.TPU_TOPOLOGY in selector and _requested(spec, gke.TPU) is not None:
        return "tpu"
    if gke.GPU_ACCELERATOR in selector and _requested(spec, gke.GPU) is not None:
        return "gpu"
    if words.MACHINE_TYPE in selector:
        return "cpu"
    return None


def read(
    kind: Kind,
    metadata: Mapping[str, Any],
    spec: Mapping[str, Any],
    copied: tuple[str, ...] = (),
) -> Ask:
    """The Ask of a pod or template. `copied` are labels to copy to nodes."""
    selector: dict[str, str] = spec.get("nodeSelector") or {}
    annotations: dict[str, str] = metadata.get("annotations") or {}
    if kind == "tpu" and not selector.get(gke.TPU_ACCELERATOR):
        raise SliceworksError(f"the pod has no nodeSelector {gke.TPU_ACCELERATOR}", hint="such as tpu-v5p-slice")
    resource = {"tpu": gke.TPU, "gpu": gke.GPU}.get(kind)
    ask = Ask(
        kind=kind,
        accelerator=selector.get(gke.TPU_ACCELERATOR if kind == "tpu" else gke.GPU_ACCELERATOR, "") if resource else "",
        topology=selector.get(gke.TPU_TOPOLOGY, "") if kind == "tpu" else "",
        machine=selector.get(words.MACHINE_TYPE) or selector.get(words.INSTANCE_TYPE, ""),
        chips=(_requested(spec, resource) or 0) if resource else 0,
        per_node=_number(selector.get(gke.ACCELERATOR_COUNT, "")),
        cpu=_amount(spec, "cpu") if kind == "cpu" else 0.0,
        memory=_amount(spec, "memory") if kind == "cpu" else 0.0,
        labels=_labels(metadata, selector, copied),
        reservation=_reservation(selector),
        spot=selector.get(words.SPOT) == "true",
        tolerates_spot=_tolerates_spot(spec),
        service_account=annotations.get(words.NODE_SERVICE_ACCOUNT, ""),
        networks=networks(annotations.get(words.NODE_NETWORKS, "")),
        zones=_zones(selector, annotations),
        capacity=_capacity(annotations),
    )
    return _sealed(ask)


@lru_cache(maxsize=4096)
def of_job(ask: Ask, pods: int) -> Ask:
    """The Ask of a whole Job: a pod does not say how many there are."""
    return _sealed(replace(ask, pods=max(pods, 1)))


def _sealed(ask: Ask) -> Ask:
    """The Ask with its hash: the whole of it, in a fixed order."""
    text = orjson.dumps(replace(ask, digest=""), option=orjson.OPT_SORT_KEYS)
    return replace(ask, digest=HASH_PREFIX + sha256(text).hexdigest()[:20])


def _requested(spec: Mapping[str, Any], resource: str) -> int | None:
    """How many of a resource all containers ask for; None where none asks."""
    total: int | None = None
    for container in spec.get("containers") or ():
        resources = container.get("resources") or {}
        amount = (resources.get("requests") or {}).get(resource, (resources.get("limits") or {}).get(resource))
        if amount is not None:
            total = (total or 0) + int(_quantity(amount, resource))
    return total


def _amount(spec: Mapping[str, Any], resource: str) -> float:
    total = 0.0
    for container in spec.get("containers") or ():
        resources = container.get("resources") or {}
        amount = (resources.get("requests") or {}).get(resource, (resources.get("limits") or {}).get(resource))
        if amount is not None:
            total += float(_quantity(amount, resource))
    return total


def _quantity(amount: Any, resource: str) -> Any:
    try:
        return quantity.parse(str(amount))
    except ValueError as error:
        raise SliceworksError(f"the request for {amount!r} of {resource} cannot be read") from error


def _labels(metadata: Mapping[str, Any], selector: Mapping[str, str], copied: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    own = metadata.get("labels") or {}
    asked = (metadata.get("annotations") or {}).get(words.COPY_LABELS, "")
    names = [*copied, *(name.strip() for name in asked.split(","))]
    found = {name: own[name] for name in names if name and name in own}
    found |= {name: value for name, value in selector.items() if name in _COPIED or not _reserved(name)}
    return tuple(sorted(found.items()))


def _reserved(name: str) -> bool:
    return name.startswith(_GOOGLE) or name.partition("/")[0].endswith(_KUBERNETES)


def _reservation(selector: Mapping[str, str]) -> str:
    name = selector.get(words.RESERVATION_NAME, "")
    return capacity.reservation(name, selector.get(words.RESERVATION_PROJECT, "")).reservation if name else ""


def _tolerates_spot(spec: Mapping[str, Any]) -> bool:
    for toleration in spec.get("tolerations") or ():
        if toleration.get("effect") not in (None, "", "NoSchedule"):
            continue
        if toleration.get("operator") == "Exists" and toleration.get("key") in (None, "", words.SPOT):
            return True
        if toleration.get("key") == words.SPOT and toleration.get("value") == "true":
            return True
    return False


def networks(text: str) -> tuple[tuple[str, str], ...]:
    """Additional networks with their subnetworks, as people write them: `vpc1:subnet1, vpc2:subnet2`."""
    found = []
    for part in (piece.strip() for piece in text.split(",")):
        if part:
            network, _, subnetwork = part.partition(":")
            if not (network.strip() and subnetwork.strip(": ")):
                raise SliceworksError(f"{part!r} is no additional network", hint="NETWORK:SUBNETWORK, several with commas between")
            found.append((network.strip(), subnetwork.strip()))
    return tuple(found)


def _zones(selector: Mapping[str, str], annotations: Mapping[str, str]) -> tuple[str, ...]:
    if zone := selector.get(words.ZONE):
        return (zone,)
    return tuple(zone for part in annotations.get(words.ZONES, "").split(",") if (zone := part.strip()))


def _capacity(annotations: Mapping[str, str]) -> tuple[Capacity, ...]:
    try:
        return capacity.parse(annotations.get(words.CAPACITY, ""))
    except UsageError as error:
        raise SliceworksError(f"the annotation {words.CAPACITY}: {error.message}", hint=error.hint) from error


def _number(text: str) -> int:
    return int(text) if text.isdigit() else 0
