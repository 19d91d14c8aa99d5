"""The nodes as all pods with the same wants see them: who takes such a pod, how well it would lie there, and why not elsewhere.

A group follows the nodes' changes: one that has not changed is not looked at again, so that the next pod with the same wants
costs the same with ten nodes and with ten thousand.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING

from sliceworks.twin.scheduler.scores import local_score
from sliceworks.twin.scheduler.verdicts import NOT_CHOSEN, PORTS_TAKEN, TAINTED, UNSCHEDULABLE, Verdict, short_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from random import Random

    from sliceworks.twin.scheduler.nodes import Kind, Node
    from sliceworks.twin.scheduler.pods import Wants
    from sliceworks.twin.scheduler.scores import Images

Entry = tuple[int, float, int, "Node"]
Taste = tuple[int, int]


def unchanging(wants: Wants, node: Node) -> Verdict | Taste:
    """What the node itself says: a refusal, or how many taints discourage the pod and how much it likes the node."""
    if node.unschedulable and not wants.tolerations.bears_unschedulable:
        return UNSCHEDULABLE
    if node.taints and wants.tolerations.refuses(node.taints):
        return TAINTED
    choice = wants.choice
    if not choice.accepts(node.name, node.labels):
        return NOT_CHOSEN
    disliked = wants.tolerations.dislikes(node.taints) if node.taints else 0
    return disliked, choice.liking(node.name, node.labels) if choice.preferred else 0


def unchosen(wants: Wants, kind: Kind) -> Verdict:
    """What a node of some kind says that is not chosen."""
    unschedulable, taints = kind
    if unschedulable and not wants.tolerations.bears_unschedulable:
        return UNSCHEDULABLE
    return TAINTED if taints and wants.tolerations.refuses(taints) else NOT_CHOSEN


def lacking(wants: Wants, node: Node) -> Verdict | None:
    """What of the node is taken already."""
    if wants.ports and not node.has_free(wants.ports):
        return PORTS_TAKEN
    free = node.free
    short = [name for name, amount in wants.requests if amount > free.get(name, 0)]
    full = len(node.pods) >= node.most_pods
    if not short and not full:
        return None
    possible = all(amount <= node.allocatable.get(name, 0) for name, amount in wants.requests if name in short)
    return short_of(("pods", *short) if full else tuple(short), possible)


class Group:
    """The nodes for one kind of wants. Nodes that take such pods are ordered by how well they suit, best first."""

    def __init__(self, wants: Wants, images: Images, chance: Random) -> None:
        self.wants = wants
        self.position = -1
        self.pair: tuple[str, str] | None = None
        self.fitting: dict[Node, Entry] = {}
        self.refusing: dict[Node, Verdict] = {}
        self.counts: dict[Verdict, int] = {}
        self.kinds: dict[Kind, int] = {}
        self._tastes: dict[Node, tuple[int, Verdict | Taste, Kind]] = {}
        self._heaps: dict[Taste, list[Entry]] = {}
        self._images = images
        self._chance = chance

    @property
    def size(self) -> int:
        """How many nodes it remembers."""
        return len(self._tastes)

    def follow(self, changed: list[Node]) -> None:
        """Look at changed nodes that may count; where a label is asked for, at those that have or had it."""
        nodes = dict.fromkeys(changed)
        if self.pair is None:
            self.look(nodes)
        else:
            key, value = self.pair
            self.look([node for node in nodes if node.labels.get(key) == value or node in self._tastes])

    def follow_chosen(self, chosen: Iterable[Node]) -> None:
        """The same, when more has changed than there are nodes with the label."""
        since = self.position
        self.look([node for node in dict.fromkeys((*chosen, *self._tastes)) if node.touched >= since])

    def look(self, nodes: Iterable[Node]) -> None:
        """Look at nodes that are new or have changed."""
        wants, tastes = self.wants, self._tastes
        for node in nodes:
            known = tastes.get(node)
            if known is None or known[0] != node.version:
                known = self._taste(node, known)
                if known is None:
                    continue
            taste = known[1]
            if isinstance(taste, Verdict):
                self._refuse(node, taste)
            elif verdict := lacking(wants, node):
                self._refuse(node, verdict)
            else:
                self._fit(node, taste)

    def _taste(self, node: Node, known: tuple[int, Verdict | Taste, Kind] | None) -> tuple[int, Verdict | Taste, Kind] | None:
        """Look at a node itself anew; None when it is gone."""
        if known is not None:
            self.kinds[known[2]] -= 1
        if node.gone:
            self._forget(node)
            self._tastes.pop(node, None)
            return None
        self.kinds[node.kind] = self.kinds.get(node.kind, 0) + 1
        found = self._tastes[node] = node.version, unchanging(self.wants, node), node.kind
        return found

    def knows(self, node: Node) -> bool:
        """Whether it has looked at a node; those it has not looked at are not chosen."""
        return node in self._tastes

    def outside(self, kinds: Mapping[Kind, int]) -> dict[Verdict, int]:
        """What the nodes say that it has not looked at, given how many there are of each kind."""
        if self.pair is None:
            return {}
        found: dict[Verdict, int] = {}
        for kind, number in kinds.items():
            verdict = unchosen(self.wants, kind)
            found[verdict] = found.get(verdict, 0) + number - self.kinds.get(kind, 0)
        return found

    def _forget(self, node: Node) -> None:
        self.fitting.pop(node, None)
        verdict = self.refusing.pop(node, None)
        if verdict is not None:
            self.counts[verdict] -= 1

    def _refuse(self, node: Node, verdict: Verdict) -> None:
        known = self.refusing.get(node)
        if known is verdict:
            return
        self._forget(node)
        self.refusing[node] = verdict
        self.counts[verdict] = self.counts.get(verdict, 0) + 1

    def _fit(self, node: Node, taste: Taste) -> None:
        if node in self.refusing:
            self._forget(node)
        score = local_score(self.wants, node, self._images)
        entry = self.fitting[node] = (-score, self._chance.random(), node.index, node)
        heap = self._heaps.get(taste)
        if heap is None:
            heap = self._heaps[taste] = []
        heappush(heap, entry)
        if len(heap) > 64 + 4 * len(self.fitting):
            self._cleared(heap)

    def _cleared(self, heap: list[Entry]) -> None:
        """Drop what no longer holds."""
        heap[:] = [each for each in heap if self.fitting.get(each[3]) is each]
        heapify(heap)

    def best(self) -> Node | None:
        """The node that suits best; among equals chance decides."""
        heaps = self._filled()
        if not heaps:
            return None
        if len(heaps) == 1:
            return next(iter(heaps.values()))[0][3]
        most_taints, most_liking = max(taste[0] for taste in heaps), max(taste[1] for taste in heaps)
        best = max(
            ((normal(taste, most_taints, most_liking) - heap[0][0], heap[0][1], heap[0][3]) for taste, heap in heaps.items()),
            key=lambda each: each[:2],
        )
        return best[2]

    def _filled(self) -> dict[Taste, list[Entry]]:
        """The heaps whose first entry holds."""
        filled: dict[Taste, list[Entry]] = {}
        fitting = self.fitting
        for taste, heap in self._heaps.items():
            while heap and fitting.get(heap[0][3]) is not heap[0]:
                heappop(heap)
            if heap:
                filled[taste] = heap
        return filled

    def some(self) -> Iterator[tuple[Node, int, Taste]]:
        """All nodes that fit, with score and taste, the better ones roughly first."""
        fitting = self.fitting
        heaps = self._filled()
        for taste, heap in heaps.items():
            if len(heaps) == 1 and len(heap) > 64 + len(fitting) * 5 // 4:
                self._cleared(heap)
            for entry in heap:
                if fitting.get(entry[3]) is entry:
                    yield entry[3], -entry[0], taste


def normal(taste: Taste, most_taints: int, most_liking: int) -> int:
    """What taints and preferences add to a score, weighed against the other nodes."""
    bearing = 100 - (100 * taste[0] // most_taints if most_taints else 0)
    liking = 100 * taste[1] // most_liking if most_liking else 0
    return 3 * bearing + 2 * liking
