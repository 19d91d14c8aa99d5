"""Timeline of a cluster: which field manager created, changed or deleted which object, and when."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sliceworks.base import clock

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sliceworks.twin.store.watch_cache import Change

_VERBS = {"ADDED": "created", "MODIFIED": "changed", "DELETED": "deleted"}
# Objects that change often and carry no information for the reader.
_SILENT = {"Lease", "Event", "Operation", "CloudFault", "CloudSettings"}
_CLOUD = "cloud."  # cloud resources use the path of their parent as namespace
_UNKNOWN_AUTHOR = "the cluster"  # parts of the twin may write without a field manager


@dataclass(frozen=True, slots=True)
class TimelineEntry:
    """One change of an object, `at` seconds after the start."""

    at: float
    verb: str
    kind: str
    namespace: str
    name: str
    by: str = ""
    note: str = ""

    @property
    def subject(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"


class Timeline:
    """Records the changes of a store."""

    def __init__(self) -> None:
        self.entries: list[TimelineEntry] = []
        self._start = clock.loop_time()
        self._begun = False
        self._author = _UNKNOWN_AUTHOR

    def begin(self) -> None:
        """Start recording; the store first replays its objects to a new subscriber."""
        self._begun = True
        self._start = clock.loop_time()

    @contextmanager
    def author(self, name: str) -> Iterator[None]:
        """Attribute changes without a field manager to `name` while the context is open."""
        self._author = name
        try:
            yield
        finally:
            self._author = _UNKNOWN_AUTHOR

    def elapsed(self) -> float:
        """Seconds since the start, in twin time."""
        return clock.loop_time() - self._start

    def add(self, verb: str, kind: str, namespace: str, name: str, *, by: str = "", note: str = "") -> None:
        """Record something that the store does not see, such as a refused document."""
        self.entries.append(TimelineEntry(self.elapsed(), verb, kind, namespace, name, by, note))

    def observe(self, change: Change) -> None:
        """Record a change of the store."""
        obj, old = change.obj, change.old
        kind = str(obj.get("kind") or change.resource)
        if not self._begun or kind in _SILENT:
            return
        note, by, namespace = _status_changes(obj, old), _author(obj, old) or self._author, change.namespace
        if change.resource.startswith(_CLOUD):
            by, namespace = "the cloud", namespace.rpartition("/")[2]
        self.add(_VERBS[change.type], kind, namespace, change.name, by=by, note=note)


def _author(obj: dict[str, Any], old: dict[str, Any] | None) -> str:
    """The field manager with a new managedFields entry, if any."""
    before = (old or {}).get("metadata", {}).get("managedFields") or []
    now = obj["metadata"].get("managedFields") or []
    new = [str(entry.get("manager")) for entry in now if entry not in before]
    return new[0] if new else ""


def _status_changes(obj: dict[str, Any], old: dict[str, Any] | None) -> str:
    """The new phase, new conditions and deletion of an object."""
    status, before = obj.get("status") or {}, (old or {}).get("status") or {}
    changes = []
    if status.get("phase") != before.get("phase") and status.get("phase"):
        changes.append(str(status["phase"]))
    known = {(item.get("type"), item.get("status")) for item in before.get("conditions") or []}
    changes += [
        f"{item.get('type')}={item.get('status')}"
        for item in status.get("conditions") or []
        if (item.get("type"), item.get("status")) not in known
    ]
    if obj["metadata"].get("deletionTimestamp") and not (old or {}).get("metadata", {}).get("deletionTimestamp"):
        changes.append("being deleted")
    return ", ".join(changes)
