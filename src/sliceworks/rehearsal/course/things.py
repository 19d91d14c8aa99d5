"""Instances of graphs and model services, watched: when they came, in which states they were, and when they went."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from sliceworks.base.errors import SliceworksError
from sliceworks.rehearsal.course.spans import Spans
from sliceworks.rehearsal.day.record import Life
from sliceworks.serving import record as records
from sliceworks.serving.compile import plan
from sliceworks.serving.standing import standing

if TYPE_CHECKING:
    from sliceworks.serving.record import Record
    from sliceworks.twin.store.entries import Change

Object = dict[str, Any]
CONFIG_MAPS, WORKLOADS = "/configmaps", ("apps/deployments", "apps/statefulsets", "batch/jobs")
_GRAPHS_OWN = ("ResourceGraphDefinition", "GraphRevision")
_SERVED, _RECORD = b'"kro.run/finalizer"', f'"{records.LABEL}":"{records.KIND}"'.encode()
SERVICE = "ModelService"


@dataclass(slots=True)
class _Thing:
    life: Life
    spans: Spans = field(default_factory=Spans)
    record: Record | None = None


class Things:
    """Collects their lives."""

    def __init__(self) -> None:
        self._there: dict[tuple[str, str, str], _Thing] = {}
        self._gone: list[_Thing] = []
        self._workloads: dict[str, dict[tuple[str, str], Object]] = {}
        self._instances: dict[tuple[str, str, str], tuple[str, str, str]] = {}

    def lives(self, now: float) -> tuple[Life, ...]:
        """All of them, in the order in which they came."""
        found = [replace(each.life, spans=each.spans.until(now)) for each in (*self._gone, *self._there.values())]
        return tuple(sorted(found, key=lambda life: (life.born, life.kind, life.namespace, life.name)))

    def see(self, at: float, change: Change) -> None:
        """Anything has changed."""
        if change.resource in WORKLOADS:
            self._see_workload(at, change)
        elif change.resource == CONFIG_MAPS:
            if _RECORD in change.entry.data:
                self._see_record(at, change)
        elif change.type == "DELETED":
            self._bury(at, self._instances.pop((change.resource, change.namespace, change.name), None))
        elif _SERVED in change.entry.data:
            self._see_instance(at, change)

    def _see_instance(self, at: float, change: Change) -> None:
        obj = change.obj
        key = (str(obj["kind"]), change.namespace, change.name)
        if key[0] in _GRAPHS_OWN:
            return
        # Its last state no longer has the mark by which it is known.
        self._instances[change.resource, change.namespace, change.name] = key
        thing = self._there.setdefault(key, _Thing(Life(key[0], change.name, change.namespace, "an instance of a graph", at)))
        going = "deletionTimestamp" in obj["metadata"]
        state = "DELETING" if going else str((obj.get("status") or {}).get("state") or "")
        if state:
            thing.spans.enter(at, state)

    def _see_record(self, at: float, change: Change) -> None:
        obj = change.obj
        try:
            record = records.read(obj)
        except SliceworksError:
            return
        service = record.service
        key = (SERVICE, change.namespace, service.metadata.name)
        if change.type == "DELETED":
            self._bury(at, key)
            return
        about = f"{service.spec.engine} on {plan(service).what}"
        thing = self._there.setdefault(key, _Thing(Life(SERVICE, service.metadata.name, change.namespace, about, at)))
        thing.record = record
        self._judge(at, thing, going="deletionTimestamp" in obj["metadata"])

    def _see_workload(self, at: float, change: Change) -> None:
        held = self._workloads.setdefault(change.namespace, {})
        key = (change.resource, change.name)
        if change.type == "DELETED":
            held.pop(key, None)
        else:
            held[key] = change.obj
        for (kind, space, _), thing in self._there.items():
            if kind == SERVICE and space == change.namespace and thing.spans.state != "going":
                self._judge(at, thing)

    def _judge(self, at: float, thing: _Thing, *, going: bool = False) -> None:
        assert thing.record is not None
        found = standing(thing.record, self._workloads.get(thing.life.namespace, {}).values())
        thing.spans.enter(at, "going" if going else found.state)

    def _bury(self, at: float, key: tuple[str, str, str] | None) -> None:
        thing = self._there.pop(key, None) if key is not None else None
        if thing is not None:
            thing.spans.close(at)
            thing.life = replace(thing.life, gone=at)
            self._gone.append(thing)
