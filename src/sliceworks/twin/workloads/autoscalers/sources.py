"""What each kind of metric asks for, and in which words it is told that one cannot be had: those of the real controller."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from sliceworks.base import quantity
from sliceworks.kube.selectors import from_label_selector
from sliceworks.twin.workloads.autoscalers import calculator
from sliceworks.twin.workloads.autoscalers.readings import Unread

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sliceworks.kube.selectors import LabelSelector
    from sliceworks.twin.workloads.autoscalers.calculator import Crowd
    from sliceworks.twin.workloads.autoscalers.readings import Reading, Readings

    Metric = Mapping[str, Any]

Obj = dict[str, Any]
_NO_CUSTOM = "unable to fetch metrics from custom metrics API: no custom metrics API (custom.metrics.k8s.io) registered"


class Failure(Exception):
    """A metric cannot be had: a reason, what is said of it, and what becomes of that in the sum of all failures."""

    def __init__(self, reason: str, message: str, summary: str) -> None:
        super().__init__(summary)
        self.reason, self.message, self.summary = reason, message, summary


@dataclass(frozen=True, slots=True)
class Proposal:
    """So many replicas, by a metric that has a name and stands so."""

    replicas: int
    name: str
    status: Obj


async def propose(readings: Readings, metric: Metric, crowd: Crowd, namespace: str, selector: LabelSelector) -> Proposal:
    """What a metric asks for; raises Failure."""
    kind = metric["type"]
    if kind == "Resource":
        return await _resource(readings, metric["resource"], crowd, namespace, selector)
    if kind == "ContainerResource":
        return await _container(readings, metric["containerResource"], crowd, namespace, selector)
    if kind == "External":
        return await _external(readings, metric["external"], crowd, namespace)
    # An adapter would answer, and a twin has no way to let one.
    raise _of_pods(metric["pods"]) if kind == "Pods" else _of_object(metric["object"], namespace)


async def _resource(readings: Readings, source: Metric, crowd: Crowd, namespace: str, selector: LabelSelector) -> Proposal:
    name = source["name"]
    try:
        replicas, current = await _usage(readings, source, crowd, namespace, selector)
    except Unread as error:
        summary = f"failed to get {name} resource metric value: {error}"
        raise Failure("FailedGetResourceMetric", str(error), summary) from error
    return Proposal(replicas, _named(source, "resource"), {"type": "Resource", "resource": {"name": name, "current": current}})


async def _container(readings: Readings, source: Metric, crowd: Crowd, namespace: str, selector: LabelSelector) -> Proposal:
    container = source["container"]
    try:
        replicas, current = await _usage(readings, source, crowd, namespace, selector)
    except Unread as error:
        summary = f"failed to get {container} container metric value: {error}"
        raise Failure("FailedGetContainerResourceMetric", str(error), summary) from error
    status = {"name": source["name"], "container": container, "current": current}
    kind = "resource" if source["target"].get("averageValue") else "container resource"
    return Proposal(replicas, _named(source, kind), {"type": "ContainerResource", "containerResource": status})


def _named(source: Metric, kind: str) -> str:
    share = "" if source["target"].get("averageValue") else " utilization (percentage of request)"
    return f"{source['name']} {kind}{share}"


async def _usage(readings: Readings, source: Metric, crowd: Crowd, namespace: str, selector: LabelSelector) -> tuple[int, Obj]:
    """The replicas by what pods use of a resource, and what they use now."""
    name, target, container = source["name"], source["target"], source.get("container", "")
    style = quantity.BINARY if name == "memory" else quantity.DECIMAL
    average = target.get("averageValue")
    try:
        found = await _read(readings, source, namespace, selector)
        if average is not None:
            replicas, usage = calculator.by_usage(crowd, found, name, quantity.milli(average))
            return replicas, {"averageValue": _text(usage, style)}
        replicas, percent, usage = calculator.by_utilization(crowd, found, name, target["averageUtilization"], container=container)
    except Unread as error:
        raise Unread(f"failed to get {name} {'utilization' if average is None else 'usage'}: {error}") from error
    return replicas, {"averageUtilization": percent, "averageValue": _text(usage, style)}


async def _read(readings: Readings, source: Metric, namespace: str, selector: LabelSelector) -> dict[str, Reading]:
    try:
        return await readings.usage(namespace, selector, source["name"], source.get("container", ""))
    except Unread as error:
        raise Unread(f"unable to get metrics for resource {source['name']}: {error}") from error


async def _external(readings: Readings, source: Metric, crowd: Crowd, namespace: str) -> Proposal:
    name, selector, target = source["metric"]["name"], source["metric"].get("selector"), source["target"]
    each = target.get("averageValue")
    try:
        usage = await _values(readings, name, selector, namespace)
        if each is not None:
            replicas, usage = calculator.by_share(crowd, usage, quantity.milli(each))
        else:
            replicas = calculator.by_ratio(crowd, usage, quantity.milli(target["value"]))
    except Unread as error:
        inner = (
            f"failed to get external metric {name}: {error}" if each is None else f"failed to get {name} external metric: {error}"
        )
        summary = f"failed to get {name} external metric value: {inner}"
        raise Failure("FailedGetExternalMetric", str(error), summary) from error
    current = {"value" if each is None else "averageValue": _text(usage, quantity.DECIMAL)}
    status = {"metric": source["metric"], "current": current}
    return Proposal(replicas, f"external metric {name}({_go_text(selector)})", {"type": "External", "external": status})


async def _values(readings: Readings, name: str, selector: Metric | None, namespace: str) -> int:
    try:
        return sum(await readings.external(namespace, name, from_label_selector(selector)))
    except Unread as error:
        raise Unread(f"unable to get external metric {namespace}/{name}/{_go_text(selector)}: {error}") from error


def _of_pods(source: Metric) -> Failure:
    message = f"unable to get metric {source['metric']['name']}: {_NO_CUSTOM}"
    return Failure("FailedGetPodsMetric", message, f"failed to get pods metric value: {message}")


def _of_object(source: Metric, namespace: str) -> Failure:
    name, about = source["metric"]["name"], source["describedObject"]
    # The real controller mixes up the words of this message.
    message = f"unable to get metric {name}: {about['kind']} on {namespace} {about['name']}/{_NO_CUSTOM}"
    summary = message if source["target"]["type"] == "Value" else f"failed to get {name} object metric: {message}"
    return Failure("FailedGetObjectMetric", message, f"failed to get object metric value: {summary}")


def _text(thousandths: int, style: str) -> str:
    return quantity.render(Fraction(thousandths, 1000), style)


def _go_text(selector: Metric | None) -> str:
    """A label selector as Go prints one."""
    if selector is None:
        return "nil"
    labels = "".join(f"{key}: {value}," for key, value in sorted((selector.get("matchLabels") or {}).items()))
    rules = "".join(
        f"LabelSelectorRequirement{{Key:{each['key']},Operator:{each['operator']},Values:[{' '.join(each.get('values') or ())}],}},"
        for each in selector.get("matchExpressions") or ()
    )
    return f"&LabelSelector{{MatchLabels:map[string]string{{{labels}}},MatchExpressions:[]LabelSelectorRequirement{{{rules}}},}}"
