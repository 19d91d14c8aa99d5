"""What happened in a cluster, moment by moment: who made, changed or deleted what."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sliceworks.base import clock

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sliceworks.twin.store.entries import Change

_VERBS = {"ADDED": "created", "MODIFIED": "changed", "DELETED": "deleted"}
# Objects that beat or count for the machinery's own sake.
_SILENT = {"Lease", "Event", "Operation", "CloudFault", "CloudSettings"}
_CLOUD = "cloud."  # what the twin's cloud remembers stands under the path of its parent
_NOBODY = "the cluster"  # its own parts may write without a name


@dataclass(frozen=True, slots=True)
class Moment:
    """One thing that happened, `at` seconds after the start."""

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
    """Collects moments from a store as they come."""

    def __init__(self) -> None:
        self.moments: list[Moment] = []
        self._start = clock.loop_time()
        self._begun = False
        self._author = _NOBODY

    def begin(self) -> None:
        """From now on what comes is news. A store first tells a new listener all that it holds."""
        self._begun = True
        self._start = clock.loop_time()

    @contextmanager
    def author(self, name: str) -> Iterator[None]:
        """Whose changes those are that name nobody, for a while."""
        self._author = name
        try:
            yield
        finally:
            self._author = _NOBODY

    def elapsed(self) -> float:
        """Seconds since the start, on the cluster's own clock."""
        return clock.loop_time() - self._start

    def add(self, verb: str, kind: str, namespace: str, name: str, *, by: str = "", note: str = "") -> None:
        """Note something that the store cannot know, such as a refusal."""
        self.moments.append(Moment(self.elapsed(), verb, kind, namespace, name, by, note))

    def observe(self, change: Change) -> None:
        """Note a change of the store."""
        obj, old = change.obj, change.old
        kind = str(obj.get("kind") or change.resource)
        if not self._begun or kind in _SILENT:
            return
        note, by, namespace = _news(obj, old), _author(obj, old) or self._author, change.namespace
        if change.resource.startswith(_CLOUD):
            by, namespace = "the cloud", namespace.rpartition("/")[2]
        self.add(_VERBS[change.type], kind, namespace, change.name, by=by, note=note)


def _author(obj: dict[str, Any], old: dict[str, Any] | None) -> str:
    """Whose fields the change brought, if it brought any."""
    before = (old or {}).get("metadata", {}).get("managedFields") or []
    now = obj["metadata"].get("managedFields") or []
    new = [str(entry.get("manager")) for entry in now if entry not in before]
    return new[0] if new else ""


def _news(obj: dict[str, Any], old: dict[str, Any] | None) -> str:
    """What a status says now that it did not say before."""
    status, before = obj.get("status") or {}, (old or {}).get("status") or {}
    news = []
    if status.get("phase") != before.get("phase") and status.get("phase"):
        news.append(str(status["phase"]))
    known = {(item.get("type"), item.get("status")) for item in before.get("conditions") or []}
    news += [
        f"{item.get('type')}={item.get('status')}"
        for item in status.get("conditions") or []
        if (item.get("type"), item.get("status")) not in known
    ]
    if obj["metadata"].get("deletionTimestamp") and not (old or {}).get("metadata", {}).get("deletionTimestamp"):
        news.append("being deleted")
    return ", ".join(news)
