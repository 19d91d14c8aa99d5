"""A shelf: all resources of one kind, and the routes to them.

What differs between Google's APIs is data: where a new thing's name comes from, what is added to what was asked, how a list is
called, and whether a change answers with the thing itself or with an operation.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sliceworks.base import clock
from sliceworks.base.names import camel
from sliceworks.twin.cloud.errors import GoogleError, already_exists, not_found
from sliceworks.twin.cloud.plain.pages import page
from sliceworks.twin.cloud.routes import Call, Route
from sliceworks.twin.cloud.state import Document, Table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sliceworks.twin.cloud.plain.operations import Style
    from sliceworks.twin.store.store import Store

Obj = dict[str, Any]


def named_in_body(call: Call) -> str:
    """A name that stands in the body, alone or as the end of a path."""
    return str(call.body.get("name") or "").rpartition("/")[2]


def named_in_query(key: str) -> Callable[[Call], str]:
    """A name that stands in the query."""
    return lambda call: call.query.get(key, "")


def named_in_path(key: str) -> Callable[[Call], str]:
    """A name that stands in the path, for things that are made with PUT."""
    return lambda call: call.params.get(key, "")


@dataclass(frozen=True, slots=True)
class Kind:
    """What one kind of resource is like."""

    service: str
    plural: str
    parent: str
    """The path above the collection, such as `projects/{project}/global`."""
    message: str
    permissions: str
    """What permissions begin with, such as `compute.networks`."""
    style: Style
    listed: str = ""
    named: Callable[[Call], str] = named_in_body
    filled: Callable[[Call, str, Obj, Obj | None], Obj] = lambda call, name, body, before: body
    """What the cloud makes of a body: adds what it adds. Raises GoogleError for what it refuses."""
    create: str = "POST"
    update: str = "PATCH"
    unwrapped: Callable[[Obj], Obj] = lambda body: body
    """The resource within the body of a request that makes it."""
    request: str = ""
    guarded: Callable[[str], GoogleError | None] = lambda path: None
    """What keeps a thing from being removed, by its path."""
    removed: Callable[[str], None] = lambda path: None
    masked: bool = field(default=False)
    """Whether an update says in `updateMask` which fields it is about."""


class Shelf:
    """The resources of one kind in the twin's store."""

    def __init__(self, store: Store, kind: Kind) -> None:
        self.kind = kind
        self._table = Table(store, f"{kind.service}/{kind.plural}", kind.message)

    def routes(self) -> Iterator[Route]:
        """The usual five."""
        kind = self.kind
        at = f"{kind.parent}/{kind.plural}".lstrip("/")
        item = f"{at}/{{{self._key}}}"
        made = at if kind.create == "POST" else item
        yield Route("GET", at, f"{kind.plural}.list", self.find_all, f"{kind.permissions}.list")
        yield Route(
            kind.create, made, f"{kind.plural}.create", self.create, f"{kind.permissions}.create", kind.request or kind.message
        )
        yield Route("GET", item, f"{kind.plural}.get", self.get, f"{kind.permissions}.get")
        yield Route("DELETE", item, f"{kind.plural}.delete", self.delete, f"{kind.permissions}.delete")
        for method in {kind.update} - {""}:
            yield Route(method, item, f"{kind.plural}.update", self.change, f"{kind.permissions}.update", kind.message)

    @property
    def _key(self) -> str:
        return self.kind.plural

    def parent(self, call: Call) -> str:
        """The path above a call's collection."""
        return self.kind.parent.format_map(call.params)

    def path(self, call: Call) -> str:
        """The path of the thing that a call names."""
        return f"{self.parent(call)}/{self.kind.plural}/{call.params[self._key]}".lstrip("/")

    def create(self, call: Call) -> Obj:
        """A new thing."""
        name, parent = self.kind.named(call), self.parent(call)
        if not name:
            raise GoogleError("INVALID_ARGUMENT", f"Invalid value for field '{self.kind.message}.name': ''. Must be set.")
        path = f"{parent}/{self.kind.plural}/{name}".lstrip("/")
        if self._table.get(parent, name) is not None:
            raise already_exists(path)
        body = self.kind.filled(call, name, dict(self.kind.unwrapped(call.body)), None)
        self._table.put(Document(parent, name, body))
        return self.kind.style.answer(call, path, body, "insert")

    def get(self, call: Call) -> Obj:
        """A thing as it is."""
        return self.found(call).body

    def find_all(self, call: Call) -> Obj:
        """All things of a parent."""
        found, more = page(call, self._table.all(self.parent(call)))
        told = {self.kind.listed or self.kind.plural: [document.body for document in found]} if found else {}
        return {**self.kind.style.list_head(self.kind.plural), **told, **more}

    def change(self, call: Call) -> Obj:
        """Other values for some fields, or for all of them where the method is PUT."""
        document = self.found(call)
        before = document.body
        given = dict(self.kind.unwrapped(call.body))
        if self.kind.masked and call.query.get("updateMask"):
            given = _masked(given, call.query["updateMask"])
        merged = (
            given if self.kind.update == "PUT" else {key: value for key, value in {**before, **given}.items() if value is not None}
        )
        document.body = self.kind.filled(call, document.name, merged, before)
        self._table.put(document)
        return self.kind.style.answer(call, self.path(call), document.body, "patch")

    def delete(self, call: Call) -> Obj:
        """Remove a thing that nothing else stands on."""
        document, path = self.found(call), self.path(call)
        problem = self.kind.guarded(path)
        if problem is not None:
            raise problem
        self._table.remove(document)
        self.kind.removed(path)
        return self.kind.style.gone(call, path, document.body)

    def found(self, call: Call) -> Document:
        """The thing that a call names; NOT_FOUND where there is none."""
        document = self._table.get(self.parent(call), call.params[self._key])
        if document is None:
            raise not_found(self.path(call))
        return document

    def at(self, parent: str, name: str) -> Document | None:
        """A thing by its place."""
        return self._table.get(parent, name)

    def everything(self) -> Iterator[Document]:
        """All of them."""
        return self._table.all()

    def put(self, document: Document) -> None:
        """Write a thing as it is now."""
        self._table.put(document)


def _masked(given: Obj, mask: str) -> Obj:
    """Only the fields of a mask; those that it names and the body leaves out are taken away."""
    fields = {camel(field.split(".")[0]) for field in mask.split(",") if field}
    return {field: given.get(field) for field in fields}


def number(path: str) -> str:
    """A number that is a thing's own, as Google numbers things: long, and the same whenever it is asked for."""
    return str(int.from_bytes(hashlib.sha256(path.encode()).digest()[:8]) % 10**18 + 10**18)


def stamp() -> str:
    """The time now."""
    return clock.timestamp()
