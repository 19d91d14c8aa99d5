"""A definition becomes a graph: an order, layers, and the CustomResourceDefinition of its kind."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.graph.reading import graph

from sliceworks.graph.model import Role
from sliceworks.graph.order import CycleFound, layers, topological
from sliceworks.graph.plurals import plural
from sliceworks.graph.simple_schema import convert


def _config_map(name: str, *needs: str) -> str:
    data = ", ".join(f"{one}: '${{{one}.metadata.name}}'" for one in needs)
    return f"- id: {name}\n  template: {{apiVersion: v1, kind: ConfigMap, metadata: {{name: {name}}}, data: {{{data}}}}}\n"


def test_what_is_needed_comes_first_and_the_rest_as_it_was_written() -> None:
    compiled = graph(_config_map("d", "b") + _config_map("a") + _config_map("c", "d", "a") + _config_map("b"))
    assert compiled.order == ("a", "b", "d", "c")
    assert {node.id: node.dependencies for node in compiled.nodes} == {"a": (), "b": (), "d": ("b",), "c": ("d", "a")}
    assert {node.id: node.apply_order for node in compiled.nodes} == {"b": 1, "a": 2, "d": 2, "c": 3}


def _order_or_cycle(needs: dict[str, list[str]]) -> tuple[list[str], list[str]]:
    try:
        return topological(needs), []
    except CycleFound as error:
        return [], error.cycle


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=30))
def test_an_order_or_a_cycle_is_found(pairs: list[tuple[int, int]]) -> None:
    needs: dict[str, list[str]] = {str(number): [] for number in range(10)}
    for one, other in pairs:
        needs[str(one)].append(str(other))
    order, cycle = _order_or_cycle(needs)
    if cycle:
        assert cycle[0] == cycle[-1]
        assert all(following in needs[name] for name, following in pairwise(cycle))
        return
    assert sorted(order) == sorted(needs)
    level = layers(needs)
    for name, needed in needs.items():
        assert all(order.index(one) < order.index(name) and level[one] < level[name] for one in needed)


def test_a_graph_knows_what_its_resources_are() -> None:
    compiled = graph(
        """\
- id: each
  template: {}
""".replace("each", "one").replace("{}", "{apiVersion: v1, kind: Namespace, metadata: {name: one}}")
        + """\
- id: many
  forEach: [{region: "${schema.spec.regions}"}]
  template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${region}"}}
- id: other
  externalRef: {apiVersion: v1, kind: Secret, metadata: {name: s}}
- id: others
  externalRef: {apiVersion: v1, kind: Secret, metadata: {selector: {}}}
"""
    )
    assert [node.role for node in compiled.nodes] == [Role.RESOURCE, Role.COLLECTION, Role.EXTERNAL, Role.EXTERNAL_COLLECTION]
    assert [node.kind.plural for node in compiled.nodes] == ["namespaces", "configmaps", "secrets", "secrets"]
    with pytest.raises(KeyError):
        compiled.node("none")


def test_the_definition_of_the_kind() -> None:
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
def test_plurals_are_kros(word: str, expected: str) -> None:
    assert plural(word) == expected


def test_parents_have_a_default_when_a_child_has_one_and_none_is_required() -> None:
    required = {"e": "string | required=true", "f": "string | default=y"}
    spec = {"a": {"b": {"c": "string | default=x"}}, "d": required, "g": {"h": "string"}}
    schema, issues = convert(spec, {}, ())
    assert not issues
    fields = schema["properties"]
    assert schema["default"] == fields["a"]["default"] == fields["a"]["properties"]["b"]["default"] == {}
    assert "default" not in fields["d"]
    assert "default" not in fields["g"]


def test_custom_types_bring_their_markers_along() -> None:
    types = {"Name": "string | minLength=2 required=true", "Person": {"name": "Name", "friends": "[]Name"}}
    schema, issues = convert({"owner": "Person"}, types, ())
    assert not issues
    person = schema["properties"]["owner"]
    assert person["required"] == ["name"]
    assert person["properties"]["friends"] == {"type": "array", "items": {"type": "string", "minLength": 2}}
