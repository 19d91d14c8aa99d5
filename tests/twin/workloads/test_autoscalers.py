"""Autoscalers on an embedded twin: when they look, and what else they meet but missing metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.support.embedded import Embedded, on_twin
from tests.support.workloads import template

from sliceworks.base import clock
from sliceworks.twin.workloads.autoscalers.unmeasured import failure

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


def with_workloads(main: Callable[[Embedded], Awaitable[None]]) -> None:
    on_twin(main, workloads=True)


async def deployment(twin: Embedded, name: str, replicas: int) -> None:
    selector = {"matchLabels": {"app": name}}
    spec = {"replicas": replicas, "selector": selector, "template": template(labels={"app": name})}
    await twin.do("POST", f"{APPS}/deployments", {"metadata": {"name": name}, "spec": spec})


async def replicas(twin: Embedded, name: str) -> int:
    return int((await twin.do("GET", f"{APPS}/deployments/{name}"))["spec"]["replicas"])


async def autoscaler(twin: Embedded, name: str, least: int, most: int, **target: str) -> None:
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": name, **target}
    spec = {"scaleTargetRef": target, "minReplicas": least, "maxReplicas": most}
    await twin.do("POST", AUTOSCALERS, {"metadata": {"name": name}, "spec": spec})


async def fleet(twin: Embedded, name: str) -> None:
    await twin.do("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", FLEET_DEFINITION)
    await clock.sleep(1)
    body = {"apiVersion": "sea.example/v1", "kind": "Fleet", "metadata": {"name": name}, "spec": {"ships": 1}}
    await twin.do("POST", FLEETS, body)


async def conditions(twin: Embedded, name: str) -> dict[str, tuple[str, str, str]]:
    found = (await twin.do("GET", f"{AUTOSCALERS}/{name}"))["status"].get("conditions") or ()
    return {each["type"]: (each["status"], each["reason"], each["message"]) for each in found}


async def told(twin: Embedded, name: str) -> dict[str, tuple[str, int]]:
    found = (await twin.do("GET", f"/api/v1/namespaces/default/events?fieldSelector=involvedObject.name={name}"))["items"]
    kept = (each for each in found if each["involvedObject"]["kind"] == "HorizontalPodAutoscaler")
    return {each["reason"]: (each["message"], each["count"]) for each in kept}


def test_it_comes_by_every_fifteen_seconds() -> None:
    async def main(twin: Embedded) -> None:
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


def test_nothing_is_written_where_nothing_is_new() -> None:
    async def main(twin: Embedded) -> None:
        await deployment(twin, "web", 2)
        await autoscaler(twin, "web", 1, 5)
        await clock.sleep(60)
        before = (await twin.do("GET", f"{AUTOSCALERS}/web"))["metadata"]["resourceVersion"]
        await clock.sleep(3600)
        assert (await twin.do("GET", f"{AUTOSCALERS}/web"))["metadata"]["resourceVersion"] == before

    with_workloads(main)


def test_what_was_set_to_nothing_is_scaled_again_once_there_is_something() -> None:
    async def main(twin: Embedded) -> None:
        await deployment(twin, "web", 0)
        await autoscaler(twin, "web", 2, 5)
        await clock.sleep(40)
        assert (await conditions(twin, "web"))["ScalingActive"][1] == "ScalingDisabled"
        await twin.do("PATCH", f"{APPS}/deployments/web", {"spec": {"replicas": 1}})
        await clock.sleep(40)
        assert await replicas(twin, "web") == 2
        assert (await conditions(twin, "web"))["ScalingActive"][1] == "FailedGetResourceMetric"

    with_workloads(main)


def test_a_custom_kind_without_a_selector() -> None:
    async def main(twin: Embedded) -> None:
        await fleet(twin, "first")
        await autoscaler(twin, "first", 3, 4, kind="Fleet", apiVersion="sea.example/v1")
        await clock.sleep(40)
        assert (await twin.do("GET", f"{FLEETS}/first"))["spec"]["ships"] == 3
        missing = ("False", "InvalidSelector", "the HPA target's scale is missing a selector")
        assert (await conditions(twin, "first"))["ScalingActive"] == missing
        said = await told(twin, "first")
        assert said["SelectorRequired"][0] == said["FailedComputeMetricsReplicas"][0] == "selector is required"

    with_workloads(main)


def test_a_number_that_is_refused() -> None:
    async def main(twin: Embedded) -> None:
        await fleet(twin, "second")
        await autoscaler(twin, "second", 5, 6, kind="Fleet", apiVersion="sea.example/v1")
        await clock.sleep(20)
        limit = "spec.ships in body should be less than or equal to 4"
        why = f'Fleet.sea.example "second" is invalid: spec.ships: Invalid value: 5: {limit}'
        words = f"the HPA controller was unable to update the target scale: {why}"
        assert await conditions(twin, "second") == {"AbleToScale": ("False", "FailedUpdateScale", words)}
        size = "New size: 5; reason: Current number of replicas below Spec.MinReplicas"
        assert (await told(twin, "second"))["FailedRescale"] == (f"{size}; error: {why}", 1)
        status = (await twin.do("GET", f"{AUTOSCALERS}/second"))["status"]
        assert (status["currentReplicas"], status["desiredReplicas"]) == (1, 0)

    with_workloads(main)


def test_one_of_two_that_is_deleted_leaves_the_other_alone() -> None:
    async def main(twin: Embedded) -> None:
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


OBJECT = {"describedObject": {"apiVersion": "v1", "kind": "Service", "name": "front"}, "metric": {"name": "hits"}}
NO_CUSTOM = "unable to fetch metrics from custom metrics API: no custom metrics API (custom.metrics.k8s.io) registered"
NO_HITS = f"unable to get metric hits: Service on ns front/{NO_CUSTOM}"
SELECTING = {
    "matchExpressions": [{"key": "queue", "operator": "In", "values": ["in", "out"]}, {"key": "old", "operator": "Exists"}]
}
RULES = (
    "LabelSelectorRequirement{Key:queue,Operator:In,Values:[in out],},LabelSelectorRequirement{Key:old,Operator:Exists,Values:[],},"
)
SELECTED = f"&LabelSelector{{MatchLabels:map[string]string{{}},MatchExpressions:[]LabelSelectorRequirement{{{RULES}}},}}"
NO_LETTERS = "failed to get letters external metric value"
NO_EXTERNAL = (
    "unable to fetch metrics from external metrics API: "
    "the server could not find the requested resource (get letters.external.metrics.k8s.io)"
)
NO_SELECTED = f"unable to get external metric ns/letters/{SELECTED}: {NO_EXTERNAL}"


@pytest.mark.parametrize(
    ("metric", "message", "summary"),
    [
        (
            {"type": "Object", "object": {**OBJECT, "target": {"type": "AverageValue", "averageValue": "3"}}},
            NO_HITS,
            f"failed to get object metric value: failed to get hits object metric: {NO_HITS}",
        ),
        (
            {"type": "External", "external": {"metric": {"name": "letters"}, "target": {"type": "Value", "value": "3"}}},
            f"unable to get external metric ns/letters/nil: {NO_EXTERNAL}",
            f"{NO_LETTERS}: failed to get external metric letters: unable to get external metric ns/letters/nil: {NO_EXTERNAL}",
        ),
        (
            {
                "type": "External",
                "external": {
                    "metric": {"name": "letters", "selector": SELECTING},
                    "target": {"type": "AverageValue", "averageValue": "3"},
                },
            },
            NO_SELECTED,
            f"{NO_LETTERS}: failed to get letters external metric: {NO_SELECTED}",
        ),
    ],
)
def test_how_it_is_said_that_nobody_measures(metric: Obj, message: str, summary: str) -> None:
    found = failure(metric, "ns")
    assert (found.message, found.summary) == (message, summary)
