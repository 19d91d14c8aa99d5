"""The slices that a TrainingJob or a JobSet requests: type, hosts, chips, node selectors, price per hour. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from sliceworks import catalog
from sliceworks.base.errors import SliceworksError
from sliceworks.catalog import prices
from sliceworks.catalog.labels import GPU, RESERVATION_NAME, SPOT, TPU, TPU_ACCELERATOR, TPU_TOPOLOGY
from sliceworks.catalog.tpus import GENERATIONS
from sliceworks.kube import pod_placement
from sliceworks.training.status import TYPE_LABEL, pod_spec, workers

if TYPE_CHECKING:
    from sliceworks.catalog.prices import Price
    from sliceworks.specs.training import Slices

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class SliceRequest:
    """A number of slices of one accelerator, with one capacity type."""

    shape: catalog.Accelerator
    count: int
    capacity: str
    reservation: str = ""

    @property
    def is_tpu(self) -> bool:
        return self.shape.kind == "tpu"

    @property
    def hosts(self) -> int:
        """The number of hosts of all slices; each runs one process."""
        return self.shape.hosts * self.count

    @property
    def chips(self) -> int:
        return self.shape.chips * self.count

    @property
    def multi_process(self) -> bool:
        """Whether several hosts form one program and need a coordinator."""
        return self.hosts > 1

    @property
    def price(self) -> Price | None:
        """USD per hour in the accelerator's reference region; None if unknown."""
        price = prices.get_price(self.shape, prices.region_for(self.shape), self.capacity)
        return price.times(self.count) if price else None

    def selector(self) -> dict[str, str]:
        """The node selector."""
        return pod_placement.node_selector(self.shape, self.capacity, self.reservation)

    def tolerations(self) -> list[Object]:
        """Tolerations of the nodes' taints."""
        return pod_placement.tolerations(self.shape, self.capacity)


def resolve_request(slices: Slices) -> SliceRequest:
    """The slices of a document; raises UnknownAccelerator or InvalidShape with the closest match."""
    if slices.accelerator:
        shape: catalog.Accelerator = catalog.find_slice(slices.accelerator, slices.topology, slices.chips_per_host)
    else:
        shape = catalog.find(slices.type, slices.topology, slices.chips_per_host)
    return SliceRequest(shape, slices.count, slices.capacity, slices.reservation)


_CHIPS = (TPU, GPU)


def request_of_jobset(jobset: Object) -> SliceRequest | None:
    """The slices of a JobSet by its type label, or else its node selector; None if the catalog does not know them."""
    selector = pod_spec(jobset).get("nodeSelector") or {}
    name = (jobset["metadata"].get("labels") or {}).get(TYPE_LABEL, "") or selector.get(TPU_ACCELERATOR, "")
    capacity = "spot" if SPOT in selector else "reservation" if RESERVATION_NAME in selector else "on-demand"
    return _find_request(name, selector.get(TPU_TOPOLOGY) or None, workers(jobset).get("replicas", 1), capacity)


def slice_size(jobset: Object) -> tuple[int, int]:
    """Hosts and chips of the slices, from the requests of their pods."""
    job = workers(jobset)
    hosts = job.get("replicas", 1) * job["template"]["spec"].get("parallelism", 1)
    resources = pod_spec(jobset)["containers"][0].get("resources") or {}
    # For extended resources, a limit is also the request.
    chips = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
    return hosts, hosts * next((int(chips[name]) for name in _CHIPS if name in chips), 0)


@lru_cache(maxsize=512)
def _find_request(name: str, topology: str | None, count: int, capacity: str) -> SliceRequest | None:
    try:
        if topology and any(generation.label == name for generation in GENERATIONS):
            return SliceRequest(catalog.find_slice(name, topology), count, capacity)
        return SliceRequest(catalog.find(name, topology or ""), count, capacity) if name else None
    except SliceworksError:
        return None
