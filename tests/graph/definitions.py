"""Definitions in YAML, with line numbers, compiled with the built-in kinds."""

from __future__ import annotations

from textwrap import indent
from typing import TYPE_CHECKING, Any

from sliceworks.base import yaml_documents
from sliceworks.graph import definition_parser
from sliceworks.graph.builder import build_graph
from sliceworks.graph.kinds import BuiltinKinds
from sliceworks.graph.model import DefinitionError

if TYPE_CHECKING:
    from sliceworks.graph.model import Graph

KINDS = BuiltinKinds()
_HEAD = """\
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: site}
spec:
  schema:
    apiVersion: v1alpha1
    kind: Site
"""
_SPEC = """\
spec:
  title: string | default=hello
  replicas: integer | default=1
  regions: '[]string'
  owner: string
  tls: boolean | default=false
"""


def definition(resources: str = "", schema: str = _SPEC) -> str:
    """A definition document. `schema` are the fields of spec.schema after the kind."""
    body = "  resources:\n" + indent(resources, "  ") if resources else "  resources: []\n"
    return _HEAD + indent(schema, "    ") + body


def graph(resources: str = "", schema: str = _SPEC) -> Graph:
    """A compiled definition."""
    return _build(definition(resources, schema))


def issues_for(resources: str = "", schema: str = _SPEC) -> list[str]:
    """All issues of a definition, formatted."""
    return issues_of(definition(resources, schema))


def issues_of(document: str) -> list[str]:
    """All issues of a document, formatted."""
    try:
        _build(document)
    except DefinitionError as error:
        return [str(issue) for issue in error.issues]
    return []


def _build(document: str) -> Graph:
    loaded = yaml_documents.load_all(document, "rgd.yaml")[0]
    return build_graph(definition_parser.parse(loaded.data, loaded.place), KINDS)


def instance(**spec: Any) -> dict[str, Any]:
    """An instance of the default definition, as the API server returns it."""
    return {
        "apiVersion": "kro.run/v1alpha1",
        "kind": "Site",
        "metadata": {"name": "home", "namespace": "web", "uid": "u-1", "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"title": "hello", "replicas": 1, "tls": False, **spec},
    }
