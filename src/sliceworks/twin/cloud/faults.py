"""Things that go wrong in the cloud, on order: which calls they strike, how often, until when, and what is said then.

The kinds are data (`data/faults.yaml`). A fault that was asked for is durable: it strikes after a restart as well, until its time
or its count is over, or until it is ended by its name.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from fnmatch import fnmatchcase
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

from sliceworks.base import clock
from sliceworks.base.errors import InvalidDocument
from sliceworks.twin.cloud.errors import GoogleError, error_info
from sliceworks.twin.cloud.state import Document, Table

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sliceworks.twin.store.store import Store

Obj = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Kind:
    """One way of going wrong."""

    name: str
    strikes: str
    status: str = ""
    message: str = ""
    condition: str = ""
    info: Mapping[str, str] = field(default_factory=dict)
    stuck: bool = False


@cache
def kinds() -> dict[str, Kind]:
    """All kinds by name."""
    from sliceworks.base import yamls

    file = resources.files(__package__) / "data" / "faults.yaml"
    return {raw["name"]: Kind(**raw) for document in yamls.load_all(file.read_text(), file.name) for raw in document.data["faults"]}


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault that was asked for. `seconds` is how long what is slow takes; the message may be another than the kind's."""

    name: str
    kind: Kind
    match: Mapping[str, str]
    seconds: float | None = None
    message: str = ""
    probability: float = 1.0

    def error(self, facts: Mapping[str, str]) -> GoogleError:
        """What is said to the one who is struck."""
        details = [error_info(**self.kind.info)] if self.kind.info else []
        return GoogleError(self.kind.status or "UNKNOWN", self.said(facts), details=details)

    def said(self, facts: Mapping[str, str]) -> str:
        """The words, with what is known of the call."""
        return (self.message or self.kind.message).format_map(defaultdict(str, facts))


class Faults:
    """All faults that are in force."""

    def __init__(self, store: Store) -> None:
        self._table = Table(store, "faults", "CloudFault")
        self.ended: list[Callable[[str], None]] = []
        """Called with the name of a fault that is over."""
        for document in list(self._table.all()):
            # A twin whose time ran fast finds itself in its own past after a restart: no fault lasts longer than was meant.
            lasting = document.body.get("for")
            if lasting is not None and _left(document) > lasting:
                document.inner["until"] = _after(lasting)
                self._table.put(document)

    def add(self, given: Obj) -> str:
        """Order a fault; the same name takes the place of an older one. Returns its name."""
        kind = kinds().get(str(given.get("fault")))
        if kind is None:
            raise InvalidDocument(f"there is no fault {given.get('fault')!r} of the cloud: there are {', '.join(kinds())}")
        name = str(given.get("name") or f"{kind.name}-{self._table.count() + 1}")
        lasting = given.get("for")
        until = "" if lasting is None else _after(float(lasting))
        self._table.put(Document("", name, given, {"until": until, "left": given.get("count")}))
        return name

    def end(self, name: str) -> bool:
        """A fault is over; False when there is none of this name."""
        found = self._table.get("", name)
        if found is None:
            return False
        self._table.remove(found)
        for told in self.ended:
            told(name)
        return True

    def all(self) -> list[Obj]:
        """Those in force, as they were ordered."""
        return [{"name": document.name, **document.body} for document in self._table.all() if self._in_force(document)]

    def strike(self, strikes: str, facts: Mapping[str, str], *, stuck: bool | None = None) -> Fault | None:
        """The first fault that strikes this; it counts as one of its strikes."""
        if not self._table.count():
            return None
        for document in list(self._table.all()):
            fault = _fault(document)
            if fault.kind.strikes != strikes or not self._in_force(document) or not _matches(fault.match, facts):
                continue
            if stuck is not None and fault.kind.stuck is not stuck:
                continue
            if fault.probability < 1.0 and clock.randomness().random() >= fault.probability:
                continue
            self._count(document)
            return fault
        return None

    def seconds_left(self, name: str) -> float | None:
        """How long a fault is still in force; None when that is not known."""
        found = self._table.get("", name)
        if found is None:
            return 0.0
        return max(0.0, _left(found)) if found.inner["until"] else None

    def _in_force(self, document: Document) -> bool:
        if document.inner["until"] and _left(document) <= 0:
            self.end(document.name)
            return False
        return True

    def _count(self, document: Document) -> None:
        left = document.inner["left"]
        if left is None:
            return
        if left <= 1:
            self._table.remove(document)
        else:
            document.inner["left"] = left - 1
            self._table.put(document)


def _after(seconds: float) -> str:
    return clock.rfc3339_micro(clock.now() + timedelta(seconds=seconds))


def _left(document: Document) -> float:
    """Seconds until a fault that has an end is over."""
    return (datetime.fromisoformat(document.inner["until"]) - clock.now()).total_seconds()


def _fault(document: Document) -> Fault:
    given = document.body
    match = {key: _text(value) for key, value in (given.get("match") or {}).items() if value not in (None, "")}
    return Fault(
        document.name,
        kinds()[given["fault"]],
        match,
        given.get("seconds"),
        given.get("message") or "",
        float(given.get("probability", 1.0)),
    )


def _matches(match: Mapping[str, str], facts: Mapping[str, str]) -> bool:
    return all(fnmatchcase(facts.get(key, ""), pattern) for key, pattern in match.items())


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
