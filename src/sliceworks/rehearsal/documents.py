"""The documents of a rehearsal: read and checked whole, before anything is applied, and put in order."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sliceworks.base import yamls
from sliceworks.base.errors import InvalidDocument

if TYPE_CHECKING:
    from pathlib import Path

    from sliceworks.base.yamls import Document

# What others stand on comes first; the rest keeps the order in which it was written.
_FIRST = ("Namespace", "CustomResourceDefinition", "PriorityClass", "StorageClass", "Node", "ServiceAccount", "ClusterRole", "Role")


def read(path: Path) -> list[Document]:
    """Every document of a file or folder, in the order in which they are applied. InvalidDocument names file and line."""
    documents = yamls.load_path(path)
    if not documents:
        raise InvalidDocument("has no documents", place=str(path), hint="give a folder of .yaml files, such as examples/platform")
    seen: dict[tuple[str, str, str, str], Document] = {}
    for document in documents:
        identity = _identity(document)
        if identity in seen:
            raise InvalidDocument(
                f"{document.name} is written twice",
                place=document.place("metadata", "name"),
                hint=f"first in {seen[identity].place()}",
            )
        seen[identity] = document
    return sorted(documents, key=_rank)


def _identity(document: Document) -> tuple[str, str, str, str]:
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
