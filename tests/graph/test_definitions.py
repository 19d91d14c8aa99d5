"""Definitions are read in their current form and in two old ones, which are shown with the line and what to write now."""

from __future__ import annotations

import pytest
from tests.graph.reading import graph, text

from sliceworks.base import yamls
from sliceworks.graph import definitions
from sliceworks.graph.errors import DefinitionError
from sliceworks.graph.model import Definition, Lifecycle

_OLD_REFERENCE = """\
- id: shared
  externalRef:
    apiVersion: v1
    kind: ConfigMap
    metadata:
    name: settings
    namespace: ${schema.metadata.namespace}
"""


def _read(document: str) -> Definition:
    found = yamls.load_all(document, "rgd.yaml")[0]
    return definitions.read(found.data, found.place)


def test_the_group_may_stand_in_the_version() -> None:
    old = _read(text().replace("apiVersion: v1alpha1", "apiVersion: kro.run/v1alpha1"))
    assert (old.schema.group, old.schema.version) == ("kro.run", "v1alpha1")
    assert [str(note) for note in old.notes] == [
        "rgd.yaml:6: apiVersion: kro.run/v1alpha1 is an old form; write apiVersion: v1alpha1"
    ]
    other = _read(text().replace("apiVersion: v1alpha1", "apiVersion: web.example.com/v1"))
    assert other.schema.api_version == "web.example.com/v1"
    assert other.notes[0].remedy == "write apiVersion: v1 and group: web.example.com"


def test_two_groups_must_agree() -> None:
    document = text().replace("apiVersion: v1alpha1", "apiVersion: kro.run/v1alpha1\n    group: example.com")
    with pytest.raises(DefinitionError, match=r"apiVersion names the group kro\.run, and group says example\.com"):
        _read(document)


def test_a_reference_may_have_its_name_beside_its_metadata() -> None:
    old = _read(text(_OLD_REFERENCE))
    assert old.resources[0].external == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "settings", "namespace": "${schema.metadata.namespace}"},
    }
    assert [str(note) for note in old.notes] == [
        (
            "rgd.yaml:20: name and namespace of externalRef stand beside metadata, an old form; "
            "write metadata: {name: …, namespace: …}"
        )
    ]
    assert graph(_OLD_REFERENCE).notes == old.notes


def test_the_current_form_has_no_notes() -> None:
    assert not _read(text()).notes


def test_lifecycles_are_optional() -> None:
    resource = "- id: a\n{}  template: {{apiVersion: v1, kind: ConfigMap, metadata: {{name: a}}}}\n"
    plain = _read(text(resource.format("")))
    assert plain.resources[0].lifecycle == Lifecycle("delete", "recreate")
    assert plain.on_delete is None
    restored = text(resource.format("  lifecycle: {onDelete: restore, onComplete: keep}\n"))
    kept = _read(restored + "  lifecycle: {onDelete: cascade}\n")
    assert kept.resources[0].lifecycle == Lifecycle("restore", "keep")
    assert kept.on_delete == "cascade"


def test_an_expression_that_is_never_closed_is_noted() -> None:
    found = graph("- id: a\n  template: {apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {a: 'x ${ y'}}\n")
    assert [str(note) for note in found.notes] == [
        "rgd.yaml:16: data.a opens an expression that is never closed, so it is plain text; close it with }"
    ]


def test_the_state_of_a_status_is_not_the_authors() -> None:
    found = graph("", "status: {state: '${schema.metadata.name}'}\n")
    assert [str(note) for note in found.notes] == [
        "rgd.yaml:8: status.state is the controller's own field; what is written here is not used"
    ]
    assert not found.status
