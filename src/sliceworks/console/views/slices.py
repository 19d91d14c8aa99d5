"""The slices of a cluster as its nodes and pods tell of them: which there are, how each host stands, whose they are. Pure.

GKE makes a slice of several hosts a node pool of its own. A pool of machines that are slices by themselves, GPUs too, is as many
slices as it has nodes.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from sliceworks import catalog
from sliceworks.base.errors import SliceworksError
from sliceworks.base.words import counted
from sliceworks.catalog import labels, prices
from sliceworks.console.views import hosts
from sliceworks.console.views.hosts import Host, HostState

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from sliceworks.catalog import Accelerator
    from sliceworks.console.views.hosts import Work

Object = dict[str, Any]
_DRAIN = "slices.sliceworks.dev/drain"
_ALONE = "\0"
_ASKED = ("type", "state", "team", "text")
_number = re.compile(r".*-(\d{1,5})").fullmatch


@dataclass(frozen=True, slots=True)
class SliceView:
    """One slice. `shape` is None where the catalogue knows no such machine; `team` is whose work it does."""

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
        """How the slice stands: as the worst of its hosts."""
        return min((host.state for host in self.hosts), key=_ORDER.__getitem__, default=HostState.MISSING)

    @property
    def up(self) -> int:
        """How many hosts could work."""
        return sum(host.state in (HostState.RUNNING, HostState.READY) for host in self.hosts)

    @property
    def usd(self) -> float | None:
        """USD an hour; None where nobody says."""
        found = prices.price(self.shape, self.zone, self.capacity) if self.shape and self.zone else None
        return found.usd if found else None

    @property
    def summary(self) -> str:
        """The slice in one sentence."""
        size = f"{self.chips} chips on {counted(len(self.hosts), 'host')}"
        return f"{self.name}: {self.type_name}{f' {self.topology}' if self.topology else ''}, {size}, {self.standing}"

    @property
    def standing(self) -> str:
        """How its hosts stand, in words: `2 running, 1 failed`."""
        count = Counter(host.state for host in self.hosts)
        return ", ".join(f"{count[state]} {state}" for state in HostState if count[state])


_ORDER = {state: number for number, state in enumerate(HostState)}


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which slices a person wants to see; what is empty is any."""

    type_name: str = ""
    state: str = ""
    team: str = ""
    text: str = ""

    @classmethod
    def read(cls, query: Mapping[str, str]) -> Wanted:
        """What an address asks for."""
        return cls(*(query.get(name, "") for name in _ASKED))

    def written(self) -> dict[str, str]:
        """The same for an address."""
        values = (self.type_name, self.state, self.team, self.text)
        return {name: value for name, value in zip(_ASKED, values, strict=True) if value}

    def __call__(self, view: SliceView) -> bool:
        words = f"{view.name} {view.pool} {view.owner} {view.zone} {view.type_name}".lower()
        return (
            self.type_name in ("", view.type_name)
            and self.state in ("", view.state)
            and self.team in ("", view.team)
            and all(word in words for word in self.text.lower().split())
        )


@dataclass(frozen=True, slots=True)
class Around:
    """What else there is to know of nodes: who works on them, which JobSets give their slices back, and whose namespaces are."""

    working: Mapping[str, Work]
    drained: frozenset[str] = frozenset()
    teams: Mapping[str, str] = field(default_factory=dict)


def slices(nodes: Iterable[Object], pods: Iterable[Object], jobsets: Iterable[Object] = ()) -> list[SliceView]:
    """Every slice of the cluster: those with trouble first, then by name."""
    around = Around(hosts.at_work(pods), frozenset(key(each) for each in jobsets if is_drained(each)))
    pools: dict[str, list[Object]] = {}
    for node in nodes:
        if hosts.chips(node):
            pools.setdefault(pool_of(node), []).append(node)
    return in_order(view for pool, members in pools.items() for view in of_pool(pool, members, around))


def in_order(views: Iterable[SliceView]) -> list[SliceView]:
    """Those with trouble first, then by name."""
    return sorted(views, key=lambda view: (_ORDER[view.state], hosts.in_order(view.name)))


def pool_of(node: Object) -> str:
    """What a node is put together with others by; one without a pool stands alone."""
    return (node["metadata"].get("labels") or {}).get(labels.NODE_POOL) or f"{_ALONE}{node['metadata']['name']}"


def is_drained(jobset: Object) -> bool:
    """Whether a JobSet gives its slices back."""
    return (jobset["metadata"].get("annotations") or {}).get(_DRAIN) == "true"


def key(obj: Object) -> str:
    """namespace/name."""
    return f"{obj['metadata'].get('namespace', '')}/{obj['metadata']['name']}"


def of_pool(pool: str, nodes: Iterable[Object], around: Around) -> Iterator[SliceView]:
    """The slices of one pool's nodes."""
    members = sorted(nodes, key=lambda node: hosts.in_order(node["metadata"]["name"]))
    shape = _shape(members[0])
    size = shape.hosts if shape else len(members)
    parts = [members[start : start + size] for start in range(0, len(members), size)]
    alone = pool.startswith(_ALONE)
    for number, part in enumerate(parts):
        # A machine that is a slice by itself is called by its own name, several slices of one pool by their numbers.
        name = part[0]["metadata"]["name"] if size == 1 or alone else pool if len(parts) == 1 else f"{pool}.{number}"
        yield _view((name, "" if alone else pool), shape, part, around)


def _view(called: tuple[str, str], shape: Accelerator | None, nodes: Sequence[Object], around: Around) -> SliceView:
    carried = nodes[0]["metadata"].get("labels") or {}
    jobset, place = carried.get(labels.POOL_JOBSET_NAME, ""), carried.get(labels.POOL_JOBSET_NAMESPACE, "")
    owner = f"{place}/{jobset}" if jobset else ""
    made = _hosts(nodes, shape.hosts if shape else len(nodes), around, drained=owner in around.drained)
    work = next((each.work for each in made if each.work), None)
    chips, whose = hosts.chips(nodes[0]), work.namespace if work else place
    return SliceView(
        name=called[0],
        pool=called[1],
        shape=shape,
        type_name=shape.type_name if shape else carried.get(hosts.INSTANCE_TYPE) or f"{chips} chips",
        topology=shape.topology if shape else carried.get(labels.TPU_TOPOLOGY, ""),
        chips=shape.chips if shape else chips * len(made),
        hosts=made,
        owner=str(work) if work else owner,
        team=around.teams.get(whose, whose),
        zone=carried.get(labels.ZONE, ""),
        capacity=_capacity(carried),
        machine=shape.machine.name if shape else carried.get(hosts.INSTANCE_TYPE, ""),
    )


def _hosts(nodes: Sequence[Object], size: int, around: Around, *, drained: bool) -> tuple[Host, ...]:
    made = {}
    for number, node in zip(_places(nodes, size), nodes, strict=True):
        made[number] = hosts.host(number, node, around.working.get(node["metadata"]["name"]), drained=drained)
    return tuple(made.get(number) or Host(number, "", HostState.MISSING) for number in range(size))


def _places(nodes: Sequence[Object], size: int) -> Sequence[int]:
    """Hosts whose names end in their numbers keep their places when others are gone; the rest stand in the order of names."""
    ends = [_number(node["metadata"]["name"]) for node in nodes]
    told = [int(each[1]) for each in ends if each]
    return told if len(set(told)) == len(nodes) and max(told) < size else range(len(nodes))


def _capacity(carried: Mapping[str, str]) -> str:
    if carried.get(labels.SPOT) == "true":
        return "spot"
    return "reservation" if labels.RESERVATION_NAME in carried else "on-demand"


def _shape(node: Object) -> Accelerator | None:
    """What the catalogue calls the slice that a node is of."""
    carried = node["metadata"].get("labels") or {}
    return _known(
        carried.get(labels.TPU_ACCELERATOR, ""),
        carried.get(labels.TPU_TOPOLOGY, ""),
        carried.get(labels.GPU_ACCELERATOR, ""),
        carried.get(hosts.INSTANCE_TYPE, ""),
        hosts.chips(node),
    )


@lru_cache(maxsize=1024)
def _known(tpu: str, topology: str, gpu: str, machine: str, chips: int) -> Accelerator | None:
    try:
        if tpu:
            return catalog.slice_for(tpu, topology, chips)
        return catalog.gpu_for(machine, gpu, chips) if machine else next(_of_gpu(gpu, chips), None)
    except SliceworksError:
        return None


def _of_gpu(gpu: str, chips: int) -> Iterator[catalog.GpuShape]:
    """GPU machines by what their label says, where it is not known which machine it is."""
    from sliceworks.catalog import gpus

    return (each for each in gpus.shapes() if (each.gpu.label, each.chips) == (gpu, chips))
