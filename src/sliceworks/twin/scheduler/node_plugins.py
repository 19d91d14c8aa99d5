"""Plugins that depend on one node: NodeAffinity, TaintToleration, NodePorts, NodeResourcesFit and ImageLocality.

A NodeGroup caches their filter and score results for pods with equal requirements.
"""

from __future__ import annotations

from functools import lru_cache
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from random import Random

    from sliceworks.twin.scheduler.node_info import NodeClass, NodeInfo
    from sliceworks.twin.scheduler.pod_info import NodeRequirements

    Images = Callable[[str], int]

PREEMPTION_NOT_HELPFUL = "Preemption is not helpful for scheduling"
NO_PREEMPTION_VICTIMS = "No preemption victims found for incoming pod"
NO_NODES = "no nodes available to schedule pods"
_NO_CLAIMS = "no new claims to deallocate"
_MEBIBYTE = 1024 * 1024
_MIN_IMAGE_BYTES, _MAX_IMAGE_BYTES = 23 * _MEBIBYTE, 1000 * _MEBIBYTE
ScoredNode = tuple[int, float, int, "NodeInfo"]
"""Negative score, a random tie-breaker, and the node with its index."""
NodePreference = tuple[int, int]
"""The number of untolerated PreferNoSchedule taints, and the weight of preferred node affinity."""


class FilterStatus(NamedTuple):
    """Why a plugin rejected a node; `resolvable` says whether preemption could help."""

    plugin: str
    reasons: tuple[str, ...]
    resolvable: bool


NODE_UNSCHEDULABLE = FilterStatus("NodeUnschedulable", ("node(s) were unschedulable",), resolvable=False)
UNTOLERATED_TAINT = FilterStatus("TaintToleration", ("node(s) had untolerated taint(s)",), resolvable=False)
NODE_AFFINITY_MISMATCH = FilterStatus("NodeAffinity", ("node(s) didn't match Pod's node affinity/selector",), resolvable=False)
NODE_NAME_MISMATCH = FilterStatus("NodeAffinity", ("node(s) didn't satisfy plugin(s) [NodeAffinity]",), resolvable=False)
NODE_PORTS_CONFLICT = FilterStatus("NodePorts", ("node(s) didn't have free ports for the requested pod ports",), resolvable=True)
TOPOLOGY_SPREAD_MISMATCH = FilterStatus(
    "PodTopologySpread", ("node(s) didn't match pod topology spread constraints",), resolvable=True
)
TOPOLOGY_LABEL_MISSING = FilterStatus(
    "PodTopologySpread", ("node(s) didn't match pod topology spread constraints (missing required label)",), resolvable=False
)
POD_AFFINITY_MISMATCH = FilterStatus("PodAffinity", ("node(s) didn't match pod affinity rules",), resolvable=False)
POD_ANTI_AFFINITY_MISMATCH = FilterStatus("PodAntiAffinity", ("node(s) didn't match pod anti-affinity rules",), resolvable=True)
EXISTING_ANTI_AFFINITY_MISMATCH = FilterStatus(
    "PodAntiAffinity", ("node(s) didn't satisfy existing pods anti-affinity rules",), resolvable=True
)


@lru_cache(maxsize=1024)
def insufficient_resources(names: tuple[str, ...], resolvable: bool) -> FilterStatus:
    """The status of a node without enough of these resources; `pods` is its limit of pods."""
    reasons = tuple("Too many pods" if name == "pods" else f"Insufficient {name}" for name in names)
    return FilterStatus("NodeResourcesFit", reasons, resolvable)


def format_fit_error(total: int, counts: Iterable[tuple[tuple[str, ...], int]]) -> str:
    """kube-scheduler's message with the number of nodes for each reason."""
    reasons: dict[str, int] = {}
    for node_reasons, number in counts:
        for reason in node_reasons:
            reasons[reason] = reasons.get(reason, 0) + number
    listed = ", ".join(sorted(f"{number} {reason}" for reason, number in reasons.items() if number))
    return f"0/{total} nodes are available: {listed}."


def format_failure(start: str, preemption: str) -> str:
    """The message with the result of preemption, unless that is empty."""
    return f"{start} {_NO_CLAIMS}, preemption: {preemption}" if preemption else start


def local_score(requirements: NodeRequirements, node: NodeInfo, images: Images) -> int:
    """The scores that depend on the node alone; `images` gives an image's bytes times the share of nodes that have it."""
    cpu, memory = node.cpu, node.memory
    score = parts = 0
    if cpu:
        requested = node.non_zero_cpu + requirements.non_zero[0]
        score += (cpu - requested) * 100 // cpu if requested <= cpu else 0
        parts += 1
    if memory:
        requested = node.non_zero_memory + requirements.non_zero[1]
        score += (memory - requested) * 100 // memory if requested <= memory else 0
        parts += 1
    if parts == 2:
        score //= 2
    if requirements.used != (0, 0):
        score += _balanced_allocation(requirements, node)
    return score + _image_locality(requirements, node, images) if node.images else score


def _balanced_allocation(requirements: NodeRequirements, node: NodeInfo) -> int:
    cpu, memory = node.cpu, node.memory
    if not cpu or not memory:
        return 100
    free = node.free
    cpu_fraction = min((cpu - free["cpu"] + requirements.used[0]) / cpu, 1.0)
    memory_fraction = min((memory - free["memory"] + requirements.used[1]) / memory, 1.0)
    return int((1 - abs((cpu_fraction - memory_fraction) / 2)) * 100)


def _image_locality(requirements: NodeRequirements, node: NodeInfo, images: Images) -> int:
    total = sum(images(name) for name in requirements.images if name in node.images)
    maximum = _MAX_IMAGE_BYTES * len(requirements.images)
    total = min(max(total, _MIN_IMAGE_BYTES), maximum)
    return 100 * (total - _MIN_IMAGE_BYTES) // (maximum - _MIN_IMAGE_BYTES)


def check_node(requirements: NodeRequirements, node: NodeInfo) -> FilterStatus | NodePreference:
    """Why the node rejects the pod, or its untolerated PreferNoSchedule taints and the weight of its preferred affinity."""
    if node.unschedulable and not requirements.tolerations.tolerates_unschedulable:
        return NODE_UNSCHEDULABLE
    if node.taints and requirements.tolerations.has_untolerated(node.taints):
        return UNTOLERATED_TAINT
    affinity = requirements.affinity
    if not affinity.matches(node.name, node.labels):
        return NODE_AFFINITY_MISMATCH
    untolerated = requirements.tolerations.count_untolerated_preferred(node.taints) if node.taints else 0
    return untolerated, affinity.preferred_weight(node.name, node.labels) if affinity.preferred else 0


def mismatch_status(requirements: NodeRequirements, node_class: NodeClass) -> FilterStatus:
    """The status of a node of this class that the pod's node affinity does not accept."""
    unschedulable, taints = node_class
    if unschedulable and not requirements.tolerations.tolerates_unschedulable:
        return NODE_UNSCHEDULABLE
    return UNTOLERATED_TAINT if taints and requirements.tolerations.has_untolerated(taints) else NODE_AFFINITY_MISMATCH


def check_resources(requirements: NodeRequirements, node: NodeInfo) -> FilterStatus | None:
    """Why the free resources of a node are not enough; None if they are."""
    if requirements.ports and not node.has_free_ports(requirements.ports):
        return NODE_PORTS_CONFLICT
    free = node.free
    insufficient = [name for name, amount in requirements.requests if amount > free.get(name, 0)]
    is_full = len(node.pods) >= node.max_pods
    if not insufficient and not is_full:
        return None
    resolvable = all(amount <= node.allocatable.get(name, 0) for name, amount in requirements.requests if name in insufficient)
    return insufficient_resources(("pods", *insufficient) if is_full else tuple(insufficient), resolvable)


class NodeGroup:
    """The nodes as pods with equal requirements see them: rejected ones by status, feasible ones ordered by score."""

    def __init__(self, requirements: NodeRequirements, images: Images, random: Random) -> None:
        self.requirements = requirements
        self.position = -1
        self.required_label: tuple[str, str] | None = None
        self.feasible: dict[NodeInfo, ScoredNode] = {}
        self.rejected: dict[NodeInfo, FilterStatus] = {}
        self.counts: dict[FilterStatus, int] = {}
        self.node_classes: dict[NodeClass, int] = {}
        self._evaluated: dict[NodeInfo, tuple[int, FilterStatus | NodePreference, NodeClass]] = {}
        self._heaps: dict[NodePreference, list[ScoredNode]] = {}
        self._images = images
        self._random = random

    @property
    def size(self) -> int:
        """The number of cached nodes."""
        return len(self._evaluated)

    def update(self, changed: list[NodeInfo]) -> None:
        """Evaluate changed nodes; if a label is required, only those that have or had it."""
        nodes = dict.fromkeys(changed)
        if self.required_label is None:
            self.evaluate(nodes)
        else:
            key, value = self.required_label
            self.evaluate([node for node in nodes if node.labels.get(key) == value or node in self._evaluated])

    def update_matching(self, matching: Iterable[NodeInfo]) -> None:
        """Like `update`, from all nodes with the required label instead of the changed ones."""
        since = self.position
        self.evaluate([node for node in dict.fromkeys((*matching, *self._evaluated)) if node.changed_at >= since])

    def evaluate(self, nodes: Iterable[NodeInfo]) -> None:
        """Filter and score nodes that are new or have changed."""
        requirements, evaluated = self.requirements, self._evaluated
        for node in nodes:
            known = evaluated.get(node)
            if known is None or known[0] != node.version:
                known = self._evaluate_node(node, known)
                if known is None:
                    continue
            result = known[1]
            if isinstance(result, FilterStatus):
                self._reject(node, result)
            elif status := check_resources(requirements, node):
                self._reject(node, status)
            else:
                self._accept(node, result)

    def _evaluate_node(
        self, node: NodeInfo, known: tuple[int, FilterStatus | NodePreference, NodeClass] | None
    ) -> tuple[int, FilterStatus | NodePreference, NodeClass] | None:
        """Evaluate a node without its pods; None if it is deleted."""
        if known is not None:
            self.node_classes[known[2]] -= 1
        if node.deleted:
            self._remove(node)
            self._evaluated.pop(node, None)
            return None
        self.node_classes[node.node_class] = self.node_classes.get(node.node_class, 0) + 1
        result = self._evaluated[node] = node.version, check_node(self.requirements, node), node.node_class
        return result

    def has(self, node: NodeInfo) -> bool:
        """Whether a node was evaluated; others do not have the required label."""
        return node in self._evaluated

    def count_unmatched(self, node_classes: Mapping[NodeClass, int]) -> dict[FilterStatus, int]:
        """The statuses of nodes without the required label, given the number of all nodes of each class."""
        if self.required_label is None:
            return {}
        counts: dict[FilterStatus, int] = {}
        for node_class, number in node_classes.items():
            status = mismatch_status(self.requirements, node_class)
            counts[status] = counts.get(status, 0) + number - self.node_classes.get(node_class, 0)
        return counts

    def _remove(self, node: NodeInfo) -> None:
        self.feasible.pop(node, None)
        status = self.rejected.pop(node, None)
        if status is not None:
            self.counts[status] -= 1

    def _reject(self, node: NodeInfo, status: FilterStatus) -> None:
        known = self.rejected.get(node)
        if known is status:
            return
        self._remove(node)
        self.rejected[node] = status
        self.counts[status] = self.counts.get(status, 0) + 1

    def _accept(self, node: NodeInfo, preference: NodePreference) -> None:
        if node in self.rejected:
            self._remove(node)
        score = local_score(self.requirements, node, self._images)
        entry = self.feasible[node] = (-score, self._random.random(), node.index, node)
        heap = self._heaps.get(preference)
        if heap is None:
            heap = self._heaps[preference] = []
        heappush(heap, entry)
        if len(heap) > 64 + 4 * len(self.feasible):
            self._compact(heap)

    def _compact(self, heap: list[ScoredNode]) -> None:
        """Drop outdated entries."""
        heap[:] = [entry for entry in heap if self.feasible.get(entry[3]) is entry]
        heapify(heap)

    def best(self) -> NodeInfo | None:
        """The node with the highest score; a random one of equal nodes."""
        heaps = self._valid_heaps()
        if not heaps:
            return None
        if len(heaps) == 1:
            return next(iter(heaps.values()))[0][3]
        max_taints, max_weight = max(preference[0] for preference in heaps), max(preference[1] for preference in heaps)
        best = max(
            (
                (normalize_score(preference, max_taints, max_weight) - heap[0][0], heap[0][1], heap[0][3])
                for preference, heap in heaps.items()
            ),
            key=lambda candidate: candidate[:2],
        )
        return best[2]

    def _valid_heaps(self) -> dict[NodePreference, list[ScoredNode]]:
        """The heaps by preference, with outdated first entries removed."""
        valid: dict[NodePreference, list[ScoredNode]] = {}
        feasible = self.feasible
        for preference, heap in self._heaps.items():
            while heap and feasible.get(heap[0][3]) is not heap[0]:
                heappop(heap)
            if heap:
                valid[preference] = heap
        return valid

    def candidates(self) -> Iterator[tuple[NodeInfo, int, NodePreference]]:
        """All feasible nodes with score and preference, roughly best first."""
        feasible = self.feasible
        heaps = self._valid_heaps()
        for preference, heap in heaps.items():
            if len(heaps) == 1 and len(heap) > 64 + len(feasible) * 5 // 4:
                self._compact(heap)
            for entry in heap:
                if feasible.get(entry[3]) is entry:
                    yield entry[3], -entry[0], preference


def normalize_score(preference: NodePreference, max_taints: int, max_weight: int) -> int:
    """The weighted TaintToleration and NodeAffinity scores, normalized by the maxima over all nodes."""
    toleration = 100 - (100 * preference[0] // max_taints if max_taints else 0)
    affinity = 100 * preference[1] // max_weight if max_weight else 0
    return 3 * toleration + 2 * affinity
