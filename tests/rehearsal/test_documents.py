"""The documents of a rehearsal: validated together and applied in order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from sliceworks.base import yaml_documents
from sliceworks.base.errors import InvalidDocument
from sliceworks.platform import loader
from sliceworks.platform.compiler import build_nodes
from sliceworks.specs import documents
from sliceworks.specs.environment import Environment

if TYPE_CHECKING:
    from pathlib import Path

BARE: dict[str, Any] = {
    "apiVersion": "sliceworks.dev/v1alpha1",
    "kind": "Environment",
    "metadata": {"name": "bare"},
    "spec": {"project": "my-project", "automation": {"bucket": "my-bucket"}, "pools": {"cpu": {"cpu": {"nodes": 3}}}},
}


def write(folder: Path, text: str) -> Path:
    (folder / "all.yaml").write_text(text)
    return folder


def test_dependencies_are_applied_first(tmp_path: Path) -> None:
    text = "\n---\n".join(
        f"apiVersion: {version}\nkind: {kind}\nmetadata: {{name: {name}}}"
        for version, kind, name in [
            ("v1", "Pod", "a"),
            ("example.com/v1", "Thing", "b"),
            ("apiextensions.k8s.io/v1", "CustomResourceDefinition", "c"),
            ("v1", "Pod", "d"),
            ("v1", "Namespace", "e"),
        ]
    )
    assert [document.name for document in loader.load(write(tmp_path, text))] == [
        "Namespace/e",
        "CustomResourceDefinition/c",
        "Pod/a",
        "Thing/b",
        "Pod/d",
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("kind: Pod", "all.yaml:1: has no apiVersion"),
        ("apiVersion: v1", "all.yaml:1: has no kind"),
        ("apiVersion: v1\nkind: Pod", "all.yaml:1: Pod has no metadata.name"),
        ("apiVersion: v1\nkind: Pod\nmetadata:\n  labels: {}", "all.yaml:3: Pod has no metadata.name"),
        ("apiVersion: v1\nkind: Pod\nmetadata:\n  name: 5", "all.yaml:4: Pod has no metadata.name"),
        (
            "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n---\napiVersion: v1\nkind: Pod\nmetadata: {name: a}",
            "all.yaml:7: Pod/a is defined twice",
        ),
        ("# nothing", ": has no documents"),
    ],
)
def test_errors_are_found_before_apply(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidDocument) as caught:
        loader.load(write(tmp_path, text))
    assert str(caught.value).endswith(message)


@pytest.mark.parametrize(("region", "zones"), [("us-east1", "bcd"), ("europe-west1", "bcd"), ("us-central1", "abcf")])
def test_nodes_of_an_environment_without_zones_are_in_zones_of_the_region(region: str, zones: str) -> None:
    text = yaml_documents.dump({**BARE, "spec": {**BARE["spec"], "region": region}})
    nodes = build_nodes(documents.read_as(yaml_documents.load_all(text, "environment.yaml")[0], Environment))
    assert nodes
    assert {node["metadata"]["labels"]["topology.kubernetes.io/zone"] for node in nodes} <= {f"{region}-{zone}" for zone in zones}
