"""Documents of the cloud in the twin's store: durable with it and invisible to Kubernetes.

A document has the JSON that its API returns (`body`) and internal state of the twin (`inner`). It is stored under the path of its
parent, such as `projects/p/locations/us-central1/clusters/c`. All writes of one event loop iteration are one transaction.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sliceworks.base import clock

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sliceworks.twin.cloud.core.exceptions import GoogleError
    from sliceworks.twin.store.entry import Entry
    from sliceworks.twin.store.store import Store

Obj = dict[str, Any]


@dataclass(slots=True)
class Document:
    """One resource or operation. Documents are copies: change one, then `put` it."""

    parent: str
    name: str
    body: Obj
    inner: Obj = field(default_factory=dict)
    uid: str = ""


class Table:
    """All documents of one kind."""

    def __init__(self, store: Store, resource: str, kind: str) -> None:
        self._store = store
        self._resource = f"cloud.{resource}"
        self._kind = kind

    def get(self, parent: str, name: str) -> Document | None:
        """Return a copy of a document, or None."""
        entry = self._store.get(self._resource, parent, name)
        return _decode(entry) if entry else None

    def all(self, parent: str | None = None) -> Iterator[Document]:
        """Copies of the documents of a parent, or of all parents, sorted by name."""
        return (_decode(entry) for entry in self._store.scan(self._resource, parent) if parent is None or entry.namespace == parent)

    def keys(self) -> Iterator[tuple[str, str]]:
        """Parent and name of every document, without decoding it."""
        return ((entry.namespace, entry.name) for entry in self._store.scan(self._resource))

    def count(self) -> int:
        """The number of documents."""
        return self._store.count(self._resource)

    def put(self, document: Document) -> None:
        """Create or replace a document."""
        document.uid = document.uid or clock.uid()
        self._store.put(self._resource, document.parent, document.name, self._encode(document))

    def delete(self, document: Document) -> None:
        """Delete a document if it exists."""
        if self._store.get(self._resource, document.parent, document.name) is not None:
            self._store.remove(self._resource, document.parent, document.name, self._encode(document))

    def _encode(self, document: Document) -> Obj:
        metadata = {"name": document.name, "namespace": document.parent, "uid": document.uid}
        # Rehearsals report the phase of a document.
        status = {"phase": document.body["status"]} if isinstance(document.body.get("status"), str) else {}
        return {"kind": self._kind, "metadata": metadata, "status": status, "body": document.body, "inner": document.inner}


def _decode(entry: Entry) -> Document:
    stored = entry.object()
    return Document(entry.namespace, entry.name, stored["body"], stored["inner"], stored["metadata"]["uid"])


def require(document: Document | None, error: GoogleError) -> Document:
    """Return a document that must exist; raises the error if it does not."""
    if document is None:
        raise error
    return document
