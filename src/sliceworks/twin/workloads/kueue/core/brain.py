"""Everything Kueue has to remember to decide: quotas, flavors, queues and the workloads in them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from sliceworks.twin.workloads.kueue.core import cycle
from sliceworks.twin.workloads.kueue.core.model import Item, Key, Policy, Queue
from sliceworks.twin.workloads.kueue.core.pending import GENERIC, Pending
from sliceworks.twin.workloads.kueue.core.tree import Tree

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from sliceworks.twin.workloads.kueue.core.cycle import Entry
    from sliceworks.twin.workloads.kueue.core.model import Flavor, Group
    from sliceworks.twin.workloads.kueue.core.quotas import Cell, Cohort, Quota


class QueueSpec(NamedTuple):
    """A ClusterQueue as it is written."""

    cohort: str
    quotas: Mapping[Cell, Quota]
    groups: tuple[Group, ...]
    policy: Policy
    strategy: str


class Refused(NamedTuple):
    """A head that was not looked at further."""

    item: Item
    message: str
    reason: str = GENERIC


class Round(NamedTuple):
    """What one cycle did."""

    entries: list[Entry]
    refused: list[Refused]


class Brain:
    """Tell it of every change, and call `cycle` while there is something `ready`."""

    def __init__(self, veto: Callable[[Item], Refused | None] = lambda _: None) -> None:
        self.tree: Tree[Queue] = Tree()
        self.flavors: dict[str, Flavor] = {}
        self.pending: dict[str, Pending] = {}
        self.local: dict[Key, str] = {}
        self.items: dict[Key, Item] = {}
        self._members: dict[Key, dict[Key, Item]] = {}
        self._veto = veto
        self._seen: set[Any] = set()
        self._quiet = False

    def stir(self) -> None:
        """Something has changed: what failed before may succeed."""
        self._seen.clear()
        self._quiet = False

    # Flavors, queues and cohorts.

    def put_flavor(self, flavor: Flavor) -> None:
        self.flavors[flavor.name] = flavor
        self.stir()

    def drop_flavor(self, name: str) -> None:
        self.flavors.pop(name, None)
        self.stir()

    def put_queue(self, name: str, spec: QueueSpec) -> Queue:
        """Add or change a ClusterQueue; what waits in it or beside it is tried again."""
        queue = self.tree.leaves.get(name)
        known = queue is not None
        queue = queue or Queue(name)
        queue.groups, queue.policy, queue.strategy = spec.groups, spec.policy, spec.strategy
        self.tree.put_leaf(queue, spec.cohort, spec.quotas)
        self.pending.setdefault(name, Pending()).strategy = spec.strategy
        if not known:
            for local, target in self.local.items():
                if target == name:
                    self._fill(local)
        self.wake(name)
        return queue

    def activate(self, name: str, active: bool) -> None:
        queue = self.tree.leaves[name]
        if queue.active != active:
            queue.active = active
            self.stir()

    def drop_queue(self, name: str) -> None:
        self.tree.drop_leaf(name)
        self.pending.pop(name, None)
        self.stir()

    def put_cohort(self, name: str, parent: str, quotas: Mapping[Cell, Quota]) -> None:
        self.tree.put_cohort(name, parent, quotas)
        cohort = self.tree.cohorts[name]
        if not cohort.cyclic:
            self._wake_cohort(cohort.root)
        self.stir()

    def drop_cohort(self, name: str) -> None:
        self.tree.drop_cohort(name)
        self.stir()

    def put_local(self, key: Key, cluster_queue: str) -> None:
        """Point a LocalQueue to a ClusterQueue."""
        old = self.local.get(key)
        if old == cluster_queue:
            return
        self.local[key] = cluster_queue
        for item in self._members.get(key, {}).values():
            if old is not None and old in self.pending:
                self.pending[old].drop(item.key)
        self._fill(key)

    def drop_local(self, key: Key) -> None:
        old = self.local.pop(key, None)
        if old is not None and old in self.pending:
            for item in self._members.get(key, {}).values():
                self.pending[old].drop(item.key)

    def _fill(self, local: Key) -> None:
        pending = self.pending.get(self.local[local])
        if pending is not None:
            for item in self._members.get(local, {}).values():
                pending.push(item)
        self.stir()

    # Workloads.

    def submit(self, item: Item) -> None:
        """A workload waits, or what it wants has changed."""
        self.withdraw(item.key)
        self.items[item.key] = item
        self._members.setdefault(item.queue, {})[item.key] = item
        pending = self._pending_of(item)
        if pending is not None:
            pending.push(item)
            self.stir()

    def withdraw(self, key: Key) -> Item | None:
        """A workload is gone, has ended or waits no more; what it had is given back."""
        item = self.items.pop(key, None)
        if item is None:
            return None
        self._members.get(item.queue, {}).pop(key, None)
        pending = self._pending_of(item)
        if pending is not None:
            pending.drop(key)
        if self.holds(item):
            self.tree.leaves[item.cluster_queue].release(item)
            self.wake(item.cluster_queue)
        return item

    def holds(self, item: Item) -> bool:
        """Whether a workload has quota now."""
        home = self.tree.leaves.get(item.cluster_queue)
        return home is not None and home.items.get(item.key) is item

    def reserve(self, item: Item) -> None:
        """A workload has its quota already: as it is written in its status."""
        self.withdraw(item.key)
        self.items[item.key] = item
        home = self.tree.leaves.get(item.cluster_queue)
        if home is not None:
            home.take(item)
            self.stir()

    def _pending_of(self, item: Item) -> Pending | None:
        return self.pending.get(self.local.get(item.queue, ""))

    # Scheduling.

    def wake(self, name: str) -> None:
        """Try all again that wait in a ClusterQueue or in its tree."""
        queue = self.tree.leaves.get(name)
        if queue is None:
            return
        self.stir()
        if queue.parent is None:
            self.pending[name].wake()
        elif not queue.parent.cyclic:
            self._wake_cohort(queue.parent.root)

    def _wake_cohort(self, root: Cohort) -> None:
        for leaf in root.subtree_leaves():
            if leaf.name in self.pending:
                self.pending[leaf.name].wake()

    @property
    def ready(self) -> bool:
        """Whether a cycle may do something."""
        return not self._quiet and any(map(self._usable, self.pending))

    def _usable(self, name: str) -> bool:
        return bool(self.pending[name]) and self.tree.leaves[name].active

    def cycle(self) -> Round:
        """Decide on the heads of all queues once. Those that were not admitted are back in their queues."""
        heads = list(self._heads())
        refused = [found for item in heads if (found := self._circular(item) or self._veto(item)) is not None]
        vetoed = {found.item.key for found in refused}
        signature = frozenset((item.key, repr(item.tried)) for item in heads)
        entries = cycle.run(self.tree, self.flavors, [item for item in heads if item.key not in vetoed])
        progress = False
        for entry in entries:
            progress = progress or entry.admitted or bool(entry.evicting)
            if entry.admitted:
                self._members.get(entry.item.queue, {}).pop(entry.item.key, None)
            else:
                entry.item.tried = entry.tried
                self.pending[entry.queue.name].give_back(entry.item, entry.reason)
        for found in refused:
            self.pending[found.item.cluster_queue].give_back(found.item, found.reason)
        self._note(signature, progress)
        return Round(entries, refused)

    def _circular(self, item: Item) -> Refused | None:
        """A queue whose cohorts go round has no quota that could be told."""
        parent = self.tree.leaves[item.cluster_queue].parent
        if parent is None or not parent.cyclic:
            return None
        return Refused(item, f"ClusterQueue {item.cluster_queue} is inactive")

    def _heads(self) -> Iterable[Item]:
        for name, pending in self.pending.items():
            if self._usable(name):
                item = pending.pop()
                if item is not None:
                    item.cluster_queue = name
                    yield item

    def _note(self, signature: Any, progress: bool) -> None:
        """Heads that go back at once would be tried for ever: once the same ones have failed alike, wait for a change."""
        if progress:
            self._seen.clear()
        elif signature in self._seen:
            self._quiet = True
        else:
            self._seen.add(signature)
