"""What a JobSet asks for, by its labels and selectors: the same as the document it was made from said. Pure."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from sliceworks import catalog
from sliceworks.base.errors import SliceworksError
from sliceworks.catalog.labels import GPU, RESERVATION_NAME, SPOT, TPU, TPU_ACCELERATOR, TPU_TOPOLOGY
from sliceworks.catalog.tpus import GENERATIONS
from sliceworks.training.shapes import Ask
from sliceworks.training.states import pod_spec, workers
from sliceworks.training.words import TYPE

Object = dict[str, Any]
_CHIPS = (TPU, GPU)


def asked(jobset: Object) -> Ask | None:
    """So many slices of a type; None where the catalogue does not know it. A JobSet that is not of our making has no type: then its
    nodes tell."""
    selector = pod_spec(jobset).get("nodeSelector") or {}
    name = (jobset["metadata"].get("labels") or {}).get(TYPE, "") or selector.get(TPU_ACCELERATOR, "")
    capacity = "spot" if SPOT in selector else "reservation" if RESERVATION_NAME in selector else "on-demand"
    return _ask(name, selector.get(TPU_TOPOLOGY) or None, workers(jobset).get("replicas", 1), capacity)


def size(jobset: Object) -> tuple[int, int]:
    """Hosts and chips of the slices, as their pods ask for them."""
    job = workers(jobset)
    hosts = job.get("replicas", 1) * job["template"]["spec"].get("parallelism", 1)
    resources = pod_spec(jobset)["containers"][0].get("resources") or {}
    # Of chips a limit is a request, too.
    chips = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
    return hosts, hosts * next((int(chips[name]) for name in _CHIPS if name in chips), 0)


@lru_cache(maxsize=512)
def _ask(name: str, topology: str | None, count: int, capacity: str) -> Ask | None:
    try:
        if topology and any(each.label == name for each in GENERATIONS):
            return Ask(catalog.slice_for(name, topology), count, capacity)
        return Ask(catalog.find(name, topology), count, capacity) if name else None
    except SliceworksError:
        return None
