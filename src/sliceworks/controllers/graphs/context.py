"""What the reconcilers share: client, object caches, external reference index, events and metrics."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from sliceworks.controllers.graphs import instance_status
from sliceworks.controllers.graphs.applyset import split_group_kind
from sliceworks.kube.resources import Resource
from sliceworks.kube.selectors import from_label_selector

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from sliceworks.base.metrics import Registry
    from sliceworks.controllers.graphs.object_cache import CachedObject, ObjectCaches, Owner
    from sliceworks.controllers.graphs.options import Options
    from sliceworks.graph.model import Lookup
    from sliceworks.kube.client import Client
    from sliceworks.kube.events import EventRecorder
    from sliceworks.kube.resources import Object
    from sliceworks.kube.selectors import LabelSelector

    References: TypeAlias = Mapping[str, tuple[Resource, Lookup]]


@dataclass(slots=True)
class _KindIndex:
    """The instances that refer to objects of one kind."""

    by_name: dict[tuple[str, str], set[Owner]] = field(default_factory=dict)
    by_selector: dict[tuple[Owner, str], tuple[str, LabelSelector]] = field(default_factory=dict)


class ExternalReferences:
    """An index of the external references of all instances."""

    def __init__(self) -> None:
        self._kinds: dict[Resource, _KindIndex] = {}
        self._by_owner: dict[Owner, dict[str, tuple[Resource, Lookup]]] = {}

    def set(self, owner: Owner, references: References) -> None:
        """Replace the references of an instance, by the ids of its resources."""
        before = self._by_owner.get(owner, {})
        if before == references:
            return
        for name, (resource, lookup) in before.items():
            self._remove(owner, name, resource, lookup)
        for name, (resource, lookup) in references.items():
            self._add(owner, name, resource, lookup)
        if references:
            self._by_owner[owner] = dict(references)
        else:
            self._by_owner.pop(owner, None)

    def of(self, owner: Owner) -> References:
        """The references of an instance."""
        return self._by_owner.get(owner, {})

    def referrers(self, resource: Resource, records: Iterable[CachedObject]) -> Iterator[Owner]:
        """The instances that refer to one of these states of an object."""
        index = self._kinds.get(resource)
        if index is None:
            return
        for record in records:
            yield from index.by_name.get((record.namespace, record.name), ())
            for (owner, _), (namespace, selector) in index.by_selector.items():
                if namespace in ("", record.namespace) and selector.matches(record.labels):
                    yield owner

    def _add(self, owner: Owner, name: str, resource: Resource, lookup: Lookup) -> None:
        index = self._kinds.setdefault(resource, _KindIndex())
        if lookup.selector is None:
            index.by_name.setdefault((lookup.namespace, lookup.name), set()).add(owner)
        else:
            index.by_selector[owner, name] = (lookup.namespace, from_label_selector(lookup.selector))

    def _remove(self, owner: Owner, name: str, resource: Resource, lookup: Lookup) -> None:
        index = self._kinds[resource]
        index.by_selector.pop((owner, name), None)
        owners = index.by_name.get((lookup.namespace, lookup.name))
        if owners is not None:
            owners.discard(owner)
            if not owners:
                del index.by_name[lookup.namespace, lookup.name]


class Metrics:
    """The metrics of the controller, with kro's names."""

    def __init__(self, registry: Registry) -> None:
        self.reconciles = registry.counter("instance_reconcile_total", "Total number of instance reconciliations.", "gvr")
        self.reconcile_errors = registry.counter(
            "instance_reconcile_errors_total", "Total number of failed instance reconciliations.", "gvr"
        )
        self.reconcile_seconds = registry.histogram(
            "instance_reconcile_duration_seconds", "Duration of instance reconciliations in seconds.", "gvr"
        )
        self.builds = registry.counter("rgd_graph_build_total", "Total number of graph builds.", "name")
        self.build_errors = registry.counter("rgd_graph_build_errors_total", "Total number of failed graph builds.", "name")
        self.build_seconds = registry.histogram("rgd_graph_build_duration_seconds", "Duration of graph builds in seconds.", "name")
        self.graph_transitions = registry.counter(
            "rgd_state_transitions_total", "Total number of state transitions of ResourceGraphDefinitions.", "name", "from", "to"
        )
        self.graph_deletions = registry.counter("rgd_deletions_total", "Total number of deleted ResourceGraphDefinitions.", "name")
        self.revisions_issued = registry.counter(
            "rgd_graph_revision_issue_total", "Total number of issued GraphRevisions.", "reason"
        )
        self.revisions_collected = registry.counter(
            "rgd_graph_revision_gc_deleted_total", "Total number of garbage-collected GraphRevisions."
        )
        self._transition_counter = registry.counter(
            "instance_state_transitions_total", "Total number of state transitions of instances.", "gvr", "from_state", "to_state"
        )

    def transition(self, kind: str, old: str, new: str) -> None:
        """Count a state transition of an instance."""
        self._transition_counter.inc(kind, old, new)


class Context:
    """Shared by all reconcilers of one controller."""

    def __init__(self, client: Client, options: Options, caches: ObjectCaches, events: EventRecorder, metrics: Metrics) -> None:
        self.client, self.options, self.caches = client, options, caches
        self.external_references = ExternalReferences()
        self.metrics = metrics
        self._events = events

    async def resource_of(self, entry: str) -> Resource | None:
        """The resource of an inventory entry, in the version in use; None if the cluster does not serve it."""
        group, kind = split_group_kind(entry)
        opened = next(
            (cache.resource for cache in self.caches.opened() if (cache.resource.group, cache.resource.kind) == (group, kind)), None
        )
        if opened is not None:
            return opened
        for fresh in (False, True):
            if fresh:
                self.client.discovery.invalidate()
            for api_group in await self.client.discovery.groups():
                for item in api_group.resources:
                    if api_group.name == group and item.kind == kind:
                        return Resource(item.group, item.version, item.kind, item.plural, item.namespaced)
        return None

    def report_status(self, instance: Object, before: Object, after: Object) -> None:
        """Record metrics and events for a status that was written."""
        old, new = str(before.get("state") or ""), str(after.get("state") or "")
        if old != new:
            self.metrics.transition(f"{instance['apiVersion']}, Kind={instance['kind']}", old, new)
        failing = next((item for item in after["conditions"] if item["type"] == "Ready" and new == instance_status.ERROR), None)
        if failing is not None and not any(
            item.get("message") == failing.get("message") for item in before.get("conditions") or ()
        ):
            self._events.record(
                instance, "Failed", failing.get("message") or "reconciliation failed", type="Warning", action="Reconcile"
            )
        if self.options.condition_events:
            self._record_transitions(instance, before, after)

    def warn(self, obj: Object, reason: str, message: str) -> None:
        """Record a Warning event."""
        self._events.record(obj, reason, message, type="Warning", action="Reconcile")

    def record(self, obj: Object, reason: str, message: str) -> None:
        """Record a Normal event."""
        self._events.record(obj, reason, message, action="Reconcile")

    def _record_transitions(self, instance: Object, before: Object, after: Object) -> None:
        old = {item["type"]: item["status"] for item in before.get("conditions") or ()}
        for item in after["conditions"]:
            kind, status = item["type"], item["status"]
            if old.get(kind) != status:
                record_event = self.record if status == "True" else self.warn
                record_event(instance, kind, f"{old.get(kind, 'none')} -> {status}: {item.get('reason', '')}")
