"""The replica calculator of the HorizontalPodAutoscaler, and the metrics client it reads from."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from sliceworks.base import clock, duration, quantity
from sliceworks.base.conditions import find_condition, is_condition_true
from sliceworks.base.errors import ApiError, NotFound
from sliceworks.kube.pod_requests import has_pod_level_requests, pod_requests, sidecars
from sliceworks.kube.resources import Resource

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from datetime import datetime

    from sliceworks.kube.resources import Object
    from sliceworks.kube.selectors import LabelSelector
    from sliceworks.twin.apiserver.auth.authentication import User
    from sliceworks.twin.controllers.runtime.controller_context import ControllerContext

_VERSION = "v1beta1"
_NOT_FOUND = "the server could not find the requested resource"
Values = dict[str, int]
_MAX_INT32 = 2**31 - 1
_INITIALIZATION_PERIOD = timedelta(minutes=5)
"""After its start, a pod's CPU usage may be that of the start-up for this long."""
_INITIAL_READINESS_DELAY = timedelta(seconds=30)
"""A pod whose Ready condition changed to False this soon after its start has never been ready."""
_NO_PODS = "no pods returned by selector while calculating replica count"


class MetricUnavailable(Exception):
    """A metric cannot be read; the message is the cause."""


@dataclass(frozen=True, slots=True)
class PodMetric:
    """The usage of a pod in milli-units, over a window of seconds that ended at a time."""

    value: int
    at: datetime | None = None
    window: float = 0.0


class MetricsClient:
    """Reads the resource and external metrics APIs as one user."""

    def __init__(self, context: ControllerContext, user: User) -> None:
        self._context, self._user = context, user

    async def usage(self, namespace: str, selector: LabelSelector, resource: str, container: str = "") -> dict[str, PodMetric]:
        """The usage of a resource by pod name; of one container if it is given."""
        items = await self._list("resource", "metrics.k8s.io", "pods", namespace, str(selector))
        try:
            metrics = {item["metadata"]["name"]: _parse_metric(item, resource, container) for item in items}
        except (ValueError, TypeError, AttributeError, KeyError) as error:
            raise MetricUnavailable(f"unable to fetch metrics from resource metrics API: {error}") from error
        return {name: metric for name, metric in metrics.items() if metric is not None}

    async def external(self, namespace: str, metric: str, selector: LabelSelector) -> list[int]:
        """The values of an external metric in milli-units."""
        items = await self._list("external", "external.metrics.k8s.io", metric, namespace, str(selector))
        try:
            return [quantity.milli(item.get("value", "0")) for item in items]
        except (ValueError, TypeError) as error:
            raise MetricUnavailable(f"unable to fetch metrics from external metrics API: {error}") from error

    async def _list(self, api: str, group: str, plural: str, namespace: str, selector: str) -> list[Object]:
        failure = f"unable to fetch metrics from {api} metrics API"
        path = Resource(group, _VERSION, "", plural).path(namespace)
        try:
            response = await self._context.send(self._user, "GET", path, labelSelector=selector)
        except NotFound as error:
            raise MetricUnavailable(f"{failure}: {_NOT_FOUND} (get {plural}.{group})") from error
        except ApiError as error:
            raise MetricUnavailable(f"{failure}: {error.message}") from error
        items: list[Object] = response["items"]
        if not items:
            raise MetricUnavailable(f"no metrics returned from {api} metrics API")
        return items


def _parse_metric(item: Object, resource: str, container: str) -> PodMetric | None:
    """The usage of one pod; None if a container has no value."""
    containers = item.get("containers") or ()
    usages = [item.get("usage") or {} for item in containers if not container or item["name"] == container]
    if not usages or any(resource not in usage for usage in usages):
        return None
    value = sum(quantity.milli(usage[resource]) for usage in usages)
    return PodMetric(value, clock.parse(item.get("timestamp")), duration.parse(item.get("window") or "0"))


@dataclass(frozen=True, slots=True)
class Tolerances:
    """How far the usage ratio may be from 1 without a change of scale."""

    down: float = 0.1
    up: float = 0.1

    def contains(self, ratio: float) -> bool:
        return 1.0 - self.down <= ratio <= 1.0 + self.up


@dataclass(frozen=True, slots=True)
class ScaledPods:
    """The pods of a scale target, with spec.replicas and status.replicas of its scale."""

    spec_replicas: int
    status_replicas: int
    pods: list[Object]
    tolerances: Tolerances
    now: datetime


@dataclass(slots=True)
class PodGroups:
    """Pods by whether their metrics count."""

    ready: int
    unready: set[str]
    missing: set[str]
    ignored: set[str]


def by_usage(scaled: ScaledPods, metrics: Mapping[str, PodMetric], resource: str, target: int) -> tuple[int, int]:
    """The replicas at which the average usage is the target, and the current average; in milli-units."""
    groups, values = _usable_values(scaled, metrics, resource)

    def ratio(values: Values) -> float:
        return _average(values) / target

    return _compute_replicas(scaled, values, groups, ratio, lambda _: target), _average(values)


def by_utilization(
    scaled: ScaledPods, metrics: Mapping[str, PodMetric], resource: str, target: int, *, container: str = ""
) -> tuple[int, int, int]:
    """The replicas at which usage is the target percentage of requests; the current percentage and average usage."""
    groups, values = _usable_values(scaled, metrics, resource)
    requests = {pod["metadata"]["name"]: _pod_request(pod, resource, container) for pod in scaled.pods}

    def ratio(values: Values) -> float:
        return _percent(values, requests) / target

    percent = _percent(values, requests)
    known = {name: value for name, value in values.items() if name in requests}
    assumed = max(100, target)
    replicas = _compute_replicas(scaled, values, groups, ratio, lambda name: requests[name] * assumed // 100)
    return replicas, percent, _average(known)


def by_ratio(scaled: ScaledPods, usage: int, target: int) -> int:
    """The replicas at which a metric of the whole target has the target value."""
    ratio = usage / target
    if scaled.spec_replicas == 0:
        return math.ceil(ratio)
    if scaled.tolerances.contains(ratio):
        return scaled.spec_replicas
    if not scaled.pods:
        raise MetricUnavailable(f"unable to calculate ready pods: {_NO_PODS}")
    running = [pod for pod in scaled.pods if pod["status"].get("phase") == "Running"]
    ready = sum(is_condition_true(pod, "Ready") for pod in running)
    return min(_MAX_INT32, math.ceil(ratio * ready))


def by_average(scaled: ScaledPods, usage: int, target: int) -> tuple[int, int]:
    """The replicas at which each has the target share of a metric, and the current share; in milli-units."""
    replicas = min(_MAX_INT32, math.ceil(usage / target))
    if scaled.status_replicas == 0:
        return replicas, usage
    is_close = scaled.tolerances.contains(usage / (target * scaled.status_replicas))
    return scaled.status_replicas if is_close else replicas, math.ceil(usage / scaled.status_replicas)


def _usable_values(scaled: ScaledPods, metrics: Mapping[str, PodMetric], resource: str) -> tuple[PodGroups, Values]:
    """The pods by group, and the values of those whose metrics count."""
    if not scaled.pods:
        raise MetricUnavailable(_NO_PODS)
    groups = _group_pods(scaled.pods, metrics, resource, scaled.now)
    values = {name: metric.value for name, metric in metrics.items() if name not in groups.ignored | groups.unready}
    if not values:
        raise MetricUnavailable("did not receive metrics for targeted pods (pods might be unready)")
    return groups, values


def _compute_replicas(
    scaled: ScaledPods, values: Values, groups: PodGroups, ratio: Callable[[Values], float], assumed: Callable[[str], int]
) -> int:
    """The replicas by a usage ratio. Pods without metrics count as unused when scaling up, and as `assumed` when scaling down."""
    current, tolerances, usage_ratio = scaled.spec_replicas, scaled.tolerances, ratio(values)
    unready_count_as_zero = bool(groups.unready) and usage_ratio > 1.0
    if not unready_count_as_zero and not groups.missing:
        return current if tolerances.contains(usage_ratio) else math.ceil(usage_ratio * groups.ready)
    filled = dict(values)
    if usage_ratio != 1.0:
        filled |= {name: assumed(name) if usage_ratio < 1.0 else 0 for name in groups.missing}
    if unready_count_as_zero:
        filled |= dict.fromkeys(groups.unready, 0)
    filled_ratio = ratio(filled)
    if tolerances.contains(filled_ratio) or usage_ratio < 1.0 < filled_ratio or usage_ratio > 1.0 > filled_ratio:
        return current
    replicas = math.ceil(filled_ratio * len(filled))
    direction_changed = (filled_ratio < 1.0 and replicas > current) or (filled_ratio > 1.0 and replicas < current)
    return current if direction_changed else replicas


def _group_pods(pods: Iterable[Object], metrics: Mapping[str, PodMetric], resource: str, now: datetime) -> PodGroups:
    groups = PodGroups(0, set(), set(), set())
    for pod in pods:
        name, phase = pod["metadata"]["name"], pod["status"].get("phase")
        if pod["metadata"].get("deletionTimestamp") or phase == "Failed":
            groups.ignored.add(name)
        elif phase == "Pending":
            groups.unready.add(name)
        elif name not in metrics:
            groups.missing.add(name)
        elif resource == "cpu" and _is_initializing(pod, metrics[name], now):
            groups.unready.add(name)
        else:
            groups.ready += 1
    return groups


def _is_initializing(pod: Object, metric: PodMetric, now: datetime) -> bool:
    """Whether a pod's CPU usage is that of its start-up."""
    ready, start = find_condition(pod, "Ready"), clock.parse(pod["status"].get("startTime"))
    if not ready or start is None:
        return True
    unready, since = ready.get("status") == "False", clock.parse(ready.get("lastTransitionTime"))
    if start + _INITIALIZATION_PERIOD > now:
        early = since is not None and (metric.at is None or metric.at < since + timedelta(seconds=metric.window))
        return unready or early
    return unready and (since is None or start + _INITIAL_READINESS_DELAY > since)


def _average(values: Values) -> int:
    return sum(values.values()) // len(values)


def _percent(values: Values, requests: Values) -> int:
    known = [name for name in values if name in requests]
    requested = sum(requests[name] for name in known)
    if requested == 0:
        raise MetricUnavailable("no metrics returned matched known pods")
    return sum(values[name] for name in known) * 100 // requested


def _pod_request(pod: Object, resource: str, container: str) -> int:
    """The request of a pod, or of one of its containers, in milli-units."""
    spec, name = pod["spec"], pod["metadata"]["name"]
    if not container and has_pod_level_requests(spec):
        request = pod_requests(spec).get(resource)
        if request is None:
            raise MetricUnavailable(f"missing pod-level request for {resource} in Pod {name}")
        return request if resource == "cpu" else request * 1000
    containers = [item for item in [*spec["containers"], *sidecars(spec)] if not container or item["name"] == container]
    if not containers:
        raise MetricUnavailable(f"container {container} not found in Pod {name}")
    for current in containers:
        if resource not in ((current.get("resources") or {}).get("requests") or {}):
            raise MetricUnavailable(f"missing request for {resource} in container {current['name']} of Pod {name}")
    return sum(quantity.milli(item["resources"]["requests"][resource]) for item in containers)
