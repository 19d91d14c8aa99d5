"""What is told of autoscalers: as the real controller writes them, and as they are where none works."""

from __future__ import annotations

from typing import Any

from tests.support.model_services import example

from sliceworks.serving.compile import manifests
from sliceworks.serving.scaling import Scaling, scaling

Object = dict[str, Any]


def autoscaler(name: str, **status: Any) -> Object:
    made = manifests(example("densenet-triton"))
    found = next(each for each in made if each["kind"] == "HorizontalPodAutoscaler" and each["metadata"]["name"] == name)
    return {**found, "status": status}


def active(status: str, reason: str, message: str = "") -> list[Object]:
    return [
        {"type": "AbleToScale", "status": "True"},
        {"type": "ScalingActive", "status": status, "reason": reason, "message": message},
    ]


def test_without_a_controller() -> None:
    assert scaling(autoscaler("densenet", desiredReplicas=0, currentMetrics=None)) == Scaling(
        "densenet", "1–3", "no controller has looked at it yet"
    )


def test_by_what_it_scales() -> None:
    conditions = active("True", "ValidMetricFound")
    of_pods = {"type": "Pods", "pods": {"metric": {"name": "…"}, "current": {"averageValue": "8500m"}}}
    found = scaling(autoscaler("densenet", conditions=conditions, currentReplicas=2, currentMetrics=[of_pods]))
    assert (found.replicas, found.state) == ("2 of 1–3", "8500m of 10 nv_inference_pending_request_count")
    of_cpu = {"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": 35, "averageValue": "350m"}}}
    found = scaling(autoscaler("gateway", conditions=conditions, currentReplicas=2, currentMetrics=[of_cpu]))
    assert found.state == "35% of 70% cpu"


def test_why_it_does_not() -> None:
    words = 'unable to fetch metrics from custom metrics API: the server could not find the descriptor for metric "…"'
    found = scaling(autoscaler("densenet", conditions=active("False", "FailedGetPodsMetric", words), currentReplicas=1))
    assert found.state == "fails"
    assert found.trouble
    assert str(found.trouble) == f"horizontalpodautoscaler/densenet: {words}"
    assert found.trouble.remedy == "is an adapter of custom metrics installed, and does anything read the servers' metrics?"
    assert scaling(autoscaler("densenet", conditions=active("False", "ScalingDisabled"))).state == "off: there are no replicas"
    unable = [{"type": "AbleToScale", "status": "False", "reason": "FailedGetScale", "message": "no such Deployment"}]
    assert scaling(autoscaler("densenet", conditions=unable)).trouble is not None
