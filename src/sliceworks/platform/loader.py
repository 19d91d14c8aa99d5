"""A folder of documents: loaded, expanded into cluster objects and sorted into apply order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from sliceworks.base import yaml_documents
from sliceworks.base.errors import InvalidDocument
from sliceworks.base.yaml_documents import Document
from sliceworks.specs import documents as specs

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from sliceworks.specs.scenario import Scenario

# Dependencies first; other kinds keep the order of the files.
_FIRST = ("Namespace", "CustomResourceDefinition", "PriorityClass", "StorageClass", "Node", "ServiceAccount", "ClusterRole", "Role")


def load(path: Path) -> list[Document]:
    """Every object of a file or folder in apply order; none if it has only a Scenario. InvalidDocument names file and line."""
    written = yaml_documents.load_path(path)
    if not written:
        raise no_documents(path)
    return resolve([document for document in written if not is_scenario(document)], yaml_documents.base_directory(path))


def no_documents(path: Path) -> InvalidDocument:
    """The error of a folder without documents."""
    return InvalidDocument("has no documents", place=str(path), hint="pass a folder of .yaml files, such as examples/platform")


def resolve(written: list[Document], folder: Path) -> list[Document]:
    """Cluster objects of documents in apply order; InvalidDocument if two define the same object."""
    documents = [item for document in written if not is_of_kind(document, "ModelService") for item in expand(document, folder)]
    documents += _expand_services(documents, [document for document in written if is_of_kind(document, "ModelService")])
    seen: dict[tuple[str, str, str, str], Document] = {}
    for document in documents:
        key = identity(document)
        if key in seen:
            raise InvalidDocument(
                f"{document.name} is defined twice",
                place=document.place("metadata", "name"),
                hint=f"first defined in {seen[key].place()}",
            )
        seen[key] = document
    return sorted(documents, key=_rank)


def expand(document: Document, folder: Path) -> list[Document]:
    """Cluster objects of a document; a Kubernetes object stays as it is."""
    from sliceworks.platform.compiler import compile_document

    return compile_document(document, folder) if specs.is_sliceworks_document(document) else [document]


def _expand_services(written: list[Document], services: list[Document]) -> list[Document]:
    """Compile all model services together, since they share gateways. Existing namespaces and accounts are kept."""
    if not services:
        return []
    from sliceworks.platform import compiler

    known = {identity(document) for document in written}
    common = ("Namespace", "ServiceAccount")
    return [
        service
        for service in compiler.compile_services(services)
        if service.data["kind"] not in common or identity(service) not in known
    ]


def load_scenario(path: Path) -> Scenario | None:
    """The scenario of a folder or None; InvalidDocument if there are two or if it is invalid."""
    documents = [document for document in yaml_documents.load_path(path) if is_scenario(document)]
    for error in check_single(documents):
        raise error
    return cast("Scenario", specs.read(documents[0])) if documents else None


def check_single(documents: Sequence[Document]) -> list[InvalidDocument]:
    """An error for each document of a kind that a folder may contain only once, except the first."""
    hint = f"first defined in {documents[0].place()}" if documents else ""
    return [
        InvalidDocument(f"only one {document.data['kind']} is allowed", place=document.place(), hint=hint)
        for document in documents[1:]
    ]


def is_scenario(document: Document) -> bool:
    """Whether a document is a Scenario."""
    return is_of_kind(document, "Scenario")


def is_of_kind(document: Document, *kinds: str) -> bool:
    """Whether a document is a Sliceworks document of one of these kinds."""
    return document.data.get("kind") in kinds and specs.is_sliceworks_document(document)


def identity(document: Document) -> tuple[str, str, str, str]:
    """Group, kind, namespace and name; InvalidDocument if one is missing."""
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


def substitute_document_index(document: Document, number: int) -> Document:
    """A copy of a document with every `{n}` replaced by `number`."""
    return Document(substitute_index(document.data, number), document.file, document.line, document.lines)


def substitute_index(value: Any, number: int) -> Any:
    """A copy with every `{n}` replaced by `number`."""
    if isinstance(value, dict):
        return {key: substitute_index(item, number) for key, item in value.items()}
    if isinstance(value, list):
        return [substitute_index(item, number) for item in value]
    return value.replace("{n}", str(number)) if isinstance(value, str) else value
