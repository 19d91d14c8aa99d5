"""Slices from nodes and pods, and pending slices from node pools."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from sliceworks import catalog
from sliceworks.base.errors import SliceworksError
from sliceworks.base.names import pluralize
from sliceworks.catalog import labels, prices
from sliceworks.console.views import hosts
from sliceworks.console.views.hosts import Host, HostState
from sliceworks.controllers.slices import node_pool

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Mapping, Sequence

    from sliceworks.catalog import Accelerator
    from sliceworks.console.views.hosts import Work
    from sliceworks.controllers.slices.model import NodePool

Object = dict[str, Any]
_DRAIN = "slices.sliceworks.dev/drain"
_ALONE = "\0"
_PARAMS = ("type", "state", "team", "text")
_number = re.compile(r".*-(\d{1,5})").fullmatch


@dataclass(frozen=True, slots=True)
class SliceView:
    """A slice. `shape` is None if the catalog does not know its machine type; `team` is the team of its job."""

    name: str
    pool: str
    shape: Accelerator | None
    type_name: str
    topology: str
    chips: int
    hosts: tuple[Host, ...]
    owner: str
    team: str
    zone: str
    capacity: str
    machine: str

    @property
    def state(self) -> HostState:
        """The worst state of its hosts."""
        return min((host.state for host in self.hosts), key=_ORDER.__getitem__, default=HostState.MISSING)

    @property
    def up(self) -> int:
        """The number of ready or running hosts."""
        return sum(host.state in (HostState.RUNNING, HostState.READY) for host in self.hosts)

    @property
    def usd(self) -> float | None:
        """USD per hour, or None if unknown."""
        return _hourly_price(self.shape, self.zone, self.capacity) if self.shape and self.zone else None

    @property
    def summary(self) -> str:
        """The slice in one sentence."""
        size = f"{self.chips} chips on {pluralize(len(self.hosts), 'host')}"
        return f"{self.name}: {self.type_name}{f' {self.topology}' if self.topology else ''}, {size}, {self.status}"

    @property
    def status(self) -> str:
        """The number of hosts in each state: `1 failed, 2 running`."""
        count = Counter(host.state for host in self.hosts)
        return ", ".join(f"{count[state]} {state}" for state in HostState if count[state])


@lru_cache(maxsize=1024)
def _hourly_price(shape: Accelerator, zone: str, capacity: str) -> float | None:
    price = prices.get_price(shape, zone, capacity)
    return price.usd if price else None


_ORDER = {state: number for number, state in enumerate(HostState)}


@dataclass(frozen=True, slots=True)
class SliceFilter:
    """A filter for slices; empty fields match any."""

    type_name: str = ""
    state: str = ""
    team: str = ""
    text: str = ""

    @classmethod
    def read(cls, query: Mapping[str, str]) -> SliceFilter:
        """Parse the query parameters of a URL."""
        return cls(*(query.get(name, "") for name in _PARAMS))

    def to_params(self) -> dict[str, str]:
        """The filter as URL parameters."""
        values = (self.type_name, self.state, self.team, self.text)
        return {name: value for name, value in zip(_PARAMS, values, strict=True) if value}

    def __call__(self, view: SliceView) -> bool:
        words = f"{view.name} {view.pool} {view.owner} {view.zone} {view.type_name}".lower()
        return (
            self.type_name in ("", view.type_name)
            and self.state in ("", view.state)
            and self.team in ("", view.team)
            and all(word in words for word in self.text.lower().split())
        )


@dataclass(frozen=True, slots=True)
class SliceContext:
    """Work by node, JobSets that release their slices, and teams by namespace."""

    working: Mapping[str, Work]
    drained: frozenset[str] = frozenset()
    teams: Mapping[str, str] = field(default_factory=dict)


def list_slices(nodes: Iterable[Object], pods: Iterable[Object], jobsets: Iterable[Object] = ()) -> list[SliceView]:
    """Every slice of the cluster: by state, worst first, then by name."""
    context = SliceContext(hosts.work_by_node(pods), frozenset(namespaced_name(jobset) for jobset in jobsets if is_drained(jobset)))
    pools: dict[str, list[Object]] = {}
    for node in nodes:
        if hosts.chips(node):
            pools.setdefault(pool_of(node), []).append(node)
    return sort_slices(view for pool, members in pools.items() for view in slices_of_pool(pool, members, context))


def sort_slices(views: Iterable[SliceView]) -> list[SliceView]:
    """By state, worst first, then by name."""
    return sorted(views, key=lambda view: (_ORDER[view.state], hosts.natural_key(view.name)))


def pool_of(node: Object) -> str:
    """The node pool of a node, or a unique key if it has none."""
    return (node["metadata"].get("labels") or {}).get(labels.NODE_POOL) or f"{_ALONE}{node['metadata']['name']}"


def is_drained(jobset: Object) -> bool:
    """Whether a JobSet releases its slices."""
    return (jobset["metadata"].get("annotations") or {}).get(_DRAIN) == "true"


def namespaced_name(obj: Object) -> str:
    """namespace/name."""
    return f"{obj['metadata'].get('namespace', '')}/{obj['metadata']['name']}"


def slices_of_pool(pool: str, nodes: Iterable[Object], context: SliceContext) -> Iterator[SliceView]:
    """The slices of a node pool."""
    members = sorted(nodes, key=lambda node: hosts.natural_key(node["metadata"]["name"]))
    shape = _shape(members[0])
    size = shape.hosts if shape else len(members)
    parts = [members[start : start + size] for start in range(0, len(members), size)]
    alone = pool.startswith(_ALONE)
    for number, part in enumerate(parts):
        # A single-host slice has the name of its node; several slices of one pool are numbered.
        name = part[0]["metadata"]["name"] if size == 1 or alone else pool if len(parts) == 1 else f"{pool}.{number}"
        yield _view((name, "" if alone else pool), shape, part, context)


def _view(names: tuple[str, str], shape: Accelerator | None, nodes: Sequence[Object], context: SliceContext) -> SliceView:
    node_labels = nodes[0]["metadata"].get("labels") or {}
    jobset, place = node_labels.get(labels.POOL_JOBSET_NAME, ""), node_labels.get(labels.POOL_JOBSET_NAMESPACE, "")
    owner = f"{place}/{jobset}" if jobset else ""
    members = _hosts(nodes, shape.hosts if shape else len(nodes), context, drained=owner in context.drained)
    work = next((item.work for item in members if item.work), None)
    chips, namespace = hosts.chips(nodes[0]), work.namespace if work else place
    return SliceView(
        name=names[0],
        pool=names[1],
        shape=shape,
        type_name=shape.type_name if shape else node_labels.get(hosts.INSTANCE_TYPE) or f"{chips} chips",
        topology=shape.topology if shape else node_labels.get(labels.TPU_TOPOLOGY, ""),
        chips=shape.chips if shape else chips * len(members),
        hosts=members,
        owner=str(work) if work else owner,
        team=context.teams.get(namespace, namespace),
        zone=node_labels.get(labels.ZONE, ""),
        capacity=_capacity(node_labels),
        machine=shape.machine.name if shape else node_labels.get(hosts.INSTANCE_TYPE, ""),
    )


def _hosts(nodes: Sequence[Object], size: int, context: SliceContext, *, drained: bool) -> tuple[Host, ...]:
    members = {}
    for number, node in zip(_host_numbers(nodes, size), nodes, strict=True):
        members[number] = hosts.host(number, node, context.working.get(node["metadata"]["name"]), drained=drained)
    return tuple(members.get(number) or Host(number, "", HostState.MISSING) for number in range(size))


def _host_numbers(nodes: Sequence[Object], size: int) -> Sequence[int]:
    """Host numbers from the suffixes of node names, if valid; otherwise, by order of names."""
    ends = [_number(node["metadata"]["name"]) for node in nodes]
    numbers = [int(end[1]) for end in ends if end]
    return numbers if len(set(numbers)) == len(nodes) and max(numbers) < size else range(len(nodes))


def _capacity(node_labels: Mapping[str, str]) -> str:
    if node_labels.get(labels.SPOT) == "true":
        return "spot"
    return "reservation" if labels.RESERVATION_NAME in node_labels else "on-demand"


def _shape(node: Object) -> Accelerator | None:
    """The catalog entry of the slice of a node."""
    node_labels = node["metadata"].get("labels") or {}
    return _find_shape(
        node_labels.get(labels.TPU_ACCELERATOR, ""),
        node_labels.get(labels.TPU_TOPOLOGY, ""),
        node_labels.get(labels.GPU_ACCELERATOR, ""),
        node_labels.get(hosts.INSTANCE_TYPE, ""),
        hosts.chips(node),
    )


@lru_cache(maxsize=1024)
def _find_shape(tpu: str, topology: str, gpu: str, machine: str, chips: int) -> Accelerator | None:
    try:
        if tpu:
            return catalog.find_slice(tpu, topology, chips)
        return catalog.find_gpu(machine, gpu, chips) if machine else next(_gpu_shapes(gpu, chips), None)
    except SliceworksError:
        return None


def _gpu_shapes(gpu: str, chips: int) -> Iterator[catalog.GpuShape]:
    """GPU shapes by label, for nodes without a machine type."""
    from sliceworks.catalog import gpus

    return (shape for shape in gpus.shapes() if (shape.gpu.label, shape.chips) == (gpu, chips))


_STATES = {
    "PROVISIONING": HostState.BOOTING,
    "STOPPING": HostState.DRAINING,
    "ERROR": HostState.FAILED,
    "RUNNING_WITH_ERROR": HostState.FAILED,
}

_MESSAGES = {
    HostState.BOOTING: "the node pool is being created",
    HostState.DRAINING: "the node pool is being deleted",
    HostState.MISSING: "the node pool has no nodes: it was resized to zero, or GKE replaces them",
}


def pending_slices(pools: Iterable[Object], known: Container[str], teams: Mapping[str, str]) -> list[SliceView]:
    """The slices of node pools without nodes; `known` are pools that have nodes."""
    result = []
    for raw in pools:
        pool = node_pool.read_pool(raw)
        shape = node_pool.shape_of_pool(raw, pool) if pool.name not in known else None
        # Pools of GPU machines often have no machine; a slice that is not autoscaled has all of its hosts.
        is_lost = pool.is_running and isinstance(shape, catalog.Slice) and not (raw.get("autoscaling") or {}).get("enabled")
        if isinstance(shape, catalog.Slice | catalog.GpuShape) and (pool.status in _STATES or is_lost):
            result.append(_pending_slice(pool, shape, teams))
    return result


def _pending_slice(pool: NodePool, shape: Accelerator, teams: Mapping[str, str]) -> SliceView:
    state = _STATES.get(pool.status, HostState.MISSING)
    message = f"{pool.fault.code}: {pool.fault.message}" if pool.fault else _MESSAGES.get(state, "")
    owner = str(pool.jobset) if pool.is_managed else ""
    place = pool.jobset.namespace if pool.is_managed else ""
    return SliceView(
        name=pool.name,
        pool=pool.name,
        shape=shape,
        type_name=shape.type_name,
        topology=shape.topology,
        chips=shape.chips,
        hosts=tuple(Host(number, "", state, message=message, zone=pool.zone) for number in range(shape.hosts)),
        owner=owner,
        team=teams.get(place, place),
        zone=pool.zone,
        capacity="spot" if pool.spot else "on-demand",
        machine=pool.machine,
    )
