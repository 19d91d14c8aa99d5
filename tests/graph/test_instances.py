"""Offline validation and defaulting of instances."""

from __future__ import annotations

from typing import Any

import pytest
from tests.graph.definitions import graph, instance

from sliceworks.base import yaml_documents
from sliceworks.graph.instances import check, with_defaults

_SCHEMA = """\
spec:
  replicas: integer | default=1 maximum=5
  kaggleSecret: string | default=kaggle-credentials
  size: string | enum="small,large"
  team: string | required=true
  free: object
  ports: "[]Port"
types: {Port: {name: string, number: integer}}
"""
_GRAPH = graph("", _SCHEMA)


def _instance(**spec: Any) -> dict[str, Any]:
    return {**instance(), "spec": spec}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"team": "a"}, []),
        ({"team": "a", "free": {"any": [1]}, "ports": [{"name": "x", "number": 1}]}, []),
        ({"team": "a", "kaggelSecret": "x"}, ["unknown field spec.kaggelSecret; did you mean kaggleSecret?"]),
        ({"team": "a", "ports": [{"nme": "x"}]}, ["unknown field spec.ports[0].nme; did you mean name?"]),
        ({}, ["spec.team: required value"]),
        (
            {"team": "a", "replicas": 9},
            ["spec.replicas: invalid value: 9: spec.replicas in body should be less than or equal to 5"],
        ),
        ({"team": "a", "size": "big"}, ['spec.size: unsupported value: "big": supported values: "small", "large"']),
        ({"team": 5}, ['spec.team: invalid value: "integer": spec.team in body must be of type string: "integer"']),
    ],
)
def test_check_reports_issues(spec: dict[str, Any], expected: list[str]) -> None:
    assert [str(issue) for issue in check(_instance(**spec), _GRAPH)] == expected


def test_check_reports_file_and_line() -> None:
    source = "apiVersion: kro.run/v1alpha1\nkind: Site\nmetadata: {name: a}\nspec:\n  team: a\n  replica: 2\n"
    document = yaml_documents.load_all(source, "site.yaml")[0]
    assert [str(issue) for issue in check(document.data, _GRAPH, document.place)] == [
        "site.yaml:6: unknown field spec.replica; did you mean replicas?"
    ]


def test_check_rejects_other_kind() -> None:
    issues = check({**_instance(team="a"), "kind": "Sites"}, _GRAPH)
    assert [str(issue) for issue in issues] == ["kind: must be Site, got Sites"]


def test_with_defaults_copies_instance() -> None:
    document = _instance(team="a")
    assert with_defaults(document, _GRAPH)["spec"] == {"team": "a", "replicas": 1, "kaggleSecret": "kaggle-credentials"}
    assert document["spec"] == {"team": "a"}
