"""Where pods go because of other pods: affinity, anti-affinity, and being spread."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from tests.support.scheduling import HOST, NO_VICTIMS, PREFERRED, REQUIRED, UNHELPFUL, ZONE, Stage, near
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from tests.support.http import Api

CLUSTER = "scheduling"


def test_pod_affinity(stage: Stage) -> None:
    stage.node("a", labels={ZONE: "z1"})
    stage.node("b", labels={ZONE: "z2"})
    stage.pod("db", labels={"app": "db"}, nodeSelector={HOST: "b"})
    stage.where("db")
    stage.pod("web", affinity={"podAffinity": {REQUIRED: [near({"app": "db"}, ZONE)]}})
    assert stage.where("web") == "b"
    stage.pod("lonely", affinity={"podAffinity": {REQUIRED: [near({"app": "none"}, ZONE)]}})
    stage.refused_with("lonely", f"0/2 nodes are available: 2 node(s) didn't match pod affinity rules. {UNHELPFUL.format(2)}")


def test_pod_affinity_to_itself_starts_somewhere(stage: Stage) -> None:
    stage.node("a", labels={"pool": "p1"})
    stage.node("b", labels={"pool": "p2"})
    stage.node("c")
    affinity = {"podAffinity": {REQUIRED: [near({"job": "j"}, "pool")]}}
    stage.pod("w-0", labels={"job": "j"}, affinity=affinity)
    first = stage.where("w-0")
    assert first in ("a", "b")
    stage.pod("w-1", labels={"job": "j"}, affinity=affinity)
    assert stage.where("w-1") == first


def test_pod_affinity_looks_into_other_namespaces_only_when_told(stage: Stage, api: Api, unique_name: str) -> None:
    stage.node("a")
    api.post("/api/v1/namespaces", {"metadata": {"name": unique_name, "labels": {"team": "data"}}}).ok(201)
    api.post(f"/api/v1/namespaces/{unique_name}/serviceaccounts", {"metadata": {"name": "default"}})
    other = Stage(api, unique_name)
    other.pod("db", labels={"app": "db"})
    other.where("db")
    stage.pod("own", affinity={"podAffinity": {REQUIRED: [near({"app": "db"})]}})
    stage.refused_with("own", f"0/1 nodes are available: 1 node(s) didn't match pod affinity rules. {UNHELPFUL.format(1)}")
    stage.pod("named", affinity={"podAffinity": {REQUIRED: [near({"app": "db"}, namespaces=[unique_name])]}})
    assert stage.where("named") == "a"
    chosen = near({"app": "db"}, namespaceSelector={"matchLabels": {"team": "data"}})
    numbers = itertools.count()

    def placed() -> bool:
        """A pod that came before its scheduler knew the labels of the namespace is told nothing new when they come."""
        name = f"chosen-{next(numbers)}"
        stage.pod(name, affinity={"podAffinity": {REQUIRED: [chosen]}})
        return bool(eventually(lambda: stage.condition(name), what=f"a word on {name}")["status"] == "True")

    eventually(placed, what="a place beside pods of namespaces that a selector chooses")
    other.delete("db")


def test_pod_anti_affinity(stage: Stage) -> None:
    stage.node("a")
    stage.node("b")
    away = {"podAntiAffinity": {REQUIRED: [near({"app": "web"})]}}
    stage.pod("web-0", labels={"app": "web"}, affinity=away)
    stage.pod("web-1", labels={"app": "web"}, affinity=away)
    assert {stage.where("web-0"), stage.where("web-1")} == {"a", "b"}
    stage.pod("web-2", labels={"app": "web"}, affinity=away)
    reason = "2 node(s) didn't match pod anti-affinity rules"
    stage.refused_with("web-2", f"0/2 nodes are available: {reason}. {NO_VICTIMS.format(2)}")


def test_placed_pods_keep_others_away(stage: Stage) -> None:
    stage.node("a")
    stage.pod("guard", affinity={"podAntiAffinity": {REQUIRED: [near({"app": "noisy"})]}})
    stage.where("guard")
    stage.pod("noisy", labels={"app": "noisy"})
    reason = "1 node(s) didn't satisfy existing pods anti-affinity rules"
    stage.refused_with("noisy", f"0/1 nodes are available: {reason}. {NO_VICTIMS.format(1)}")


def test_preferred_pod_affinity(stage: Stage) -> None:
    for name in ("a", "b", "c"):
        stage.node(name)
    stage.pod("db", labels={"app": "db"}, nodeSelector={HOST: "b"})
    stage.where("db")
    towards = [{"weight": 100, "podAffinityTerm": near({"app": "db"})}]
    stage.pod("web", affinity={"podAffinity": {PREFERRED: towards}})
    assert stage.where("web") == "b"
    stage.pod("loud", nodeSelector={HOST: "a"}, labels={"app": "loud"})
    stage.where("loud")
    stage.pod(
        "quiet", affinity={"podAntiAffinity": {PREFERRED: [*towards, {"weight": 100, "podAffinityTerm": near({"app": "loud"})}]}}
    )
    assert stage.where("quiet") == "c"


def spread(topology: str, how: str = "DoNotSchedule", **fields: Any) -> dict[str, Any]:
    return {
        "topologyKey": topology,
        "whenUnsatisfiable": how,
        "maxSkew": 1,
        "labelSelector": {"matchLabels": {"app": "s"}},
        **fields,
    }


def test_topology_spread(stage: Stage) -> None:
    for name, zone in (("a", "z1"), ("b", "z1"), ("c", "z2")):
        stage.node(name, labels={ZONE: zone})
    stage.node("nowhere")
    zones = []
    for number in range(4):
        stage.pod(f"s-{number}", labels={"app": "s"}, topologySpreadConstraints=[spread(ZONE)])
        zones.append("z2" if stage.where(f"s-{number}") == "c" else "z1")
    assert sorted(zones) == ["z1", "z1", "z2", "z2"]
    stage.change_node("c", {"spec": {"unschedulable": True}})
    stage.pod("s-4", labels={"app": "s"}, topologySpreadConstraints=[spread(ZONE)])
    stage.where("s-4")
    stage.pod("s-5", labels={"app": "s"}, topologySpreadConstraints=[spread(ZONE)])
    message = stage.refusal("s-5")
    assert "2 node(s) didn't match pod topology spread constraints. " in message
    assert "1 node(s) didn't match pod topology spread constraints (missing required label)" in message


def test_topology_spread_needs_domains(stage: Stage) -> None:
    stage.node("a", labels={ZONE: "z1"})
    constraint = spread(ZONE, minDomains=2)
    stage.pod("s-0", labels={"app": "s"}, topologySpreadConstraints=[constraint])
    stage.where("s-0")
    stage.pod("s-1", labels={"app": "s"}, topologySpreadConstraints=[constraint])
    reason = "1 node(s) didn't match pod topology spread constraints"
    stage.refused_with("s-1", f"0/1 nodes are available: {reason}. {NO_VICTIMS.format(1)}")
    stage.node("b", labels={ZONE: "z2"})
    assert stage.where("s-1") == "b"


def test_soft_topology_spread(stage: Stage) -> None:
    for name in ("a", "b", "c"):
        stage.node(name)
    constraint = spread(HOST, "ScheduleAnyway")
    for number in range(6):
        stage.pod(f"s-{number}", labels={"app": "s"}, topologySpreadConstraints=[constraint])
        stage.where(f"s-{number}")
    placed = [stage.where(f"s-{number}") for number in range(6)]
    assert sorted(placed) == ["a", "a", "b", "b", "c", "c"]


def test_pods_of_a_service_are_spread(stage: Stage) -> None:
    stage.serve("web", {"app": "web"})
    stage.node("a", cpu="64", memory="256Gi")
    stage.node("b", cpu="64", memory="256Gi")
    placed = []
    for number in range(6):
        stage.pod(f"web-{number}", labels={"app": "web"})
        placed.append(stage.where(f"web-{number}"))
    assert sorted(placed) == ["a", "a", "a", "b", "b", "b"]
