"""Parsing of definitions: deprecated forms are accepted with a note."""

from __future__ import annotations

import pytest
from tests.graph.definitions import definition, graph

from sliceworks.base import yaml_documents
from sliceworks.graph import definition_parser
from sliceworks.graph.model import Definition, DefinitionError, Lifecycle

_DEPRECATED_REFERENCE = """\
- id: shared
  externalRef:
    apiVersion: v1
    kind: ConfigMap
    metadata:
    name: settings
    namespace: ${schema.metadata.namespace}
"""


def _parse(document: str) -> Definition:
    loaded = yaml_documents.load_all(document, "rgd.yaml")[0]
    return definition_parser.parse(loaded.data, loaded.place)


def test_deprecated_group_in_api_version() -> None:
    old = _parse(definition().replace("apiVersion: v1alpha1", "apiVersion: kro.run/v1alpha1"))
    assert (old.schema.group, old.schema.version) == ("kro.run", "v1alpha1")
    assert [str(note) for note in old.notes] == [
        "rgd.yaml:6: apiVersion: kro.run/v1alpha1 is deprecated; write apiVersion: v1alpha1"
    ]
    other = _parse(definition().replace("apiVersion: v1alpha1", "apiVersion: web.example.com/v1"))
    assert other.schema.api_version == "web.example.com/v1"
    assert other.notes[0].hint == "write apiVersion: v1 and group: web.example.com"


def test_parse_rejects_conflicting_groups() -> None:
    document = definition().replace("apiVersion: v1alpha1", "apiVersion: kro.run/v1alpha1\n    group: example.com")
    with pytest.raises(DefinitionError, match=r"apiVersion has group kro\.run, but group is example\.com"):
        _parse(document)


def test_deprecated_external_reference() -> None:
    old = _parse(definition(_DEPRECATED_REFERENCE))
    assert old.resources[0].external == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "settings", "namespace": "${schema.metadata.namespace}"},
    }
    assert [str(note) for note in old.notes] == [
        "rgd.yaml:20: externalRef with name and namespace outside metadata is deprecated; write metadata: {name: …, namespace: …}"
    ]
    assert graph(_DEPRECATED_REFERENCE).notes == old.notes


def test_current_form_has_no_notes() -> None:
    assert not _parse(definition()).notes


def test_lifecycle_is_optional() -> None:
    resource = "- id: a\n{}  template: {{apiVersion: v1, kind: ConfigMap, metadata: {{name: a}}}}\n"
    plain = _parse(definition(resource.format("")))
    assert plain.resources[0].lifecycle == Lifecycle("delete", "recreate")
    assert plain.on_delete is None
    restored = definition(resource.format("  lifecycle: {onDelete: restore, onComplete: keep}\n"))
    kept = _parse(restored + "  lifecycle: {onDelete: cascade}\n")
    assert kept.resources[0].lifecycle == Lifecycle("restore", "keep")
    assert kept.on_delete == "cascade"


def test_unclosed_expression_is_noted() -> None:
    compiled = graph("- id: a\n  template: {apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {a: 'x ${ y'}}\n")
    assert [str(note) for note in compiled.notes] == ["rgd.yaml:16: data.a: unclosed ${ is not an expression; close it with }"]


def test_status_state_is_ignored() -> None:
    compiled = graph("", "status: {state: '${schema.metadata.name}'}\n")
    assert [str(note) for note in compiled.notes] == ["rgd.yaml:8: status.state is ignored: the controller sets it"]
    assert not compiled.status
