"""StatefulSets in Kueue's queues: their pods are one group, which is admitted whole before the first of them runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.support.kueue import PRIORITY, QUEUE
from tests.support.kueue_pods import NAME, PodDesk

if TYPE_CHECKING:
    from tests.support.clusters import Cluster
    from tests.support.kueue_settings import Settings

CLUSTER = "pods"
PODS = True
Obj = dict[str, Any]


@pytest.fixture
def desk(cluster: Cluster, kueue: Settings, ns: str) -> PodDesk:
    return PodDesk(cluster, ns)


def group_of(made: Obj) -> str:
    """The name of the group that a StatefulSet's pods are in, which is that of its Workload."""
    return str(made["spec"]["template"]["metadata"]["labels"][NAME])


def ready(desk: PodDesk, *names: str) -> None:
    """Each pod in its turn, as a StatefulSet makes them."""
    for name in names:
        desk.until(lambda: name in desk.pods(), f"{name} is there")  # noqa: B023
        desk.until_free(name)
        desk.phase(name, "Running")


def pictures(desk: PodDesk, *names: str) -> Obj:
    """The pods without the hash of their revision."""
    found = desk.pod_pictures(*names)
    for pod in filter(None, found.values()):
        pod["labels"].pop("controller-revision-hash")
    return found


def test_all_of_it_waits(desk: PodDesk) -> None:
    desk.priority("high", 100)
    desk.queue("q", {"name": "f", "cpu": 2})
    made = desk.stateful("s", replicas=3, **{PRIORITY: desk.own("high")}).ok(201).json
    group = group_of(made)
    desk.until(lambda: desk.group(group), "the Workload")
    desk.until(lambda: desk.group_condition(group, "QuotaReserved") == "False", "it waits")
    desk.until(lambda: desk.group_condition(group, "WaitingForReplacementPods") == "True", "two pods are missing")
    assert list(desk.pods()) == ["s-0"]
    template = made["spec"]["template"]["metadata"]
    desk.settles(
        "stateful_waits", lambda: {"template": template, "group": desk.group_picture(group), "pods": pictures(desk, "s-0")}
    )


def test_all_of_it_is_admitted_with_its_first_pod(desk: PodDesk) -> None:
    desk.queue("q", {"name": "f", "cpu": 3})
    group = group_of(desk.stateful("s", replicas=3).ok(201).json)
    desk.until_free("s-0")
    desk.until(lambda: desk.group_condition(group, "Admitted") == "True", "it is admitted")
    assert list(desk.pods()) == ["s-0"]
    ready(desk, "s-0", "s-1", "s-2")
    desk.until(lambda: len(desk.group(group)["metadata"]["ownerReferences"]) == 3, "all pods are its owners")
    desk.until(lambda: desk.get_queue("q")["status"]["flavorsUsage"][0]["resources"][0]["total"] == "3", "all of the quota is used")
    desk.settles("stateful_admitted", lambda: {"group": desk.group_picture(group), "pods": pictures(desk, "s-0", "s-1", "s-2")})


def test_to_nothing_and_back(desk: PodDesk) -> None:
    desk.queue("q", {"name": "f", "cpu": 2})
    made = desk.stateful("s", replicas=2).ok(201).json
    ready(desk, "s-0", "s-1")
    refused = desk.api.patch(desk.statefuls("s"), {"spec": {"replicas": 1}})
    desk.compare("stateful_smaller", [refused.status, refused.json.get("message")])
    desk.api.patch(desk.statefuls("s"), {"spec": {"replicas": 0}}).ok()
    desk.until_gone("s-0", "s-1")
    desk.until(lambda: not desk.group(group_of(made)), "the Workload is gone")
    desk.until(lambda: not desk.api.get(desk.statefuls("s")).ok().json["status"].get("replicas"), "it has no pods")
    again = {"spec": {"replicas": 2}}
    desk.until(lambda: desk.api.patch(desk.statefuls("s"), again).status == 200, "Kueue knows that the Workload is gone")
    ready(desk, "s-0", "s-1")
    desk.until(lambda: desk.group_condition(group_of(made), "Admitted") == "True", "it is admitted again")


def test_one_that_is_deleted_takes_everything_along(desk: PodDesk) -> None:
    desk.queue("q", {"name": "f", "cpu": 2})
    group = group_of(desk.stateful("s", replicas=2).ok(201).json)
    ready(desk, "s-0", "s-1")
    desk.api.delete(desk.statefuls("s"), {"propagationPolicy": "Background"}).ok()
    desk.until_gone("s-0", "s-1")
    desk.until(lambda: not desk.group(group), "the Workload is gone")


def test_one_that_waits_is_deleted(desk: PodDesk) -> None:
    desk.queue("q", {"name": "f", "cpu": 0})
    group = group_of(desk.stateful("s").ok(201).json)
    desk.until(lambda: desk.group_condition(group, "QuotaReserved") == "False", "it waits")
    desk.api.delete(desk.statefuls("s"), {"propagationPolicy": "Background"}).ok()
    desk.until_gone("s-0")
    desk.until(lambda: not desk.group(group), "the Workload is gone")


def test_what_may_not_change(desk: PodDesk) -> None:
    desk.queue("q", {"name": "f", "cpu": 2})
    desk.queue("r", {"name": "f", "cpu": 2})
    made = desk.stateful("s").ok(201).json
    ready(desk, "s-0")
    desk.until(lambda: desk.api.get(desk.statefuls("s")).ok().json["status"].get("readyReplicas") == 1, "it is ready")
    container = {**made["spec"]["template"]["spec"]["containers"][0], "resources": {"requests": {"cpu": 2}}}
    changes: dict[str, Obj] = {
        "queue": {"metadata": {"labels": {QUEUE: "r"}}},
        "no queue": {"metadata": {"labels": {QUEUE: None}}},
        "priority": {"metadata": {"labels": {PRIORITY: "x"}}},
        "requests": {"spec": {"template": {"spec": {"containers": [container]}}}},
    }
    seen = {}
    for name, body in changes.items():
        answer = desk.api.patch(desk.statefuls("s"), body)
        seen[name] = [answer.status, answer.json.get("message")]
    desk.compare("stateful_stays", seen)


def test_another_queue_while_it_waits(desk: PodDesk) -> None:
    desk.queue("q", {"name": "f", "cpu": 0})
    desk.queue("r", {"name": "f", "cpu": 1})
    group = group_of(desk.stateful("s").ok(201).json)
    desk.until(lambda: desk.group_condition(group, "QuotaReserved") == "False", "it waits")
    changed = desk.api.patch(desk.statefuls("s"), {"metadata": {"labels": {QUEUE: "r"}}}).ok().json
    desk.compare("stateful_moved", changed["spec"]["template"]["metadata"])


def test_the_default_queue(desk: PodDesk) -> None:
    desk.queue("default", {"name": "f", "cpu": 1})
    made = desk.stateful("s", "").ok(201).json
    desk.compare("default_of_stateful", [made["metadata"]["labels"], made["spec"]["template"]["metadata"]])
    desk.until_free("s-0")


def test_a_name_that_is_none(desk: PodDesk) -> None:
    answer = desk.stateful("s", "Not_A_Name")
    desk.compare("stateful_refused", [answer.status, answer.json.get("message")])


def test_no_queue(desk: PodDesk) -> None:
    made = desk.stateful("s", "").ok(201).json
    assert "annotations" not in made["spec"]["template"]["metadata"]
    pods = desk.until(lambda: list(desk.pods().values()), "its pod")
    assert "schedulingGates" not in pods[0]["spec"]
