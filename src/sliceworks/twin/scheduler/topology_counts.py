"""Counts of scheduled pods by topology domain, kept up to date pod by pod."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from sliceworks.kube.node_affinity import exact_label

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Mapping

    from sliceworks.twin.scheduler.node_info import NodeInfo
    from sliceworks.twin.scheduler.pod_info import PodInfo
    from sliceworks.twin.scheduler.topology_constraints import AffinityTerm, Labels, SpreadConstraint

TopologyDomain = tuple[str, str]
"""A topology key and value."""
Label = tuple[str, str]
T = TypeVar("T")
_MAX_CACHED = 1024
_MAX_DOMAINS = 1_000_000


class AffinityCounts:
    """The scheduled pods that match all of some terms, by topology domain."""

    __slots__ = ("_namespaces", "counts", "required_label", "terms")

    def __init__(self, terms: tuple[AffinityTerm, ...], namespaces: Mapping[str, Labels]) -> None:
        self.terms = terms
        self.required_label = next((label for term in terms if (label := exact_label(term.selector))), None)
        self.counts: dict[TopologyDomain, int] = {}
        self._namespaces = namespaces

    def matches(self, pod: PodInfo) -> bool:
        namespaces = self._namespaces
        return all(term.matches(pod.key[0], pod.labels, namespaces) for term in self.terms)

    def add(self, pod: PodInfo, node: NodeInfo, sign: int) -> None:
        if not self.matches(pod):
            return
        counts = self.counts
        for topology in {term.topology for term in self.terms}:
            value = node.labels.get(topology)
            if value is not None:
                domain = topology, value
                counts[domain] = count = counts.get(domain, 0) + sign
                if not count:
                    del counts[domain]


class SpreadCounts:
    """The scheduled pods that match a spread constraint, by topology domain, on the nodes that the constraint includes.

    If `nodes` is given, the domains of these nodes are kept with a count of zero; else empty domains are dropped.
    """

    __slots__ = ("_includes_node", "_keeps_empty", "_namespace", "counts", "required_label", "spread")

    def __init__(
        self,
        namespace: str,
        spread: SpreadConstraint,
        includes_node: Callable[[NodeInfo], bool],
        nodes: Iterable[NodeInfo] | None = None,
    ) -> None:
        self.spread = spread
        self.required_label = exact_label(spread.selector)
        self._namespace = namespace
        self._includes_node = includes_node
        self._keeps_empty = nodes is not None
        self.counts: dict[str, int] = {node.labels.get(spread.topology, ""): 0 for node in nodes or () if includes_node(node)}

    def matches(self, pod: PodInfo) -> bool:
        if pod.terminating or pod.key[0] != self._namespace or self.spread.selector.matches_everything:
            return False
        return self.spread.selector.matches(pod.labels)

    def add(self, pod: PodInfo, node: NodeInfo, sign: int) -> None:
        if self.matches(pod) and self._includes_node(node):
            value = node.labels.get(self.spread.topology, "")
            self.counts[value] = count = self.counts.get(value, 0) + sign
            if not count and not self._keeps_empty:
                del self.counts[value]


class TopologyCounts:
    """A cache of counts, updated with every pod; the oldest counts are evicted first."""

    def __init__(self, scheduled_pods: Callable[[Label | None], Iterable[tuple[PodInfo, NodeInfo]]]) -> None:
        self._scheduled_pods = scheduled_pods
        self._domains = 0
        self._cache: dict[Hashable, AffinityCounts | SpreadCounts] = {}
        self._by_label: dict[tuple[str, str] | None, dict[Hashable, AffinityCounts | SpreadCounts]] = {}

    def affinity_counts(self, terms: tuple[AffinityTerm, ...], namespaces: Mapping[str, Labels]) -> AffinityCounts:
        counts = self._cache.get(terms)
        if counts is None:
            counts = self._add_to_cache(terms, AffinityCounts(terms, namespaces))
        assert isinstance(counts, AffinityCounts)
        return counts

    def spread_counts(self, key: Hashable, create: Callable[[], SpreadCounts]) -> SpreadCounts:
        counts = self._cache.get(key)
        if counts is None:
            counts = self._add_to_cache(key, create())
        assert isinstance(counts, SpreadCounts)
        return counts

    def _add_to_cache(self, key: Hashable, counts: AffinityCounts | SpreadCounts) -> AffinityCounts | SpreadCounts:
        for pod, node in self._scheduled_pods(counts.required_label):
            counts.add(pod, node, 1)
        self._domains += len(counts.counts)
        while self._cache and (len(self._cache) >= _MAX_CACHED or self._domains > _MAX_DOMAINS):
            oldest = next(iter(self._cache))
            dropped = self._cache.pop(oldest)
            del self._by_label[dropped.required_label][oldest]
            self._domains = max(0, self._domains - len(dropped.counts))
        self._cache[key] = counts
        self._by_label.setdefault(counts.required_label, {})[key] = counts
        return counts

    def add(self, pod: PodInfo, node: NodeInfo, sign: int) -> None:
        """Add a pod to the counts of its node (sign 1), or remove it (-1)."""
        by_label = self._by_label
        if not by_label:
            return
        for counts in by_label.get(None, {}).values():
            counts.add(pod, node, sign)
        for label in pod.labels.items():
            matching = by_label.get(label)
            if matching:
                for counts in matching.values():
                    counts.add(pod, node, sign)

    def clear(self) -> None:
        """Drop all counts: nodes or namespaces have changed."""
        self._domains = 0
        self._cache.clear()
        self._by_label.clear()


class ExistingPodTerms:
    """The affinity terms of scheduled pods, which apply to pods that are scheduled later."""

    def __init__(self) -> None:
        self.anti_affinity: dict[str, dict[str, dict[AffinityTerm, int]]] = {}
        """By topology key and value: the anti-affinity terms of the domain's pods."""
        self.label_keys: dict[str, None] = {}
        """The label keys that anti-affinity terms have used so far."""
        self.weights: dict[AffinityTerm, dict[str, int]] = {}
        """By weighted term: the total weight of each domain."""
        self._by_label: dict[Label | None, dict[AffinityTerm, None]] = {}

    def add(self, pod: PodInfo, node: NodeInfo, sign: int) -> None:
        """Add a pod to the counts of its node (sign 1), or remove it (-1)."""
        terms = pod.shape.terms
        for term in terms.anti_affinity:
            value = node.labels.get(term.topology)
            if value is not None:
                self.label_keys.update(dict.fromkeys(requirement.key for requirement in term.selector.requirements))
                _count(self.anti_affinity.setdefault(term.topology, {}).setdefault(value, {}), term, sign)
                if not self.anti_affinity[term.topology][value]:
                    del self.anti_affinity[term.topology][value]
                    if not self.anti_affinity[term.topology]:
                        del self.anti_affinity[term.topology]
        for term, weight in terms.weighted():
            value = node.labels.get(term.topology)
            if value is None:
                continue
            self._by_label.setdefault(exact_label(term.selector), {})[term] = None
            values = self.weights.setdefault(term, {})
            _count(values, value, sign * weight)
            if not values:
                del self.weights[term]
                del self._by_label[exact_label(term.selector)][term]

    def matching_terms(self, pod: PodInfo, namespaces: Mapping[str, Labels]) -> list[AffinityTerm]:
        """The weighted terms of scheduled pods that match this pod."""
        candidates = list(self._by_label.get(None, ()))
        for label in pod.labels.items():
            candidates += self._by_label.get(label, ())
        return [term for term in candidates if term.matches(pod.key[0], pod.labels, namespaces)]


def _count(counts: dict[T, int], key: T, number: int) -> None:
    total = counts.get(key, 0) + number
    if total:
        counts[key] = total
    else:
        counts.pop(key, None)
