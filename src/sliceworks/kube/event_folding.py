"""Which events are one: equal ones are counted, many similar ones combined, a flood about one object held back."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sliceworks.base import clock

if TYPE_CHECKING:
    from collections.abc import Mapping

_KEPT = 4096
_SIMILAR = 10  # so many different notes for one reason are combined
_WINDOW = 600.0  # seconds without any after which counting begins anew
_BURST = 25.0  # events about one object at once
_REFILL = 1 / 300  # and then one every five minutes


@dataclass(frozen=True, slots=True)
class Report:
    """What happened to which object."""

    regarding: dict[str, str]
    reason: str
    note: str
    type: str
    action: str
    related: dict[str, str] | None = None

    @property
    def namespace(self) -> str:
        """Where the event lives: with its object, or in `default` for what belongs to the whole cluster."""
        return self.regarding.get("namespace") or "default"

    def subject(self) -> tuple[str, ...]:
        """What it is about, as a key."""
        about = self.regarding
        return (about["apiVersion"], about["kind"], about.get("namespace", ""), about["name"], about.get("uid", ""))

    def similar(self) -> tuple[str, ...]:
        """What it says apart from its note, as a key."""
        return (*self.subject(), self.type, self.reason, self.action)


@dataclass(slots=True)
class Told:
    """An event as it stands in the cluster."""

    report: Report
    note: str
    count: int = 0
    name: str = ""
    first: str = ""
    last_at: float = 0.0

    def begin(self, moment: str) -> None:
        """Count from one, from this moment."""
        self.count, self.first = 1, moment


@dataclass(slots=True)
class _Similar:
    notes: set[str] = field(default_factory=set)
    last_at: float = 0.0


@dataclass(slots=True)
class _Bucket:
    tokens: float = _BURST
    filled_at: float = 0.0


class Folder:
    """Remembers the latest few thousand events."""

    def __init__(self) -> None:
        self._told: OrderedDict[tuple[str, ...], Told] = OrderedDict()
        self._similar: OrderedDict[tuple[str, ...], _Similar] = OrderedDict()
        self._buckets: OrderedDict[tuple[str, ...], _Bucket] = OrderedDict()

    def fold(self, report: Report) -> Told | None:
        """The event that this report makes or adds to; none when there are too many about its object."""
        now = clock.loop_time()
        note, key = self._combined(report, now)
        told = self._told.get(key)
        if told is None or now - told.last_at > _WINDOW:
            told = Told(report, note)
        _remember(self._told, key, told)
        told.count += 1
        told.note, told.last_at = note, now
        return told if self._may_speak(report, now) else None

    def _combined(self, report: Report, now: float) -> tuple[str, tuple[str, ...]]:
        key = report.similar()
        group = self._similar.get(key)
        if group is None or now - group.last_at > _WINDOW:
            group = _Similar()
        _remember(self._similar, key, group)
        group.last_at = now
        if len(group.notes) < _SIMILAR:
            group.notes.add(report.note)
        if report.note in group.notes:
            return report.note, (*key, report.note)
        return f"(combined from similar events): {report.note}", key

    def _may_speak(self, report: Report, now: float) -> bool:
        bucket = self._buckets.get(report.subject()) or _Bucket(filled_at=now)
        _remember(self._buckets, report.subject(), bucket)
        bucket.tokens = min(_BURST, bucket.tokens + (now - bucket.filled_at) * _REFILL)
        bucket.filled_at = now
        if bucket.tokens < 1:
            return False
        bucket.tokens -= 1
        return True


def reference(obj: Mapping[str, Any]) -> dict[str, str]:
    """The ObjectReference of an object."""
    metadata = obj["metadata"]
    about = {"apiVersion": obj["apiVersion"], "kind": obj["kind"], "name": metadata["name"]}
    for name in ("namespace", "uid", "resourceVersion"):
        if value := metadata.get(name):
            about[name] = value
    return about


def _remember(kept: OrderedDict[tuple[str, ...], Any], key: tuple[str, ...], value: Any) -> None:
    kept[key] = value
    kept.move_to_end(key)
    if len(kept) > _KEPT:
        kept.popitem(last=False)
