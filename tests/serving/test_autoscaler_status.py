"""The status of autoscalers: as the real controller writes it, and without a controller."""

from __future__ import annotations

from typing import Any

from tests.support.model_services import example

from sliceworks.serving.compiler import manifests
from sliceworks.serving.service_status import METRIC_APIS, UNMEASURED, AutoscalerStatus, autoscaler_status

Object = dict[str, Any]


def autoscaler(name: str, **status: Any) -> Object:
    created = manifests(example("densenet-triton"))
    result = next(item for item in created if item["kind"] == "HorizontalPodAutoscaler" and item["metadata"]["name"] == name)
    return {**result, "status": status}


def active(status: str, reason: str, message: str = "") -> list[Object]:
    return [
        {"type": "AbleToScale", "status": "True"},
        {"type": "ScalingActive", "status": status, "reason": reason, "message": message},
    ]


def test_autoscaler_without_controller() -> None:
    assert autoscaler_status(autoscaler("densenet", desiredReplicas=0, currentMetrics=None)) == AutoscalerStatus(
        "densenet", "1–3", "not reconciled yet"
    )


def test_metrics_of_autoscaler() -> None:
    conditions = active("True", "ValidMetricFound")
    of_pods = {"type": "Pods", "pods": {"metric": {"name": "…"}, "current": {"averageValue": "8500m"}}}
    result = autoscaler_status(autoscaler("densenet", conditions=conditions, currentReplicas=2, currentMetrics=[of_pods]))
    assert (result.replicas, result.state) == ("2 of 1–3", "8500m of 10 nv_inference_pending_request_count")
    of_cpu = {"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": 35, "averageValue": "350m"}}}
    result = autoscaler_status(autoscaler("gateway", conditions=conditions, currentReplicas=2, currentMetrics=[of_cpu]))
    assert result.state == "35% of 70% cpu"


def test_reason_of_inactive_autoscaler() -> None:
    words = 'unable to fetch metrics from custom metrics API: the server could not find the descriptor for metric "…"'
    result = autoscaler_status(autoscaler("densenet", conditions=active("False", "FailedGetPodsMetric", words), currentReplicas=1))
    assert result.state == "failing"
    assert result.cause
    assert str(result.cause) == f"horizontalpodautoscaler/densenet: {words}"
    assert result.cause.hint == "check that a custom metrics adapter is installed and that the servers' metrics are scraped"
    assert (
        autoscaler_status(autoscaler("densenet", conditions=active("False", "ScalingDisabled"))).state == "disabled: replicas is 0"
    )
    on_twin = autoscaler_status(autoscaler("gateway", conditions=active("False", "FailedGetResourceMetric", words)), METRIC_APIS)
    assert (on_twin.state, on_twin.cause) == (UNMEASURED, None)
    unable = [{"type": "AbleToScale", "status": "False", "reason": "FailedGetScale", "message": "no such Deployment"}]
    assert autoscaler_status(autoscaler("densenet", conditions=unable)).cause is not None
