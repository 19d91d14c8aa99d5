"""HorizontalPodAutoscalers with metrics.

No metrics server runs here. Custom kinds take the place of the metrics APIs: the controller lists `pods` of metrics.k8s.io and the
metric's name of external.metrics.k8s.io.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.support.autoscalers import KIND, AutoscalerHarness
from tests.support.polling import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.clusters import Cluster

CLUSTER = "autoscalers"
HURRIED = True
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
Object = dict[str, Any]
MEMORY = {"type": "Resource", "resource": {"name": "memory", "target": {"type": "AverageValue", "averageValue": "100Mi"}}}
LETTERS = {
    "type": "External",
    "external": {
        "metric": {"name": "letters", "selector": {"matchLabels": {"queue": "in"}}},
        "target": {"type": "AverageValue", "averageValue": "30"},
    },
}
AT_ONCE = {"scaleDown": {"stabilizationWindowSeconds": 0}}
SLOWLY = {"scaleUp": {"policies": [{"type": "Pods", "value": 1, "periodSeconds": 600}]}}


def definition(group: str, plural: str, kind: str) -> Object:
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1beta1", "served": True, "storage": True, "schema": {"openAPIV3Schema": anything}}
    approved = {"api-approved.kubernetes.io": "unapproved, a stand-in"}
    names = {"plural": plural, "kind": kind, "listKind": f"{kind}List"}
    spec = {"group": group, "scope": "Namespaced", "names": names, "versions": [version]}
    return {"metadata": {"name": f"{plural}.{group}", "annotations": approved}, "spec": spec}


def use(harness: AutoscalerHarness, name: str, count: int, memory: str) -> None:
    """Make the pods of a target ready, and report the usage of each."""
    path = f"/apis/metrics.k8s.io/v1beta1/namespaces/{harness.workloads.ns}/pods"
    for pod in harness.workloads.all_ready(count, f"app={name}"):
        metadata = {"name": pod["metadata"]["name"], "labels": {"app": name}}
        usage = {"containers": [{"name": "main", "usage": {"cpu": "1", "memory": memory}}]}
        when = {"timestamp": pod["metadata"]["creationTimestamp"], "window": "30s"}
        body = {"apiVersion": "metrics.k8s.io/v1beta1", "kind": "PodMetrics", "metadata": metadata, **usage, **when}
        eventually(lambda body=body: harness.workloads.api.post(path, body).status == 201, what="a reading")  # type: ignore[misc]
    harness.workloads.until(
        "Deployment", name, lambda obj: obj["status"].get("readyReplicas") == count, "controllers that know this"
    )


def set_queue_metric(harness: AutoscalerHarness, name: str, queue: str, value: str) -> None:
    path = f"/apis/external.metrics.k8s.io/v1beta1/namespaces/{harness.workloads.ns}/letters"
    body = {
        "apiVersion": "external.metrics.k8s.io/v1beta1",
        "kind": "ExternalMetricValue",
        "metadata": {"name": name, "labels": {"queue": queue}},
        "metricName": "letters",
        "timestamp": "2026-01-01T00:00:00Z",
        "value": value,
    }
    eventually(lambda: harness.workloads.api.post(path, body).status == 201, what="a reading")


@pytest.fixture(scope="module")
def harness(cluster: Cluster) -> Iterator[AutoscalerHarness]:
    pods, external = ("metrics.k8s.io", "pods", "PodMetrics"), ("external.metrics.k8s.io", "letters", "ExternalMetricValue")
    created = [cluster.api.post(DEFINITIONS, definition(*item)).ok(201).json["metadata"]["name"] for item in (pods, external)]
    harness = arranged(cluster)
    yield harness
    harness.close()
    for name in created:
        # Later tests must find no metrics.
        cluster.api.delete(f"{DEFINITIONS}/{name}").ok()
        eventually(lambda name=name: cluster.api.get(f"{DEFINITIONS}/{name}").status == 404, what="it is deleted")  # type: ignore[misc]


def arranged(cluster: Cluster) -> AutoscalerHarness:
    created = AutoscalerHarness(cluster, "measured")
    for name, count in {"busy": 2, "idle": 3, "shrinks": 3, "capped": 1, "slow": 1, "calm": 2, "unread": 1, "post": 1}.items():
        created.target("Deployment", name, count)
    for name, count, memory in (
        ("busy", 2, "200Mi"), ("idle", 3, "10Mi"), ("shrinks", 3, "10Mi"), ("capped", 1, "1Gi"), ("slow", 1, "300Mi"),
        ("calm", 2, "105Mi"),
    ):  # fmt: skip
        use(created, name, count, memory)
    for name in ("post", "unread"):
        created.workloads.until("Deployment", name, lambda obj: obj["status"].get("replicas") == 1)
    set_queue_metric(created, "first", "in", "50")
    set_queue_metric(created, "second", "in", "40")
    set_queue_metric(created, "third", "out", "1000")
    created.autoscaler("busy", 1, 8, metrics=[MEMORY])
    created.autoscaler("idle", 1, 8, metrics=[MEMORY])
    created.autoscaler("shrinks", 1, 8, metrics=[MEMORY], behavior=AT_ONCE)
    created.autoscaler("capped", 1, 3, metrics=[MEMORY])
    created.autoscaler("slow", 1, 8, metrics=[MEMORY], behavior=SLOWLY)
    created.autoscaler("calm", 1, 8, metrics=[MEMORY])
    created.autoscaler("unread", 1, 8, metrics=[MEMORY])
    created.autoscaler("post", 1, 8, metrics=[LETTERS])
    return created


@pytest.mark.parametrize(
    ("name", "reason", "replicas"),
    [
        ("busy", "SucceededRescale", 4),
        ("idle", "ScaleDownStabilized", 3),
        ("shrinks", "SucceededRescale", 1),
        ("capped", "SucceededRescale", 3),
        ("slow", "SucceededRescale", 2),
        ("calm", "ReadyForNewScale", 2),
        ("post", "SucceededRescale", 3),
    ],
)
def test_desired_replicas(harness: AutoscalerHarness, name: str, reason: str, replicas: int) -> None:
    harness.workloads.check("autoscalers_measured", name, harness.told(name, reason))
    assert harness.replicas("Deployment", name) == replicas
    if reason == "SucceededRescale":
        events = [event for event in harness.events(name, "SuccessfulRescale") if event["reason"] == "SuccessfulRescale"]
        harness.workloads.check("autoscalers_measured", f"{name}: events", events)


def test_unavailable_metric_is_reported(harness: AutoscalerHarness) -> None:
    harness.workloads.check("autoscalers_measured", "unread", harness.told("unread", "FailedGetResourceMetric"))
    assert harness.workloads.get(KIND, "unread")["status"]["currentReplicas"] == 1
