"""Bounds, policies and stabilization windows of a HorizontalPodAutoscaler. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

ScalingRules = dict[str, Any]
DEFAULT_WINDOW = 300.0
"""The default stabilization window for scaling down, in seconds."""
WITHIN_RANGE = ("DesiredWithinRange", "the desired count is within the acceptable range")
READY_FOR_SCALE = ("ReadyForNewScale", "recommended size matches current size")
_TOO_MANY = ("TooManyReplicas", "the desired replica count is more than the maximum replica count")
_TOO_FEW = ("TooFewReplicas", "the desired replica count is less than the minimum replica count")
_TOO_FAST_UP = ("ScaleUpLimit", "the desired replica count is increasing faster than the maximum scale rate")
_TOO_FAST_DOWN = ("ScaleDownLimit", "the desired replica count is decreasing faster than the maximum scale rate")
_STABILIZED_UP = (
    "ScaleUpStabilized",
    "recent recommendations were lower than current one, applying the lowest recent recommendation",
)
_STABILIZED_DOWN = (
    "ScaleDownStabilized",
    "recent recommendations were higher than current one, applying the highest recent recommendation",
)
ReasonMessage = tuple[str, str]
"""Reason and message of a condition."""


@dataclass(slots=True)
class ScalingHistory:
    """Recent recommendations and scale changes, each with its time in seconds."""

    recommendations: list[tuple[int, float]] = field(default_factory=list)
    added: list[tuple[int, float]] = field(default_factory=list)
    removed: list[tuple[int, float]] = field(default_factory=list)

    def start(self, current: int, now: float) -> None:
        """Record the current replicas as the first recommendation."""
        if not self.recommendations:
            self.recommendations.append((current, now))

    def record_scale(self, behavior: Mapping[str, ScalingRules] | None, before: int, after: int, now: float) -> None:
        """Record a scale change, and drop those that no policy period reaches."""
        if behavior is None:
            return
        changes, direction = (self.added, "scaleUp") if after > before else (self.removed, "scaleDown")
        period = max((policy["periodSeconds"] for policy in behavior[direction].get("policies") or ()), default=0)
        changes[:] = [(count, at) for count, at in changes if at >= now - period]
        changes.append((abs(after - before), now))

    def record_recommendation(self, count: int, now: float, window: float) -> None:
        """Record a recommendation, and drop those outside of the window."""
        self.recommendations[:] = [(count, at) for count, at in self.recommendations if at >= now - window]
        self.recommendations.append((count, now))


@dataclass(frozen=True, slots=True)
class ScalingDecision:
    """The new replicas; reason and message of AbleToScale and ScalingLimited; whether a limit applied."""

    replicas: int
    able: ReasonMessage
    limit: ReasonMessage
    limited: bool


@dataclass(frozen=True, slots=True)
class Bounds:
    """minReplicas and maxReplicas."""

    minimum: int
    maximum: int


def normalize_replicas(history: ScalingHistory, current: int, desired: int, bounds: Bounds, *, now: float) -> ScalingDecision:
    """The decision for an autoscaler without `behavior`: it scales up to twice the current replicas, or four."""
    stabilized = max([desired, *(count for count, at in history.recommendations if at >= now - DEFAULT_WINDOW)])
    history.record_recommendation(desired, now, DEFAULT_WINDOW)
    rate_limit = max(2 * current, 4)
    maximum, cause = (rate_limit, _TOO_FAST_UP) if bounds.maximum > rate_limit else (bounds.maximum, _TOO_MANY)
    replicas, limit = stabilized, WITHIN_RANGE
    if stabilized < bounds.minimum:
        replicas, limit = bounds.minimum, _TOO_FEW
    elif stabilized > maximum:
        replicas, limit = maximum, cause
    return ScalingDecision(replicas, READY_FOR_SCALE if stabilized == desired else _STABILIZED_DOWN, limit, replicas != stabilized)


def normalize_with_behavior(
    history: ScalingHistory, behavior: Mapping[str, ScalingRules], current: int, desired: int, bounds: Bounds, *, now: float
) -> ScalingDecision:
    """The decision for an autoscaler with `behavior`."""
    stabilized = _stabilize(history, behavior, current, desired, now)
    able = READY_FOR_SCALE if stabilized == desired else (_STABILIZED_UP if desired >= current else _STABILIZED_DOWN)
    replicas, limit = stabilized, WITHIN_RANGE
    if stabilized > current:
        rate_limit = max(current, _rate_limit(history, behavior["scaleUp"], current, now, up=True))
        maximum, cause = (rate_limit, _TOO_FAST_UP) if bounds.maximum > rate_limit else (bounds.maximum, _TOO_MANY)
        if stabilized > maximum:
            replicas, limit = maximum, cause
    elif stabilized < current:
        rate_limit = min(current, _rate_limit(history, behavior["scaleDown"], current, now, up=False))
        minimum, cause = (rate_limit, _TOO_FAST_DOWN) if bounds.minimum < rate_limit else (bounds.minimum, _TOO_FEW)
        if stabilized < minimum:
            replicas, limit = minimum, cause
    return ScalingDecision(replicas, able, limit, replicas != stabilized)


def _stabilize(history: ScalingHistory, behavior: Mapping[str, ScalingRules], current: int, desired: int, now: float) -> int:
    """The desired replicas, stabilized by the lowest and highest recommendations within the windows."""
    up = behavior["scaleUp"].get("stabilizationWindowSeconds") or 0
    down = behavior["scaleDown"].get("stabilizationWindowSeconds")
    down = DEFAULT_WINDOW if down is None else down
    lowest = min([desired, *(count for count, at in history.recommendations if at > now - up)])
    highest = max([desired, *(count for count, at in history.recommendations if at > now - down)])
    history.record_recommendation(desired, now, max(up, down))
    return min(max(current, lowest), highest)


def _rate_limit(history: ScalingHistory, rules: ScalingRules, current: int, now: float, *, up: bool) -> int:
    """The replicas that the scaling policies allow."""
    select = rules.get("selectPolicy", "Max")
    if select == "Disabled":
        return current
    # The smallest change is the lowest count when scaling up, and the highest when scaling down.
    choose: Callable[[list[int]], int] = min if (select == "Min") == up else max
    allowed = []
    for policy in rules["policies"]:
        start = current - _changed_within(history.added, policy, now) + _changed_within(history.removed, policy, now)
        change = policy["value"] if up else -policy["value"]
        if policy["type"] == "Pods":
            allowed.append(start + change)
        else:
            scaled = start * (1 + change / 100)
            allowed.append(math.ceil(scaled) if up else int(scaled))
    return choose(allowed)


def _changed_within(changes: list[tuple[int, float]], policy: ScalingRules, now: float) -> int:
    return sum(count for count, at in changes if at > now - policy["periodSeconds"])
