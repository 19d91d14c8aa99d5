"""Graph definitions and instances: states, reasons, and the drawing of a graph."""

from typing import Any
from xml.etree import ElementTree

from sliceworks.console.views import graph_view
from sliceworks.graph.diagram import FAILED, PENDING, READY, STATES, Box
from sliceworks.graph.model import NodeType

Object = dict[str, Any]


def condition(kind: str, status: str, message: str = "", at: str = "2026-01-05T08:00:00Z") -> Object:
    return {"type": kind, "status": status, "message": message, "lastTransitionTime": at}


def test_pending_instance_shows_message_of_blocking_condition() -> None:
    waiting = condition("ResourcesReady", "False", "awaiting resource readiness: pool", "2026-01-05T09:00:00Z")
    conditions = [
        condition("InstanceManaged", "True"),
        condition("GraphResolved", "False", "x"),
        waiting,
        condition("Ready", "False", "y"),
    ]
    result = graph_view.instance(
        {"metadata": {"name": "a", "namespace": "ml"}, "status": {"state": "IN_PROGRESS", "conditions": conditions}}
    )
    assert (result.why, result.tone) == ("pool", "wait")
    deleted = graph_view.instance({"metadata": {"name": "a", "deletionTimestamp": "…"}, "status": {"state": "ACTIVE"}})
    assert (deleted.state, deleted.why) == ("DELETING", "")


def test_unready_instances_are_first() -> None:
    good = {"metadata": {"name": "a"}, "spec": {"schema": {"kind": "A"}}, "status": {"state": "Active"}}
    bad = {"metadata": {"name": "b"}, "spec": {"schema": {"kind": "B"}}, "status": {"state": "Inactive"}}
    new = {"metadata": {"name": "c"}, "spec": {}}
    result = graph_view.definitions([good, bad, new])
    assert [(item.name, item.tone) for item in result] == [("b", "bad"), ("c", "idle"), ("a", "good")]
    assert result[2].api_version == "kro.run/v1alpha1"
    assert [instance.name for instance in graph_view.instances([good | {"status": {"state": "ACTIVE"}}, bad])] == ["b", "a"]


def test_graph_drawing_shows_every_resource_with_its_state() -> None:
    boxes = [
        Box("vpc", "Network", 1, (), NodeType.RESOURCE, state=READY),
        Box("pool", "NodePool", 2, ("vpc",), NodeType.RESOURCE, state=PENDING),
        Box("jobs", "Job", 3, ("vpc", "pool"), NodeType.COLLECTION, "one for each", FAILED),
        Box("<x>", "Secret", 1, (), NodeType.EXTERNAL),
    ]
    picture = graph_view.graph_svg(boxes, "Gemma")
    tree = ElementTree.fromstring(picture)
    nodes = [item for item in tree.iter() if item.get("data-act")]
    assert [node.get("data-act") for node in nodes] == ["node:vpc", "node:pool", "node:jobs", "node:<x>"]
    assert nodes[2].get("aria-label") == "jobs, Job · one for each: failed"
    assert all(node.get("tabindex") == "0" and node.get("role") == "button" for node in nodes)
    assert picture.count("sw-edge") == 2  # the transitive edge from pool to jobs is not drawn
    assert len(set(graph_view._SIGNS.values())) == len(STATES)
