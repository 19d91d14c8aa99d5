"""Long-running operations: the queue that advances them, and the response styles of Google's APIs."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, Protocol

from sliceworks.base import clock
from sliceworks.base.retry import Backoff
from sliceworks.base.timer_heap import Timers
from sliceworks.kube.workqueue import WorkQueue, run_worker
from sliceworks.twin.cloud.core.document_store import Document, Table, require
from sliceworks.twin.cloud.core.exceptions import not_found
from sliceworks.twin.cloud.core.routes import Call, Route

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from sliceworks.twin.store.store import Store


log = logging.getLogger(__name__)
_WORKERS = 16
_MAX_ENDED = 2_000
_NEVER = ""
_DUE, _DONE, _WAIT = "due", "done", "wait"


class OperationQueue:
    """The operations of one service. `advance` gets each operation that is due and calls `requeue_after`, `suspend` or `finish`."""

    def __init__(self, table: Table, advance: Callable[[Document], Awaitable[None]]) -> None:
        self._table = table
        self._advance = advance
        self._running: dict[str, str] = {}
        self._ended: list[tuple[str, str]] = []
        self._queue: WorkQueue[str] = WorkQueue(Backoff(first=0.1, cap=30.0, jitter=0.0))
        self._timers: Timers[str] = Timers(self._queue.add)
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Resume all operations that are not done."""
        for document in self._table.all():
            if document.inner.get(_DONE):
                self._ended.append((document.parent, document.name))
            else:
                self._running[document.name] = document.parent
                self._set_timer(document)

    async def stop(self) -> None:
        """Stop the workers."""
        self._queue.shut_down()
        self._timers.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def running(self) -> Iterator[Document]:
        """The operations that are not done, oldest first."""
        for name, parent in self._running.items():
            if (document := self._table.get(parent, name)) is not None:
                yield document

    def add(self, document: Document, seconds: float | None) -> None:
        """Add an operation that is due in `seconds`, or suspended if None."""
        self._running[document.name] = document.parent
        self._schedule(document, seconds)

    def requeue_after(self, document: Document, seconds: float) -> None:
        """Advance the operation again after `seconds`."""
        self._schedule(document, seconds)

    def suspend(self, document: Document) -> None:
        """Do not advance the operation until `resume`."""
        self._schedule(document, None)

    def finish(self, document: Document) -> None:
        """Mark the operation as done and delete the oldest done operations."""
        if document.name not in self._running:
            return
        document.inner[_DUE], document.inner[_DONE] = _NEVER, True
        self._table.put(document)
        self._running.pop(document.name, None)
        self._timers.cancel(document.name)
        self._ended.append((document.parent, document.name))
        while len(self._ended) > _MAX_ENDED:
            oldest = self._table.get(*self._ended.pop(0))
            if oldest is not None:
                self._table.delete(oldest)

    def resume(self, name: str) -> None:
        """Advance an operation now."""
        if name in self._running:
            self._timers.cancel(name)
            self._queue.add(name)

    def _schedule(self, document: Document, seconds: float | None) -> None:
        if document.name not in self._running:
            return  # finished while it was being advanced
        document.inner |= {_DUE: _NEVER if seconds is None else clock.timestamp_after(seconds), _WAIT: seconds}
        self._table.put(document)
        self._set_timer(document)

    def _set_timer(self, document: Document) -> None:
        self._start_workers()
        due = document.inner[_DUE]
        if due == _NEVER:
            self._timers.cancel(document.name)
        else:
            left = clock.seconds_until(due)
            # The clock of an accelerated twin can go back on restart; no operation may wait longer than requested.
            self._timers.set(document.name, min(left, document.inner[_WAIT]))

    def _start_workers(self) -> None:
        if not self._tasks:
            workers = (run_worker(self._queue, self._process, self._retry) for _ in range(_WORKERS))
            self._tasks = [asyncio.create_task(worker, name="cloud: operations") for worker in workers]

    async def _process(self, name: str) -> None:
        document = self._table.get(self._running[name], name) if name in self._running else None
        if document is not None:
            await self._advance(document)

    def _retry(self, name: str, error: Exception) -> None:
        # The Kubernetes API may be unavailable for a while.
        log.error("operation %s failed; retrying", name, exc_info=error)
        self._queue.add_rate_limited(name)


Obj = dict[str, Any]
_MAX_STORED = 1_000


class ResponseStyle(Protocol):
    """How an API responds to create, update, delete and list."""

    def respond(self, call: Call, path: str, body: Obj, verb: str) -> Obj:
        """The response to a create or update."""
        ...

    def respond_deleted(self, call: Call, path: str, body: Obj) -> Obj:
        """The response to a delete."""
        ...

    def list_fields(self, plural: str) -> Obj:
        """Fields of a list response besides the items."""
        ...


class DirectResponse:
    """The resource itself; an empty object after a delete."""

    def respond(self, call: Call, path: str, body: Obj, verb: str) -> Obj:
        return body

    def respond_deleted(self, call: Call, path: str, body: Obj) -> Obj:
        return {}

    def list_fields(self, plural: str) -> Obj:
        return {}


class _StoredOperations:
    """Stored operations. Each is done after `seconds`."""

    def __init__(self, store: Store, service: str) -> None:
        self._table = Table(store, f"{service}/operations", "Operation")
        self.seconds = 0.0

    def _store(self, name: str, body: Obj) -> Document:
        document = Document("operations", name, body, {"due": clock.timestamp_after(self.seconds)})
        self._table.put(document)
        if self._table.count() > 2 * _MAX_STORED:
            for oldest in sorted(self._table.all(), key=lambda operation: str(operation.inner["due"]))[:_MAX_STORED]:
                self._table.delete(oldest)
        return document

    def _is_done(self, document: Document) -> bool:
        return clock.seconds_until(document.inner["due"]) <= 0

    def get(self, call: Call) -> Obj:
        """Return an operation."""
        name = call.params["operation"]
        return self._render(require(self._table.get("operations", name), not_found(f"operations/{name}")))

    def _render(self, document: Document) -> Obj:
        raise NotImplementedError


class ComputeOperations(_StoredOperations):
    """Operations of the Compute API: `status`, `progress` and the link of their target."""

    def respond(self, call: Call, path: str, body: Obj, verb: str) -> Obj:
        return self._begin(call, path, body, verb)

    def respond_deleted(self, call: Call, path: str, body: Obj) -> Obj:
        return self._begin(call, path, body, "delete")

    def list_fields(self, plural: str) -> Obj:
        return {"kind": f"compute#{plural.removesuffix('s')}List", "id": plural}

    def _begin(self, call: Call, path: str, body: Obj, verb: str) -> Obj:
        name = f"operation-{clock.uid()}"
        project = self_link(call, f"projects/{call.params['project']}")
        scope = {key: f"{project}/{key}s/{call.params[key]}" for key in ("region", "zone") if key in call.params}
        operation = {
            "kind": "compute#operation",
            "id": str(body.get("id", "0")),
            "name": name,
            "operationType": verb,
            "targetLink": self_link(call, path),
            "targetId": str(body.get("id", "0")),
            "user": call.caller,
            "insertTime": clock.timestamp(),
            "startTime": clock.timestamp(),
            "selfLink": f"{self_link(call, path.rpartition('/')[0].rpartition('/')[0])}/operations/{name}",
            **scope,
        }
        return self._render(self._store(name, operation))

    def _render(self, document: Document) -> Obj:
        if not self._is_done(document):
            return {**document.body, "status": "RUNNING", "progress": 50}
        return {**document.body, "status": "DONE", "progress": 100, "endTime": document.inner["due"]}

    def routes(self) -> Iterator[Route]:
        """Global, regional and zonal operations."""
        for scope in ("global", "regions/{region}", "zones/{zone}"):
            at = f"projects/{{project}}/{scope}/operations/{{operation}}"
            yield Route("GET", at, "operations.get", self.get, "compute.globalOperations.get")
            yield Route("POST", f"{at}/wait", "operations.wait", self.get, "compute.globalOperations.get")


class LongRunningOperations(_StoredOperations):
    """Operations of `google.longrunning`: `done`, then the resource as `response`, whose message is `response_type`."""

    def __init__(self, store: Store, service: str, response_type: str) -> None:
        super().__init__(store, service)
        self._response_type = response_type

    def respond(self, call: Call, path: str, body: Obj, verb: str) -> Obj:
        return self._begin(call, path, {"@type": f"type.googleapis.com/{self._response_type}", **body}, verb)

    def respond_deleted(self, call: Call, path: str, body: Obj) -> Obj:
        return self._begin(call, path, {"@type": "type.googleapis.com/google.protobuf.Empty"}, "delete")

    def list_fields(self, plural: str) -> Obj:
        return {}

    def _begin(self, call: Call, path: str, response: Obj, verb: str) -> Obj:
        name = clock.uid()
        at = f"projects/{call.params['project']}/locations/{call.params['location']}/operations/{name}"
        metadata = {"createTime": clock.timestamp(), "target": path, "verb": verb}
        return self._render(self._store(name, {"name": at, "metadata": metadata, "response": response}))

    def _render(self, document: Document) -> Obj:
        head = {"name": document.body["name"], "done": self._is_done(document)}
        return {**head, "response": document.body["response"]} if head["done"] else head

    def routes(self) -> Iterator[Route]:
        """Operations of a location, also below their target."""
        at = "projects/{project}/locations/{location}"
        yield Route("GET", f"{at}/operations/{{operation}}", "operations.get", self.get, "operations.get")
        yield Route("GET", f"{at}/{{plural}}/{{target}}/operations/{{operation}}", "operations.get", self.get, "operations.get")


def self_link(call: Call, path: str) -> str:
    """The `selfLink` of a resource."""
    return f"https://www.googleapis.com/{call.service}/{call.version}/{path}"
