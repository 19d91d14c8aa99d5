"""HorizontalPodAutoscalers: what they do without a single metric, and in which words they say what hinders them.

All are made at once and looked at by one case after the other: the controller comes by once in a while, for all of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.support.autoscalers import KIND, Scene

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
def scene(cluster: Cluster) -> Iterator[Scene]:
    made = Scene(cluster, "autoscalers")
    made.target("Deployment", "low", 1)
    made.autoscaler("low", 3, 5)
    made.target("StatefulSet", "high", 4)
    made.autoscaler("high", 1, 2, "StatefulSet")
    made.target("Deployment", "none", 0)
    made.autoscaler("none", 2, 4)
    made.autoscaler("gone", 1, 3)
    made.autoscaler("strange", 1, 3, "Ship", group="sea.example/v1")
    made.autoscaler("unscaled", 1, 3, "DaemonSet")
    made.target("ReplicaSet", "within", 2)
    made.autoscaler("within", 1, 3, "ReplicaSet", metrics=EVERY_SOURCE)
    made.target("Deployment", "twice", 1)
    made.autoscaler("first", 1, 3, target="twice")
    made.autoscaler("second", 1, 3, target="twice")
    made.autoscaler("left", 2, 3)
    made.lab.delete(KIND, "left")
    yield made
    made.close()


def test_too_few_are_raised(scene: Scene) -> None:
    told = scene.told("low", "FailedGetResourceMetric")
    assert scene.replicas("Deployment", "low") == 3
    scene.lab.check("autoscalers", "too few", told)
    scene.lab.check("autoscalers", "too few: events", scene.events("low", "FailedComputeMetricsReplicas"))


def test_too_many_are_lowered(scene: Scene) -> None:
    told = scene.told("high", "FailedGetResourceMetric")
    assert scene.replicas("StatefulSet", "high") == 2
    scene.lab.check("autoscalers", "too many", told)
    scene.lab.check("autoscalers", "too many: events", scene.events("high", "FailedComputeMetricsReplicas"))


def test_none_are_left_alone(scene: Scene) -> None:
    scene.lab.check("autoscalers", "none", scene.told("none", "ScalingDisabled"))
    assert scene.replicas("Deployment", "none") == 0


@pytest.mark.parametrize("name", ["gone", "strange", "unscaled"])
def test_there_is_nothing_to_scale(scene: Scene, name: str) -> None:
    scene.lab.check("autoscalers", name, scene.told(name, "FailedGetScale"))
    scene.lab.check("autoscalers", f"{name}: events", scene.events(name, "FailedGetScale"))


def test_nobody_measures(scene: Scene) -> None:
    scene.lab.check("autoscalers", "unmeasured", scene.told("within", "FailedGetPodsMetric"))
    scene.lab.check("autoscalers", "unmeasured: events", scene.events("within", "FailedComputeMetricsReplicas"))
    assert scene.replicas("ReplicaSet", "within") == 2


def test_two_scale_the_same(scene: Scene) -> None:
    for name in ("first", "second"):
        status = scene.told(name, "AmbiguousSelector")[-1]
        message = next(each["message"] for each in status["conditions"] if each["reason"] == "AmbiguousSelector")
        words, _, both = message.partition(": ")
        assert words == "pods by selector app=twice are controlled by multiple HPAs"
        assert sorted(both.strip("[]").split()) == ["autoscalers/first", "autoscalers/second"]
        scene.events(name, "AmbiguousSelector")
        said = scene.events(name, "FailedComputeMetricsReplicas")
        assert {each["reason"] for each in said} >= {"AmbiguousSelector", "FailedComputeMetricsReplicas"}


def test_a_deleted_one_does_nothing(scene: Scene) -> None:
    """Who has heard of one that was made later has heard that it is gone."""
    scene.autoscaler("later", 1, 3, target="missing")
    scene.told("later", "FailedGetScale")
    scene.target("Deployment", "left", 1)
    scene.autoscaler("last", 1, 3, target="missing")
    scene.told("last", "FailedGetScale")
    assert scene.replicas("Deployment", "left") == 1
