"""Definitions are taken, refused and evaluated as kro's own compiler did: see `cases.yaml` and `observed.json`."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from tests.graph.corpus import BUILT_IN, DIFFERS, KINDS, OBSERVED, Case, cases

from sliceworks.graph import definitions
from sliceworks.graph.compile import compile as compile_graph
from sliceworks.graph.errors import DefinitionError, EvaluationFailed
from sliceworks.graph.evaluate import Evaluation
from sliceworks.graph.model import Desired, Excluded, Graph, Lookup, Node, Waiting

_CASES = cases()
_OBSERVED: dict[str, Any] = orjson.loads(OBSERVED.read_bytes())
_NAMES = ("t", "u")


@pytest.mark.parametrize("case", [case for case in _CASES if case.name not in DIFFERS], ids=lambda case: case.name)
def test_a_case_goes_as_observed(case: Case) -> None:
    assert _answer(case) == _comparable(_OBSERVED[case.name])


@pytest.mark.parametrize("case", [case for case in _CASES if case.name in DIFFERS], ids=lambda case: case.name)
def test_a_difference_that_is_written_down_is_still_there(case: Case) -> None:
    assert _answer(case) != _comparable(_OBSERVED[case.name]), DIFFERS[case.name]


def test_every_case_was_observed() -> None:
    assert {case.name for case in _CASES} == _OBSERVED.keys(), "the cases changed: run tests.graph.refresh"
    assert DIFFERS.keys() <= _OBSERVED.keys()


def _answer(case: Case) -> dict[str, Any]:
    try:
        graph = compile_graph(definitions.read(case.definition), KINDS)
    except DefinitionError:
        return {"refused": True}
    evaluation = Evaluation(graph, case.instance)
    nodes = {node.id: _play(evaluation, node, case) for node in graph.nodes}
    conditions = evaluation.conditions(BUILT_IN)
    return {
        "order": list(graph.order),
        "layers": {node.id: node.apply_order for node in graph.nodes},
        "needs": {node.id: sorted(node.dependencies) for node in graph.nodes},
        "nodes": {name: node for name, node in nodes.items() if name in _NAMES},
        "status": _without_nulls(evaluation.status().values),
        "schemas": _schemas(case, graph),
        "conditions": [[one.type, one.status, one.reason, one.message] for one in conditions.items],
    }


def _schemas(case: Case, graph: Graph) -> dict[str, Any]:
    properties = graph.crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
    if case.name.startswith("schema "):
        return {"spec": _without_empty(properties["spec"])}
    if not case.name.startswith("status "):
        return {}
    own = {name: one for name, one in properties["status"]["properties"].items() if name not in ("state", "conditions")}
    return {"status": _without_empty(own)}


def _play(evaluation: Evaluation, node: Node, case: Case) -> Any:
    try:
        outcome = evaluation.resolve(node)
    except EvaluationFailed:
        return "failed"
    if isinstance(outcome, Excluded):
        return "left out"
    if isinstance(outcome, Waiting):
        return "waiting"
    objects = list(outcome.objects) if isinstance(outcome, Desired) else [_looked_up(outcome, node)]
    evaluation.observe(node.id, case.observed.get(node.id, objects))
    try:
        ready = evaluation.readiness(node) is None
    except EvaluationFailed:
        ready = False
    return {"desired": [_without_nulls(one) for one in objects] if len(objects) <= 10 else len(objects), "ready": ready}


def _looked_up(outcome: Lookup, node: Node) -> dict[str, Any]:
    metadata = {"name": outcome.name, "namespace": outcome.namespace, "selector": outcome.selector}
    return {
        "apiVersion": node.kind.api_version,
        "kind": node.kind.kind,
        "metadata": {name: value for name, value in metadata.items() if value not in ("", None)},
    }


def _comparable(observed: dict[str, Any]) -> dict[str, Any]:
    """kro's answer in the form of ours."""
    if "error" in observed:
        return {"refused": True}
    schemas = {key.removesuffix(" schema"): _without_empty(observed[key]) for key in observed if key.endswith(" schema")}
    conditions = observed.get("conditions", [])
    return {
        "order": observed["order"],
        "layers": observed["layers"],
        "needs": observed["needs"],
        "nodes": {name: _comparable_node(node) for name, node in observed["nodes"].items()},
        "status": _without_nulls(observed["status"]),
        "schemas": schemas,
        "conditions": [[one["ConditionType"], one["Status"], one["Reason"], one["Message"]] for one in conditions],
    }


def _comparable_node(node: dict[str, Any]) -> Any:
    if "error" in node:
        return "waiting" if node["pending"] else "failed"
    if node.get("ignored"):
        return "left out"
    desired = node["desired"]
    made = desired if isinstance(desired, int) else [_without_nulls(_without_index(one)) for one in desired]
    return {"desired": made, "ready": "unready" not in node}


def _without_index(one: dict[str, Any]) -> dict[str, Any]:
    """kro labels the objects of a collection where it makes them; our controller does so where it applies them."""
    labels = one["metadata"].get("labels") or {}
    if not isinstance(labels, dict) or "kro.run/collection-index" not in labels:
        return one
    metadata = {name: value for name, value in one["metadata"].items() if name != "labels"}
    return {**one, "metadata": metadata}


def _without_nulls(value: Any) -> Any:
    """An absent field: we leave it away, kro writes null, and a cluster takes both for the same."""
    if isinstance(value, dict):
        return {name: _without_nulls(child) for name, child in value.items() if child is not None}
    if isinstance(value, list):
        return [_without_nulls(child) for child in value if child is not None]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _without_empty(schema: Any) -> Any:
    """Go leaves empty lists and maps of a schema away."""
    if isinstance(schema, dict):
        kept = {name: _without_empty(child) for name, child in schema.items()}
        return {name: child for name, child in kept.items() if not (name in ("properties", "required") and not child)}
    return [_without_empty(child) for child in schema] if isinstance(schema, list) else schema
