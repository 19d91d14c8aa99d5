"""Replica counts of HorizontalPodAutoscalers; the numbers are those of the real controller's tests."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, cast

import pytest

from sliceworks.base.clock import rfc3339
from sliceworks.kube.selectors import EVERYTHING
from sliceworks.twin.controllers.builtin import autoscaler_behavior, replica_calculator
from sliceworks.twin.controllers.builtin.metric_source import MetricFailure, compute_replicas
from sliceworks.twin.controllers.builtin.replica_calculator import (
    MetricsClient,
    MetricUnavailable,
    PodMetric,
    ScaledPods,
    Tolerances,
)

if TYPE_CHECKING:
    from sliceworks.kube.selectors import LabelSelector

Obj = dict[str, Any]
NOW = datetime(2026, 1, 5, 12, tzinfo=UTC)


def pod(number: int, request: str = "1", *, ready: bool = True, age: float = 3600, phase: str = "Running") -> Obj:
    start = NOW - timedelta(seconds=age)
    since = start + timedelta(seconds=1)
    state = {"type": "Ready", "status": "True" if ready else "False", "lastTransitionTime": rfc3339(since)}
    main = {"name": "main", "resources": {"requests": {"cpu": request}} if request else {}}
    status = {"phase": phase, "startTime": rfc3339(start), "conditions": [state]}
    return {"metadata": {"name": f"pod-{number}"}, "spec": {"containers": [main]}, "status": status}


def scaled(pods: list[Obj], replicas_asked: int = 0, tolerances: Tolerances | None = None) -> ScaledPods:
    return ScaledPods(replicas_asked or len(pods), replicas_asked or len(pods), pods, tolerances or Tolerances(), NOW)


def metrics(*values: int) -> dict[str, PodMetric]:
    return {f"pod-{number}": PodMetric(value, NOW - timedelta(seconds=60), 60.0) for number, value in enumerate(values)}


FIRST_UNREADY = [pod(0, ready=False), pod(1), pod(2)]
FIRST_STARTING = [pod(0, age=90), pod(1), pod(2)]


@pytest.mark.parametrize(
    ("pods", "used", "target", "replicas", "percent"),
    [
        ([pod(0), pod(1), pod(2)], (300, 500, 700), 30, 5, 50),
        (FIRST_UNREADY, (300, 500, 700), 30, 4, 60),
        (FIRST_STARTING, (300, 500, 700), 30, 4, 60),
        ([pod(0), pod(1, ready=False), pod(2, ready=False)], (400, 500, 700), 40, 3, 40),
        ([pod(0), pod(1)], (1900,), 100, 2, 190),
        ([pod(0), pod(1)], (600,), 100, 2, 60),
        (FIRST_UNREADY, (100, 2000), 50, 4, 200),
        ([pod(0, ready=False), pod(1), pod(2, "2"), pod(3, "2")], (200, 100, 100), 300, 2, 6),
        ([pod(n) for n in range(5)], (100, 300, 500, 250, 250), 50, 3, 28),
        ([pod(0, "0.9"), pod(1), pod(2, "1.1")], (1010, 1030, 1020), 100, 3, 102),
    ],
)
def test_replicas_by_utilization(pods: list[Obj], used: tuple[int, ...], target: int, replicas: int, percent: int) -> None:
    result = replica_calculator.by_utilization(scaled(pods), metrics(*used), "cpu", target)
    assert result[:2] == (replicas, percent)


def test_failed_and_terminating_pods_do_not_count() -> None:
    leaving = pod(3)
    leaving["metadata"]["deletionTimestamp"] = rfc3339(NOW)
    pods = [pod(0), pod(1), pod(2, phase="Failed"), leaving]
    assert replica_calculator.by_utilization(scaled(pods, replicas_asked=2), metrics(500, 700), "cpu", 30) == (4, 60, 600)


def test_replicas_by_usage() -> None:
    assert replica_calculator.by_usage(scaled([pod(0), pod(1), pod(2)]), metrics(20000, 10000, 30000), "qps", 15000) == (4, 20000)
    assert replica_calculator.by_usage(scaled([pod(n) for n in range(5)]), metrics(*[12000] * 5), "qps", 20000) == (3, 12000)
    assert replica_calculator.by_usage(scaled([pod(0), pod(1), pod(2)]), metrics(20000, 21000, 21000), "qps", 20000) == (3, 20666)
    # Readiness matters for CPU only.
    assert replica_calculator.by_usage(scaled(FIRST_UNREADY), metrics(50000, 10000, 30000), "qps", 15000) == (6, 30000)
    assert replica_calculator.by_usage(scaled([pod(0), pod(1)]), metrics(10), "qps", 20) == (2, 10)


def test_replicas_by_external_metric() -> None:
    pods = [pod(0), pod(1, ready=False), pod(2)]
    assert replica_calculator.by_ratio(scaled(pods), 8600, 4400) == 4
    assert replica_calculator.by_ratio(scaled(pods), 8600, 8888) == 3
    assert replica_calculator.by_average(scaled(pods), 8600, 2150) == (4, 2867)
    assert replica_calculator.by_average(scaled([], replicas_asked=5), 8600, 2867) == (3, 1720)
    assert replica_calculator.by_average(scaled([], replicas_asked=3), 8600, 2867) == (3, 2867)
    assert replica_calculator.by_average(ScaledPods(1, 0, [], Tolerances(), NOW), 8600, 2867)[0] == 3
    assert replica_calculator.by_average(scaled([], replicas_asked=3, tolerances=Tolerances(up=0.7)), 8600, 2000)[0] == 3
    with pytest.raises(MetricUnavailable, match="unable to calculate ready pods: no pods returned by selector"):
        replica_calculator.by_ratio(scaled([], replicas_asked=1), 8600, 4400)


@pytest.mark.parametrize(
    ("pods", "used", "words"),
    [
        ([], (100,), "no pods returned by selector while calculating replica count"),
        ([pod(0, phase="Pending")], (100,), r"did not receive metrics for targeted pods \(pods might be unready\)"),
        ([pod(0, "")], (100,), "missing request for cpu in container main of Pod pod-0"),
        ([pod(7)], (100,), "no metrics returned matched known pods"),
    ],
)
def test_unavailable_metrics_raise_the_cause(pods: list[Obj], used: tuple[int, ...], words: str) -> None:
    with pytest.raises(MetricUnavailable, match=words):
        replica_calculator.by_utilization(scaled(pods, replicas_asked=1), metrics(*used), "cpu", 50)


def test_requests_include_sidecars_and_pod_level() -> None:
    result = pod(0)
    result["spec"]["initContainers"] = [
        {"name": "sidecar", "restartPolicy": "Always", "resources": {"requests": {"cpu": "3"}}},
        {"name": "init", "resources": {"requests": {"cpu": "9"}}},
    ]
    assert replica_calculator.by_utilization(scaled([result]), metrics(2000), "cpu", 50)[1] == 50
    assert replica_calculator.by_utilization(scaled([result]), metrics(2000), "cpu", 50, container="sidecar")[1] == 66
    result["spec"] |= {"resources": {"requests": {"cpu": "10"}}}
    assert replica_calculator.by_utilization(scaled([result]), metrics(2000), "cpu", 50)[1] == 20
    with pytest.raises(MetricUnavailable, match="missing pod-level request for memory in Pod pod-0"):
        replica_calculator.by_utilization(scaled([result]), metrics(2000), "memory", 50)
    with pytest.raises(MetricUnavailable, match="container other not found in Pod pod-0"):
        replica_calculator.by_utilization(scaled([result]), metrics(2000), "cpu", 50, container="other")


DEFAULT_UP = [{"type": "Pods", "value": 4, "periodSeconds": 15}, {"type": "Percent", "value": 100, "periodSeconds": 15}]
DEFAULT_DOWN = [{"type": "Percent", "value": 100, "periodSeconds": 15}]


def behavior(up: list[Obj] | None = None, down: list[Obj] | None = None, select: str = "Max") -> Obj:
    return {
        "scaleUp": {"policies": up or DEFAULT_UP, "selectPolicy": select, "stabilizationWindowSeconds": 0},
        "scaleDown": {"policies": down or DEFAULT_DOWN, "selectPolicy": select, "stabilizationWindowSeconds": 0},
    }


def pods_by(value: int, period: int = 60) -> Obj:
    return {"type": "Pods", "value": value, "periodSeconds": period}


def percent_by(value: int, period: int = 60) -> Obj:
    return {"type": "Percent", "value": value, "periodSeconds": period}


RECENT_CHANGES = [(1, 940.0), (5, 960.0), (9, 980.0)]


@pytest.mark.parametrize(
    ("rules", "current", "wanted", "bounds", "expected"),
    [
        (behavior(), 5, 7, (3, 8), (7, "DesiredWithinRange")),
        (behavior(), 3, 1, (2, 8), (2, "TooFewReplicas")),
        (behavior(), 100, 1000, (100, 150), (150, "TooManyReplicas")),
        (behavior([percent_by(1)]), 3, 1000, (1, 2000), (4, "ScaleUpLimit")),
        (behavior(down=[pods_by(20)]), 1000, 3, (3, 2000), (980, "ScaleDownLimit")),
        (behavior(), 10, 50, (1, 1000), (20, "ScaleUpLimit")),
        (behavior([pods_by(100), percent_by(100)]), 10, 500, (1, 1000), (110, "ScaleUpLimit")),
        (behavior([pods_by(2), percent_by(100)]), 10, 500, (1, 1000), (20, "ScaleUpLimit")),
        (behavior([pods_by(2), percent_by(100)], select="Min"), 10, 500, (1, 1000), (12, "ScaleUpLimit")),
        (behavior(select="Disabled"), 10, 500, (1, 1000), (10, "ScaleUpLimit")),
        (behavior(down=[pods_by(20), percent_by(1)]), 100, 2, (1, 1000), (80, "ScaleDownLimit")),
        (behavior(down=[pods_by(2), percent_by(1)]), 100, 2, (1, 1000), (98, "ScaleDownLimit")),
        (behavior(down=[pods_by(2), percent_by(1)], select="Min"), 100, 2, (1, 1000), (99, "ScaleDownLimit")),
        (behavior(down=[percent_by(50)]), 10, 5, (1, 1000), (5, "DesiredWithinRange")),
    ],
)
def test_scaling_policies_limit_the_change(
    rules: Obj, current: int, wanted: int, bounds: tuple[int, int], expected: tuple[int, str]
) -> None:
    decision = autoscaler_behavior.normalize_with_behavior(
        autoscaler_behavior.ScalingHistory(), rules, current, wanted, autoscaler_behavior.Bounds(*bounds), now=1000.0
    )
    assert (decision.replicas, decision.limit[0], decision.limited) == (*expected, expected[1] != "DesiredWithinRange")


@pytest.mark.parametrize(
    ("rules", "history", "current", "expected", "replicas"),
    [
        (behavior([pods_by(5, 120)]), autoscaler_behavior.ScalingHistory(added=RECENT_CHANGES), 100, 500, 100),
        (behavior([pods_by(150, 120)]), autoscaler_behavior.ScalingHistory(added=RECENT_CHANGES), 100, 500, 235),
        (behavior([percent_by(200, 120)]), autoscaler_behavior.ScalingHistory(added=RECENT_CHANGES), 100, 500, 255),
        (behavior([percent_by(300, 300)]), autoscaler_behavior.ScalingHistory(added=[(4, 940.0)], removed=[(2, 940.0)]), 6, 24, 16),
        (behavior([pods_by(5, 30)]), autoscaler_behavior.ScalingHistory(added=RECENT_CHANGES), 100, 500, 100),
        (behavior(down=[pods_by(5, 120)]), autoscaler_behavior.ScalingHistory(removed=RECENT_CHANGES), 100, 0, 100),
    ],
)
def test_recent_changes_count_against_policies(
    rules: Obj, history: autoscaler_behavior.ScalingHistory, current: int, expected: int, replicas: int
) -> None:
    assert (
        autoscaler_behavior.normalize_with_behavior(
            history, rules, current, expected, autoscaler_behavior.Bounds(1, 1000), now=1000.0
        ).replicas
        == replicas
    )


@pytest.mark.parametrize(
    ("before", "expected", "steady"),
    [
        ([], 5, 5),
        ([(4, 880.0), (5, 940.0)], 3, 5),
        ([(1, 880.0), (2, 940.0)], 3, 3),
        ([(10, 400.0), (9, 460.0)], 3, 3),
        ([(10, 400.0), (4, 940.0), (5, 880.0), (9, 460.0)], 3, 5),
    ],
)
def test_recent_recommendations_delay_scaling_down(before: list[tuple[int, float]], expected: int, steady: int) -> None:
    history = autoscaler_behavior.ScalingHistory(list(before))
    decision = autoscaler_behavior.normalize_replicas(history, 10, expected, autoscaler_behavior.Bounds(1, 100), now=1000.0)
    assert decision.replicas == steady
    assert decision.able[0] == ("ReadyForNewScale" if steady == expected else "ScaleDownStabilized")
    assert history.recommendations[-1] == (expected, 1000.0)
    assert all(at >= 700.0 for _, at in history.recommendations)


def test_stabilization_windows_apply_in_both_directions() -> None:
    history = autoscaler_behavior.ScalingHistory([(2, 950.0), (8, 990.0)])
    decision = autoscaler_behavior.normalize_with_behavior(
        history, behavior([pods_by(100)]), 5, 9, autoscaler_behavior.Bounds(1, 100), now=1000.0
    )
    assert (decision.replicas, decision.able[0]) == (9, "ReadyForNewScale")
    history = autoscaler_behavior.ScalingHistory([(2, 950.0), (8, 990.0)])
    rules = behavior([pods_by(100)])
    rules["scaleUp"]["stabilizationWindowSeconds"] = 60
    decision = autoscaler_behavior.normalize_with_behavior(history, rules, 5, 9, autoscaler_behavior.Bounds(1, 100), now=1000.0)
    assert (decision.replicas, decision.able[0]) == (5, "ScaleUpStabilized")
    rules["scaleDown"]["stabilizationWindowSeconds"] = None
    decision = autoscaler_behavior.normalize_with_behavior(
        autoscaler_behavior.ScalingHistory([(4, 720.0)]), rules, 5, 3, autoscaler_behavior.Bounds(1, 100), now=1000.0
    )
    assert (decision.replicas, decision.able[0]) == (4, "ScaleDownStabilized")


def test_scale_changes_are_kept_for_the_policy_period() -> None:
    history, rules = autoscaler_behavior.ScalingHistory(), behavior([pods_by(1, 60)])
    history.record_scale(None, 1, 3, 0.0)
    assert history == autoscaler_behavior.ScalingHistory()
    history.record_scale(rules, 1, 3, 0.0)
    history.record_scale(rules, 3, 4, 50.0)
    history.record_scale(rules, 4, 5, 100.0)
    history.record_scale(rules, 5, 2, 100.0)
    assert (history.added, history.removed) == ([(1, 50.0), (1, 100.0)], [(3, 100.0)])


class NoMetrics:
    """A metrics client without any metrics API."""

    async def external(self, _namespace: str, metric: str, _selector: LabelSelector) -> list[int]:
        raise MetricUnavailable(f"no metrics API for {metric}")


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
NO_ALL, NO_SOME = (f"unable to get external metric ns/letters/{text}: no metrics API for letters" for text in ("nil", SELECTED))


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
            NO_ALL,
            f"{NO_LETTERS}: failed to get external metric letters: {NO_ALL}",
        ),
        (
            {
                "type": "External",
                "external": {
                    "metric": {"name": "letters", "selector": SELECTING},
                    "target": {"type": "AverageValue", "averageValue": "3"},
                },
            },
            NO_SOME,
            f"{NO_LETTERS}: failed to get letters external metric: {NO_SOME}",
        ),
    ],
)
def test_failure_messages_name_metric_and_selector(metric: Obj, message: str, summary: str) -> None:
    with pytest.raises(MetricFailure) as failure:
        asyncio.run(compute_replicas(cast("MetricsClient", NoMetrics()), metric, scaled([]), "ns", EVERYTHING))
    assert (failure.value.message, failure.value.summary) == (message, summary)
