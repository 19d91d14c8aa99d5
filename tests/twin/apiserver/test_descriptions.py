"""Descriptions of built-in kinds: Kubernetes' own with the extra `explain`, and without it those of metadata."""

from __future__ import annotations

import orjson
import pytest

from sliceworks.schemas.builtins import LIST_META, OBJECT_META, builtin_scheme
from sliceworks.twin.apiserver.openapi import descriptions

META = OBJECT_META.removesuffix("ObjectMeta")


@pytest.fixture
def without_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(descriptions, "_PACKAGE", "no-such-package")
    for name in ("_module", "version"):
        monkeypatch.setattr(descriptions, name, getattr(descriptions, name).__wrapped__)


def described(name: str) -> dict[str, str]:
    """The descriptions of a component (under an empty key) and its fields."""
    node = descriptions.described(name, builtin_scheme().node(name))
    fields = {field: child.get("description", "") for field, child in node["properties"].items()}
    return {"": node.get("description", ""), **fields}


@pytest.mark.usefixtures("without_extra")
@pytest.mark.parametrize("name", [OBJECT_META, LIST_META, f"{META}OwnerReference", f"{META}ManagedFieldsEntry"])
def test_all_metadata_is_described(name: str) -> None:
    assert all(described(name).values())


@pytest.mark.usefixtures("without_extra")
def test_kinds_have_descriptions_of_standard_fields_only() -> None:
    fields = described("io.k8s.api.core.v1.Pod")
    assert {field for field, text in fields.items() if text} == {"apiVersion", "kind", "metadata"}
    assert fields["metadata"].startswith("Standard object's metadata")
    assert described("io.k8s.api.core.v1.PodList")["metadata"].startswith("Standard list metadata")
    assert descriptions.version() == ""


def test_extra_describes_all_fields() -> None:
    kinds = [name for name, node in builtin_scheme().nodes().items() if "properties" in node]
    missing = {name.rpartition(".")[2] for name in kinds for text in described(name).values() if not text}
    assert missing == {"ExternalDocumentation", "IngressRule", "JSONSchemaProps", "WatchEvent"}  # as on the real server
    assert descriptions.version().startswith("1.35.")


def test_names_that_python_does_not_allow() -> None:
    fields = described("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps")
    assert fields["x-kubernetes-validations"].startswith("x-kubernetes-validations ")
    assert described(LIST_META)["continue"].startswith("continue ")


def test_wrapped_lines_are_joined_and_others_kept() -> None:
    text = described("io.k8s.api.core.v1.AppArmorProfile")["type"]
    first, *options = text.splitlines()
    assert len(first) > descriptions._WIDTH
    assert [line.split()[0] for line in options] == ["Localhost", "RuntimeDefault", "Unconfined"]


def test_schemas_of_the_process_stay_without_descriptions() -> None:
    node = builtin_scheme().node(OBJECT_META)
    assert b"description" in orjson.dumps(descriptions.described(OBJECT_META, node))
    assert b"description" not in orjson.dumps(node)
