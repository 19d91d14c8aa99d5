"""Scheduling by other pods: affinity, anti-affinity and topology spread."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from tests.support.polling import eventually
from tests.support.scheduling import HOST, NO_VICTIMS, PREFERRED, REQUIRED, UNHELPFUL, ZONE, SchedulerHarness, near

if TYPE_CHECKING:
    from tests.support.http import Api

CLUSTER = "scheduling"


def test_pod_affinity(scheduler: SchedulerHarness) -> None:
    scheduler.node("a", labels={ZONE: "z1"})
    scheduler.node("b", labels={ZONE: "z2"})
    scheduler.pod("db", labels={"app": "db"}, nodeSelector={HOST: "b"})
    scheduler.where("db")
    scheduler.pod("web", affinity={"podAffinity": {REQUIRED: [near({"app": "db"}, ZONE)]}})
    assert scheduler.where("web") == "b"
    scheduler.pod("lonely", affinity={"podAffinity": {REQUIRED: [near({"app": "none"}, ZONE)]}})
    scheduler.refused_with("lonely", f"0/2 nodes are available: 2 node(s) didn't match pod affinity rules. {UNHELPFUL.format(2)}")


def test_pod_affinity_to_itself(scheduler: SchedulerHarness) -> None:
    scheduler.node("a", labels={"pool": "p1"})
    scheduler.node("b", labels={"pool": "p2"})
    scheduler.node("c")
    affinity = {"podAffinity": {REQUIRED: [near({"job": "j"}, "pool")]}}
    scheduler.pod("w-0", labels={"job": "j"}, affinity=affinity)
    first = scheduler.where("w-0")
    assert first in ("a", "b")
    scheduler.pod("w-1", labels={"job": "j"}, affinity=affinity)
    assert scheduler.where("w-1") == first


def test_pod_affinity_namespaces(scheduler: SchedulerHarness, api: Api, unique_name: str) -> None:
    scheduler.node("a")
    api.post("/api/v1/namespaces", {"metadata": {"name": unique_name, "labels": {"team": "data"}}}).ok(201)
    api.post(f"/api/v1/namespaces/{unique_name}/serviceaccounts", {"metadata": {"name": "default"}})
    other = SchedulerHarness(api, unique_name)
    other.pod("db", labels={"app": "db"})
    other.where("db")
    scheduler.pod("own", affinity={"podAffinity": {REQUIRED: [near({"app": "db"})]}})
    scheduler.refused_with("own", f"0/1 nodes are available: 1 node(s) didn't match pod affinity rules. {UNHELPFUL.format(1)}")
    scheduler.pod("named", affinity={"podAffinity": {REQUIRED: [near({"app": "db"}, namespaces=[unique_name])]}})
    assert scheduler.where("named") == "a"
    chosen = near({"app": "db"}, namespaceSelector={"matchLabels": {"team": "data"}})
    numbers = itertools.count()

    def placed() -> bool:
        """A pod that is created before the scheduler knows the namespace's labels is not requeued when they arrive."""
        name = f"chosen-{next(numbers)}"
        scheduler.pod(name, affinity={"podAffinity": {REQUIRED: [chosen]}})
        return bool(eventually(lambda: scheduler.condition(name), what=f"a word on {name}")["status"] == "True")

    eventually(placed, what="a place beside pods of namespaces that a selector chooses")
    other.delete("db")


def test_pod_anti_affinity(scheduler: SchedulerHarness) -> None:
    scheduler.node("a")
    scheduler.node("b")
    away = {"podAntiAffinity": {REQUIRED: [near({"app": "web"})]}}
    scheduler.pod("web-0", labels={"app": "web"}, affinity=away)
    scheduler.pod("web-1", labels={"app": "web"}, affinity=away)
    assert {scheduler.where("web-0"), scheduler.where("web-1")} == {"a", "b"}
    scheduler.pod("web-2", labels={"app": "web"}, affinity=away)
    reason = "2 node(s) didn't match pod anti-affinity rules"
    scheduler.refused_with("web-2", f"0/2 nodes are available: {reason}. {NO_VICTIMS.format(2)}")


def test_anti_affinity_of_existing_pods(scheduler: SchedulerHarness) -> None:
    scheduler.node("a")
    scheduler.pod("guard", affinity={"podAntiAffinity": {REQUIRED: [near({"app": "noisy"})]}})
    scheduler.where("guard")
    scheduler.pod("noisy", labels={"app": "noisy"})
    reason = "1 node(s) didn't satisfy existing pods anti-affinity rules"
    scheduler.refused_with("noisy", f"0/1 nodes are available: {reason}. {NO_VICTIMS.format(1)}")


def test_preferred_pod_affinity(scheduler: SchedulerHarness) -> None:
    for name in ("a", "b", "c"):
        scheduler.node(name)
    scheduler.pod("db", labels={"app": "db"}, nodeSelector={HOST: "b"})
    scheduler.where("db")
    towards = [{"weight": 100, "podAffinityTerm": near({"app": "db"})}]
    scheduler.pod("web", affinity={"podAffinity": {PREFERRED: towards}})
    assert scheduler.where("web") == "b"
    scheduler.pod("loud", nodeSelector={HOST: "a"}, labels={"app": "loud"})
    scheduler.where("loud")
    scheduler.pod(
        "quiet", affinity={"podAntiAffinity": {PREFERRED: [*towards, {"weight": 100, "podAffinityTerm": near({"app": "loud"})}]}}
    )
    assert scheduler.where("quiet") == "c"


def spread(topology: str, how: str = "DoNotSchedule", **fields: Any) -> dict[str, Any]:
    return {
        "topologyKey": topology,
        "whenUnsatisfiable": how,
        "maxSkew": 1,
        "labelSelector": {"matchLabels": {"app": "s"}},
        **fields,
    }


def test_topology_spread(scheduler: SchedulerHarness) -> None:
    for name, zone in (("a", "z1"), ("b", "z1"), ("c", "z2")):
        scheduler.node(name, labels={ZONE: zone})
    scheduler.node("nowhere")
    zones = []
    for number in range(4):
        scheduler.pod(f"s-{number}", labels={"app": "s"}, topologySpreadConstraints=[spread(ZONE)])
        zones.append("z2" if scheduler.where(f"s-{number}") == "c" else "z1")
    assert sorted(zones) == ["z1", "z1", "z2", "z2"]
    scheduler.change_node("c", {"spec": {"unschedulable": True}})
    scheduler.pod("s-4", labels={"app": "s"}, topologySpreadConstraints=[spread(ZONE)])
    scheduler.where("s-4")
    scheduler.pod("s-5", labels={"app": "s"}, topologySpreadConstraints=[spread(ZONE)])
    message = scheduler.refusal("s-5")
    assert "2 node(s) didn't match pod topology spread constraints. " in message
    assert "1 node(s) didn't match pod topology spread constraints (missing required label)" in message


def test_topology_spread_needs_topology_label(scheduler: SchedulerHarness) -> None:
    scheduler.node("a", labels={ZONE: "z1"})
    constraint = spread(ZONE, minDomains=2)
    scheduler.pod("s-0", labels={"app": "s"}, topologySpreadConstraints=[constraint])
    scheduler.where("s-0")
    scheduler.pod("s-1", labels={"app": "s"}, topologySpreadConstraints=[constraint])
    reason = "1 node(s) didn't match pod topology spread constraints"
    scheduler.refused_with("s-1", f"0/1 nodes are available: {reason}. {NO_VICTIMS.format(1)}")
    scheduler.node("b", labels={ZONE: "z2"})
    assert scheduler.where("s-1") == "b"


def test_soft_topology_spread(scheduler: SchedulerHarness) -> None:
    for name in ("a", "b", "c"):
        scheduler.node(name)
    constraint = spread(HOST, "ScheduleAnyway")
    for number in range(6):
        scheduler.pod(f"s-{number}", labels={"app": "s"}, topologySpreadConstraints=[constraint])
        scheduler.where(f"s-{number}")
    placed = [scheduler.where(f"s-{number}") for number in range(6)]
    assert sorted(placed) == ["a", "a", "b", "b", "c", "c"]


def test_service_pods_are_spread(scheduler: SchedulerHarness) -> None:
    scheduler.serve("web", {"app": "web"})
    scheduler.node("a", cpu="64", memory="256Gi")
    scheduler.node("b", cpu="64", memory="256Gi")
    placed = []
    for number in range(6):
        scheduler.pod(f"web-{number}", labels={"app": "web"})
        placed.append(scheduler.where(f"web-{number}"))
    assert sorted(placed) == ["a", "a", "a", "b", "b", "b"]
