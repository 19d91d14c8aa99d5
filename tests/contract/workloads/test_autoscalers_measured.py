"""HorizontalPodAutoscalers that are told what their pods use.

Nobody measures here. Custom kinds stand where the APIs of metrics would, which is all that the controller can tell: it lists
`pods` of metrics.k8s.io and the metric's own name of external.metrics.k8s.io.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.support.autoscalers import KIND, Scene
from tests.support.waiting import eventually

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


def use(scene: Scene, name: str, count: int, memory: str) -> None:
    """Have the pods of a target run, and say what each of them uses."""
    path = f"/apis/metrics.k8s.io/v1beta1/namespaces/{scene.lab.ns}/pods"
    for pod in scene.lab.all_ready(count, f"app={name}"):
        metadata = {"name": pod["metadata"]["name"], "labels": {"app": name}}
        usage = {"containers": [{"name": "main", "usage": {"cpu": "1", "memory": memory}}]}
        when = {"timestamp": pod["metadata"]["creationTimestamp"], "window": "30s"}
        body = {"apiVersion": "metrics.k8s.io/v1beta1", "kind": "PodMetrics", "metadata": metadata, **usage, **when}
        eventually(lambda body=body: scene.lab.api.post(path, body).status == 201, what="a reading")  # type: ignore[misc]
    scene.lab.until("Deployment", name, lambda found: found["status"].get("readyReplicas") == count, "controllers that know this")


def letters(scene: Scene, name: str, queue: str, value: str) -> None:
    path = f"/apis/external.metrics.k8s.io/v1beta1/namespaces/{scene.lab.ns}/letters"
    body = {
        "apiVersion": "external.metrics.k8s.io/v1beta1",
        "kind": "ExternalMetricValue",
        "metadata": {"name": name, "labels": {"queue": queue}},
        "metricName": "letters",
        "timestamp": "2026-01-01T00:00:00Z",
        "value": value,
    }
    eventually(lambda: scene.lab.api.post(path, body).status == 201, what="a reading")


@pytest.fixture(scope="module")
def scene(cluster: Cluster) -> Iterator[Scene]:
    pods, external = ("metrics.k8s.io", "pods", "PodMetrics"), ("external.metrics.k8s.io", "letters", "ExternalMetricValue")
    made = [cluster.api.post(DEFINITIONS, definition(*each)).ok(201).json["metadata"]["name"] for each in (pods, external)]
    scene = arranged(cluster)
    yield scene
    scene.close()
    for name in made:
        # Who comes after must find nothing measured.
        cluster.api.delete(f"{DEFINITIONS}/{name}").ok()
        eventually(lambda name=name: cluster.api.get(f"{DEFINITIONS}/{name}").status == 404, what="it goes")  # type: ignore[misc]


def arranged(cluster: Cluster) -> Scene:
    made = Scene(cluster, "measured")
    for name, count in {"busy": 2, "idle": 3, "shrinks": 3, "capped": 1, "slow": 1, "calm": 2, "unread": 1, "post": 1}.items():
        made.target("Deployment", name, count)
    for name, count, memory in (
        ("busy", 2, "200Mi"), ("idle", 3, "10Mi"), ("shrinks", 3, "10Mi"), ("capped", 1, "1Gi"), ("slow", 1, "300Mi"),
        ("calm", 2, "105Mi"),
    ):  # fmt: skip
        use(made, name, count, memory)
    for name in ("post", "unread"):
        made.lab.until("Deployment", name, lambda found: found["status"].get("replicas") == 1)
    letters(made, "first", "in", "50")
    letters(made, "second", "in", "40")
    letters(made, "third", "out", "1000")
    made.autoscaler("busy", 1, 8, metrics=[MEMORY])
    made.autoscaler("idle", 1, 8, metrics=[MEMORY])
    made.autoscaler("shrinks", 1, 8, metrics=[MEMORY], behavior=AT_ONCE)
    made.autoscaler("capped", 1, 3, metrics=[MEMORY])
    made.autoscaler("slow", 1, 8, metrics=[MEMORY], behavior=SLOWLY)
    made.autoscaler("calm", 1, 8, metrics=[MEMORY])
    made.autoscaler("unread", 1, 8, metrics=[MEMORY])
    made.autoscaler("post", 1, 8, metrics=[LETTERS])
    return made


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
def test_so_many_are_wanted(scene: Scene, name: str, reason: str, replicas: int) -> None:
    scene.lab.check("autoscalers_measured", name, scene.told(name, reason))
    assert scene.replicas("Deployment", name) == replicas
    if reason == "SucceededRescale":
        events = [each for each in scene.events(name, "SuccessfulRescale") if each["reason"] == "SuccessfulRescale"]
        scene.lab.check("autoscalers_measured", f"{name}: events", events)


def test_nothing_was_read(scene: Scene) -> None:
    scene.lab.check("autoscalers_measured", "unread", scene.told("unread", "FailedGetResourceMetric"))
    assert scene.lab.get(KIND, "unread")["status"]["currentReplicas"] == 1
