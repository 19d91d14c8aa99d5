"""The InterPodAffinity and PodTopologySpread plugins: filter and score."""

from __future__ import annotations

from math import floor, log
from typing import TYPE_CHECKING

from sliceworks.kube.node_affinity import exact_label
from sliceworks.twin.scheduler.node_plugins import (
    EXISTING_ANTI_AFFINITY_MISMATCH,
    POD_AFFINITY_MISMATCH,
    POD_ANTI_AFFINITY_MISMATCH,
    TOPOLOGY_LABEL_MISSING,
    TOPOLOGY_SPREAD_MISMATCH,
    FilterStatus,
)
from sliceworks.twin.scheduler.topology_constraints import HOSTNAME
from sliceworks.twin.scheduler.topology_counts import SpreadCounts

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sliceworks.twin.scheduler.node_info import NodeInfo
    from sliceworks.twin.scheduler.pod_info import PodInfo, PodKey
    from sliceworks.twin.scheduler.snapshot import Snapshot
    from sliceworks.twin.scheduler.topology_constraints import AffinityTerm, SpreadConstraint, SpreadConstraints
    from sliceworks.twin.scheduler.topology_counts import AffinityCounts

PodDelta = tuple["PodInfo", int]
"""A pod to count in (+1) or out (-1) of the node being filtered."""
DomainWeights = dict[str, dict[str, int]]


class TopologyFilter:
    """Filters nodes by a pod's affinity, anti-affinity and hard spread constraints, and by other pods' anti-affinity.

    `deltas` are pods to count in or out of the node, as in a preemption dry run.
    """

    def __init__(self, pod: PodInfo, snapshot: Snapshot, spreads: SpreadConstraints) -> None:
        self.pod = pod
        self.snapshot = snapshot
        self.spreads = spreads
        terms, namespaces = pod.shape.terms, snapshot.namespaces
        self._affinity = snapshot.topology_counts.affinity_counts(terms.affinity, namespaces) if terms.affinity else None
        self._is_first = self._affinity is not None and not self._affinity.counts and self._affinity.matches(pod)
        self._anti = [
            (
                term,
                snapshot.topology_counts.affinity_counts((term,), namespaces) if exact_label(term.selector) is not None else None,
            )
            for term in terms.anti_affinity
        ]
        self._pods_by_domain: dict[tuple[AffinityTerm, str], dict[PodKey, None]] = {}
        self._hard = [
            (spread, spread_counts(pod, snapshot, spread, spreads.hard, needs_all=True, keeps_empty=True))
            for spread in spreads.hard
        ]
        self._minimums = [min(counts.counts.values(), default=0) for _, counts in self._hard]
        self._term_matches: dict[AffinityTerm, bool] = {}

    def filter(self, node: NodeInfo, deltas: Iterable[PodDelta] = ()) -> FilterStatus | None:
        """Why the pod cannot run on a node; None if it can."""
        deltas = tuple(deltas)
        if self._hard and (status := self._filter_spread(node, deltas)):
            return status
        if self._affinity is not None and not self._satisfies_affinity(node, deltas):
            return POD_AFFINITY_MISMATCH
        if any(self._violates_anti_affinity(term, counts, node, deltas) for term, counts in self._anti):
            return POD_ANTI_AFFINITY_MISMATCH
        if (self.snapshot.existing_terms.anti_affinity or deltas) and self._violates_existing(node, deltas):
            return EXISTING_ANTI_AFFINITY_MISMATCH
        return None

    def _filter_spread(self, node: NodeInfo, deltas: tuple[PodDelta, ...]) -> FilterStatus | None:
        labels = node.labels
        for (spread, domain_counts), minimum in zip(self._hard, self._minimums, strict=True):
            value = labels.get(spread.topology)
            if value is None:
                return TOPOLOGY_LABEL_MISSING
            counts, lowest = domain_counts.counts, minimum
            change = sum(sign for pod, sign in deltas if domain_counts.matches(pod))
            if change and value in counts:
                counts = {**counts, value: counts[value] + change}
                lowest = min(counts.values())
            if len(counts) < spread.min_domains:
                lowest = 0
            self_match = 1 if spread.selector.matches(self.pod.labels) else 0
            if counts.get(value, 0) + self_match - lowest > spread.max_skew:
                return TOPOLOGY_SPREAD_MISMATCH
        return None

    def _satisfies_affinity(self, node: NodeInfo, deltas: tuple[PodDelta, ...]) -> bool:
        counts = self._affinity
        assert counts is not None
        labels = node.labels
        if any(term.topology not in labels for term in counts.terms):
            return False
        change = sum(sign for pod, sign in deltas if counts.matches(pod))
        if all(counts.counts.get((term.topology, labels[term.topology]), 0) + change > 0 for term in counts.terms):
            return True
        return self._is_first and change <= 0

    def _violates_anti_affinity(
        self, term: AffinityTerm, counts: AffinityCounts | None, node: NodeInfo, deltas: tuple[PodDelta, ...]
    ) -> bool:
        """Whether a pod that matches an anti-affinity term runs in the same domain."""
        value = node.labels.get(term.topology)
        if value is None:
            return False
        namespaces = self.snapshot.namespaces
        changed = [(pod, sign) for pod, sign in deltas if term.matches(pod.key[0], pod.labels, namespaces)]
        if counts is not None:
            return counts.counts.get((term.topology, value), 0) + sum(sign for _, sign in changed) > 0
        if any(sign > 0 for _, sign in changed):
            return True
        pods = self._matching_pods(term, value)
        return bool(pods) and not pods.keys() <= {pod.key for pod, _ in changed}

    def _matching_pods(self, term: AffinityTerm, value: str) -> dict[PodKey, None]:
        """The pods of a domain that match a term without an exact label: such terms are too diverse to keep counts for."""
        keys = self._pods_by_domain.get((term, value))
        if keys is None:
            namespaces = self.snapshot.namespaces
            pods = (pod for node in self.snapshot.nodes_with(term.topology, value) for pod in node.pods.values())
            matching = (pod.key for pod in pods if term.matches(pod.key[0], pod.labels, namespaces))
            keys = self._pods_by_domain[term, value] = dict.fromkeys(matching)
        return keys

    def _violates_existing(self, node: NodeInfo, deltas: tuple[PodDelta, ...]) -> bool:
        labels = node.labels
        change: dict[AffinityTerm, int] = {}
        for pod, sign in deltas:
            for term in pod.shape.terms.anti_affinity:
                change[term] = change.get(term, 0) + sign
        for topology, values in self.snapshot.existing_terms.anti_affinity.items():
            value = labels.get(topology)
            for term, number in values.get(value, {}).items() if value is not None else ():
                if number + change.get(term, 0) > 0 and self._matches_pod(term):
                    return True
        return any(number > 0 and term.topology in labels and self._matches_pod(term) for term, number in change.items())

    def _matches_pod(self, term: AffinityTerm) -> bool:
        known = self._term_matches.get(term)
        if known is None:
            pod = self.pod
            known = self._term_matches[term] = term.matches(pod.key[0], pod.labels, self.snapshot.namespaces)
        return known


def spread_counts(
    pod: PodInfo,
    snapshot: Snapshot,
    spread: SpreadConstraint,
    all_spreads: tuple[SpreadConstraint, ...],
    *,
    needs_all: bool,
    keeps_empty: bool = False,
) -> SpreadCounts:
    """The counts of one of a pod's constraints.

    With `needs_all`, nodes without the topology keys of all constraints are excluded; `keeps_empty` keeps empty domains.
    """
    requirements = pod.shape.node
    keys = tuple(spread.topology for spread in all_spreads) if needs_all else ()
    requirements_key = requirements.key if spread.honors_affinity or spread.honors_taints else b""

    def includes_node(node: NodeInfo) -> bool:
        labels = node.labels
        if node.deleted or any(key not in labels for key in keys):
            return False
        if spread.honors_affinity and not requirements.affinity.matches(node.name, labels):
            return False
        return not (spread.honors_taints and requirements.tolerations.has_untolerated(node.taints))

    key = (pod.key[0], spread, keys, requirements_key, keeps_empty)
    nodes = snapshot.nodes.values() if keeps_empty else None
    return snapshot.topology_counts.spread_counts(key, lambda: SpreadCounts(pod.key[0], spread, includes_node, nodes))


class TopologyScore:
    """Scores nodes by a pod's soft spread constraints and preferred affinity, and by other pods' affinity."""

    def __init__(self, pod: PodInfo, snapshot: Snapshot, spreads: SpreadConstraints) -> None:
        self._pod = pod
        self._snapshot = snapshot
        needs_all = not spreads.is_default
        soft = [(spread, spread_counts(pod, snapshot, spread, spreads.soft, needs_all=needs_all)) for spread in spreads.soft]
        # If no matching pod is scheduled yet, all domains are equal.
        self._soft = soft if any(any(counts.counts.values()) for _, counts in soft) else []
        self._required_keys = tuple(spread.topology for spread in spreads.soft) if needs_all else ()
        self._weights = self._domain_weights()

    @property
    def is_significant(self) -> bool:
        """Whether the scores of two nodes can differ."""
        return bool(self._soft or self._weights)

    def scores(self, nodes: list[NodeInfo]) -> list[int]:
        """The weighted, normalized scores to add for each node."""
        total = [0] * len(nodes)
        if self._soft:
            total = [2 * score for score in self._spread_scores(nodes)]
        if self._weights:
            total = [score + 2 * affinity for score, affinity in zip(total, self._affinity_scores(nodes), strict=True)]
        return total

    def _domain_weights(self) -> DomainWeights:
        pod, snapshot = self._pod, self._snapshot
        weights: DomainWeights = {}
        for term, weight in pod.shape.terms.preferred:
            for (topology, value), number in snapshot.topology_counts.affinity_counts((term,), snapshot.namespaces).counts.items():
                values = weights.setdefault(topology, {})
                values[value] = values.get(value, 0) + weight * number
        for term in snapshot.existing_terms.matching_terms(pod, snapshot.namespaces) if snapshot.existing_terms.weights else ():
            values = weights.setdefault(term.topology, {})
            for value, number in snapshot.existing_terms.weights[term].items():
                values[value] = values.get(value, 0) + number
        return weights

    def _affinity_scores(self, nodes: list[NodeInfo]) -> list[int]:
        weights = self._weights.items()
        raw = [sum(values.get(node.labels[key], 0) for key, values in weights if key in node.labels) for node in nodes]
        lowest, highest = min(raw), max(raw)
        return [int(100 * ((score - lowest) / (highest - lowest))) if highest > lowest else 0 for score in raw]

    def _spread_scores(self, nodes: list[NodeInfo]) -> list[int]:
        keys = self._required_keys
        scored = [node for node in nodes if all(key in node.labels for key in keys)] if keys else nodes
        if not scored:
            return [0] * len(nodes)
        raw = self._count_matching(scored)
        lowest, highest = min(raw), max(raw)
        scores = [100 * (highest + lowest - count) // highest if highest else 100 for count in raw]
        if scored is nodes:
            return scores
        by_node = dict(zip(scored, scores, strict=True))
        return [by_node.get(node, 0) for node in nodes]

    def _count_matching(self, nodes: list[NodeInfo]) -> list[int]:
        """The matching pods in the domains of each node, weighted by the number of domains."""
        raw = [0.0] * len(nodes)
        for spread, counts in self._soft:
            values = [node.labels.get(spread.topology) for node in nodes]
            size = len(nodes) if spread.topology == HOSTNAME else len({value or "" for value in values})
            weight, skew, count = log(size + 2), spread.max_skew - 1, counts.counts.get
            raw = [
                score if value is None else score + (count(value, 0) * weight + skew)
                for score, value in zip(raw, values, strict=True)
            ]
        return [floor(score + 0.5) for score in raw]
