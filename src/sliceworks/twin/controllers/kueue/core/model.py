"""The types of the core: flavors, resource groups, pod sets, workloads and ClusterQueues."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from sliceworks.base import quantity
from sliceworks.twin.controllers.kueue.core.quota_tree import ClusterQueueNode

if TYPE_CHECKING:
    from sliceworks.kube.node_affinity import Taint
    from sliceworks.twin.controllers.kueue.core.quota_tree import FlavorResource, FlavorResourceQuantities

Requests = dict[str, int]
WorkloadKey = tuple[str, str]
"""A namespace and a name."""

NEVER, LOWER, LOWER_OR_NEWER, ANY = "Never", "LowerPriority", "LowerOrNewerEqualPriority", "Any"
STRICT_FIFO, BEST_EFFORT_FIFO = "StrictFIFO", "BestEffortFIFO"
TRY_NEXT_FLAVOR = "TryNextFlavor"
_BINARY_RESOURCES = ("memory", "ephemeral-storage")


class Flavor(NamedTuple):
    """A ResourceFlavor: the labels and taints of its nodes, and the tolerations that its pods get."""

    name: str
    labels: dict[str, str]
    taints: tuple[Taint, ...]
    tolerations: tuple[dict[str, Any], ...]


class ResourceGroup(NamedTuple):
    """Resources that are assigned together, from one of these flavors."""

    resources: frozenset[str]
    flavors: tuple[str, ...]


class Policy(NamedTuple):
    """The preemption and flavorFungibility settings of a ClusterQueue."""

    within_cluster_queue: str = NEVER
    reclaim_within_cohort: str = NEVER
    borrow_within_cohort: str = NEVER
    max_priority_threshold: int | None = None
    when_can_borrow: str = "MayStopSearch"
    when_can_preempt: str = TRY_NEXT_FLAVOR
    preference: str = ""


@dataclass(slots=True, eq=False)
class PodSet:
    """Identical pods. `requests` is the total of all of them; `flavors` by resource is filled in on admission."""

    name: str
    count: int
    requests: Requests
    min_count: int = -1
    spec: dict[str, Any] = field(default_factory=dict)
    flavors: dict[str, str] = field(default_factory=dict)

    def scaled_to(self, count: int) -> PodSet:
        """The same pod set with another number of pods."""
        if not self.count or count == self.count:
            return self
        requests = {name: amount // self.count * count for name, amount in self.requests.items()}
        return PodSet(self.name, count, requests, self.min_count, self.spec)


@dataclass(slots=True, eq=False)
class WorkloadInfo:
    """A workload as the scheduler sees it.

    `time` orders workloads of equal priority and may be any comparable value. Workloads with one `equivalence_hash` request the
    same. A workload `in_backoff` is not tried. The search for flavors continues after `last_assignment`. The core never reads
    `user_data`.
    """

    key: WorkloadKey
    queue: WorkloadKey
    priority: int
    time: Any
    pod_sets: list[PodSet]
    uid: str = ""
    cluster_queue: str = ""
    last_assignment: AssignmentState | None = None
    usage: FlavorResourceQuantities = field(default_factory=dict)
    evicted: bool = False
    reserved_at: Any = None
    in_backoff: bool = False
    equivalence_hash: Any = None
    user_data: Any = None


class AssignmentState(NamedTuple):
    """The index of the flavor tried last, by pod set and resource; -1 when all flavors were tried."""

    flavor_indexes: list[dict[str, int]]
    generation: int

    @property
    def has_untried_flavors(self) -> bool:
        return any(index != -1 for indexes in self.flavor_indexes for index in indexes.values())


class ClusterQueue(ClusterQueueNode):
    """A ClusterQueue with the workloads that have quota reserved in it."""

    __slots__ = ("active", "policy", "resource_groups", "strategy", "workloads")

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.resource_groups: tuple[ResourceGroup, ...] = ()
        self.policy = Policy()
        self.strategy = BEST_EFFORT_FIFO
        self.active = True
        self.workloads: dict[WorkloadKey, WorkloadInfo] = {}

    def resource_group_for(self, resource: str) -> ResourceGroup | None:
        return next((group for group in self.resource_groups if resource in group.resources), None)

    def add_workload(self, workload: WorkloadInfo) -> None:
        """Count a workload's usage in this ClusterQueue."""
        self.workloads[workload.key] = workload
        self.add_usages(workload.usage)

    def remove_workload(self, workload: WorkloadInfo) -> None:
        """Release a workload's usage, so that other workloads may fit."""
        del self.workloads[workload.key]
        self.remove_usages(workload.usage)
        self.generation += 1

    @property
    def path(self) -> str:
        """Its path from the root of the tree, as Kueue prints it."""
        names = [self.name, *(cohort.name for cohort in self.ancestors())]
        return "/" + "/".join(reversed(names))


def format_quantity(resource: str, amount: int) -> str:
    """An amount as Kueue prints it."""
    if resource == "cpu":
        from fractions import Fraction

        return quantity.render(Fraction(amount, 1000))
    if resource in _BINARY_RESOURCES or resource.startswith("hugepages-"):
        return quantity.render(amount, quantity.BINARY)
    return quantity.render(amount)


def usage_of(pod_sets: list[PodSet]) -> FlavorResourceQuantities:
    """The total usage of pod sets whose flavors are assigned."""
    total: dict[FlavorResource, int] = {}
    for pod_set in pod_sets:
        for resource, amount in pod_set.requests.items():
            flavor_resource = (pod_set.flavors.get(resource, ""), resource)
            total[flavor_resource] = total.get(flavor_resource, 0) + amount
    return total
