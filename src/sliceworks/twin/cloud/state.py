"""What the cloud remembers, in the twin's own store: durable with it, and out of sight of Kubernetes.

A document has the JSON that its API shows (`body`) and what only the twin needs to know of it (`inner`). It lives under the path of
its parent, such as `projects/p/locations/us-central1/clusters/c`. All that is written in one turn of the event loop is one
transaction.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sliceworks.base import clock

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sliceworks.twin.store.entries import Entry
    from sliceworks.twin.store.store import Store

Obj = dict[str, Any]


@dataclass(slots=True)
class Document:
    """One thing of the cloud. Change it and put it back."""

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
        """A copy of a document, free to be changed."""
        entry = self._store.get(self._resource, parent, name)
        return _document(entry) if entry else None

    def all(self, parent: str | None = None) -> Iterator[Document]:
        """The documents of a parent, or all, in the order of their names."""
        return (
            _document(entry) for entry in self._store.scan(self._resource, parent) if parent is None or entry.namespace == parent
        )

    def keys(self) -> Iterator[tuple[str, str]]:
        """The parent and name of every document, without a look into it."""
        return ((entry.namespace, entry.name) for entry in self._store.scan(self._resource))

    def count(self) -> int:
        """How many there are."""
        return self._store.count(self._resource)

    def put(self, document: Document) -> None:
        """Write a document as it is now."""
        document.uid = document.uid or clock.uid()
        self._store.put(self._resource, document.parent, document.name, self._stored(document))

    def remove(self, document: Document) -> None:
        """Forget a document; no error when that is done already."""
        if self._store.get(self._resource, document.parent, document.name) is not None:
            self._store.remove(self._resource, document.parent, document.name, self._stored(document))

    def _stored(self, document: Document) -> Obj:
        metadata = {"name": document.name, "namespace": document.parent, "uid": document.uid}
        # A phase, where there is one, is what a rehearsal tells of it.
        status = {"phase": document.body["status"]} if isinstance(document.body.get("status"), str) else {}
        return {"kind": self._kind, "metadata": metadata, "status": status, "body": document.body, "inner": document.inner}


def _document(entry: Entry) -> Document:
    found = entry.object()
    return Document(entry.namespace, entry.name, found["body"], found["inner"], found["metadata"]["uid"])
