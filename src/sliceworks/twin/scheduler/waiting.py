"""The pods that wait for a node: by priority, then by age; those that found none are left alone until something may help them.

Pods that are alike share a lane. When the first of a lane finds no node the others would find none either, so they are not tried.
"""

from __future__ import annotations

from functools import partial
from heapq import heappop, heappush
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from sliceworks.twin.scheduler.pods import Key, Pod

Signature = tuple[object, ...]
Pair = tuple[str, str]


class Lane:
    """Waiting pods that any node treats alike, in their order; `told` is what each was last told."""

    __slots__ = ("active", "pair", "pods", "rules", "sequence", "signature", "told")

    def __init__(self, signature: Signature, pair: Pair | None) -> None:
        self.signature = signature
        self.pair = pair
        self.pods: dict[Key, tuple[int, Pod]] = {}
        self.told: dict[Key, str] = {}
        self.rules: frozenset[str] = frozenset()
        self.active = False
        self.sequence = 0

    @property
    def first(self) -> Pod:
        return next(iter(self.pods.values()))[1]


class Waiting:
    """All that wait."""

    def __init__(self, keys: Collection[str]) -> None:
        self._keys = keys
        self._known_keys = 0
        self._lanes: dict[Signature, Lane] = {}
        self._of: dict[Key, Lane] = {}
        self._parked: dict[frozenset[str], dict[Pair | None, dict[Signature, Lane]]] = {}
        self._heap: list[tuple[int, int, int, Lane]] = []
        self._sequence = 0

    def __len__(self) -> int:
        return len(self._of)

    def __contains__(self, key: Key) -> bool:
        return key in self._of

    def get(self, key: Key) -> Pod | None:
        lane = self._of.get(key)
        return lane.pods[key][1] if lane is not None else None

    def add(self, pod: Pod) -> None:
        """Try this pod as soon as it is its turn."""
        self._note_keys()
        told = None
        before = self._of.get(pod.key)
        if before is not None:
            told = before.told.get(pod.key)
            self.remove(pod.key)
        self._sequence += 1
        lane = self._lane(pod)
        lane.pods[pod.key] = (self._sequence, pod)
        if told is not None:
            lane.told[pod.key] = told
        self._of[pod.key] = lane
        self._activate(lane)

    def remove(self, key: Key) -> None:
        """It waits no longer."""
        lane = self._of.pop(key, None)
        if lane is None:
            return
        del lane.pods[key]
        lane.told.pop(key, None)
        if not lane.pods:
            self._unpark(lane)
            self._lanes.pop(lane.signature, None)
            lane.active = False

    def next(self) -> Lane | None:
        """The lane whose first pod is to be tried now. It stays first until the pod is removed or the lane is parked."""
        heap = self._heap
        while heap:
            _, sequence, _, lane = heap[0]
            if lane.active and lane.pods and lane.sequence == sequence:
                first = next(iter(lane.pods.values()))[0]
                if first == sequence:
                    return lane
                lane.active = False
                heappop(heap)
                self._activate(lane)
            else:
                heappop(heap)
        return None

    def park(self, lane: Lane, rules: frozenset[str]) -> None:
        """None of the lane finds a node: leave it until one of these checks may end otherwise."""
        self._unpark(lane)
        lane.active = False
        lane.rules = rules
        self._parked.setdefault(rules, {}).setdefault(lane.pair, {})[lane.signature] = lane

    def park_one(self, key: Key, rules: frozenset[str]) -> None:
        """Leave the lane of one pod."""
        self.park(self._of[key], rules)

    def wake(self, may_help: Callable[[frozenset[str], Lane], bool]) -> None:
        """Try again those that something may have helped, given the checks they failed."""
        for rules, places in list(self._parked.items()):
            for lanes in list(places.values()):
                self._wake_some(lanes, partial(may_help, rules))

    def wake_for(self, labels: dict[str, str], rules: frozenset[str], may_help: Callable[[Lane], bool]) -> None:
        """Try again those that failed one of these checks and may choose a node with such labels."""
        for failed, places in list(self._parked.items()):
            if not rules.isdisjoint(failed):
                for pair in (None, *labels.items()):
                    self._wake_some(places.get(pair, {}), may_help)

    def wake_failed(self, rules: frozenset[str]) -> None:
        """Try again those that failed one of these checks."""
        for failed, places in list(self._parked.items()):
            if not rules.isdisjoint(failed):
                for lanes in list(places.values()):
                    self._wake_some(lanes, lambda _: True)

    def _wake_some(self, lanes: dict[Signature, Lane], may_help: Callable[[Lane], bool]) -> None:
        for lane in [each for each in lanes.values() if may_help(each)]:
            self._activate(lane)

    def pods(self) -> Iterator[Pod]:
        return (pod for lane in self._lanes.values() for _, pod in lane.pods.values())

    def _lane(self, pod: Pod) -> Lane:
        signature = self._signature(pod)
        lane = self._lanes.get(signature)
        if lane is None:
            lane = self._lanes[signature] = Lane(signature, pod.shape.wants.pair)
        return lane

    def _signature(self, pod: Pod) -> Signature:
        shape = pod.shape
        labels = pod.labels
        if shape.terms.affinity or shape.terms.anti_affinity or shape.spreads.hard:
            seen: tuple[object, ...] = tuple(sorted(labels.items()))
        else:
            seen = tuple((key, labels[key]) for key in self._keys if key in labels)
        return (shape.key, pod.key[0], pod.priority, pod.may_preempt, pod.nominated, pod.claims, seen)

    def _note_keys(self) -> None:
        """Labels that count now but did not before split lanes."""
        if len(self._keys) == self._known_keys:
            return
        self._known_keys = len(self._keys)
        lanes, self._lanes = self._lanes, {}
        self._parked = {}
        for before in lanes.values():
            for key, entry in before.pods.items():
                lane = self._lane(entry[1])
                lane.pods[key] = entry
                self._of[key] = lane
                if key in before.told:
                    lane.told[key] = before.told[key]
                self._activate(lane)
            before.active = False

    def _activate(self, lane: Lane) -> None:
        if not lane.active:
            self._unpark(lane)
            lane.active = True
            lane.sequence, pod = next(iter(lane.pods.values()))
            heappush(self._heap, (-pod.priority, lane.sequence, id(lane), lane))

    def _unpark(self, lane: Lane) -> None:
        places = self._parked.get(lane.rules)
        lanes = places.get(lane.pair) if places is not None else None
        if places is not None and lanes is not None and lanes.get(lane.signature) is lane:
            del lanes[lane.signature]
            if not lanes:
                del places[lane.pair]
            if not places:
                del self._parked[lane.rules]
