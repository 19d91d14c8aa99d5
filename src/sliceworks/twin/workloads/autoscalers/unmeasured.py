"""In which words an autoscaler says that nobody measures what it asks for: those of the real controller, word for word."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    Metric = Mapping[str, Any]

_UNKNOWN = "the server could not find the requested resource"
_NO_USAGE = f"unable to fetch metrics from resource metrics API: {_UNKNOWN} (get pods.metrics.k8s.io)"
_NO_CUSTOM = "unable to fetch metrics from custom metrics API: no custom metrics API (custom.metrics.k8s.io) registered"


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a metric cannot be had: a reason, what is said of it, and what becomes of that in the sum of all failures."""

    reason: str
    message: str
    summary: str


def failure(metric: Metric, namespace: str) -> Failure:
    """Why this metric of an autoscaler in a namespace cannot be had."""
    return _SOURCES[metric["type"]](metric, namespace)


def all_failed(failures: list[Failure]) -> str:
    """What is said when none of so many metrics can be had."""
    count = len(failures)
    return f"invalid metrics ({count} invalid out of {count}), first error is: {failures[0].summary}"


def _resource(metric: Metric, _namespace: str) -> Failure:
    message = _usage(metric["resource"])
    name = metric["resource"]["name"]
    return Failure("FailedGetResourceMetric", message, f"failed to get {name} resource metric value: {message}")


def _container(metric: Metric, _namespace: str) -> Failure:
    message = _usage(metric["containerResource"])
    container = metric["containerResource"]["container"]
    return Failure("FailedGetContainerResourceMetric", message, f"failed to get {container} container metric value: {message}")


def _usage(source: Metric) -> str:
    name, what = source["name"], "usage" if source["target"].get("averageValue") else "utilization"
    return f"failed to get {name} {what}: unable to get metrics for resource {name}: {_NO_USAGE}"


def _pods(metric: Metric, _namespace: str) -> Failure:
    message = f"unable to get metric {metric['pods']['metric']['name']}: {_NO_CUSTOM}"
    return Failure("FailedGetPodsMetric", message, f"failed to get pods metric value: {message}")


def _object(metric: Metric, namespace: str) -> Failure:
    source = metric["object"]
    name, about = source["metric"]["name"], source["describedObject"]
    # The real controller mixes up the words of this message.
    message = f"unable to get metric {name}: {about['kind']} on {namespace} {about['name']}/{_NO_CUSTOM}"
    summary = message if source["target"]["type"] == "Value" else f"failed to get {name} object metric: {message}"
    return Failure("FailedGetObjectMetric", message, f"failed to get object metric value: {summary}")


def _external(metric: Metric, namespace: str) -> Failure:
    source = metric["external"]
    name, selector = source["metric"]["name"], source["metric"].get("selector")
    unknown = f"unable to fetch metrics from external metrics API: {_UNKNOWN} (get {name}.external.metrics.k8s.io)"
    message = f"unable to get external metric {namespace}/{name}/{_go_text(selector)}: {unknown}"
    each = source["target"].get("averageValue")
    inner = f"failed to get {name} external metric: {message}" if each else f"failed to get external metric {name}: {message}"
    return Failure("FailedGetExternalMetric", message, f"failed to get {name} external metric value: {inner}")


_SOURCES = {
    "ContainerResource": _container,
    "External": _external,
    "Object": _object,
    "Pods": _pods,
    "Resource": _resource,
}


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
