"""How fast replicas may come and go: bounds, policies and windows over what was wanted and done of late. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

Rules = dict[str, Any]
WINDOW = 300.0
"""Seconds in which nothing is taken away that was wanted, where an autoscaler says nothing of it."""
WITHIN = ("DesiredWithinRange", "the desired count is within the acceptable range")
MATCHES = ("ReadyForNewScale", "recommended size matches current size")
_TOO_MANY = ("TooManyReplicas", "the desired replica count is more than the maximum replica count")
_TOO_FEW = ("TooFewReplicas", "the desired replica count is less than the minimum replica count")
_TOO_FAST_UP = ("ScaleUpLimit", "the desired replica count is increasing faster than the maximum scale rate")
_TOO_FAST_DOWN = ("ScaleDownLimit", "the desired replica count is decreasing faster than the maximum scale rate")
_LOWER = ("ScaleUpStabilized", "recent recommendations were lower than current one, applying the lowest recent recommendation")
_HIGHER = ("ScaleDownStabilized", "recent recommendations were higher than current one, applying the highest recent recommendation")

Words = tuple[str, str]
"""Reason and message of a condition."""


@dataclass(slots=True)
class Memory:
    """What was wanted and done of late, each with its moment in seconds."""

    wanted: list[tuple[int, float]] = field(default_factory=list)
    added: list[tuple[int, float]] = field(default_factory=list)
    removed: list[tuple[int, float]] = field(default_factory=list)

    def begin(self, current: int, now: float) -> None:
        """What is there at the first look counts as wanted."""
        if not self.wanted:
            self.wanted.append((current, now))

    def note(self, behavior: Mapping[str, Rules] | None, before: int, after: int, now: float) -> None:
        """Remember a change, for as long as a policy asks for it."""
        if behavior is None:
            return
        done, side = (self.added, "scaleUp") if after > before else (self.removed, "scaleDown")
        longest = max((each["periodSeconds"] for each in behavior[side].get("policies") or ()), default=0)
        done[:] = [each for each in done if each[1] >= now - longest]
        done.append((abs(after - before), now))

    def want(self, count: int, now: float, window: float) -> None:
        """Remember what is wanted now, and forget what no window reaches."""
        self.wanted[:] = [each for each in self.wanted if each[1] >= now - window]
        self.wanted.append((count, now))


@dataclass(frozen=True, slots=True)
class Step:
    """How many there shall be; what is said of being able to scale, of limits, and whether one was met."""

    replicas: int
    able: Words
    limit: Words
    limited: bool


@dataclass(frozen=True, slots=True)
class Bounds:
    """Between which numbers the replicas may be."""

    least: int
    most: int


def plain(memory: Memory, current: int, wanted: int, bounds: Bounds, *, now: float) -> Step:
    """The next step of an autoscaler that says nothing of its behaviour: at most twice as many, or four."""
    steady = max([wanted, *(count for count, at in memory.wanted if at >= now - WINDOW)])
    memory.want(wanted, now, WINDOW)
    fastest = max(2 * current, 4)
    most, words = (fastest, _TOO_FAST_UP) if bounds.most > fastest else (bounds.most, _TOO_MANY)
    replicas, limit = steady, WITHIN
    if steady < bounds.least:
        replicas, limit = bounds.least, _TOO_FEW
    elif steady > most:
        replicas, limit = most, words
    return Step(replicas, MATCHES if steady == wanted else _HIGHER, limit, replicas != steady)


def behaved(memory: Memory, behavior: Mapping[str, Rules], current: int, wanted: int, bounds: Bounds, *, now: float) -> Step:
    """The next step of an autoscaler with rules of its own."""
    steady = _steady(memory, behavior, current, wanted, now)
    able = MATCHES if steady == wanted else (_LOWER if wanted >= current else _HIGHER)
    replicas, limit = steady, WITHIN
    if steady > current:
        fastest = max(current, _allowed(memory, behavior["scaleUp"], current, now, up=True))
        most, words = (fastest, _TOO_FAST_UP) if bounds.most > fastest else (bounds.most, _TOO_MANY)
        if steady > most:
            replicas, limit = most, words
    elif steady < current:
        fastest = min(current, _allowed(memory, behavior["scaleDown"], current, now, up=False))
        least, words = (fastest, _TOO_FAST_DOWN) if bounds.least < fastest else (bounds.least, _TOO_FEW)
        if steady < least:
            replicas, limit = least, words
    return Step(replicas, able, limit, replicas != steady)


def _steady(memory: Memory, behavior: Mapping[str, Rules], current: int, wanted: int, now: float) -> int:
    """As many as were wanted all through the window of the way there."""
    up = behavior["scaleUp"].get("stabilizationWindowSeconds") or 0
    down = behavior["scaleDown"].get("stabilizationWindowSeconds")
    down = WINDOW if down is None else down
    lowest = min([wanted, *(count for count, at in memory.wanted if at > now - up)])
    highest = max([wanted, *(count for count, at in memory.wanted if at > now - down)])
    memory.want(wanted, now, max(up, down))
    return min(max(current, lowest), highest)


def _allowed(memory: Memory, rules: Rules, current: int, now: float, *, up: bool) -> int:
    """How far the policies let the number go."""
    select = rules.get("selectPolicy", "Max")
    if select == "Disabled":
        return current
    # The smallest change is the lowest number on the way up, and the highest on the way down.
    choose: Callable[[list[int]], int] = min if (select == "Min") == up else max
    reach = []
    for policy in rules["policies"]:
        start = current - _done(memory.added, policy, now) + _done(memory.removed, policy, now)
        change = policy["value"] if up else -policy["value"]
        if policy["type"] == "Pods":
            reach.append(start + change)
        else:
            share = start * (1 + change / 100)
            reach.append(math.ceil(share) if up else int(share))
    return choose(reach)


def _done(changes: list[tuple[int, float]], policy: Rules, now: float) -> int:
    return sum(count for count, at in changes if at > now - policy["periodSeconds"])
