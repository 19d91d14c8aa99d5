"""All quotas of a cluster: adds, moves and removes ClusterQueues and Cohorts, and keeps the sums right."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

from sliceworks.twin.workloads.kueue.core.quotas import Cohort, Leaf

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sliceworks.twin.workloads.kueue.core.quotas import Cell, Node, Quota

L = TypeVar("L", bound=Leaf)


class Tree(Generic[L]):
    """A Cohort exists when it is written down, and also as long as something is in it."""

    def __init__(self) -> None:
        self.leaves: dict[str, L] = {}
        self.cohorts: dict[str, Cohort] = {}
        self._written: set[str] = set()

    def put_leaf(self, leaf: L, cohort: str, quotas: Mapping[Cell, Quota]) -> None:
        """Add a ClusterQueue, or change where it is and what it has."""
        old = self.leaves.get(leaf.name)
        moved = leaf.parent is None or leaf.parent.name != cohort
        if old is leaf and not (moved and (cohort or leaf.parent)) and leaf.quotas == quotas:
            return
        self.leaves[leaf.name] = leaf
        leaf.quotas = dict(quotas)
        left = leaf.parent
        self._attach(leaf, cohort)
        if left is not None and left is not leaf.parent:
            self._refresh(left)
            self._tidy(left)
        self._refresh(leaf)

    def drop_leaf(self, name: str) -> None:
        leaf = self.leaves.pop(name, None)
        if leaf is None:
            return
        left = leaf.parent
        self._attach(leaf, "")
        if left is not None:
            self._refresh(left)
            self._tidy(left)

    def put_cohort(self, name: str, parent: str, quotas: Mapping[Cell, Quota]) -> None:
        """Write a Cohort down, or change it."""
        cohort = self._cohort(name)
        self._written.add(name)
        left = cohort.parent
        cohort.quotas = dict(quotas)
        self._attach(cohort, parent)
        if left is not None and left is not cohort.parent:
            self._refresh(left)
            self._tidy(left)
        self._refresh(cohort)

    def drop_cohort(self, name: str) -> None:
        """Forget what a Cohort has of its own; it stays while others are in it."""
        cohort = self.cohorts.get(name)
        if cohort is None:
            return
        self._written.discard(name)
        left = cohort.parent
        cohort.quotas = {}
        self._attach(cohort, "")
        self._refresh(cohort)
        if left is not None:
            self._refresh(left)
            self._tidy(left)
        self._tidy(cohort)

    def _cohort(self, name: str) -> Cohort:
        return self.cohorts.setdefault(name, Cohort(name))

    def _attach(self, node: Node, parent: str) -> None:
        if node.parent is not None:
            (node.parent.cohorts if isinstance(node, Cohort) else node.parent.leaves).pop(node.name, None)
        node.parent = self._cohort(parent) if parent else None
        if node.parent is None:
            return
        if isinstance(node, Cohort):
            node.parent.cohorts[node.name] = node
        elif isinstance(node, Leaf):
            node.parent.leaves[node.name] = node

    def _refresh(self, node: Node) -> None:
        if isinstance(node, Leaf) and node.parent is None:
            node.rebuild()
            return
        cohort = node if isinstance(node, Cohort) else node.parent
        if cohort is not None and not cohort.cyclic:
            cohort.root.rebuild()

    def _tidy(self, cohort: Cohort) -> None:
        if cohort.name not in self._written and not cohort.leaves and not cohort.cohorts and cohort.parent is None:
            self.cohorts.pop(cohort.name, None)
