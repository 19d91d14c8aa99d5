"""The answer to "why": causes in their order, each with the object it was read from, who is ahead, and what frees capacity."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from datetime import datetime

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Seen:
    """Where something was read: an object, and the field of it."""

    kind: str
    name: str
    field: str
    namespace: str = ""

    def __str__(self) -> str:
        place = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f"{self.kind} {place}, {self.field}"


def seen(obj: Object, field: str, kind: str = "") -> Seen:
    """A field of an object that was read."""
    metadata = obj["metadata"]
    return Seen(kind or obj.get("kind", ""), metadata["name"], field, metadata.get("namespace", ""))


@dataclass(frozen=True, slots=True)
class Kind:
    """One thing that can be in the way. `title` goes on from the job's name; `remedy` is for where nothing closer is known."""

    name: str
    layer: str
    title: str
    remedy: str

    def cause(self, words: str, *seen_in: Seen, remedy: str = "", said: str = "") -> Cause:
        """This cause, found in a job."""
        return Cause(self, words, seen_in, remedy or self.remedy, " ".join(said.split()))


@dataclass(frozen=True, slots=True)
class Cause:
    """Something in the way of one job: in our words, and in those (`said`) of whoever wrote it down."""

    kind: Kind
    words: str
    seen_in: tuple[Seen, ...]
    remedy: str
    said: str = ""


@dataclass(frozen=True, slots=True)
class Waiter:
    """A job in a queue, or one that has what others wait for."""

    namespace: str
    name: str
    priority: int
    since: datetime | None = None

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class Ahead:
    """The place in the queue: `position` counts from 1; `first` are those who come before, as far as they are named."""

    position: int
    total: int
    first: tuple[Waiter, ...]


@dataclass(frozen=True, slots=True)
class Release:
    """What a running job gives back, and when: `why` says how that is known. No time means that nobody knows."""

    who: Waiter
    amount: str
    when: datetime | None = None
    why: str = ""


@dataclass(frozen=True, slots=True)
class Answer:
    """Everything there is to say."""

    namespace: str
    name: str
    state: str
    summary: str
    causes: tuple[Cause, ...]
    ahead: Ahead | None = None
    releases: tuple[Release, ...] = ()
    progress: tuple[tuple[str, str], ...] = ()
    unseen: tuple[str, ...] = field(default=())
