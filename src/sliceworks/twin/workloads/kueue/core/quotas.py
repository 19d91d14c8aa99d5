"""The tree of quotas: ClusterQueues below Cohorts, what each has, lends and borrows, and what is used.

What a node may lend is seen by its parent; the rest, its local quota, is its own. Usage beyond that counts in the parent too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

Cell = tuple[str, str]
"""A flavor and a resource."""
Amounts = dict[Cell, int]


class Quota(NamedTuple):
    """What one node has of a flavor's resource. None: no limit."""

    nominal: int
    borrowing: int | None = None
    lending: int | None = None


class Node:
    """A ClusterQueue or a Cohort as the tree sees it."""

    __slots__ = ("local", "name", "parent", "quotas", "subtree", "usage")

    def __init__(self, name: str) -> None:
        self.name = name
        self.parent: Cohort | None = None
        self.quotas: dict[Cell, Quota] = {}
        self.subtree: Amounts = {}
        self.local: Amounts = {}
        self.usage: Amounts = {}

    def local_available(self, cell: Cell) -> int:
        """What is left of the quota that only this node sees."""
        local = self.local.get(cell)
        return max(0, local - self.usage.get(cell, 0)) if local else 0

    def available(self, cell: Cell) -> int:
        """What is left here and above; negative when more was given than there is."""
        used, subtree = self.usage.get(cell, 0), self.subtree.get(cell, 0)
        if self.parent is None:
            return subtree - used
        above = self.parent.available(cell)
        quota, local = self.quotas.get(cell), self.local.get(cell, 0)
        if quota is not None and quota.borrowing is not None:
            above = min(above, subtree - local - max(0, used - local) + quota.borrowing)
        return max(0, local - used) + above

    def potential(self, cell: Cell) -> int:
        """The most that could ever be used here, were nothing used."""
        subtree = self.subtree.get(cell, 0)
        if self.parent is None:
            return subtree
        most = self.local.get(cell, 0) + self.parent.potential(cell)
        quota = self.quotas.get(cell)
        if quota is not None and quota.borrowing is not None:
            most = min(most, subtree + quota.borrowing)
        return most

    def add(self, cell: Cell, amount: int) -> None:
        """Use some; what exceeds the local quota is used of the parent too."""
        beyond = amount - self.local_available(cell)
        self.usage[cell] = self.usage.get(cell, 0) + amount
        if self.parent is not None and beyond > 0:
            self.parent.add(cell, beyond)

    def remove(self, cell: Cell, amount: int) -> None:
        """Give some back; the exact reverse of `add`."""
        beyond = self.usage.get(cell, 0) - self.local.get(cell, 0)
        self.usage[cell] = self.usage.get(cell, 0) - amount
        if self.parent is not None and beyond > 0:
            self.parent.remove(cell, min(amount, beyond))

    def add_all(self, amounts: Mapping[Cell, int]) -> None:
        for cell, amount in amounts.items():
            self.add(cell, amount)

    def remove_all(self, amounts: Mapping[Cell, int]) -> None:
        for cell, amount in amounts.items():
            self.remove(cell, amount)

    def within_nominal(self, cells: Iterable[Cell]) -> bool:
        """Whether it uses none of these beyond its own quota."""
        return all(self.usage.get(cell, 0) <= self.subtree.get(cell, 0) for cell in cells)

    def fits_in_quota(self, requests: Mapping[Cell, int]) -> tuple[bool, Amounts]:
        """Whether requests fit into its own quota, and what of them its parent would see."""
        fits = all(self.usage.get(cell, 0) + amount <= self.subtree.get(cell, 0) for cell, amount in requests.items())
        return fits, {cell: max(0, amount - self.local_available(cell)) for cell, amount in requests.items()}

    def exceeds(self, cell: Cell, amount: int) -> bool:
        """Whether it would have to borrow for so much more."""
        return self.usage.get(cell, 0) + amount > self.subtree.get(cell, 0)

    def ancestors(self) -> Iterator[Cohort]:
        """Its parent and so on up to the root."""
        node = self.parent
        while node is not None:
            yield node
            node = node.parent

    def _settle(self, subtree: Amounts) -> None:
        self.subtree = subtree
        self.local = {
            cell: max(0, subtree.get(cell, 0) - quota.lending) for cell, quota in self.quotas.items() if quota.lending is not None
        }


class Leaf(Node):
    """A ClusterQueue: `generation` grows whenever more may fit than before."""

    __slots__ = ("generation",)

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.generation = 0

    def rebuild(self) -> None:
        self.generation += 1
        self._settle({cell: quota.nominal for cell, quota in self.quotas.items()})


class Cohort(Node):
    """A Cohort: what its members lend, and what it has itself."""

    __slots__ = ("cohorts", "leaves")

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.cohorts: dict[str, Cohort] = {}
        self.leaves: dict[str, Leaf] = {}

    @property
    def root(self) -> Cohort:
        node = self
        while node.parent is not None:
            node = node.parent
        return node

    @property
    def cyclic(self) -> bool:
        """Whether it is above itself."""
        seen: set[int] = set()
        node: Cohort | None = self
        while node is not None:
            if id(node) in seen:
                return True
            seen.add(id(node))
            node = node.parent
        return False

    def height(self) -> int:
        """How far the farthest ClusterQueue is."""
        least = 1 if self.leaves or self.cohorts else 0
        return max([least, *(cohort.height() + 1 for cohort in self.cohorts.values())])

    def subtree_leaves(self) -> Iterator[Leaf]:
        yield from self.leaves.values()
        for cohort in self.cohorts.values():
            yield from cohort.subtree_leaves()

    def rebuild(self) -> None:
        """Sum up quotas and usage from below."""
        subtree: Amounts = {cell: quota.nominal for cell, quota in self.quotas.items()}
        usage: Amounts = {}
        children: list[Cohort | Leaf] = [*self.cohorts.values(), *self.leaves.values()]
        for child in children:
            child.rebuild()
            for cell, amount in child.subtree.items():
                subtree[cell] = subtree.get(cell, 0) + amount - child.local.get(cell, 0)
            for cell, amount in child.usage.items():
                usage[cell] = usage.get(cell, 0) + max(0, amount - child.local.get(cell, 0))
        self.usage = usage
        self._settle(subtree)


def lowest_fit(leaf: Leaf, cell: Cell, amount: int) -> tuple[int, bool]:
    """The height of the smallest subtree around a ClusterQueue that has so much more, and whether more than it exists."""
    quota = leaf.quotas.get(cell)
    nominal = quota.nominal if quota is not None else 0
    if leaf.parent is None or leaf.usage.get(cell, 0) + amount <= nominal:
        return 0, leaf.parent is not None
    left = amount - leaf.local_available(cell)
    for node in leaf.ancestors():
        if not node.exceeds(cell, left):
            return node.height(), node.parent is not None
        left -= node.local_available(cell)
    return leaf.parent.root.height(), False
