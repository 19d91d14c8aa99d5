"""Counts of placed pods by place, kept up to date pod by pod: affinity and spreading ask about them again and again."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Mapping

    from sliceworks.kube.selectors import LabelSelector
    from sliceworks.twin.scheduler.nodes import Node
    from sliceworks.twin.scheduler.pods import Pod
    from sliceworks.twin.scheduler.terms import Labels, Spread, Term

Place = tuple[str, str]
T = TypeVar("T")
_MOST_TALLIES = 1024
_MOST_PLACES = 1_000_000


class TermTally:
    """The pods that match all of some terms, by the places of their nodes."""

    __slots__ = ("_namespaces", "counts", "exact", "terms")

    def __init__(self, terms: tuple[Term, ...], namespaces: Mapping[str, Labels]) -> None:
        self.terms = terms
        self.exact = next((pair for term in terms if (pair := exact_pair(term.selector))), None)
        self.counts: dict[Place, int] = {}
        self._namespaces = namespaces

    def matches(self, pod: Pod) -> bool:
        namespaces = self._namespaces
        return all(term.matches(pod.key[0], pod.labels, namespaces) for term in self.terms)

    def add(self, pod: Pod, node: Node, sign: int) -> None:
        if not self.matches(pod):
            return
        counts = self.counts
        for topology in {term.topology for term in self.terms}:
            value = node.labels.get(topology)
            if value is not None:
                place = topology, value
                counts[place] = left = counts.get(place, 0) + sign
                if not left:
                    del counts[place]


class SpreadTally:
    """The pods of one namespace and selector, by the values of a topology over the nodes that count.

    Where nodes are given, their places count even if there is no such pod; elsewhere only places with pods are kept.
    """

    __slots__ = ("_counts_node", "_keeps_all", "_namespace", "counts", "exact", "spread")

    def __init__(
        self, namespace: str, spread: Spread, counts_node: Callable[[Node], bool], nodes: Iterable[Node] | None = None
    ) -> None:
        self.spread = spread
        self.exact = exact_pair(spread.selector)
        self._namespace = namespace
        self._counts_node = counts_node
        self._keeps_all = nodes is not None
        self.counts: dict[str, int] = {node.labels.get(spread.topology, ""): 0 for node in nodes or () if counts_node(node)}

    def matches(self, pod: Pod) -> bool:
        if pod.terminating or pod.key[0] != self._namespace or self.spread.selector.everything:
            return False
        return self.spread.selector.matches(pod.labels)

    def add(self, pod: Pod, node: Node, sign: int) -> None:
        if self.matches(pod) and self._counts_node(node):
            value = node.labels.get(self.spread.topology, "")
            self.counts[value] = left = self.counts.get(value, 0) + sign
            if not left and not self._keeps_all:
                del self.counts[value]


class Tallies:
    """The tallies that somebody asked for; those asked for longest ago are forgotten first."""

    def __init__(self, placed: Callable[[tuple[str, str] | None], Iterable[tuple[Pod, Node]]]) -> None:
        self._placed = placed
        self._places = 0
        self._tallies: dict[Hashable, TermTally | SpreadTally] = {}
        self._routes: dict[tuple[str, str] | None, dict[Hashable, TermTally | SpreadTally]] = {}

    def of_terms(self, terms: tuple[Term, ...], namespaces: Mapping[str, Labels]) -> TermTally:
        found = self._tallies.get(terms)
        if found is None:
            found = self._keep(terms, TermTally(terms, namespaces))
        assert isinstance(found, TermTally)
        return found

    def of_spread(self, key: Hashable, make: Callable[[], SpreadTally]) -> SpreadTally:
        found = self._tallies.get(key)
        if found is None:
            found = self._keep(key, make())
        assert isinstance(found, SpreadTally)
        return found

    def _keep(self, key: Hashable, tally: TermTally | SpreadTally) -> TermTally | SpreadTally:
        for pod, node in self._placed(tally.exact):
            tally.add(pod, node, 1)
        self._places += len(tally.counts)
        while self._tallies and (len(self._tallies) >= _MOST_TALLIES or self._places > _MOST_PLACES):
            oldest = next(iter(self._tallies))
            dropped = self._tallies.pop(oldest)
            del self._routes[dropped.exact][oldest]
            self._places = max(0, self._places - len(dropped.counts))
        self._tallies[key] = tally
        self._routes.setdefault(tally.exact, {})[key] = tally
        return tally

    def add(self, pod: Pod, node: Node, sign: int) -> None:
        """A pod was placed on a node, or taken from it."""
        routes = self._routes
        if not routes:
            return
        for tally in routes.get(None, {}).values():
            tally.add(pod, node, sign)
        for pair in pod.labels.items():
            found = routes.get(pair)
            if found:
                for tally in found.values():
                    tally.add(pod, node, sign)

    def clear(self) -> None:
        """Count anew: nodes or namespaces have changed."""
        self._places = 0
        self._tallies.clear()
        self._routes.clear()


class Standing:
    """What placed pods want of those that come later: by place what they keep away, and by term what they attract."""

    def __init__(self) -> None:
        self.away: dict[str, dict[str, dict[Term, int]]] = {}
        self.keys: dict[str, None] = {}
        """The labels by which placed pods have kept others away so far."""
        self.pulls: dict[Term, dict[str, int]] = {}
        self._by_label: dict[tuple[str, str] | None, dict[Term, None]] = {}

    def add(self, pod: Pod, node: Node, sign: int) -> None:
        """A pod was placed on a node, or taken from it."""
        terms = pod.shape.terms
        for term in terms.anti_affinity:
            value = node.labels.get(term.topology)
            if value is not None:
                self.keys.update(dict.fromkeys(one.key for one in term.selector.requirements))
                _count(self.away.setdefault(term.topology, {}).setdefault(value, {}), term, sign)
                if not self.away[term.topology][value]:
                    del self.away[term.topology][value]
                    if not self.away[term.topology]:
                        del self.away[term.topology]
        for term, weight in terms.pulls():
            value = node.labels.get(term.topology)
            if value is None:
                continue
            self._by_label.setdefault(exact_pair(term.selector), {})[term] = None
            values = self.pulls.setdefault(term, {})
            _count(values, value, sign * weight)
            if not values:
                del self.pulls[term]
                del self._by_label[exact_pair(term.selector)][term]

    def attracting(self, pod: Pod, namespaces: Mapping[str, Labels]) -> list[Term]:
        """The terms of placed pods that concern this one."""
        candidates = list(self._by_label.get(None, ()))
        for pair in pod.labels.items():
            candidates += self._by_label.get(pair, ())
        return [term for term in candidates if term.matches(pod.key[0], pod.labels, namespaces)]


def exact_pair(selector: LabelSelector) -> tuple[str, str] | None:
    """A label that all that is selected has."""
    for one in selector.requirements:
        if len(one.values) == 1 and one.operator in ("=", "in"):
            return one.key, one.values[0]
    return None


def _count(counts: dict[T, int], key: T, number: int) -> None:
    left = counts.get(key, 0) + number
    if left:
        counts[key] = left
    else:
        counts.pop(key, None)
