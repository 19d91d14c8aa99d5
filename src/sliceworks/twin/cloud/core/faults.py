"""Injected faults: which calls they match, how often, until when, and the error they return.

The kinds are data (`data/faults.yaml`). A fault is durable: it survives a restart and stays active until its duration or count is
used up or it is ended by name.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

from sliceworks.base import clock
from sliceworks.base.errors import InvalidDocument
from sliceworks.catalog import gke_rules
from sliceworks.twin.cloud.core.document_store import Document, Table
from sliceworks.twin.cloud.core.exceptions import GoogleError, error_info

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sliceworks.twin.store.store import Store

Obj = dict[str, Any]


@dataclass(frozen=True, slots=True)
class FaultKind:
    """A kind of fault. `phase` is where it is injected: request, response, operation or instances.

    A kind that breaks a rule of the catalog has the answer of the rule; `parameters` fill its placeholders.
    """

    name: str
    phase: str
    rule: str = ""
    parameters: Mapping[str, str] = field(default_factory=dict)
    status: str = ""
    message: str = ""
    condition: str = ""
    info: Mapping[str, str] = field(default_factory=dict)
    stuck: bool = False


@cache
def fault_kinds() -> dict[str, FaultKind]:
    """Fault kinds by name."""
    from sliceworks.base import yaml_documents

    file = resources.files(__package__) / "data" / "faults.yaml"
    return {
        raw["name"]: _fault_kind(raw)
        for document in yaml_documents.load_all(file.read_text(), file.name)
        for raw in document.data["faults"]
    }


def _fault_kind(raw: Obj) -> FaultKind:
    if not raw.get("rule"):
        return FaultKind(**raw)
    rule = gke_rules.rules()[raw["rule"]]
    return FaultKind(**raw, status=rule.status, message=rule.message, condition=rule.code, info=rule.info)


@dataclass(frozen=True, slots=True)
class Fault:
    """An injected fault. `seconds` is its delay; `message` overrides the message of its kind."""

    name: str
    kind: FaultKind
    match: Mapping[str, str]
    seconds: float | None = None
    message: str = ""
    probability: float = 1.0
    counted: bool = False
    """Whether the fault has a count: it affects an operation until the end."""

    def error(self, attributes: Mapping[str, str]) -> GoogleError:
        """The error for a call or operation with these attributes."""
        details = [error_info(**self.kind.info)] if self.kind.info else []
        return GoogleError(self.kind.status or "UNKNOWN", self.format_message(attributes), details=details)

    def format_message(self, attributes: Mapping[str, str]) -> str:
        """The message with its placeholders filled in."""
        values = defaultdict(str, attributes)
        values.update({name: value.format_map(values) for name, value in self.kind.parameters.items()})
        return (self.message or self.kind.message).format_map(values)


class Faults:
    """The active faults."""

    def __init__(self, store: Store) -> None:
        self._table = Table(store, "faults", "CloudFault")
        self.on_fault_ended: list[Callable[[str], None]] = []
        """Called with the name of a fault that has ended."""
        for document in list(self._table.all()):
            # The clock of an accelerated twin can go back on restart; no fault may last longer than its duration.
            duration = document.body.get("for")
            if duration is not None and _seconds_left(document) > duration:
                document.inner["until"] = clock.timestamp_after(duration)
                self._table.put(document)

    def add(self, spec: Obj) -> str:
        """Activate a fault, replacing one of the same name. Returns its name."""
        kind = fault_kinds().get(str(spec.get("fault")))
        if kind is None:
            raise InvalidDocument(f"fault: unknown cloud fault {spec.get('fault')!r} (known: {', '.join(fault_kinds())})")
        name = str(spec.get("name") or f"{kind.name}-{self._table.count() + 1}")
        duration = spec.get("for")
        until = "" if duration is None else clock.timestamp_after(float(duration))
        self._table.put(Document("", name, spec, {"until": until, "left": spec.get("count")}))
        return name

    def end(self, name: str) -> bool:
        """End a fault; returns False if it does not exist."""
        document = self._table.get("", name)
        if document is None:
            return False
        self._table.delete(document)
        for listener in self.on_fault_ended:
            listener(name)
        return True

    def all(self) -> list[Obj]:
        """The specs of the active faults."""
        return [{"name": document.name, **document.body} for document in self._table.all() if self._is_active(document)]

    def inject(self, phase: str, attributes: Mapping[str, str], *, stuck: bool | None = None) -> Fault | None:
        """Return the first active fault that matches, and use up one of its count."""
        if not self._table.count():
            return None
        for document in list(self._table.all()):
            fault = _fault(document)
            if fault.kind.phase != phase or not self._is_active(document) or not _matches(fault.match, attributes):
                continue
            if stuck is not None and fault.kind.stuck is not stuck:
                continue
            if fault.probability < 1.0 and clock.rng().random() >= fault.probability:
                continue
            self._use(document)
            return fault
        return None

    def seconds_left(self, name: str) -> float | None:
        """Seconds until a fault ends; None if it has no duration, 0 if it has ended."""
        document = self._table.get("", name)
        if document is None:
            return 0.0
        return max(0.0, _seconds_left(document)) if document.inner["until"] else None

    def _is_active(self, document: Document) -> bool:
        if document.inner["until"] and _seconds_left(document) <= 0:
            self.end(document.name)
            return False
        return True

    def _use(self, document: Document) -> None:
        left = document.inner["left"]
        if left is None:
            return
        if left <= 1:
            self._table.delete(document)
        else:
            document.inner["left"] = left - 1
            self._table.put(document)


def _seconds_left(document: Document) -> float:
    """Seconds until the end of a fault with a duration."""
    return clock.seconds_until(document.inner["until"])


def _fault(document: Document) -> Fault:
    spec = document.body
    match = {key: _to_string(value) for key, value in (spec.get("match") or {}).items() if value not in (None, "")}
    return Fault(
        document.name,
        fault_kinds()[spec["fault"]],
        match,
        spec.get("seconds"),
        spec.get("message") or "",
        float(spec.get("probability", 1.0)),
        spec.get("count") is not None,
    )


def _matches(match: Mapping[str, str], attributes: Mapping[str, str]) -> bool:
    return all(fnmatchcase(attributes.get(key, ""), pattern) for key, pattern in match.items())


def _to_string(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
