"""How much a pod's neighbours count in the choice of its node: preferred affinity both ways, and soft spreading."""

from __future__ import annotations

from math import floor, log
from typing import TYPE_CHECKING

from sliceworks.twin.scheduler.links import spread_tally
from sliceworks.twin.scheduler.terms import HOSTNAME

if TYPE_CHECKING:
    from sliceworks.twin.scheduler.nodes import Node
    from sliceworks.twin.scheduler.pods import Pod
    from sliceworks.twin.scheduler.snapshot import Snapshot
    from sliceworks.twin.scheduler.terms import Spreads

Places = dict[str, dict[str, int]]


class Preferences:
    """What counts for one pod beyond the nodes themselves."""

    def __init__(self, pod: Pod, snapshot: Snapshot, spreads: Spreads) -> None:
        self._pod = pod
        self._snapshot = snapshot
        needs_all = not spreads.by_default
        found = [(one, spread_tally(pod, snapshot, one, spreads.soft, needs_all=needs_all)) for one in spreads.soft]
        # Where no such pod is placed yet, all places are alike.
        self._soft = found if any(any(tally.counts.values()) for _, tally in found) else []
        self._needed = tuple(one.topology for one in spreads.soft) if needs_all else ()
        self._places = self._attractions()

    @property
    def count(self) -> bool:
        """Whether they tell any two nodes apart."""
        return bool(self._soft or self._places)

    def scores(self, nodes: list[Node]) -> list[int]:
        """What they add to each node's score, weighed against each other."""
        total = [0] * len(nodes)
        for scores in (self._even(nodes) if self._soft else None, self._near(nodes) if self._places else None):
            if scores:
                total = [one + 2 * other for one, other in zip(total, scores, strict=True)]
        return total

    def _attractions(self) -> Places:
        pod, snapshot = self._pod, self._snapshot
        places: Places = {}
        for term, weight in pod.shape.terms.preferred:
            for (topology, value), number in snapshot.tallies.of_terms((term,), snapshot.namespaces).counts.items():
                values = places.setdefault(topology, {})
                values[value] = values.get(value, 0) + weight * number
        for term in snapshot.standing.attracting(pod, snapshot.namespaces) if snapshot.standing.pulls else ():
            values = places.setdefault(term.topology, {})
            for value, number in snapshot.standing.pulls[term].items():
                values[value] = values.get(value, 0) + number
        return places

    def _near(self, nodes: list[Node]) -> list[int]:
        places = self._places.items()
        raw = [sum(values.get(node.labels[key], 0) for key, values in places if key in node.labels) for node in nodes]
        least, most = min(raw), max(raw)
        return [int(100 * ((one - least) / (most - least))) if most > least else 0 for one in raw]

    def _even(self, nodes: list[Node]) -> list[int]:
        counted = [node for node in nodes if all(key in node.labels for key in self._needed)] if self._needed else nodes
        if not counted:
            return [0] * len(nodes)
        raw = self._unevenness(counted)
        least, most = min(raw), max(raw)
        scores = [100 * (most + least - one) // most if most else 100 for one in raw]
        if counted is nodes:
            return scores
        found = dict(zip(counted, scores, strict=True))
        return [found.get(node, 0) for node in nodes]

    def _unevenness(self, nodes: list[Node]) -> list[int]:
        """How many such pods each node has around it, rarer places counting for more."""
        raw = [0.0] * len(nodes)
        for spread, tally in self._soft:
            values = [node.labels.get(spread.topology) for node in nodes]
            size = len(nodes) if spread.topology == HOSTNAME else len({value or "" for value in values})
            weight, skew, count = log(size + 2), spread.most_skew - 1, tally.counts.get
            raw = [
                score if value is None else score + (count(value, 0) * weight + skew)
                for score, value in zip(raw, values, strict=True)
            ]
        return [floor(score + 0.5) for score in raw]
