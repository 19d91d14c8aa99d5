"""Definitions and instances of self-service: how they stand, why one waits, and the picture of a graph."""

from typing import Any
from xml.etree import ElementTree

from sliceworks.console.views import graphs
from sliceworks.graph.model import Role
from sliceworks.graph.pictures import FAILED, READY, STATES, WAITING, Box

Object = dict[str, Any]


def condition(kind: str, status: str, message: str = "", at: str = "2026-01-05T08:00:00Z") -> Object:
    return {"type": kind, "status": status, "message": message, "lastTransitionTime": at}


def test_an_instance_says_what_it_waits_for_in_the_words_of_the_condition_that_is_stuck() -> None:
    waiting = condition("ResourcesReady", "False", "awaiting resource readiness: pool", "2026-01-05T09:00:00Z")
    conditions = [
        condition("InstanceManaged", "True"),
        condition("GraphResolved", "False", "x"),
        waiting,
        condition("Ready", "False", "y"),
    ]
    found = graphs.instance(
        {"metadata": {"name": "a", "namespace": "ml"}, "status": {"state": "IN_PROGRESS", "conditions": conditions}}
    )
    assert (found.why, found.tone) == ("pool", "wait")
    gone = graphs.instance({"metadata": {"name": "a", "deletionTimestamp": "…"}, "status": {"state": "ACTIVE"}})
    assert (gone.state, gone.why) == ("DELETING", "")


def test_those_that_are_not_ready_come_first() -> None:
    good = {"metadata": {"name": "a"}, "spec": {"schema": {"kind": "A"}}, "status": {"state": "Active"}}
    bad = {"metadata": {"name": "b"}, "spec": {"schema": {"kind": "B"}}, "status": {"state": "Inactive"}}
    new = {"metadata": {"name": "c"}, "spec": {}}
    found = graphs.definitions([good, bad, new])
    assert [(each.name, each.tone) for each in found] == [("b", "bad"), ("c", "idle"), ("a", "good")]
    assert found[2].api_version == "kro.run/v1alpha1"
    assert [each.name for each in graphs.instances([good | {"status": {"state": "ACTIVE"}}, bad])] == ["b", "a"]


def test_a_graph_is_drawn_with_every_resource_once_and_its_state_in_words_and_by_a_sign() -> None:
    boxes = [
        Box("vpc", "Network", 1, (), Role.RESOURCE, state=READY),
        Box("pool", "NodePool", 2, ("vpc",), Role.RESOURCE, state=WAITING),
        Box("jobs", "Job", 3, ("vpc", "pool"), Role.COLLECTION, "one for each", FAILED),
        Box("<x>", "Secret", 1, (), Role.EXTERNAL),
    ]
    picture = graphs.dag(boxes, "Gemma")
    tree = ElementTree.fromstring(picture)
    nodes = [each for each in tree.iter() if each.get("data-act")]
    assert [each.get("data-act") for each in nodes] == ["node:vpc", "node:pool", "node:jobs", "node:<x>"]
    assert nodes[2].get("aria-label") == "jobs, Job · one for each: failed"
    assert all(each.get("tabindex") == "0" and each.get("role") == "button" for each in nodes)
    assert picture.count("sw-edge") == 2  # what jobs needs through pool is not drawn twice
    assert len(set(graphs._SIGNS.values())) == len(STATES)
