"""Definitions are accepted, rejected and evaluated as by kro's compiler: see `cases.yaml` and `observed.json`."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from tests.graph.kro_corpus import BUILT_IN, DIFFERS, KINDS, OBSERVED, Case, cases

from sliceworks.graph import definition_parser
from sliceworks.graph.builder import build_graph
from sliceworks.graph.evaluation import Evaluation
from sliceworks.graph.model import DataPending, DefinitionError, Desired, EvaluationFailed, Excluded, Graph, Lookup, Node

_CASES = cases()
_OBSERVED: dict[str, Any] = orjson.loads(OBSERVED.read_bytes())
_NAMES = ("t", "u")


@pytest.mark.parametrize("case", [case for case in _CASES if case.name not in DIFFERS], ids=lambda case: case.name)
def test_result_matches_kro(case: Case) -> None:
    assert _result(case) == _comparable(_OBSERVED[case.name])


@pytest.mark.parametrize("case", [case for case in _CASES if case.name in DIFFERS], ids=lambda case: case.name)
def test_documented_difference_still_exists(case: Case) -> None:
    assert _result(case) != _comparable(_OBSERVED[case.name]), DIFFERS[case.name]


def test_every_case_is_recorded() -> None:
    assert {case.name for case in _CASES} == _OBSERVED.keys(), "the cases changed: run python -m tests.graph.record_corpus"
    assert DIFFERS.keys() <= _OBSERVED.keys()


def _result(case: Case) -> dict[str, Any]:
    try:
        graph = build_graph(definition_parser.parse(case.definition), KINDS)
    except DefinitionError:
        return {"rejected": True}
    evaluation = Evaluation(graph, case.instance)
    nodes = {node.id: _evaluate(evaluation, node, case) for node in graph.nodes}
    conditions = evaluation.conditions(BUILT_IN)
    return {
        "order": list(graph.order),
        "layers": {node.id: node.apply_order for node in graph.nodes},
        "needs": {node.id: sorted(node.dependencies) for node in graph.nodes},
        "nodes": {name: node for name, node in nodes.items() if name in _NAMES},
        "status": _without_nulls(evaluation.status().values),
        "schemas": _schemas(case, graph),
        "conditions": [[condition.type, condition.status, condition.reason, condition.message] for condition in conditions.items],
    }


def _schemas(case: Case, graph: Graph) -> dict[str, Any]:
    properties = graph.crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
    if case.name.startswith("schema "):
        return {"spec": _without_empty(properties["spec"])}
    if not case.name.startswith("status "):
        return {}
    own = {name: field for name, field in properties["status"]["properties"].items() if name not in ("state", "conditions")}
    return {"status": _without_empty(own)}


def _evaluate(evaluation: Evaluation, node: Node, case: Case) -> Any:
    try:
        outcome = evaluation.resolve(node)
    except EvaluationFailed:
        return "failed"
    if isinstance(outcome, Excluded):
        return "excluded"
    if isinstance(outcome, DataPending):
        return "pending"
    objects = list(outcome.objects) if isinstance(outcome, Desired) else [_reference(outcome, node)]
    evaluation.observe(node.id, case.observed.get(node.id, objects))
    try:
        ready = evaluation.readiness(node) is None
    except EvaluationFailed:
        ready = False
    return {"desired": [_without_nulls(obj) for obj in objects] if len(objects) <= 10 else len(objects), "ready": ready}


def _reference(outcome: Lookup, node: Node) -> dict[str, Any]:
    metadata = {"name": outcome.name, "namespace": outcome.namespace, "selector": outcome.selector}
    return {
        "apiVersion": node.kind.api_version,
        "kind": node.kind.kind,
        "metadata": {name: value for name, value in metadata.items() if value not in ("", None)},
    }


def _comparable(observed: dict[str, Any]) -> dict[str, Any]:
    """kro's result in the form of `_result`."""
    if "error" in observed:
        return {"rejected": True}
    schemas = {key.removesuffix(" schema"): _without_empty(observed[key]) for key in observed if key.endswith(" schema")}
    conditions = observed.get("conditions", [])
    return {
        "order": observed["order"],
        "layers": observed["layers"],
        "needs": observed["needs"],
        "nodes": {name: _comparable_node(node) for name, node in observed["nodes"].items()},
        "status": _without_nulls(observed["status"]),
        "schemas": schemas,
        "conditions": [
            [condition["ConditionType"], condition["Status"], condition["Reason"], condition["Message"]] for condition in conditions
        ],
    }


def _comparable_node(node: dict[str, Any]) -> Any:
    if "error" in node:
        return "pending" if node["pending"] else "failed"
    if node.get("ignored"):
        return "excluded"
    desired = node["desired"]
    objects = desired if isinstance(desired, int) else [_without_nulls(_without_index(obj)) for obj in desired]
    return {"desired": objects, "ready": "unready" not in node}


def _without_index(obj: dict[str, Any]) -> dict[str, Any]:
    """kro's compiler labels the objects of a collection; our controller adds this label when it applies them."""
    labels = obj["metadata"].get("labels") or {}
    if not isinstance(labels, dict) or "kro.run/collection-index" not in labels:
        return obj
    metadata = {name: value for name, value in obj["metadata"].items() if name != "labels"}
    return {**obj, "metadata": metadata}


def _without_nulls(value: Any) -> Any:
    """Absent fields are null in kro's result and missing in ours; the API server treats both alike."""
    if isinstance(value, dict):
        return {name: _without_nulls(child) for name, child in value.items() if child is not None}
    if isinstance(value, list):
        return [_without_nulls(child) for child in value if child is not None]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _without_empty(schema: Any) -> Any:
    """Go omits empty lists and maps of a schema."""
    if isinstance(schema, dict):
        kept = {name: _without_empty(child) for name, child in schema.items()}
        return {name: child for name, child in kept.items() if not (name in ("properties", "required") and not child)}
    return [_without_empty(child) for child in schema] if isinstance(schema, list) else schema
