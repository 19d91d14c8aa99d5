"""What the core knows of workloads, flavors and ClusterQueues."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from sliceworks.base import quantity
from sliceworks.twin.workloads.kueue.core.quotas import Leaf

if TYPE_CHECKING:
    from sliceworks.twin.scheduler.selection import Taint
    from sliceworks.twin.workloads.kueue.core.quotas import Amounts, Cell

Requests = dict[str, int]
Key = tuple[str, str]
"""A namespace and a name."""

NEVER, LOWER, LOWER_OR_NEWER, ANY = "Never", "LowerPriority", "LowerOrNewerEqualPriority", "Any"
STRICT, BEST_EFFORT = "StrictFIFO", "BestEffortFIFO"
NEXT = "TryNextFlavor"
_BINARY = ("memory", "ephemeral-storage")


class Flavor(NamedTuple):
    """A ResourceFlavor; its nodes have these labels and taints, and pods get these tolerations."""

    name: str
    labels: dict[str, str]
    taints: tuple[Taint, ...]
    tolerations: tuple[dict[str, Any], ...]


class Group(NamedTuple):
    """Resources that come from one flavor of a list."""

    resources: frozenset[str]
    flavors: tuple[str, ...]


class Policy(NamedTuple):
    """Whom a ClusterQueue may preempt, and how it goes from one flavor to the next."""

    within: str = NEVER
    reclaim: str = NEVER
    borrow: str = NEVER
    threshold: int | None = None
    when_can_borrow: str = "MayStopSearch"
    when_can_preempt: str = NEXT
    preference: str = ""


@dataclass(slots=True, eq=False)
class PodSet:
    """Pods alike. `requests` are those of all of them together; `flavors` by resource, once assigned."""

    name: str
    count: int
    requests: Requests
    least: int = -1
    spec: dict[str, Any] = field(default_factory=dict)
    flavors: dict[str, str] = field(default_factory=dict)

    def scaled(self, count: int) -> PodSet:
        """The same with another number of pods."""
        if not self.count or count == self.count:
            return self
        requests = {name: amount // self.count * count for name, amount in self.requests.items()}
        return PodSet(self.name, count, requests, self.least, self.spec)


@dataclass(slots=True, eq=False)
class Item:
    """A workload. `time` orders the queue; any comparable value will do. `tried` is where the search for flavors goes on.

    Items of one `shape` ask for the same; `waits` holds one back until its time has come.
    """

    key: Key
    queue: Key
    priority: int
    time: Any
    pod_sets: list[PodSet]
    uid: str = ""
    cluster_queue: str = ""
    tried: Tried | None = None
    usage: Amounts = field(default_factory=dict)
    evicted: bool = False
    reserved_at: Any = None
    waits: bool = False
    shape: Any = None
    facts: Any = None


class Tried(NamedTuple):
    """The flavor last tried, by pod set and resource; -1 when all were."""

    indexes: list[dict[str, int]]
    generation: int

    @property
    def more(self) -> bool:
        """Whether there are flavors left to try."""
        return any(index != -1 for indexes in self.indexes for index in indexes.values())


class Queue(Leaf):
    """A ClusterQueue with what is reserved in it."""

    __slots__ = ("active", "groups", "items", "policy", "strategy")

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.groups: tuple[Group, ...] = ()
        self.policy = Policy()
        self.strategy = BEST_EFFORT
        self.active = True
        self.items: dict[Key, Item] = {}

    def group_of(self, resource: str) -> Group | None:
        return next((group for group in self.groups if resource in group.resources), None)

    def take(self, item: Item) -> None:
        """Count an item's usage here."""
        self.items[item.key] = item
        self.add_all(item.usage)

    def release(self, item: Item) -> None:
        """Give an item's usage back: others may fit now."""
        del self.items[item.key]
        self.remove_all(item.usage)
        self.generation += 1

    @property
    def path(self) -> str:
        """Where it is in the tree, as Kueue writes it."""
        names = [self.name, *(cohort.name for cohort in self.ancestors())]
        return "/" + "/".join(reversed(names))


def amount_text(resource: str, amount: int) -> str:
    """An amount as Kueue prints it."""
    if resource == "cpu":
        from fractions import Fraction

        return quantity.render(Fraction(amount, 1000))
    if resource in _BINARY or resource.startswith("hugepages-"):
        return quantity.render(amount, quantity.BINARY)
    return quantity.render(amount)


def usage_of(pod_sets: list[PodSet]) -> Amounts:
    """What pod sets with their flavors use."""
    total: dict[Cell, int] = {}
    for pods in pod_sets:
        for resource, amount in pods.requests.items():
            cell = (pods.flavors.get(resource, ""), resource)
            total[cell] = total.get(cell, 0) + amount
    return total
