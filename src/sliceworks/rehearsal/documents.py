"""The documents of a rehearsal: read and checked whole, before anything is applied, and put in order."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from sliceworks.base import yamls
from sliceworks.base.errors import InvalidDocument

if TYPE_CHECKING:
    from pathlib import Path

    from sliceworks.base.yamls import Document
    from sliceworks.specs.scenario import Scenario

# What others stand on comes first; the rest keeps the order in which it was written.
_FIRST = ("Namespace", "CustomResourceDefinition", "PriorityClass", "StorageClass", "Node", "ServiceAccount", "ClusterRole", "Role")


def read(path: Path) -> list[Document]:
    """Every object of a file or folder, in the order in which they are applied. InvalidDocument names file and line."""
    found = arranged([document for document in yamls.load_path(path) if not is_scenario(document)], yamls.folder_of(path))
    if not found:
        raise InvalidDocument("has no documents", place=str(path), hint="give a folder of .yaml files, such as examples/platform")
    return found


def arranged(written: list[Document], folder: Path) -> list[Document]:
    """The objects that documents stand for, each once, in the order in which they are applied."""
    documents = [each for document in written if not _is_service(document) for each in objects(document, folder)]
    documents += _services(documents, [document for document in written if _is_service(document)])
    seen: dict[tuple[str, str, str, str], Document] = {}
    for document in documents:
        own = identity(document)
        if own in seen:
            raise InvalidDocument(
                f"{document.name} is written twice",
                place=document.place("metadata", "name"),
                hint=f"first in {seen[own].place()}",
            )
        seen[own] = document
    return sorted(documents, key=_rank)


def objects(document: Document, folder: Path) -> list[Document]:
    """What a document of ours stands for; objects of a cluster are themselves."""
    from sliceworks.rehearsal.platforms import compiled
    from sliceworks.specs.documents import is_ours

    return compiled(document, folder) if is_ours(document) else [document]


def _is_service(document: Document) -> bool:
    from sliceworks.specs.documents import is_ours

    return document.data.get("kind") == "ModelService" and is_ours(document)


def _services(written: list[Document], services: list[Document]) -> list[Document]:
    """Model services all together, since they share gateways; namespaces and accounts that are written already are left alone."""
    if not services:
        return []
    from sliceworks.rehearsal import models

    known = {identity(document) for document in written}
    common = ("Namespace", "ServiceAccount")
    return [each for each in models.compiled(services) if each.data["kind"] not in common or identity(each) not in known]


def scenario(path: Path) -> Scenario | None:
    """The scenario of a folder, if it has one; InvalidDocument when it has two, or one that cannot be used."""
    from sliceworks.specs import documents as specs

    found = [document for document in yamls.load_path(path) if is_scenario(document)]
    if len(found) > 1:
        raise InvalidDocument("is the second scenario", place=found[1].place(), hint=f"the first is in {found[0].place()}")
    return cast("Scenario", specs.read(found[0])) if found else None


def is_scenario(document: Document) -> bool:
    """Whether a document tells what happens, rather than what there is."""
    return document.data.get("kind") == "Scenario" and str(document.data.get("apiVersion", "")).startswith("sliceworks.dev/")


def identity(document: Document) -> tuple[str, str, str, str]:
    """Group, kind, namespace and name; InvalidDocument where one is missing."""
    data = document.data
    for field in ("apiVersion", "kind"):
        if not isinstance(data.get(field), str) or not data[field]:
            raise InvalidDocument(f"has no {field}", place=document.place(field))
    metadata = data.get("metadata")
    if not isinstance(metadata, dict) or not isinstance(metadata.get("name"), str) or not metadata["name"]:
        raise InvalidDocument(f"{data['kind']} has no metadata.name", place=document.place("metadata", "name"))
    group = data["apiVersion"].rpartition("/")[0]
    return group, data["kind"], str(metadata.get("namespace") or ""), metadata["name"]


def _rank(document: Document) -> int:
    kind = document.data["kind"]
    return _FIRST.index(kind) if kind in _FIRST else len(_FIRST)
