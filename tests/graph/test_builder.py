"""Building graphs: order, levels, node types and the generated CustomResourceDefinition."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.graph.definitions import graph

from sliceworks.graph.crds import plural_of
from sliceworks.graph.dag import CycleError, topological_levels, topological_sort
from sliceworks.graph.model import NodeType
from sliceworks.graph.simple_schema import to_openapi


def _config_map(name: str, *dependencies: str) -> str:
    data = ", ".join(f"{near}: '${{{near}.metadata.name}}'" for near in dependencies)
    return f"- id: {name}\n  template: {{apiVersion: v1, kind: ConfigMap, metadata: {{name: {name}}}, data: {{{data}}}}}\n"


def test_order_is_topological_and_stable() -> None:
    compiled = graph(_config_map("d", "b") + _config_map("a") + _config_map("c", "d", "a") + _config_map("b"))
    assert compiled.order == ("a", "b", "d", "c")
    assert {node.id: node.dependencies for node in compiled.nodes} == {"a": (), "b": (), "d": ("b",), "c": ("d", "a")}
    assert {node.id: node.apply_order for node in compiled.nodes} == {"b": 1, "a": 2, "d": 2, "c": 3}


def _order_or_cycle(dependencies: dict[str, list[str]]) -> tuple[list[str], list[str]]:
    try:
        return topological_sort(dependencies), []
    except CycleError as error:
        return [], error.cycle


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=30))
def test_sort_returns_order_or_cycle(pairs: list[tuple[int, int]]) -> None:
    dependencies: dict[str, list[str]] = {str(number): [] for number in range(10)}
    for source, target in pairs:
        dependencies[str(source)].append(str(target))
    order, cycle = _order_or_cycle(dependencies)
    if cycle:
        assert cycle[0] == cycle[-1]
        assert all(following in dependencies[name] for name, following in pairwise(cycle))
        return
    assert sorted(order) == sorted(dependencies)
    level = topological_levels(dependencies)
    for name, required in dependencies.items():
        assert all(order.index(near) < order.index(name) and level[near] < level[name] for near in required)


def test_node_types() -> None:
    compiled = graph(
        """\
- id: one
  template: {apiVersion: v1, kind: Namespace, metadata: {name: one}}
- id: many
  forEach: [{region: "${schema.spec.regions}"}]
  template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${region}"}}
- id: other
  externalRef: {apiVersion: v1, kind: Secret, metadata: {name: s}}
- id: others
  externalRef: {apiVersion: v1, kind: Secret, metadata: {selector: {}}}
"""
    )
    assert [node.type for node in compiled.nodes] == [
        NodeType.RESOURCE,
        NodeType.COLLECTION,
        NodeType.EXTERNAL,
        NodeType.EXTERNAL_COLLECTION,
    ]
    assert [node.kind.plural for node in compiled.nodes] == ["namespaces", "configmaps", "secrets", "secrets"]
    with pytest.raises(KeyError):
        compiled.node("none")


def test_generated_crd() -> None:
    compiled = graph(
        "- id: server\n  template: {apiVersion: apps/v1, kind: Deployment, metadata: {name: a}}\n",
        """\
group: web.example.com
shortNames: [st]
categories: [web]
metadata: {labels: {a: b}, annotations: {c: d}}
spec: {replicas: "integer | default=1 minimum=0", host: string | required=true}
status: {available: "${server.status.availableReplicas}", list: ["${schema.spec.host}"]}
""",
    )
    crd = compiled.crd
    assert crd["metadata"] == {"name": "sites.web.example.com", "labels": {"a": "b"}, "annotations": {"c": "d"}}
    assert crd["spec"]["names"] == {
        "kind": "Site",
        "listKind": "SiteList",
        "plural": "sites",
        "singular": "site",
        "shortNames": ["st"],
        "categories": ["web"],
    }
    version = crd["spec"]["versions"][0]
    assert [column["name"] for column in version["additionalPrinterColumns"]] == ["State", "Ready", "Age"]
    properties = version["schema"]["openAPIV3Schema"]["properties"]
    assert properties["spec"] == {
        "type": "object",
        "properties": {"replicas": {"type": "integer", "default": 1, "minimum": 0}, "host": {"type": "string"}},
        "required": ["host"],
    }
    status = properties["status"]["properties"]
    assert list(status) == ["state", "conditions", "available", "list"]
    assert status["available"] == {"type": "integer"}
    assert status["list"] == {"type": "array", "items": {"type": "string"}}


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("site", "sites"),
        ("gemmaontpuserver", "gemmaontpuservers"),
        ("policy", "policies"),
        ("gateway", "gateways"),
        ("bus", "buses"),
        ("box", "boxes"),
        ("webappindex", "webappindices"),
        ("leaf", "leaves"),
        ("status", "statuses"),
        ("series", "series"),
        ("mouse", "mice"),
        ("people", "people"),
        ("kubernetes", "kubernetes"),
        ("repo", "repoes"),
        ("ssh", "sshs"),
    ],
)
def test_pluralize_matches_kro(word: str, expected: str) -> None:
    assert plural_of(word) == expected


def test_parents_of_defaulted_fields_have_a_default() -> None:
    required = {"e": "string | required=true", "f": "string | default=y"}
    spec = {"a": {"b": {"c": "string | default=x"}}, "d": required, "g": {"h": "string"}}
    schema, issues = to_openapi(spec, {}, ())
    assert not issues
    fields = schema["properties"]
    assert schema["default"] == fields["a"]["default"] == fields["a"]["properties"]["b"]["default"] == {}
    assert "default" not in fields["d"]
    assert "default" not in fields["g"]


def test_custom_types_keep_their_markers() -> None:
    types = {"Name": "string | minLength=2 required=true", "Person": {"name": "Name", "friends": "[]Name"}}
    schema, issues = to_openapi({"owner": "Person"}, types, ())
    assert not issues
    person = schema["properties"]["owner"]
    assert person["required"] == ["name"]
    assert person["properties"]["friends"] == {"type": "array", "items": {"type": "string", "minLength": 2}}
