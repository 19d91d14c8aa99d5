"""Observes instances of graphs and model services: creation, states, deletion."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from sliceworks.base.errors import SliceworksError
from sliceworks.rehearsal.record import InstanceRecord, SpanBuilder
from sliceworks.serving import record as records
from sliceworks.serving.compiler import plan
from sliceworks.serving.service_status import compute_status

if TYPE_CHECKING:
    from sliceworks.serving.record import Record
    from sliceworks.twin.store.watch_cache import Change

Object = dict[str, Any]
CONFIG_MAPS, WORKLOADS = "/configmaps", ("apps/deployments", "apps/statefulsets", "batch/jobs")
_KRO_KINDS = ("ResourceGraphDefinition", "GraphRevision")
_FINALIZER, _RECORD = b'"kro.run/finalizer"', f'"{records.LABEL}":"{records.KIND}"'.encode()
SERVICE = "ModelService"
_DELETING = "deleting"


@dataclass(slots=True)
class _Instance:
    record: InstanceRecord
    spans: SpanBuilder = field(default_factory=SpanBuilder)
    service_record: Record | None = None


class InstanceObserver:
    """Collects instance records."""

    def __init__(self) -> None:
        self._active: dict[tuple[str, str, str], _Instance] = {}
        self._deleted: list[_Instance] = []
        self._workloads: dict[str, dict[tuple[str, str], Object]] = {}
        self._instances: dict[tuple[str, str, str], tuple[str, str, str]] = {}

    def records(self, now: float) -> tuple[InstanceRecord, ...]:
        """All records, ordered by creation."""
        collected = [replace(item.record, spans=item.spans.until(now)) for item in (*self._deleted, *self._active.values())]
        return tuple(sorted(collected, key=lambda record: (record.created, record.kind, record.namespace, record.name)))

    def observe(self, at: float, change: Change) -> None:
        """Process a change of any object."""
        if change.resource in WORKLOADS:
            self._observe_workload(at, change)
        elif change.resource == CONFIG_MAPS:
            if _RECORD in change.entry.data:
                self._observe_record(at, change)
        elif change.type == "DELETED":
            self._close(at, self._instances.pop((change.resource, change.namespace, change.name), None))
        elif _FINALIZER in change.entry.data:
            self._observe_instance(at, change)

    def _observe_instance(self, at: float, change: Change) -> None:
        obj = change.obj
        key = (str(obj["kind"]), change.namespace, change.name)
        if key[0] in _KRO_KINDS:
            return
        # The final state has no finalizer, so remember the key.
        self._instances[change.resource, change.namespace, change.name] = key
        instance = self._active.setdefault(
            key, _Instance(InstanceRecord(key[0], change.name, change.namespace, "an instance of a graph", at))
        )
        if state := "DELETING" if "deletionTimestamp" in obj["metadata"] else str((obj.get("status") or {}).get("state") or ""):
            instance.spans.enter(at, state)

    def _observe_record(self, at: float, change: Change) -> None:
        obj = change.obj
        try:
            record = records.from_config_map(obj)
        except SliceworksError:
            return
        service = record.service
        key = (SERVICE, change.namespace, service.metadata.name)
        if change.type == "DELETED":
            self._close(at, key)
            return
        about = f"{service.spec.engine} on {plan(service).summary}"
        instance = self._active.setdefault(
            key, _Instance(InstanceRecord(SERVICE, service.metadata.name, change.namespace, about, at))
        )
        instance.service_record = record
        self._update_state(at, instance, is_deleting="deletionTimestamp" in obj["metadata"])

    def _observe_workload(self, at: float, change: Change) -> None:
        workloads = self._workloads.setdefault(change.namespace, {})
        key = (change.resource, change.name)
        if change.type == "DELETED":
            workloads.pop(key, None)
        else:
            workloads[key] = change.obj
        for (kind, namespace, _), instance in self._active.items():
            if kind == SERVICE and namespace == change.namespace and instance.spans.state != _DELETING:
                self._update_state(at, instance)

    def _update_state(self, at: float, instance: _Instance, *, is_deleting: bool = False) -> None:
        assert instance.service_record is not None
        status = compute_status(instance.service_record, self._workloads.get(instance.record.namespace, {}).values())
        instance.spans.enter(at, _DELETING if is_deleting else status.state)

    def _close(self, at: float, key: tuple[str, str, str] | None) -> None:
        instance = self._active.pop(key, None) if key is not None else None
        if instance is not None:
            instance.spans.close(at)
            instance.record = replace(instance.record, deleted=at)
            self._deleted.append(instance)
