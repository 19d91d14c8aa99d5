"""Schedules one pod: finds the best node, or why every node was rejected. Pure."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from sliceworks.base import clock
from sliceworks.twin.scheduler.node_plugins import (
    NO_NODES,
    NODE_NAME_MISMATCH,
    FilterStatus,
    NodePreference,
    check_node,
    check_resources,
    format_fit_error,
    mismatch_status,
    normalize_score,
)
from sliceworks.twin.scheduler.topology_plugins import TopologyFilter, TopologyScore
from sliceworks.twin.scheduler.volume_binding import PLUGIN, VolumeFilter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from sliceworks.twin.scheduler.node_info import NodeInfo
    from sliceworks.twin.scheduler.node_plugins import NodeGroup
    from sliceworks.twin.scheduler.pod_info import PodInfo
    from sliceworks.twin.scheduler.snapshot import Snapshot
    from sliceworks.twin.scheduler.topology_plugins import PodDelta

NodeStatuses = dict["NodeInfo", FilterStatus]
_MAX_SCORED = 100


class ScheduleResult(NamedTuple):
    """The node that a pod is scheduled to."""

    node: str


class Unschedulable(NamedTuple):
    """Why no node is feasible: kube-scheduler's message, the plugins that rejected nodes, and where preemption may help."""

    message: str
    failed_plugins: frozenset[str]
    resolvable: int = 0
    resolvable_nodes: Callable[[], list[NodeInfo]] = list
    unresolvable_nomination: bool = False
    preemption_may_help: bool = True


def schedule_pod(pod: PodInfo, snapshot: Snapshot) -> ScheduleResult | Unschedulable:
    """Find a node for a pod in a snapshot."""
    if not snapshot.nodes:
        return Unschedulable(NO_NODES, frozenset(), preemption_may_help=False)
    return _SchedulingCycle(pod, snapshot).run()


def best_nodes(pod: PodInfo, snapshot: Snapshot) -> list[str]:
    """All nodes with the highest score: the scheduler selects a random one of them."""
    cycle = _SchedulingCycle(pod, snapshot)
    candidates = list(cycle.candidates(snapshot.group(pod.shape.node)))
    return [node.name for node in _best(candidates, TopologyScore(pod, snapshot, cycle.spreads))]


class _SchedulingCycle:
    def __init__(self, pod: PodInfo, snapshot: Snapshot) -> None:
        self.pod = pod
        self.snapshot = snapshot
        shape = pod.shape
        self.spreads = snapshot.default_spreads.spreads(pod)
        terms = shape.terms
        self.topology: TopologyFilter | None = None
        if terms.affinity or terms.anti_affinity or self.spreads.hard or snapshot.existing_terms.anti_affinity:
            self.topology = TopologyFilter(pod, snapshot, self.spreads)
        self.volumes = VolumeFilter(pod, snapshot.volumes) if pod.claims else None
        self.node_names = shape.node.affinity.node_names() if shape.node.affinity.required else None

    def run(self) -> ScheduleResult | Unschedulable:
        pod, snapshot = self.pod, self.snapshot
        if self.node_names is not None and not self.node_names:
            return self._reject_early("pod affinity terms conflict", "NodeAffinity")
        if self.volumes is not None and self.volumes.problem:
            return self._reject_early(self.volumes.problem, PLUGIN)
        nominated = snapshot.nodes.get(pod.nominated) if pod.nominated else None
        if nominated is not None and check_fit(pod, nominated, self.topology, snapshot) is None:
            return ScheduleResult(nominated.name)
        group = snapshot.group(pod.shape.node)
        node = self._select_node(group)
        return ScheduleResult(node.name) if node is not None else self._explain()

    def _reject_early(self, reason: str, plugin: str) -> Unschedulable:
        """The result of a failed PreFilter; the end of the message is kube-scheduler's own."""
        message = f"0/{len(self.snapshot.nodes)} nodes are available: {reason}. not found"
        return Unschedulable(message, frozenset((plugin,)), preemption_may_help=False)

    def _select_node(self, group: NodeGroup) -> NodeInfo | None:
        snapshot, terms = self.snapshot, self.pod.shape.terms
        topology_score = None
        if self.spreads.soft or terms.preferred or snapshot.existing_terms.weights:
            topology_score = TopologyScore(self.pod, snapshot, self.spreads)
        if not self._needs_pod_filter and (topology_score is None or not topology_score.is_significant):
            return group.best()
        best = _best(list(self.candidates(group)), topology_score)
        return clock.rng().choice(best) if len(best) > 1 else best[0] if best else None

    def candidates(self, group: NodeGroup) -> Iterator[tuple[NodeInfo, int, NodePreference]]:
        """Feasible nodes to score, at most a hundred."""
        if not self._needs_pod_filter:
            yield from islice(group.candidates(), _MAX_SCORED)
            return
        feasible = 0
        for candidate in group.candidates():
            if self._filter(candidate[0]) is None:
                yield candidate
                feasible += 1
                if feasible >= _MAX_SCORED:
                    return

    def _filter(self, node: NodeInfo) -> FilterStatus | None:
        """Why a node of the group's feasible ones rejects the pod because of volumes or other pods."""
        if node.name in self.snapshot.nominated:
            return check_fit(self.pod, node, self.topology, self.snapshot)
        status = self.volumes.filter(node) if self.volumes is not None else None
        return status or (self.topology.filter(node) if self.topology is not None else None)

    def _explain(self) -> Unschedulable:
        snapshot, group = self.snapshot, self.snapshot.group(self.pod.shape.node)
        by_pods = {node: status for node in group.feasible if (status := self._filter(node))} if self._needs_pod_filter else {}
        if self.node_names is not None:
            return self._explain_named(group, by_pods)
        counts = dict(group.counts)
        for status, number in group.count_unmatched(snapshot.node_classes).items():
            counts[status] = counts.get(status, 0) + number
        for status in by_pods.values():
            counts[status] = counts.get(status, 0) + 1
        return self._unschedulable(counts, lambda: {**group.rejected, **by_pods}, group, by_pods)

    @property
    def _needs_pod_filter(self) -> bool:
        return self.topology is not None or self.volumes is not None or bool(self.snapshot.nominated)

    def _explain_named(self, group: NodeGroup, by_pods: NodeStatuses) -> Unschedulable:
        """The result when node affinity restricts the pod to named nodes."""
        nodes = [self.snapshot.nodes[name] for name in self.node_names or () if name in self.snapshot.nodes]
        statuses = {node: self._get_status(node, group, by_pods) or NODE_NAME_MISMATCH for node in nodes}
        counts: dict[FilterStatus, int] = {NODE_NAME_MISMATCH: len(self.snapshot.nodes) - len(nodes)}
        for status in statuses.values():
            counts[status] = counts.get(status, 0) + 1
        return self._unschedulable(counts, lambda: statuses, group, by_pods)

    def _unschedulable(
        self, counts: dict[FilterStatus, int], statuses: Callable[[], NodeStatuses], group: NodeGroup, by_pods: NodeStatuses
    ) -> Unschedulable:
        nomination = self.snapshot.nodes.get(self.pod.nominated)
        status = self._get_status(nomination, group, by_pods) if nomination is not None else None
        return Unschedulable(
            format_fit_error(len(self.snapshot.nodes), ((status.reasons, number) for status, number in counts.items())),
            frozenset(status.plugin for status, number in counts.items() if number),
            sum(number for status, number in counts.items() if status.resolvable),
            lambda: sorted((node for node, status in statuses().items() if status.resolvable), key=_index),
            status is not None and not status.resolvable,
        )

    def _get_status(self, node: NodeInfo, group: NodeGroup, by_pods: NodeStatuses) -> FilterStatus | None:
        if not group.has(node):
            return mismatch_status(group.requirements, node.node_class)
        return group.rejected.get(node) or by_pods.get(node)


def _best(candidates: list[tuple[NodeInfo, int, NodePreference]], topology_score: TopologyScore | None) -> list[NodeInfo]:
    """The nodes with the highest total score."""
    nodes = [node for node, _, _ in candidates]
    if len(candidates) < 2:
        return nodes
    preferences = {preference for _, _, preference in candidates}
    maxima = max(taints for taints, _ in preferences), max(weight for _, weight in preferences)
    normalized = {preference: normalize_score(preference, *maxima) for preference in preferences}
    topology = topology_score.scores(nodes) if topology_score is not None else [0] * len(candidates)
    totals = [score + normalized[preference] + more for (_, score, preference), more in zip(candidates, topology, strict=True)]
    highest = max(totals)
    return sorted((node for node, total in zip(nodes, totals, strict=True) if total == highest), key=_index)


def check_fit(
    pod: PodInfo, node: NodeInfo, topology: TopologyFilter | None, snapshot: Snapshot, without: Iterable[PodInfo] = ()
) -> FilterStatus | None:
    """Why a node rejects a pod after some of its pods are removed; None if it accepts the pod.

    The pod must fit both with and without the nominated pods of at least its priority.
    """
    removed = [(other, -1) for other in without]
    nominated = snapshot.nominated.get(node.name, {}).values()
    added = [(other, 1) for other in nominated if other.key != pod.key and other.priority >= pod.priority]
    if added:
        status = _filter_node(pod, node, topology, snapshot, [*removed, *added])
        if status is not None:
            return status
    return _filter_node(pod, node, topology, snapshot, removed)


def _filter_node(
    pod: PodInfo, node: NodeInfo, topology: TopologyFilter | None, snapshot: Snapshot, deltas: list[PodDelta]
) -> FilterStatus | None:
    requirements = pod.shape.node
    result = check_node(requirements, node)
    if isinstance(result, FilterStatus):
        return result
    for other, sign in deltas:
        (node.add if sign > 0 else node.remove)(other)
    try:
        status = check_resources(requirements, node)
    finally:
        for other, sign in reversed(deltas):
            (node.remove if sign > 0 else node.add)(other)
    if status is None and pod.claims:
        status = VolumeFilter(pod, snapshot.volumes).filter(node, deltas)
    if status is not None or topology is None:
        return status
    return topology.filter(node, deltas)


def _index(node: NodeInfo) -> int:
    return node.index
