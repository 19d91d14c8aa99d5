"""The quota tree: ClusterQueues below Cohorts; nominal quota, lending, borrowing and usage."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

FlavorResource = tuple[str, str]
"""The names of a flavor and of a resource."""
FlavorResourceQuantities = dict[FlavorResource, int]


class Quota(NamedTuple):
    """The quota of one flavor and resource in a ClusterQueue or Cohort; a limit of None means unlimited."""

    nominal: int
    borrowing_limit: int | None = None
    lending_limit: int | None = None


class ResourceNode:
    """A node of the tree: a ClusterQueue or a Cohort."""

    __slots__ = ("local_quota", "name", "parent", "quotas", "subtree_quota", "usage")

    def __init__(self, name: str) -> None:
        self.name = name
        self.parent: Cohort | None = None
        self.quotas: dict[FlavorResource, Quota] = {}
        self.subtree_quota: FlavorResourceQuantities = {}
        self.local_quota: FlavorResourceQuantities = {}
        self.usage: FlavorResourceQuantities = {}

    def local_available(self, flavor_resource: FlavorResource) -> int:
        """The unused part of the quota that this node does not lend."""
        local = self.local_quota.get(flavor_resource)
        return max(0, local - self.usage.get(flavor_resource, 0)) if local else 0

    def available(self, flavor_resource: FlavorResource) -> int:
        """The unused quota of this node and of its ancestors; negative when quota was reduced below usage."""
        used, subtree = self.usage.get(flavor_resource, 0), self.subtree_quota.get(flavor_resource, 0)
        if self.parent is None:
            return subtree - used
        parent_available = self.parent.available(flavor_resource)
        quota, local = self.quotas.get(flavor_resource), self.local_quota.get(flavor_resource, 0)
        if quota is not None and quota.borrowing_limit is not None:
            parent_available = min(parent_available, subtree - local - max(0, used - local) + quota.borrowing_limit)
        return max(0, local - used) + parent_available

    def potential_available(self, flavor_resource: FlavorResource) -> int:
        """The maximum that this node could use if nothing else used quota."""
        subtree = self.subtree_quota.get(flavor_resource, 0)
        if self.parent is None:
            return subtree
        maximum = self.local_quota.get(flavor_resource, 0) + self.parent.potential_available(flavor_resource)
        quota = self.quotas.get(flavor_resource)
        if quota is not None and quota.borrowing_limit is not None:
            maximum = min(maximum, subtree + quota.borrowing_limit)
        return maximum

    def add_usage(self, flavor_resource: FlavorResource, amount: int) -> None:
        """Add usage; the part above the local quota counts in the parent too."""
        beyond = amount - self.local_available(flavor_resource)
        self.usage[flavor_resource] = self.usage.get(flavor_resource, 0) + amount
        if self.parent is not None and beyond > 0:
            self.parent.add_usage(flavor_resource, beyond)

    def remove_usage(self, flavor_resource: FlavorResource, amount: int) -> None:
        """Remove usage; the exact reverse of `add_usage`."""
        beyond = self.usage.get(flavor_resource, 0) - self.local_quota.get(flavor_resource, 0)
        self.usage[flavor_resource] = self.usage.get(flavor_resource, 0) - amount
        if self.parent is not None and beyond > 0:
            self.parent.remove_usage(flavor_resource, min(amount, beyond))

    def add_usages(self, quantities: Mapping[FlavorResource, int]) -> None:
        for flavor_resource, amount in quantities.items():
            self.add_usage(flavor_resource, amount)

    def remove_usages(self, quantities: Mapping[FlavorResource, int]) -> None:
        for flavor_resource, amount in quantities.items():
            self.remove_usage(flavor_resource, amount)

    def is_within_nominal(self, flavor_resources: Iterable[FlavorResource]) -> bool:
        """Whether its usage of all these stays within its own quota."""
        return all(self.usage.get(key, 0) <= self.subtree_quota.get(key, 0) for key in flavor_resources)

    def fits_in_quota(self, requests: Mapping[FlavorResource, int]) -> tuple[bool, FlavorResourceQuantities]:
        """Whether requests fit into its own quota, and the part of them that its parent has to provide."""
        fits = all(self.usage.get(key, 0) + amount <= self.subtree_quota.get(key, 0) for key, amount in requests.items())
        return fits, {key: max(0, amount - self.local_available(key)) for key, amount in requests.items()}

    def is_borrowing_with(self, flavor_resource: FlavorResource, amount: int) -> bool:
        """Whether it would borrow if it used this amount more."""
        return self.usage.get(flavor_resource, 0) + amount > self.subtree_quota.get(flavor_resource, 0)

    def ancestors(self) -> Iterator[Cohort]:
        """Its parent first, the root last."""
        node = self.parent
        while node is not None:
            yield node
            node = node.parent

    def _set_subtree_quota(self, subtree_quota: FlavorResourceQuantities) -> None:
        self.subtree_quota = subtree_quota
        self.local_quota = {
            key: max(0, subtree_quota.get(key, 0) - quota.lending_limit)
            for key, quota in self.quotas.items()
            if quota.lending_limit is not None
        }


class ClusterQueueNode(ResourceNode):
    """A ClusterQueue; `generation` increases whenever more may fit than before."""

    __slots__ = ("generation",)

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.generation = 0

    def rebuild(self) -> None:
        self.generation += 1
        self._set_subtree_quota({key: quota.nominal for key, quota in self.quotas.items()})


class Cohort(ResourceNode):
    """A Cohort: its own quota and the quota that its members lend."""

    __slots__ = ("cluster_queues", "cohorts")

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.cohorts: dict[str, Cohort] = {}
        self.cluster_queues: dict[str, ClusterQueueNode] = {}

    @property
    def root(self) -> Cohort:
        node = self
        while node.parent is not None:
            node = node.parent
        return node

    @property
    def has_cycle(self) -> bool:
        """Whether a Cohort on the way to the root is its own ancestor."""
        seen: set[int] = set()
        node: Cohort | None = self
        while node is not None:
            if id(node) in seen:
                return True
            seen.add(id(node))
            node = node.parent
        return False

    def height(self) -> int:
        """The distance to the farthest ClusterQueue."""
        minimum = 1 if self.cluster_queues or self.cohorts else 0
        return max([minimum, *(cohort.height() + 1 for cohort in self.cohorts.values())])

    def subtree_cluster_queues(self) -> Iterator[ClusterQueueNode]:
        yield from self.cluster_queues.values()
        for cohort in self.cohorts.values():
            yield from cohort.subtree_cluster_queues()

    def rebuild(self) -> None:
        """Sum up quotas and usage of all children."""
        subtree: FlavorResourceQuantities = {key: quota.nominal for key, quota in self.quotas.items()}
        usage: FlavorResourceQuantities = {}
        children: list[Cohort | ClusterQueueNode] = [*self.cohorts.values(), *self.cluster_queues.values()]
        for child in children:
            child.rebuild()
            for key, amount in child.subtree_quota.items():
                subtree[key] = subtree.get(key, 0) + amount - child.local_quota.get(key, 0)
            for key, amount in child.usage.items():
                usage[key] = usage.get(key, 0) + max(0, amount - child.local_quota.get(key, 0))
        self.usage = usage
        self._set_subtree_quota(subtree)


def lowest_fitting_height(queue: ClusterQueueNode, flavor_resource: FlavorResource, amount: int) -> tuple[int, bool]:
    """The height of the smallest subtree around a ClusterQueue that fits the amount, and whether a larger subtree exists."""
    quota = queue.quotas.get(flavor_resource)
    nominal = quota.nominal if quota is not None else 0
    if queue.parent is None or queue.usage.get(flavor_resource, 0) + amount <= nominal:
        return 0, queue.parent is not None
    remaining = amount - queue.local_available(flavor_resource)
    for cohort in queue.ancestors():
        if not cohort.is_borrowing_with(flavor_resource, remaining):
            return cohort.height(), cohort.parent is not None
        remaining -= cohort.local_available(flavor_resource)
    return queue.parent.root.height(), False


Q = TypeVar("Q", bound=ClusterQueueNode)


class QuotaTree(Generic[Q]):
    """All trees of a cluster. A Cohort is explicit when it has an object; an implicit one exists while it has members."""

    def __init__(self) -> None:
        self.cluster_queues: dict[str, Q] = {}
        self.cohorts: dict[str, Cohort] = {}
        self._explicit: set[str] = set()

    def put_cluster_queue(self, queue: Q, cohort: str, quotas: Mapping[FlavorResource, Quota]) -> None:
        """Add a ClusterQueue, or update its Cohort and quotas."""
        old_parent = queue.parent
        moved = (old_parent.name if old_parent else "") != cohort
        if self.cluster_queues.get(queue.name) is queue and not moved and queue.quotas == quotas:
            return
        self.cluster_queues[queue.name] = queue
        queue.quotas = dict(quotas)
        self._attach(queue, cohort)
        if old_parent is not queue.parent:
            self._refresh_left(old_parent)
        self._refresh(queue)

    def drop_cluster_queue(self, name: str) -> None:
        queue = self.cluster_queues.pop(name, None)
        if queue is not None:
            old_parent = queue.parent
            self._attach(queue, "")
            self._refresh_left(old_parent)

    def put_cohort(self, name: str, parent: str, quotas: Mapping[FlavorResource, Quota]) -> None:
        """Add an explicit Cohort, or update it."""
        cohort = self._cohort(name)
        self._explicit.add(name)
        old_parent = cohort.parent
        cohort.quotas = dict(quotas)
        self._attach(cohort, parent)
        if old_parent is not cohort.parent:
            self._refresh_left(old_parent)
        self._refresh(cohort)

    def drop_cohort(self, name: str) -> None:
        """Remove a Cohort's own quota and parent; it stays as an implicit one while it has members."""
        cohort = self.cohorts.get(name)
        if cohort is None:
            return
        self._explicit.discard(name)
        old_parent = cohort.parent
        cohort.quotas = {}
        self._attach(cohort, "")
        self._refresh(cohort)
        self._refresh_left(old_parent)
        self._drop_if_unused(cohort)

    def _cohort(self, name: str) -> Cohort:
        return self.cohorts.setdefault(name, Cohort(name))

    def _attach(self, node: ResourceNode, parent: str) -> None:
        if node.parent is not None:
            (node.parent.cohorts if isinstance(node, Cohort) else node.parent.cluster_queues).pop(node.name, None)
        node.parent = self._cohort(parent) if parent else None
        if node.parent is None:
            return
        if isinstance(node, Cohort):
            node.parent.cohorts[node.name] = node
        elif isinstance(node, ClusterQueueNode):
            node.parent.cluster_queues[node.name] = node

    def _refresh(self, node: ResourceNode) -> None:
        if isinstance(node, ClusterQueueNode) and node.parent is None:
            node.rebuild()
            return
        cohort = node if isinstance(node, Cohort) else node.parent
        if cohort is not None and not cohort.has_cycle:
            cohort.root.rebuild()

    def _refresh_left(self, old_parent: Cohort | None) -> None:
        """Recompute the Cohort that a node has left."""
        if old_parent is not None:
            self._refresh(old_parent)
            self._drop_if_unused(old_parent)

    def _drop_if_unused(self, cohort: Cohort) -> None:
        used = cohort.name in self._explicit or cohort.cluster_queues or cohort.cohorts or cohort.parent is not None
        if not used:
            self.cohorts.pop(cohort.name, None)
