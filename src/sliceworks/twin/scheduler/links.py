"""What a pod's place has to do with other pods: affinity both ways, and even spreading."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sliceworks.twin.scheduler.tallies import SpreadTally, exact_pair
from sliceworks.twin.scheduler.verdicts import APART, NOWHERE, TOGETHER, UNEVEN, UNWELCOME, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sliceworks.twin.scheduler.nodes import Node
    from sliceworks.twin.scheduler.pods import Key, Pod
    from sliceworks.twin.scheduler.snapshot import Snapshot
    from sliceworks.twin.scheduler.tallies import TermTally
    from sliceworks.twin.scheduler.terms import Spread, Spreads, Term

Extra = tuple["Pod", int]


class Links:
    """One pod's relations to those that are placed.

    `extra` in the checks are pods of the node in question to be counted in (+1) or out (-1), as when preemption is tried.
    """

    def __init__(self, pod: Pod, snapshot: Snapshot, spreads: Spreads) -> None:
        self.pod = pod
        self.snapshot = snapshot
        self.spreads = spreads
        terms, namespaces = pod.shape.terms, snapshot.namespaces
        self._affinity = snapshot.tallies.of_terms(terms.affinity, namespaces) if terms.affinity else None
        self._first = self._affinity is not None and not self._affinity.counts and self._affinity.matches(pod)
        self._anti = [
            (term, snapshot.tallies.of_terms((term,), namespaces) if exact_pair(term.selector) is not None else None)
            for term in terms.anti_affinity
        ]
        self._crowds: dict[tuple[Term, str], dict[Key, None]] = {}
        self._hard = [(one, spread_tally(pod, snapshot, one, spreads.hard, needs_all=True, keeps_all=True)) for one in spreads.hard]
        self._least = [min(tally.counts.values(), default=0) for _, tally in self._hard]
        self._concerned: dict[Term, bool] = {}

    def refusal(self, node: Node, extra: Iterable[Extra] = ()) -> Verdict | None:
        """Why the pod must not lie there."""
        extra = tuple(extra)
        if self._hard and (verdict := self._uneven(node, extra)):
            return verdict
        if self._affinity is not None and not self._near(node, extra):
            return APART
        if any(self._meets(term, tally, node, extra) for term, tally in self._anti):
            return TOGETHER
        if (self.snapshot.standing.away or extra) and self._kept_away(node, extra):
            return UNWELCOME
        return None

    def _uneven(self, node: Node, extra: tuple[Extra, ...]) -> Verdict | None:
        labels = node.labels
        for (spread, tally), usual in zip(self._hard, self._least, strict=True):
            value = labels.get(spread.topology)
            if value is None:
                return NOWHERE
            counts, least = tally.counts, usual
            change = sum(sign for pod, sign in extra if tally.matches(pod))
            if change and value in counts:
                counts = {**counts, value: counts[value] + change}
                least = min(counts.values())
            if len(counts) < spread.least_domains:
                least = 0
            own = 1 if spread.selector.matches(self.pod.labels) else 0
            if counts.get(value, 0) + own - least > spread.most_skew:
                return UNEVEN
        return None

    def _near(self, node: Node, extra: tuple[Extra, ...]) -> bool:
        tally = self._affinity
        assert tally is not None
        labels = node.labels
        if any(term.topology not in labels for term in tally.terms):
            return False
        change = sum(sign for pod, sign in extra if tally.matches(pod))
        if all(tally.counts.get((term.topology, labels[term.topology]), 0) + change > 0 for term in tally.terms):
            return True
        return self._first and change <= 0

    def _meets(self, term: Term, tally: TermTally | None, node: Node, extra: tuple[Extra, ...]) -> bool:
        """Whether somebody it keeps away from lies in the same place."""
        value = node.labels.get(term.topology)
        if value is None:
            return False
        namespaces = self.snapshot.namespaces
        changed = [(pod, sign) for pod, sign in extra if term.matches(pod.key[0], pod.labels, namespaces)]
        if tally is not None:
            return tally.counts.get((term.topology, value), 0) + sum(sign for _, sign in changed) > 0
        if any(sign > 0 for _, sign in changed):
            return True
        crowd = self._crowd(term, value)
        return bool(crowd) and not crowd.keys() <= {pod.key for pod, _ in changed}

    def _crowd(self, term: Term, value: str) -> dict[Key, None]:
        """The pods of a place that match a term, looked for there: such terms differ from pod to pod, and counts would not pay."""
        found = self._crowds.get((term, value))
        if found is None:
            namespaces = self.snapshot.namespaces
            pods = (pod for node in self.snapshot.nodes_with(term.topology, value) for pod in node.pods.values())
            matching = (pod.key for pod in pods if term.matches(pod.key[0], pod.labels, namespaces))
            found = self._crowds[term, value] = dict.fromkeys(matching)
        return found

    def _kept_away(self, node: Node, extra: tuple[Extra, ...]) -> bool:
        labels = node.labels
        change: dict[Term, int] = {}
        for pod, sign in extra:
            for term in pod.shape.terms.anti_affinity:
                change[term] = change.get(term, 0) + sign
        for topology, values in self.snapshot.standing.away.items():
            value = labels.get(topology)
            for term, number in values.get(value, {}).items() if value is not None else ():
                if number + change.get(term, 0) > 0 and self._is_concerned(term):
                    return True
        return any(number > 0 and term.topology in labels and self._is_concerned(term) for term, number in change.items())

    def _is_concerned(self, term: Term) -> bool:
        known = self._concerned.get(term)
        if known is None:
            pod = self.pod
            known = self._concerned[term] = term.matches(pod.key[0], pod.labels, self.snapshot.namespaces)
        return known


def spread_tally(
    pod: Pod, snapshot: Snapshot, spread: Spread, all_spreads: tuple[Spread, ...], *, needs_all: bool, keeps_all: bool = False
) -> SpreadTally:
    """The count for one of a pod's constraints; nodes without the others' topologies may be left out, empty places kept."""
    wants = pod.shape.wants
    keys = tuple(one.topology for one in all_spreads) if needs_all else ()
    ruled = wants.key if spread.honours_affinity or spread.honours_taints else b""

    def counts_node(node: Node) -> bool:
        labels = node.labels
        if node.gone or any(key not in labels for key in keys):
            return False
        if spread.honours_affinity and not wants.choice.accepts(node.name, labels):
            return False
        return not (spread.honours_taints and wants.tolerations.refuses(node.taints))

    key = (pod.key[0], spread, keys, ruled, keeps_all)
    nodes = snapshot.nodes.values() if keeps_all else None
    return snapshot.tallies.of_spread(key, lambda: SpreadTally(pod.key[0], spread, counts_node, nodes))
