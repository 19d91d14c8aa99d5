"""Definitions as people write them: YAML with lines, compiled with the built-in kinds."""

from __future__ import annotations

from textwrap import indent
from typing import TYPE_CHECKING, Any

from sliceworks.base import yamls
from sliceworks.graph import definitions
from sliceworks.graph.compile import compile as compile_graph
from sliceworks.graph.errors import DefinitionError
from sliceworks.graph.kinds import BuiltinKinds

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
"""The line of the first resource, with the usual schema."""


def text(resources: str = "", schema: str = _SPEC) -> str:
    """A definition. `schema` is what follows the kind."""
    body = "  resources:\n" + indent(resources, "  ") if resources else "  resources: []\n"
    return _HEAD + indent(schema, "    ") + body


def graph(resources: str = "", schema: str = _SPEC) -> Graph:
    """A compiled definition."""
    return _compiled(text(resources, schema))


def refusals(resources: str = "", schema: str = _SPEC) -> list[str]:
    """Everything that is wrong with a definition, as people see it."""
    return problems(text(resources, schema))


def problems(document: str) -> list[str]:
    """Everything that is wrong with a whole document."""
    try:
        _compiled(document)
    except DefinitionError as error:
        return [str(issue) for issue in error.issues]
    return []


def _compiled(document: str) -> Graph:
    found = yamls.load_all(document, "rgd.yaml")[0]
    return compile_graph(definitions.read(found.data, found.place), KINDS)


def instance(**spec: Any) -> dict[str, Any]:
    """An instance of the usual definition, as the API server has it."""
    return {
        "apiVersion": "kro.run/v1alpha1",
        "kind": "Site",
        "metadata": {"name": "home", "namespace": "web", "uid": "u-1", "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"title": "hello", "replicas": 1, "tls": False, **spec},
    }
