"""The decision: the node that suits a pod best, or the reasons of every node that does not take it. No I/O, nothing is changed."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from sliceworks.base import clock
from sliceworks.twin.scheduler.groups import Taste, lacking, normal, unchanging, unchosen
from sliceworks.twin.scheduler.links import Links
from sliceworks.twin.scheduler.preferences import Preferences
from sliceworks.twin.scheduler.verdicts import NO_NODES, NOT_NAMED, Verdict, summary

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from sliceworks.twin.scheduler.groups import Group
    from sliceworks.twin.scheduler.nodes import Node
    from sliceworks.twin.scheduler.pods import Pod
    from sliceworks.twin.scheduler.snapshot import Snapshot

Verdicts = dict["Node", Verdict]
_MOST_COMPARED = 100


class Placement(NamedTuple):
    """Where a pod goes."""

    node: str


class Unschedulable(NamedTuple):
    """Why it goes nowhere: the nodes' verdicts in one sentence, the checks that failed, and where preemption could help."""

    message: str
    rules: frozenset[str]
    resolvable: int = 0
    resolvable_nodes: Callable[[], list[Node]] = list
    unresolvable_nomination: bool = False
    may_help: bool = True


def decide(pod: Pod, snapshot: Snapshot) -> Placement | Unschedulable:
    """Find a node for a pod as things are."""
    if not snapshot.nodes:
        return Unschedulable(NO_NODES, frozenset(), may_help=False)
    return _Decision(pod, snapshot).made()


def equals(pod: Pod, snapshot: Snapshot) -> list[str]:
    """All the nodes that suit a pod best: chance decides between them."""
    decision = _Decision(pod, snapshot)
    candidates = list(decision.candidates(snapshot.group(pod.shape.wants)))
    return [node.name for node in _best(candidates, Preferences(pod, snapshot, decision.spreads))]


class _Decision:
    def __init__(self, pod: Pod, snapshot: Snapshot) -> None:
        self.pod = pod
        self.snapshot = snapshot
        shape = pod.shape
        self.spreads = snapshot.families.spreads(pod)
        terms = shape.terms
        links = None
        if terms.affinity or terms.anti_affinity or self.spreads.hard or snapshot.standing.away:
            links = Links(pod, snapshot, self.spreads)
        self.links = links
        self.names = shape.wants.choice.names() if shape.wants.choice.required else None

    def made(self) -> Placement | Unschedulable:
        pod, snapshot = self.pod, self.snapshot
        if self.names is not None and not self.names:
            return self._given_up("pod affinity terms conflict", "NodeAffinity")
        missing = next((claim for claim in pod.claims if (pod.key[0], claim) not in snapshot.claims), None)
        if missing is not None:
            return self._given_up(f'persistentvolumeclaim "{missing}" not found', "VolumeBinding")
        nominated = snapshot.nodes.get(pod.nominated) if pod.nominated else None
        if nominated is not None and fits(pod, nominated, self.links, snapshot) is None:
            return Placement(nominated.name)
        group = snapshot.group(pod.shape.wants)
        node = self._pick(group)
        return Placement(node.name) if node is not None else self._explained()

    def _given_up(self, reason: str, rule: str) -> Unschedulable:
        """No node was looked at; what comes after the reason is what kube-scheduler says then."""
        message = f"0/{len(self.snapshot.nodes)} nodes are available: {reason}. not found"
        return Unschedulable(message, frozenset((rule,)), may_help=False)

    def _pick(self, group: Group) -> Node | None:
        snapshot, terms = self.snapshot, self.pod.shape.terms
        preferences = None
        if self.spreads.soft or terms.preferred or snapshot.standing.pulls:
            preferences = Preferences(self.pod, snapshot, self.spreads)
        if self.links is None and not snapshot.nominated and (preferences is None or not preferences.count):
            return group.best()
        best = _best(list(self.candidates(group)), preferences)
        return clock.randomness().choice(best) if len(best) > 1 else best[0] if best else None

    def candidates(self, group: Group) -> Iterator[tuple[Node, int, Taste]]:
        """Some of the nodes that take the pod: all where they are few."""
        if not self._is_linked:
            yield from islice(group.some(), _MOST_COMPARED)
            return
        found = 0
        for candidate in group.some():
            if self._refusal(candidate[0]) is None:
                yield candidate
                found += 1
                if found >= _MOST_COMPARED:
                    return

    def _refusal(self, node: Node) -> Verdict | None:
        """Why a node that has room does not take the pod."""
        if node.name in self.snapshot.nominated:
            return fits(self.pod, node, self.links, self.snapshot)
        return self.links.refusal(node) if self.links is not None else None

    def _explained(self) -> Unschedulable:
        snapshot, group = self.snapshot, self.snapshot.group(self.pod.shape.wants)
        further = {node: verdict for node in group.fitting if (verdict := self._refusal(node))} if self._is_linked else {}
        if self.names is not None:
            return self._among_named(group, further)
        counts = dict(group.counts)
        for verdict, number in group.outside(snapshot.kinds).items():
            counts[verdict] = counts.get(verdict, 0) + number
        for verdict in further.values():
            counts[verdict] = counts.get(verdict, 0) + 1
        return self._unschedulable(counts, lambda: {**group.refusing, **further}, group, further)

    @property
    def _is_linked(self) -> bool:
        return self.links is not None or bool(self.snapshot.nominated)

    def _among_named(self, group: Group, further: Verdicts) -> Unschedulable:
        """The verdicts when only some nodes were ever asked."""
        nodes = [self.snapshot.nodes[name] for name in self.names or () if name in self.snapshot.nodes]
        verdicts = {node: self._verdict(node, group, further) or NOT_NAMED for node in nodes}
        counts: dict[Verdict, int] = {NOT_NAMED: len(self.snapshot.nodes) - len(nodes)}
        for verdict in verdicts.values():
            counts[verdict] = counts.get(verdict, 0) + 1
        return self._unschedulable(counts, lambda: verdicts, group, further)

    def _unschedulable(
        self, counts: dict[Verdict, int], verdicts: Callable[[], Verdicts], group: Group, further: Verdicts
    ) -> Unschedulable:
        nomination = self.snapshot.nodes.get(self.pod.nominated)
        verdict = self._verdict(nomination, group, further) if nomination is not None else None
        return Unschedulable(
            summary(len(self.snapshot.nodes), ((verdict.reasons, number) for verdict, number in counts.items())),
            frozenset(verdict.rule for verdict, number in counts.items() if number),
            sum(number for verdict, number in counts.items() if verdict.resolvable),
            lambda: sorted((node for node, verdict in verdicts().items() if verdict.resolvable), key=_index),
            verdict is not None and not verdict.resolvable,
        )

    def _verdict(self, node: Node, group: Group, further: Verdicts) -> Verdict | None:
        if not group.knows(node):
            return unchosen(group.wants, node.kind)
        return group.refusing.get(node) or further.get(node)


def _best(candidates: list[tuple[Node, int, Taste]], preferences: Preferences | None) -> list[Node]:
    """The best of some nodes, all that are equally good."""
    if len(candidates) < 2:
        return [node for node, _, _ in candidates]
    tastes = {taste for _, _, taste in candidates}
    most = max(taste[0] for taste in tastes), max(taste[1] for taste in tastes)
    liked = {taste: normal(taste, *most) for taste in tastes}
    more = preferences.scores([node for node, _, _ in candidates]) if preferences is not None else [0] * len(candidates)
    totals = [score + liked[taste] + extra for (_, score, taste), extra in zip(candidates, more, strict=True)]
    highest = max(totals)
    return sorted((node for (node, _, _), total in zip(candidates, totals, strict=True) if total == highest), key=_index)


def fits(pod: Pod, node: Node, links: Links | None, snapshot: Snapshot, without: Iterable[Pod] = ()) -> Verdict | None:
    """Why a node does not take a pod once some of its pods are gone, and those that wait for it with no less priority are there."""
    removed = [(each, -1) for each in without]
    waiting = snapshot.nominated.get(node.name, {}).values()
    added = [(each, 1) for each in waiting if each.key != pod.key and each.priority >= pod.priority]
    if added:
        verdict = _fits(pod, node, links, [*removed, *added])
        if verdict is not None:
            return verdict
    return _fits(pod, node, links, removed)


def _fits(pod: Pod, node: Node, links: Links | None, extra: list[tuple[Pod, int]]) -> Verdict | None:
    wants = pod.shape.wants
    taste = unchanging(wants, node)
    if isinstance(taste, Verdict):
        return taste
    for other, sign in extra:
        (node.add if sign > 0 else node.remove)(other)
    try:
        verdict = lacking(wants, node)
    finally:
        for other, sign in reversed(extra):
            (node.remove if sign > 0 else node.add)(other)
    if verdict is not None or links is None:
        return verdict
    return links.refusal(node, extra)


def _index(node: Node) -> int:
    return node.index
