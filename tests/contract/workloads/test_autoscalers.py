"""HorizontalPodAutoscalers without metrics: their decisions, and the messages of their conditions.

All of them are created at once, because the controller reconciles them at a fixed interval.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.support.autoscalers import KIND, AutoscalerHarness

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.clusters import Cluster

CLUSTER = "autoscalers"
HURRIED = True
Object = dict[str, Any]
CPU = {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}
EVERY_SOURCE: list[Object] = [
    {"type": "Pods", "pods": {"metric": {"name": "waiting"}, "target": {"type": "AverageValue", "averageValue": "4"}}},
    {"type": "Resource", "resource": CPU},
    {"type": "Resource", "resource": {"name": "memory", "target": {"type": "AverageValue", "averageValue": "1Gi"}}},
    {"type": "ContainerResource", "containerResource": {**CPU, "container": "main"}},
    {
        "type": "Object",
        "object": {
            "describedObject": {"apiVersion": "v1", "kind": "Service", "name": "front"},
            "metric": {"name": "hits"},
            "target": {"type": "Value", "value": "100"},
        },
    },
    {
        "type": "External",
        "external": {
            "metric": {"name": "letters", "selector": {"matchLabels": {"queue": "in"}}},
            "target": {"type": "AverageValue", "averageValue": "30"},
        },
    },
]


@pytest.fixture(scope="module")
def harness(cluster: Cluster) -> Iterator[AutoscalerHarness]:
    created = AutoscalerHarness(cluster, "autoscalers")
    created.target("Deployment", "low", 1)
    created.autoscaler("low", 3, 5)
    created.target("StatefulSet", "high", 4)
    created.autoscaler("high", 1, 2, "StatefulSet")
    created.target("Deployment", "none", 0)
    created.autoscaler("none", 2, 4)
    created.autoscaler("gone", 1, 3)
    created.autoscaler("strange", 1, 3, "Ship", group="sea.example/v1")
    created.autoscaler("unscaled", 1, 3, "DaemonSet")
    created.target("ReplicaSet", "within", 2)
    created.autoscaler("within", 1, 3, "ReplicaSet", metrics=EVERY_SOURCE)
    created.target("Deployment", "twice", 1)
    created.autoscaler("first", 1, 3, target="twice")
    created.autoscaler("second", 1, 3, target="twice")
    created.autoscaler("left", 2, 3)
    created.workloads.delete(KIND, "left")
    yield created
    created.close()


def test_replicas_below_min_are_raised(harness: AutoscalerHarness) -> None:
    reported = harness.told("low", "FailedGetResourceMetric")
    assert harness.replicas("Deployment", "low") == 3
    harness.workloads.check("autoscalers", "too few", reported)
    harness.workloads.check("autoscalers", "too few: events", harness.events("low", "FailedComputeMetricsReplicas"))


def test_replicas_above_max_are_lowered(harness: AutoscalerHarness) -> None:
    reported = harness.told("high", "FailedGetResourceMetric")
    assert harness.replicas("StatefulSet", "high") == 2
    harness.workloads.check("autoscalers", "too many", reported)
    harness.workloads.check("autoscalers", "too many: events", harness.events("high", "FailedComputeMetricsReplicas"))


def test_zero_replicas_disable_scaling(harness: AutoscalerHarness) -> None:
    harness.workloads.check("autoscalers", "none", harness.told("none", "ScalingDisabled"))
    assert harness.replicas("Deployment", "none") == 0


@pytest.mark.parametrize("name", ["gone", "strange", "unscaled"])
def test_missing_target_is_reported(harness: AutoscalerHarness, name: str) -> None:
    harness.workloads.check("autoscalers", name, harness.told(name, "FailedGetScale"))
    harness.workloads.check("autoscalers", f"{name}: events", harness.events(name, "FailedGetScale"))


def test_missing_metrics_are_reported(harness: AutoscalerHarness) -> None:
    harness.workloads.check("autoscalers", "unmeasured", harness.told("within", "FailedGetPodsMetric"))
    harness.workloads.check("autoscalers", "unmeasured: events", harness.events("within", "FailedComputeMetricsReplicas"))
    assert harness.replicas("ReplicaSet", "within") == 2


def test_two_autoscalers_of_one_target_are_reported(harness: AutoscalerHarness) -> None:
    for name in ("first", "second"):
        status = harness.told(name, "AmbiguousSelector")[-1]
        message = next(condition["message"] for condition in status["conditions"] if condition["reason"] == "AmbiguousSelector")
        words, _, both = message.partition(": ")
        assert words == "pods by selector app=twice are controlled by multiple HPAs"
        assert sorted(both.strip("[]").split()) == ["autoscalers/first", "autoscalers/second"]
        harness.events(name, "AmbiguousSelector")
        output = harness.events(name, "FailedComputeMetricsReplicas")
        assert {item["reason"] for item in output} >= {"AmbiguousSelector", "FailedComputeMetricsReplicas"}


def test_deleted_autoscaler_does_nothing(harness: AutoscalerHarness) -> None:
    """An event of an autoscaler that was created later shows that the controller knows the deletion."""
    harness.autoscaler("later", 1, 3, target="missing")
    harness.told("later", "FailedGetScale")
    harness.target("Deployment", "left", 1)
    harness.autoscaler("last", 1, 3, target="missing")
    harness.told("last", "FailedGetScale")
    assert harness.replicas("Deployment", "left") == 1
