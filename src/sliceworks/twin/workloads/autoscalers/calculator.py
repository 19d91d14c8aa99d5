"""How many replicas a metric asks for: pure, after the real controller's replica calculator.

Pods that say nothing, or nothing worth hearing, never make the number move further than those that do.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from sliceworks.base import clock, quantity
from sliceworks.base.conditions import condition, is_true
from sliceworks.twin.scheduler.requests import pod_requests
from sliceworks.twin.workloads.autoscalers.readings import Reading, Unread

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from datetime import datetime

Obj = dict[str, Any]
Values = dict[str, int]
_MOST = 2**31 - 1
_STARTING = timedelta(minutes=5)
"""So long after its start what a pod uses of the CPU may be the start itself."""
_FIRST_READY = timedelta(seconds=30)
"""A pod that became unready so soon after its start has never been ready."""
_NO_PODS = "no pods returned by selector while calculating replica count"


@dataclass(frozen=True, slots=True)
class Tolerances:
    """How far the measured may be from the wanted before anything changes, as a part of the wanted."""

    down: float = 0.1
    up: float = 0.1

    def allow(self, ratio: float) -> bool:
        return 1.0 - self.down <= ratio <= 1.0 + self.up


@dataclass(frozen=True, slots=True)
class Crowd:
    """What is scaled: how many are asked for and how many there are, the pods, and how much of a difference does not matter."""

    asked: int
    counted: int
    pods: list[Obj]
    tolerances: Tolerances
    now: datetime


@dataclass(slots=True)
class Groups:
    """Pods by what their readings are worth."""

    ready: int
    unready: set[str]
    missing: set[str]
    ignored: set[str]


def by_usage(crowd: Crowd, readings: Mapping[str, Reading], resource: str, target: int) -> tuple[int, int]:
    """The replicas at which each would use the target, and what each uses now; in thousandths."""
    groups, values = _worth(crowd, readings, resource)

    def ratio(values: Values) -> float:
        return _average(values) / target

    return _proposed(crowd, values, groups, ratio, lambda _: target), _average(values)


def by_utilization(
    crowd: Crowd, readings: Mapping[str, Reading], resource: str, target: int, *, container: str = ""
) -> tuple[int, int, int]:
    """The replicas at which each uses so many percent of what it asks for; what they use now, in percent and in thousandths."""
    groups, values = _worth(crowd, readings, resource)
    requests = {pod["metadata"]["name"]: _requested(pod, resource, container) for pod in crowd.pods}

    def ratio(values: Values) -> float:
        return _percent(values, requests) / target

    percent = _percent(values, requests)
    known = {name: value for name, value in values.items() if name in requests}
    instead = max(100, target)
    wanted = _proposed(crowd, values, groups, ratio, lambda name: requests[name] * instead // 100)
    return wanted, percent, _average(known)


def by_ratio(crowd: Crowd, usage: int, target: int) -> int:
    """The replicas that a number about all of them together asks for."""
    ratio = usage / target
    if crowd.asked == 0:
        return math.ceil(ratio)
    if crowd.tolerances.allow(ratio):
        return crowd.asked
    if not crowd.pods:
        raise Unread(f"unable to calculate ready pods: {_NO_PODS}")
    running = [pod for pod in crowd.pods if pod["status"].get("phase") == "Running"]
    ready = sum(is_true(pod, "Ready") for pod in running)
    return min(_MOST, math.ceil(ratio * ready))


def by_share(crowd: Crowd, usage: int, target: int) -> tuple[int, int]:
    """The replicas at which each has the target of a number that they share, and what each has now; in thousandths."""
    wanted = min(_MOST, math.ceil(usage / target))
    if crowd.counted == 0:
        return wanted, usage
    close = crowd.tolerances.allow(usage / (target * crowd.counted))
    return crowd.counted if close else wanted, math.ceil(usage / crowd.counted)


def _worth(crowd: Crowd, readings: Mapping[str, Reading], resource: str) -> tuple[Groups, Values]:
    """The pods by what their readings are worth, and the values that count."""
    if not crowd.pods:
        raise Unread(_NO_PODS)
    groups = _grouped(crowd.pods, readings, resource, crowd.now)
    values = {name: each.value for name, each in readings.items() if name not in groups.ignored | groups.unready}
    if not values:
        raise Unread("did not receive metrics for targeted pods (pods might be unready)")
    return groups, values


def _proposed(crowd: Crowd, values: Values, groups: Groups, ratio: Callable[[Values], float], instead: Callable[[str], int]) -> int:
    """The replicas by a ratio. Those that say nothing count as nothing when more are wanted, and as `instead` when fewer are."""
    current, tolerances, first = crowd.asked, crowd.tolerances, ratio(values)
    rising = bool(groups.unready) and first > 1.0
    if not rising and not groups.missing:
        return current if tolerances.allow(first) else math.ceil(first * groups.ready)
    filled = dict(values)
    if first != 1.0:
        filled |= {name: instead(name) if first < 1.0 else 0 for name in groups.missing}
    if rising:
        filled |= dict.fromkeys(groups.unready, 0)
    second = ratio(filled)
    if tolerances.allow(second) or first < 1.0 < second or first > 1.0 > second:
        return current
    wanted = math.ceil(second * len(filled))
    turned = (second < 1.0 and wanted > current) or (second > 1.0 and wanted < current)
    return current if turned else wanted


def _grouped(pods: Iterable[Obj], readings: Mapping[str, Reading], resource: str, now: datetime) -> Groups:
    """Pods by what their readings are worth."""
    groups = Groups(0, set(), set(), set())
    for pod in pods:
        name, phase = pod["metadata"]["name"], pod["status"].get("phase")
        if pod["metadata"].get("deletionTimestamp") or phase == "Failed":
            groups.ignored.add(name)
        elif phase == "Pending":
            groups.unready.add(name)
        elif name not in readings:
            groups.missing.add(name)
        elif resource == "cpu" and _starts(pod, readings[name], now):
            groups.unready.add(name)
        else:
            groups.ready += 1
    return groups


def _starts(pod: Obj, reading: Reading, now: datetime) -> bool:
    """Whether what a pod uses of the CPU tells of its start alone."""
    ready, start = condition(pod, "Ready"), clock.parse(pod["status"].get("startTime"))
    if not ready or start is None:
        return True
    unready, since = ready.get("status") == "False", clock.parse(ready.get("lastTransitionTime"))
    if start + _STARTING > now:
        early = since is not None and (reading.at is None or reading.at < since + timedelta(seconds=reading.window))
        return unready or early
    return unready and (since is None or start + _FIRST_READY > since)


def _average(values: Values) -> int:
    return sum(values.values()) // len(values)


def _percent(values: Values, requests: Values) -> int:
    known = [name for name in values if name in requests]
    asked = sum(requests[name] for name in known)
    if asked == 0:
        raise Unread("no metrics returned matched known pods")
    return sum(values[name] for name in known) * 100 // asked


def _requested(pod: Obj, resource: str, container: str) -> int:
    """What a pod asks for of a resource, or one of its containers, in thousandths."""
    spec, name = pod["spec"], pod["metadata"]["name"]
    if not container and _asks_as_a_whole(spec):
        whole = pod_requests(spec).get(resource)
        if whole is None:
            raise Unread(f"missing pod-level request for {resource} in Pod {name}")
        return whole if resource == "cpu" else whole * 1000
    sidecars = [each for each in spec.get("initContainers") or () if each.get("restartPolicy") == "Always"]
    counted = [each for each in [*spec["containers"], *sidecars] if not container or each["name"] == container]
    if not counted:
        raise Unread(f"container {container} not found in Pod {name}")
    for each in counted:
        if resource not in ((each.get("resources") or {}).get("requests") or {}):
            raise Unread(f"missing request for {resource} in container {each['name']} of Pod {name}")
    return sum(quantity.milli(each["resources"]["requests"][resource]) for each in counted)


def _asks_as_a_whole(spec: Obj) -> bool:
    asked = (spec.get("resources") or {}).get("requests") or {}
    return any(name in {"cpu", "memory"} or name.startswith("hugepages-") for name in asked)
