"""How autoscalers count: the numbers are those of the real controller's own tests."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, cast

import pytest

from sliceworks.base.clock import rfc3339
from sliceworks.kube.selectors import EVERYTHING
from sliceworks.twin.workloads.autoscalers import calculator, pace
from sliceworks.twin.workloads.autoscalers.calculator import Crowd, Tolerances
from sliceworks.twin.workloads.autoscalers.readings import Reading, Readings, Unread
from sliceworks.twin.workloads.autoscalers.sources import Failure, propose

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


def crowd(pods: list[Obj], asked: int = 0, tolerances: Tolerances | None = None) -> Crowd:
    return Crowd(asked or len(pods), asked or len(pods), pods, tolerances or Tolerances(), NOW)


def levels(*values: int) -> dict[str, Reading]:
    return {f"pod-{number}": Reading(value, NOW - timedelta(seconds=60), 60.0) for number, value in enumerate(values)}


FIRST_UNREADY = [pod(0, ready=False), pod(1), pod(2)]
FIRST_HOT = [pod(0, age=90), pod(1), pod(2)]


@pytest.mark.parametrize(
    ("pods", "used", "target", "replicas", "percent"),
    [
        ([pod(0), pod(1), pod(2)], (300, 500, 700), 30, 5, 50),
        (FIRST_UNREADY, (300, 500, 700), 30, 4, 60),
        (FIRST_HOT, (300, 500, 700), 30, 4, 60),
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
    found = calculator.by_utilization(crowd(pods), levels(*used), "cpu", target)
    assert found[:2] == (replicas, percent)


def test_failed_and_leaving_pods_do_not_count() -> None:
    leaving = pod(3)
    leaving["metadata"]["deletionTimestamp"] = rfc3339(NOW)
    pods = [pod(0), pod(1), pod(2, phase="Failed"), leaving]
    assert calculator.by_utilization(crowd(pods, asked=2), levels(500, 700), "cpu", 30) == (4, 60, 600)


def test_replicas_by_usage() -> None:
    assert calculator.by_usage(crowd([pod(0), pod(1), pod(2)]), levels(20000, 10000, 30000), "qps", 15000) == (4, 20000)
    assert calculator.by_usage(crowd([pod(n) for n in range(5)]), levels(*[12000] * 5), "qps", 20000) == (3, 12000)
    assert calculator.by_usage(crowd([pod(0), pod(1), pod(2)]), levels(20000, 21000, 21000), "qps", 20000) == (3, 20666)
    # Whether pods are ready does not matter to what is no CPU.
    assert calculator.by_usage(crowd(FIRST_UNREADY), levels(50000, 10000, 30000), "qps", 15000) == (6, 30000)
    assert calculator.by_usage(crowd([pod(0), pod(1)]), levels(10), "qps", 20) == (2, 10)


def test_replicas_by_one_number() -> None:
    pods = [pod(0), pod(1, ready=False), pod(2)]
    assert calculator.by_ratio(crowd(pods), 8600, 4400) == 4
    assert calculator.by_ratio(crowd(pods), 8600, 8888) == 3
    assert calculator.by_share(crowd(pods), 8600, 2150) == (4, 2867)
    assert calculator.by_share(crowd([], asked=5), 8600, 2867) == (3, 1720)
    assert calculator.by_share(crowd([], asked=3), 8600, 2867) == (3, 2867)
    assert calculator.by_share(Crowd(1, 0, [], Tolerances(), NOW), 8600, 2867)[0] == 3
    assert calculator.by_share(crowd([], asked=3, tolerances=Tolerances(up=0.7)), 8600, 2000)[0] == 3
    with pytest.raises(Unread, match="unable to calculate ready pods: no pods returned by selector"):
        calculator.by_ratio(crowd([], asked=1), 8600, 4400)


@pytest.mark.parametrize(
    ("pods", "used", "words"),
    [
        ([], (100,), "no pods returned by selector while calculating replica count"),
        ([pod(0, phase="Pending")], (100,), r"did not receive metrics for targeted pods \(pods might be unready\)"),
        ([pod(0, "")], (100,), "missing request for cpu in container main of Pod pod-0"),
        ([pod(7)], (100,), "no metrics returned matched known pods"),
    ],
)
def test_why_nothing_can_be_counted(pods: list[Obj], used: tuple[int, ...], words: str) -> None:
    with pytest.raises(Unread, match=words):
        calculator.by_utilization(crowd(pods, asked=1), levels(*used), "cpu", 50)


def test_whose_requests_count() -> None:
    found = pod(0)
    found["spec"]["initContainers"] = [
        {"name": "beside", "restartPolicy": "Always", "resources": {"requests": {"cpu": "3"}}},
        {"name": "before", "resources": {"requests": {"cpu": "9"}}},
    ]
    assert calculator.by_utilization(crowd([found]), levels(2000), "cpu", 50)[1] == 50
    assert calculator.by_utilization(crowd([found]), levels(2000), "cpu", 50, container="beside")[1] == 66
    found["spec"] |= {"resources": {"requests": {"cpu": "10"}}}
    assert calculator.by_utilization(crowd([found]), levels(2000), "cpu", 50)[1] == 20
    with pytest.raises(Unread, match="missing pod-level request for memory in Pod pod-0"):
        calculator.by_utilization(crowd([found]), levels(2000), "memory", 50)
    with pytest.raises(Unread, match="container other not found in Pod pod-0"):
        calculator.by_utilization(crowd([found]), levels(2000), "cpu", 50, container="other")


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


LATELY = [(1, 940.0), (5, 960.0), (9, 980.0)]


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
def test_how_fast_replicas_may_come_and_go(
    rules: Obj, current: int, wanted: int, bounds: tuple[int, int], expected: tuple[int, str]
) -> None:
    step = pace.behaved(pace.Memory(), rules, current, wanted, pace.Bounds(*bounds), now=1000.0)
    assert (step.replicas, step.limit[0], step.limited) == (*expected, expected[1] != "DesiredWithinRange")


@pytest.mark.parametrize(
    ("rules", "memory", "current", "wanted", "replicas"),
    [
        (behavior([pods_by(5, 120)]), pace.Memory(added=LATELY), 100, 500, 100),
        (behavior([pods_by(150, 120)]), pace.Memory(added=LATELY), 100, 500, 235),
        (behavior([percent_by(200, 120)]), pace.Memory(added=LATELY), 100, 500, 255),
        (behavior([percent_by(300, 300)]), pace.Memory(added=[(4, 940.0)], removed=[(2, 940.0)]), 6, 24, 16),
        (behavior([pods_by(5, 30)]), pace.Memory(added=LATELY), 100, 500, 100),
        (behavior(down=[pods_by(5, 120)]), pace.Memory(removed=LATELY), 100, 0, 100),
    ],
)
def test_what_was_done_of_late_counts(rules: Obj, memory: pace.Memory, current: int, wanted: int, replicas: int) -> None:
    assert pace.behaved(memory, rules, current, wanted, pace.Bounds(1, 1000), now=1000.0).replicas == replicas


@pytest.mark.parametrize(
    ("before", "wanted", "steady"),
    [
        ([], 5, 5),
        ([(4, 880.0), (5, 940.0)], 3, 5),
        ([(1, 880.0), (2, 940.0)], 3, 3),
        ([(10, 400.0), (9, 460.0)], 3, 3),
        ([(10, 400.0), (4, 940.0), (5, 880.0), (9, 460.0)], 3, 5),
    ],
)
def test_what_was_wanted_of_late_stays(before: list[tuple[int, float]], wanted: int, steady: int) -> None:
    memory = pace.Memory(list(before))
    step = pace.plain(memory, 10, wanted, pace.Bounds(1, 100), now=1000.0)
    assert step.replicas == steady
    assert step.able[0] == ("ReadyForNewScale" if steady == wanted else "ScaleDownStabilized")
    assert memory.wanted[-1] == (wanted, 1000.0)
    assert all(at >= 700.0 for _, at in memory.wanted)


def test_windows_of_both_ways() -> None:
    memory = pace.Memory([(2, 950.0), (8, 990.0)])
    step = pace.behaved(memory, behavior([pods_by(100)]), 5, 9, pace.Bounds(1, 100), now=1000.0)
    assert (step.replicas, step.able[0]) == (9, "ReadyForNewScale")
    memory = pace.Memory([(2, 950.0), (8, 990.0)])
    rules = behavior([pods_by(100)])
    rules["scaleUp"]["stabilizationWindowSeconds"] = 60
    step = pace.behaved(memory, rules, 5, 9, pace.Bounds(1, 100), now=1000.0)
    assert (step.replicas, step.able[0]) == (5, "ScaleUpStabilized")
    rules["scaleDown"]["stabilizationWindowSeconds"] = None
    step = pace.behaved(pace.Memory([(4, 720.0)]), rules, 5, 3, pace.Bounds(1, 100), now=1000.0)
    assert (step.replicas, step.able[0]) == (4, "ScaleDownStabilized")


def test_changes_are_remembered_while_a_policy_asks() -> None:
    memory, rules = pace.Memory(), behavior([pods_by(1, 60)])
    memory.note(None, 1, 3, 0.0)
    assert memory == pace.Memory()
    memory.note(rules, 1, 3, 0.0)
    memory.note(rules, 3, 4, 50.0)
    memory.note(rules, 4, 5, 100.0)
    memory.note(rules, 5, 2, 100.0)
    assert (memory.added, memory.removed) == ([(1, 50.0), (1, 100.0)], [(3, 100.0)])


class Nothing:
    """Readings where nothing is served."""

    async def external(self, _namespace: str, metric: str, _selector: LabelSelector) -> list[int]:
        raise Unread(f"nobody tells {metric}")


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
NO_ALL, NO_SOME = (f"unable to get external metric ns/letters/{text}: nobody tells letters" for text in ("nil", SELECTED))


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
def test_how_it_is_said_that_nobody_measures(metric: Obj, message: str, summary: str) -> None:
    with pytest.raises(Failure) as failure:
        asyncio.run(propose(cast("Readings", Nothing()), metric, crowd([]), "ns", EVERYTHING))
    assert (failure.value.message, failure.value.summary) == (message, summary)
