"""HorizontalPodAutoscalers on an embedded twin: period, bounds, selectors, custom targets and external metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.support.embedded_twin import EmbeddedTwin, run_on_twin
from tests.support.workloads import template

from sliceworks.base import clock

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

Obj = dict[str, Any]
APPS = "/apis/apps/v1/namespaces/default"
AUTOSCALERS = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers"
FLEETS = "/apis/sea.example/v1/namespaces/default/fleets"
WHOLE = {"type": "integer"}
FLEET_DEFINITION: Obj = {
    "metadata": {"name": "fleets.sea.example"},
    "spec": {
        "group": "sea.example",
        "scope": "Namespaced",
        "names": {"plural": "fleets", "kind": "Fleet"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"scale": {"specReplicasPath": ".spec.ships", "statusReplicasPath": ".status.ships"}},
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {"type": "object", "properties": {"ships": {**WHOLE, "maximum": 4}}},
                            "status": {"type": "object", "properties": {"ships": WHOLE}},
                        },
                    }
                },
            }
        ],
    },
}


def with_workloads(main: Callable[[EmbeddedTwin], Awaitable[None]]) -> None:
    run_on_twin(main, workloads=True)


async def deployment(twin: EmbeddedTwin, name: str, replicas: int) -> None:
    selector = {"matchLabels": {"app": name}}
    spec = {"replicas": replicas, "selector": selector, "template": template(labels={"app": name})}
    await twin.do("POST", f"{APPS}/deployments", {"metadata": {"name": name}, "spec": spec})


async def replicas(twin: EmbeddedTwin, name: str) -> int:
    return int((await twin.do("GET", f"{APPS}/deployments/{name}"))["spec"]["replicas"])


async def autoscaler(twin: EmbeddedTwin, name: str, minimum: int, maximum: int, **target: str) -> None:
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": name, **target}
    spec = {"scaleTargetRef": target, "minReplicas": minimum, "maxReplicas": maximum}
    await twin.do("POST", AUTOSCALERS, {"metadata": {"name": name}, "spec": spec})


async def fleet(twin: EmbeddedTwin, name: str) -> None:
    await twin.do("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", FLEET_DEFINITION)
    await clock.sleep(1)
    body = {"apiVersion": "sea.example/v1", "kind": "Fleet", "metadata": {"name": name}, "spec": {"ships": 1}}
    await twin.do("POST", FLEETS, body)


async def conditions(twin: EmbeddedTwin, name: str) -> dict[str, tuple[str, str, str]]:
    listed = (await twin.do("GET", f"{AUTOSCALERS}/{name}"))["status"].get("conditions") or ()
    return {item["type"]: (item["status"], item["reason"], item["message"]) for item in listed}


async def events(twin: EmbeddedTwin, name: str) -> dict[str, tuple[str, int]]:
    """The newest message of each reason, with its count."""
    result = (await twin.do("GET", f"/api/v1/namespaces/default/events?fieldSelector=involvedObject.name={name}"))["items"]
    kept = (item for item in result if item["involvedObject"]["kind"] == "HorizontalPodAutoscaler")
    return {item["reason"]: (item["message"], item["count"]) for item in sorted(kept, key=lambda item: item["lastTimestamp"])}


def test_autoscaler_is_reconciled_every_fifteen_seconds() -> None:
    async def main(twin: EmbeddedTwin) -> None:
        await deployment(twin, "web", 1)
        await autoscaler(twin, "web", 2, 5)
        await clock.sleep(14)
        assert (await replicas(twin, "web"), await conditions(twin, "web")) == (1, {})
        await clock.sleep(2)
        assert await replicas(twin, "web") == 2
        await twin.do("PATCH", f"{AUTOSCALERS}/web", {"spec": {"minReplicas": 3}})
        await clock.sleep(12)
        assert await replicas(twin, "web") == 2
        await clock.sleep(3)
        assert await replicas(twin, "web") == 3
        scaled = (await twin.do("GET", f"{AUTOSCALERS}/web"))["status"]
        await clock.sleep(600)
        status = (await twin.do("GET", f"{AUTOSCALERS}/web"))["status"]
        assert status["lastScaleTime"] == scaled["lastScaleTime"]
        assert (status["currentReplicas"], status["desiredReplicas"]) == (3, 3)

    with_workloads(main)


def test_unchanged_status_is_not_written() -> None:
    async def main(twin: EmbeddedTwin) -> None:
        await deployment(twin, "web", 2)
        await autoscaler(twin, "web", 1, 5)
        await clock.sleep(60)
        before = (await twin.do("GET", f"{AUTOSCALERS}/web"))["metadata"]["resourceVersion"]
        await clock.sleep(3600)
        assert (await twin.do("GET", f"{AUTOSCALERS}/web"))["metadata"]["resourceVersion"] == before

    with_workloads(main)


def test_scaling_is_disabled_at_zero_replicas() -> None:
    async def main(twin: EmbeddedTwin) -> None:
        await deployment(twin, "web", 0)
        await autoscaler(twin, "web", 2, 5)
        await clock.sleep(40)
        assert (await conditions(twin, "web"))["ScalingActive"][1] == "ScalingDisabled"
        await twin.do("PATCH", f"{APPS}/deployments/web", {"spec": {"replicas": 1}})
        await clock.sleep(40)
        assert await replicas(twin, "web") == 2
        assert (await conditions(twin, "web"))["ScalingActive"][1] == "FailedGetResourceMetric"

    with_workloads(main)


def test_target_without_selector_is_reported() -> None:
    async def main(twin: EmbeddedTwin) -> None:
        await fleet(twin, "first")
        await autoscaler(twin, "first", 3, 4, kind="Fleet", apiVersion="sea.example/v1")
        await clock.sleep(40)
        assert (await twin.do("GET", f"{FLEETS}/first"))["spec"]["ships"] == 3
        missing = ("False", "InvalidSelector", "the HPA target's scale is missing a selector")
        assert (await conditions(twin, "first"))["ScalingActive"] == missing
        recorded = await events(twin, "first")
        assert recorded["SelectorRequired"][0] == recorded["FailedComputeMetricsReplicas"][0] == "selector is required"

    with_workloads(main)


def test_rejected_scale_is_reported() -> None:
    async def main(twin: EmbeddedTwin) -> None:
        await fleet(twin, "second")
        await autoscaler(twin, "second", 5, 6, kind="Fleet", apiVersion="sea.example/v1")
        await clock.sleep(20)
        limit = "spec.ships in body should be less than or equal to 4"
        why = f'Fleet.sea.example "second" is invalid: spec.ships: Invalid value: 5: {limit}'
        words = f"the HPA controller was unable to update the target scale: {why}"
        assert await conditions(twin, "second") == {"AbleToScale": ("False", "FailedUpdateScale", words)}
        size = "New size: 5; reason: Current number of replicas below Spec.MinReplicas"
        assert (await events(twin, "second"))["FailedRescale"] == (f"{size}; error: {why}", 1)
        status = (await twin.do("GET", f"{AUTOSCALERS}/second"))["status"]
        assert (status["currentReplicas"], status["desiredReplicas"]) == (1, 0)

    with_workloads(main)


def test_ambiguous_selector_is_resolved_when_one_autoscaler_is_deleted() -> None:
    async def main(twin: EmbeddedTwin) -> None:
        await deployment(twin, "web", 2)
        await autoscaler(twin, "web", 1, 5)
        other = {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}, "maxReplicas": 4}
        await twin.do("POST", AUTOSCALERS, {"metadata": {"name": "again"}, "spec": other})
        await clock.sleep(40)
        words = "pods by selector app=web are controlled by multiple HPAs: [default/again default/web]"
        assert (await conditions(twin, "web"))["ScalingActive"] == ("False", "AmbiguousSelector", words)
        await twin.do("DELETE", f"{AUTOSCALERS}/again")
        await clock.sleep(20)
        assert (await conditions(twin, "web"))["ScalingActive"][1] == "FailedGetResourceMetric"

    with_workloads(main)


def letters_definition() -> Obj:
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1beta1", "served": True, "storage": True, "schema": {"openAPIV3Schema": anything}}
    names = {"plural": "letters", "kind": "ExternalMetricValue", "listKind": "ExternalMetricValueList"}
    spec = {"group": "external.metrics.k8s.io", "scope": "Namespaced", "names": names, "versions": [version]}
    approved = {"api-approved.kubernetes.io": "unapproved, a stand-in"}
    return {"metadata": {"name": "letters.external.metrics.k8s.io", "annotations": approved}, "spec": spec}


def test_scale_down_is_stabilized_for_five_minutes() -> None:
    async def main(twin: EmbeddedTwin) -> None:
        await twin.do("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", letters_definition())
        await clock.sleep(1)
        path = "/apis/external.metrics.k8s.io/v1beta1/namespaces/default/letters"
        kind = {"apiVersion": "external.metrics.k8s.io/v1beta1", "kind": "ExternalMetricValue"}
        await twin.do("POST", path, {**kind, "metadata": {"name": "in"}, "metricName": "letters", "value": "120"})
        await deployment(twin, "web", 1)
        target = {"type": "AverageValue", "averageValue": "30"}
        metrics = [{"type": "External", "external": {"metric": {"name": "letters"}, "target": target}}]
        await autoscaler(twin, "web", 1, 9)
        await twin.do("PATCH", f"{AUTOSCALERS}/web", {"spec": {"metrics": metrics}})
        await clock.sleep(20)
        assert await replicas(twin, "web") == 4
        await clock.sleep(20)
        await twin.do("PATCH", f"{path}/in", {"value": "30"})
        await clock.sleep(270)
        assert await replicas(twin, "web") == 4
        assert (await conditions(twin, "web"))["AbleToScale"][1] == "ScaleDownStabilized"
        await clock.sleep(45)
        assert await replicas(twin, "web") == 1
        assert (await events(twin, "web"))["SuccessfulRescale"][0] == "New size: 1; reason: All metrics below target"

    with_workloads(main)


def test_failed_metric_prevents_scaling_down() -> None:
    async def main(twin: EmbeddedTwin) -> None:
        await twin.do("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", letters_definition())
        await clock.sleep(1)
        path = "/apis/external.metrics.k8s.io/v1beta1/namespaces/default/letters"
        kind = {"apiVersion": "external.metrics.k8s.io/v1beta1", "kind": "ExternalMetricValue"}
        await twin.do("POST", path, {**kind, "metadata": {"name": "in"}, "metricName": "letters", "value": "30"})
        await deployment(twin, "web", 2)
        target = {"type": "AverageValue", "averageValue": "30"}
        waiting = {"type": "Pods", "pods": {"metric": {"name": "waiting"}, "target": target}}
        metrics = [waiting, {"type": "External", "external": {"metric": {"name": "letters"}, "target": target}}]
        await autoscaler(twin, "web", 1, 9)
        await twin.do("PATCH", f"{AUTOSCALERS}/web", {"spec": {"metrics": metrics}})
        await clock.sleep(20)
        assert (await conditions(twin, "web"))["ScalingActive"][1] == "FailedGetPodsMetric"
        assert "(1 invalid out of 2)" in (await events(twin, "web"))["FailedComputeMetricsReplicas"][0]
        await twin.do("PATCH", f"{path}/in", {"value": "150"})
        await clock.sleep(20)
        assert await replicas(twin, "web") == 4  # at most twice as many per step
        assert (await conditions(twin, "web"))["ScalingLimited"][:2] == ("True", "ScaleUpLimit")

    with_workloads(main)
