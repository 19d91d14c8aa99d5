"""How changes are answered: with the thing itself, or with an operation that is done at once or after some time."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Protocol

from sliceworks.base import clock
from sliceworks.twin.cloud.errors import not_found
from sliceworks.twin.cloud.routes import Call, Route
from sliceworks.twin.cloud.state import Document, Table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sliceworks.twin.store.store import Store

Obj = dict[str, Any]
_KEPT = 1_000


class Style(Protocol):
    """One way to answer."""

    def answer(self, call: Call, path: str, body: Obj, verb: str) -> Obj:
        """The answer to a thing that was made or changed."""
        ...

    def gone(self, call: Call, path: str, body: Obj) -> Obj:
        """The answer to a thing that was removed."""
        ...

    def list_head(self, plural: str) -> Obj:
        """What a list begins with."""
        ...


class Direct:
    """The thing itself, and nothing for one that is gone."""

    def answer(self, call: Call, path: str, body: Obj, verb: str) -> Obj:
        return body

    def gone(self, call: Call, path: str, body: Obj) -> Obj:
        return {}

    def list_head(self, plural: str) -> Obj:
        return {}


class _Kept:
    """Operations that can be asked for later. `seconds` is how long each takes."""

    def __init__(self, store: Store, service: str) -> None:
        self._table = Table(store, f"{service}/operations", "Operation")
        self.seconds = 0.0

    def _keep(self, name: str, body: Obj) -> Document:
        due = clock.now() + timedelta(seconds=self.seconds)
        document = Document("operations", name, body, {"due": clock.rfc3339_micro(due)})
        self._table.put(document)
        if self._table.count() > 2 * _KEPT:
            for old in sorted(self._table.all(), key=lambda each: str(each.inner["due"]))[:_KEPT]:
                self._table.remove(old)
        return document

    def _done(self, document: Document) -> bool:
        return datetime.fromisoformat(document.inner["due"]) <= clock.now()

    def _found(self, name: str) -> Document:
        document = self._table.get("operations", name)
        if document is None:
            raise not_found(f"operations/{name}")
        return document


class ComputeOperations(_Kept):
    """As the Compute API has them: `status`, `progress`, and the link of what they are about."""

    def answer(self, call: Call, path: str, body: Obj, verb: str) -> Obj:
        return self._begin(call, path, body, verb)

    def gone(self, call: Call, path: str, body: Obj) -> Obj:
        return self._begin(call, path, body, "delete")

    def list_head(self, plural: str) -> Obj:
        return {"kind": f"compute#{plural.removesuffix('s')}List", "id": plural}

    def _begin(self, call: Call, path: str, body: Obj, verb: str) -> Obj:
        name = f"operation-{clock.uid()}"
        project = link(call, f"projects/{call.params['project']}")
        scope = {key: f"{project}/{key}s/{call.params[key]}" for key in ("region", "zone") if key in call.params}
        operation = {
            "kind": "compute#operation",
            "id": str(body.get("id", "0")),
            "name": name,
            "operationType": verb,
            "targetLink": link(call, path),
            "targetId": str(body.get("id", "0")),
            "user": call.caller,
            "insertTime": clock.timestamp(),
            "startTime": clock.timestamp(),
            "selfLink": f"{link(call, path.rpartition('/')[0].rpartition('/')[0])}/operations/{name}",
            **scope,
        }
        return self._shown(self._keep(name, operation))

    def _shown(self, document: Document) -> Obj:
        if not self._done(document):
            return {**document.body, "status": "RUNNING", "progress": 50}
        return {**document.body, "status": "DONE", "progress": 100, "endTime": document.inner["due"]}

    def routes(self) -> Iterator[Route]:
        """Operations of the project, of a region and of a zone."""
        for scope in ("global", "regions/{region}", "zones/{zone}"):
            at = f"projects/{{project}}/{scope}/operations/{{operation}}"
            yield Route("GET", at, "operations.get", self.get, "compute.globalOperations.get")
            yield Route("POST", f"{at}/wait", "operations.wait", self.get, "compute.globalOperations.get")

    def get(self, call: Call) -> Obj:
        """How far one is."""
        return self._shown(self._found(call.params["operation"]))


class LongRunning(_Kept):
    """As newer APIs have them: `done`, and then the thing itself as `response`."""

    def __init__(self, store: Store, service: str, package: str) -> None:
        super().__init__(store, service)
        self._package = package

    def answer(self, call: Call, path: str, body: Obj, verb: str) -> Obj:
        return self._begin(call, path, {"@type": f"type.googleapis.com/{self._package}", **body}, verb)

    def gone(self, call: Call, path: str, body: Obj) -> Obj:
        return self._begin(call, path, {"@type": "type.googleapis.com/google.protobuf.Empty"}, "delete")

    def list_head(self, plural: str) -> Obj:
        return {}

    def _begin(self, call: Call, path: str, response: Obj, verb: str) -> Obj:
        name = clock.uid()
        at = f"projects/{call.params['project']}/locations/{call.params['location']}/operations/{name}"
        metadata = {"createTime": clock.timestamp(), "target": path, "verb": verb}
        return self._shown(self._keep(name, {"name": at, "metadata": metadata, "response": response}))

    def _shown(self, document: Document) -> Obj:
        head = {"name": document.body["name"], "done": self._done(document)}
        return {**head, "response": document.body["response"]} if head["done"] else head

    def routes(self) -> Iterator[Route]:
        """Operations of a location, also under the thing that they are about."""
        at = "projects/{project}/locations/{location}"
        yield Route("GET", f"{at}/operations/{{operation}}", "operations.get", self.get, "operations.get")
        yield Route("GET", f"{at}/{{plural}}/{{thing}}/operations/{{operation}}", "operations.get", self.get, "operations.get")

    def get(self, call: Call) -> Obj:
        """How far one is."""
        return self._shown(self._found(call.params["operation"]))


def link(call: Call, path: str) -> str:
    """The address of a thing, as Google writes it."""
    return f"https://www.googleapis.com/{call.service}/{call.version}/{path}"
