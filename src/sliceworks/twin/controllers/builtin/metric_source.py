"""The replicas that each type of metric asks for (Resource, ContainerResource, External), with the real controller's messages."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from sliceworks.base import quantity
from sliceworks.kube.selectors import from_label_selector
from sliceworks.twin.apiserver.printers.cells import format_go_selector
from sliceworks.twin.controllers.builtin import replica_calculator
from sliceworks.twin.controllers.builtin.replica_calculator import MetricUnavailable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sliceworks.kube.resources import Object
    from sliceworks.kube.selectors import LabelSelector
    from sliceworks.twin.controllers.builtin.replica_calculator import MetricsClient, PodMetric, ScaledPods

    Metric = Mapping[str, Any]

_NO_CUSTOM = "unable to fetch metrics from custom metrics API: no custom metrics API (custom.metrics.k8s.io) registered"


class MetricFailure(Exception):
    """A metric failed: the reason and message of its condition, and its part in the summary of all failures."""

    def __init__(self, reason: str, message: str, summary: str) -> None:
        super().__init__(summary)
        self.reason, self.message, self.summary = reason, message, summary


@dataclass(frozen=True, slots=True)
class ReplicaProposal:
    """The replicas that a metric asks for, with the metric's name and status."""

    replicas: int
    name: str
    status: Object


async def compute_replicas(
    client: MetricsClient, metric: Metric, scaled: ScaledPods, namespace: str, selector: LabelSelector
) -> ReplicaProposal:
    """The replicas that a metric asks for; raises MetricFailure."""
    kind = metric["type"]
    if kind in ("Resource", "ContainerResource"):
        source = metric["resource" if kind == "Resource" else "containerResource"]
        return await _usage(client, source, scaled, namespace, selector)
    if kind == "External":
        return await _external(client, metric["external"], scaled, namespace)
    # These need a custom metrics adapter, which a twin cannot have.
    raise _pods_failure(metric["pods"]) if kind == "Pods" else _object_failure(metric["object"], namespace)


async def _usage(
    client: MetricsClient, source: Metric, scaled: ScaledPods, namespace: str, selector: LabelSelector
) -> ReplicaProposal:
    """The replicas by the usage of a resource, of whole pods or of one container of each."""
    name, container = source["name"], source.get("container")
    kind = "ContainerResource" if container else "Resource"
    try:
        replicas, current = await _compute_usage(client, source, scaled, namespace, selector)
    except MetricUnavailable as error:
        subject = f"{container} container" if container else f"{name} resource"
        summary = f"failed to get {subject} metric value: {error}"
        raise MetricFailure(f"FailedGet{kind}Metric", str(error), summary) from error
    status = {"name": name, **({"container": container} if container else {}), "current": current}
    proposal = {"type": kind, f"{kind[0].lower()}{kind[1:]}": status}
    return ReplicaProposal(replicas, _metric_name(source), proposal)


def _metric_name(source: Metric) -> str:
    if source["target"].get("averageValue"):
        return f"{source['name']} resource"
    kind = "container resource" if source.get("container") else "resource"
    return f"{source['name']} {kind} utilization (percentage of request)"


async def _compute_usage(
    client: MetricsClient, source: Metric, scaled: ScaledPods, namespace: str, selector: LabelSelector
) -> tuple[int, Object]:
    """The replicas by the usage of a resource, and the current usage."""
    name, target, container = source["name"], source["target"], source.get("container", "")
    style = quantity.BINARY if name == "memory" else quantity.DECIMAL
    average = target.get("averageValue")
    try:
        metrics = await _read_usage(client, source, namespace, selector)
        if average is not None:
            replicas, usage = replica_calculator.by_usage(scaled, metrics, name, quantity.milli(average))
            return replicas, {"averageValue": _format_milli(usage, style)}
        replicas, percent, usage = replica_calculator.by_utilization(
            scaled, metrics, name, target["averageUtilization"], container=container
        )
    except MetricUnavailable as error:
        raise MetricUnavailable(f"failed to get {name} {'utilization' if average is None else 'usage'}: {error}") from error
    return replicas, {"averageUtilization": percent, "averageValue": _format_milli(usage, style)}


async def _read_usage(client: MetricsClient, source: Metric, namespace: str, selector: LabelSelector) -> dict[str, PodMetric]:
    try:
        return await client.usage(namespace, selector, source["name"], source.get("container", ""))
    except MetricUnavailable as error:
        raise MetricUnavailable(f"unable to get metrics for resource {source['name']}: {error}") from error


async def _external(client: MetricsClient, source: Metric, scaled: ScaledPods, namespace: str) -> ReplicaProposal:
    name, selector, target = source["metric"]["name"], source["metric"].get("selector"), source["target"]
    average = target.get("averageValue")
    try:
        usage = await _read_external(client, name, selector, namespace)
        if average is not None:
            replicas, usage = replica_calculator.by_average(scaled, usage, quantity.milli(average))
        else:
            replicas = replica_calculator.by_ratio(scaled, usage, quantity.milli(target["value"]))
    except MetricUnavailable as error:
        subject = f"external metric {name}" if average is None else f"{name} external metric"
        summary = f"failed to get {name} external metric value: failed to get {subject}: {error}"
        raise MetricFailure("FailedGetExternalMetric", str(error), summary) from error
    current = {"value" if average is None else "averageValue": _format_milli(usage, quantity.DECIMAL)}
    status = {"metric": source["metric"], "current": current}
    return ReplicaProposal(
        replicas, f"external metric {name}({format_go_selector(selector)})", {"type": "External", "external": status}
    )


async def _read_external(client: MetricsClient, name: str, selector: Metric | None, namespace: str) -> int:
    try:
        return sum(await client.external(namespace, name, from_label_selector(selector)))
    except MetricUnavailable as error:
        raise MetricUnavailable(
            f"unable to get external metric {namespace}/{name}/{format_go_selector(selector)}: {error}"
        ) from error


def _pods_failure(source: Metric) -> MetricFailure:
    message = f"unable to get metric {source['metric']['name']}: {_NO_CUSTOM}"
    return MetricFailure("FailedGetPodsMetric", message, f"failed to get pods metric value: {message}")


def _object_failure(source: Metric, namespace: str) -> MetricFailure:
    name, described = source["metric"]["name"], source["describedObject"]
    # The real controller passes the arguments of this message in the wrong order.
    message = f"unable to get metric {name}: {described['kind']} on {namespace} {described['name']}/{_NO_CUSTOM}"
    summary = message if source["target"]["type"] == "Value" else f"failed to get {name} object metric: {message}"
    return MetricFailure("FailedGetObjectMetric", message, f"failed to get object metric value: {summary}")


def _format_milli(value: int, style: str) -> str:
    return quantity.render(Fraction(value, 1000), style)
