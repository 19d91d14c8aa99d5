"""Operations of the container API: which may run beside which, how they read, and how they end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.base import clock
from sliceworks.twin.cloud.container import names
from sliceworks.twin.cloud.container.outcomes import Failure
from sliceworks.twin.cloud.container.places import ANY, location_of, location_path
from sliceworks.twin.cloud.errors import CODES, GoogleError, error_info, not_found
from sliceworks.twin.cloud.operations import Operations
from sliceworks.twin.cloud.state import Document, Table

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from sliceworks.twin.cloud.container.settings import Settings
    from sliceworks.twin.cloud.faults import Faults
    from sliceworks.twin.cloud.routes import Call
    from sliceworks.twin.store.store import Store

Obj = dict[str, Any]
_ABORTED = ("CANCELLED", "Operation was aborted.")
_LINK = "https://container.googleapis.com/v1/"


class Jobs:
    """The operations of all clusters. Those that are hidden are the cloud's own affairs: not shown, and in nobody's way."""

    def __init__(self, store: Store, settings: Settings, faults: Faults, advance: Callable[[Document], Awaitable[None]]) -> None:
        self._table = Table(store, "container/operations", "Operation")
        self._settings = settings
        self._faults = faults
        self.work = Operations(self._table, advance)
        self._of: dict[str, dict[str, str]] = {}
        self._hidden: dict[tuple[str, str], dict[str, str]] = {}
        self._cancelled: set[str] = set()
        faults.ended.append(self._fault_ended)

    def start(self) -> None:
        """Go on with what was begun."""
        self.work.start()
        for document in self.work.running():
            self._note(document)

    def begin(
        self,
        kind: str,
        cluster: str,
        pool: str,
        *,
        step: str,
        seconds: float,
        facts: Mapping[str, str],
        hidden: bool = False,
        **more: Any,
    ) -> Obj:
        """A new operation on a cluster, or on one of its pools; what it does is up to its steps. Returns it as it reads."""
        name, target = names.operation(), f"{cluster}/nodePools/{pool}" if pool else cluster
        place = location_of(cluster)
        parent = cluster.rpartition("/clusters/")[0]
        body: Obj = {
            "name": name,
            "zone": place,
            "operationType": kind,
            "status": "RUNNING",
            "selfLink": f"{_LINK}{parent}/operations/{name}",
            "targetLink": f"{_LINK}{target}",
            "startTime": clock.micro_timestamp(),
            "location": place,
        }
        inner: Obj = {"cluster": cluster, "pool": pool, "step": step, "hidden": hidden, **more}
        document = Document(parent, name, body, inner)
        self._note(document)
        self.work.begin(document, None if hidden else self._delayed(document, seconds, facts))
        if hidden:
            self.work.later(document, seconds)
        return body

    def _delayed(self, document: Document, seconds: float, facts: Mapping[str, str]) -> float | None:
        """When the first step is due, given what goes wrong with it."""
        given = {**facts, "operationType": document.body["operationType"]}
        stuck = self._faults.strike("operation", given, stuck=True)
        if stuck is not None:
            document.inner["held"] = stuck.name
            return self._faults.seconds_left(stuck.name)
        fault = self._faults.strike("operation", given, stuck=False)
        if fault is None:
            return seconds
        if fault.kind.status:
            document.inner["fails"] = [fault.kind.status, fault.said(given)]
        return seconds + (fault.seconds or 0.0)

    def check(self, cluster: str, pool: str) -> None:
        """Refuse what cannot run beside what runs already."""
        running = self._of.get(cluster, {})
        for name, on in running.items():
            if not pool or on in ("", pool):
                raise GoogleError(
                    "FAILED_PRECONDITION",
                    f"Cluster is running incompatible operation {name}.",
                    details=[error_info("CLUSTER_ALREADY_HAS_OPERATION", "container.googleapis.com")],
                )
        most = self._settings.values.operations
        if len(running) >= most:
            short = cluster.rpartition("/")[2]
            raise GoogleError(
                "RESOURCE_EXHAUSTED",
                f'Too many operations: cluster "{short}" hits the concurrent operations quota {most}, please try again later.',
            )

    def busy(self, cluster: str, pool: str) -> bool:
        """Whether somebody works on a pool, or on all of its cluster."""
        return any(on in ("", pool) for on in self._of.get(cluster, {}).values())

    def hidden(self, cluster: str, pool: str) -> list[Document]:
        """The cloud's own affairs with a pool."""
        names = self._hidden.get((cluster, pool)) or {}
        return [document for name, parent in names.items() if (document := self._table.get(parent, name)) is not None]

    def finish(self, document: Document, failure: Failure | None = None) -> None:
        """An operation has ended, well or not."""
        body = document.body
        body |= {"status": "DONE", "endTime": clock.micro_timestamp()}
        if failure is not None:
            said = failure.summary or failure.message
            body |= {
                "statusMessage": said,
                "detail": said,
                "error": {"code": CODES[failure.status].number, "message": failure.message},
                "nodepoolConditions" if document.inner["pool"] else "clusterConditions": failure.conditions(),
            }
        inner = document.inner
        if inner["hidden"]:
            self._hidden.get((inner["cluster"], inner["pool"]), {}).pop(document.name, None)
        self._of.get(inner["cluster"], {}).pop(document.name, None)
        self._cancelled.discard(document.name)
        self.work.finish(document)

    def _note(self, document: Document) -> None:
        inner = document.inner
        if inner["hidden"]:
            self._hidden.setdefault((inner["cluster"], inner["pool"]), {})[document.name] = document.parent
        else:
            self._of.setdefault(inner["cluster"], {})[document.name] = inner["pool"]

    def _fault_ended(self, name: str) -> None:
        for document in list(self.work.running()):
            if document.inner.get("held") == name:
                self.work.wake(document.name)

    # What is asked for.

    def get(self, call: Call) -> Obj:
        """One operation."""
        return self._found(call).body

    def find_all(self, call: Call) -> Obj:
        """The operations of a location, or of all of them."""
        parent = location_path(call.params)
        place = None if call.params["location"] == ANY else parent
        prefix = f"projects/{call.params['project']}/"
        found = [each for each in self._table.all(place) if each.parent.startswith(prefix) and not each.inner["hidden"]]
        return {"operations": [each.body for each in found]} if found else {}

    def cancel(self, call: Call) -> Obj:
        """Have an operation stop as soon as it can."""
        document = self._found(call)
        if document.body["status"] == "DONE":
            raise GoogleError("FAILED_PRECONDITION", f"Operation {document.name} is already done.")
        document.body["status"] = "ABORTING"
        document.inner["fails"] = list(_ABORTED)
        self._cancelled.add(document.name)
        self.work.later(document, 1.0)
        return {}

    def fails(self, document: Document) -> Failure | None:
        """How an operation is to fail, if it is: because somebody has cancelled it, or because a fault wants it so."""
        # Whoever works on it may have a copy from before it was cancelled.
        found = _ABORTED if document.name in self._cancelled else document.inner.get("fails")
        return Failure(*found) if found else None

    def _found(self, call: Call) -> Document:
        parent, name = location_path(call.params), call.params["operation"]
        document = self._table.get(parent, name)
        if document is None or document.inner["hidden"]:
            raise not_found(f"{parent}/operations/{name}")
        return document
