"""What all reconcilers of this controller share: the cluster, the views of it, and who is told what happens."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sliceworks.controllers.graphs import states
from sliceworks.controllers.graphs.applyset import split_group_kind
from sliceworks.controllers.graphs.lookups import Lookups
from sliceworks.kube.resources import Resource

if TYPE_CHECKING:
    from sliceworks.controllers.graphs.measures import Measures
    from sliceworks.controllers.graphs.options import Options
    from sliceworks.controllers.graphs.views import Views
    from sliceworks.kube.client import Client
    from sliceworks.kube.events import EventRecorder
    from sliceworks.kube.resources import Object


class World:
    """One for each controller."""

    def __init__(self, client: Client, options: Options, views: Views, events: EventRecorder, measures: Measures) -> None:
        self.client, self.options, self.views = client, options, views
        self.lookups = Lookups()
        self.measures = measures
        self._events = events

    async def resource_of(self, entry: str) -> Resource | None:
        """The resource of a kind in an inventory, in the version that is in use; none when the cluster has it no more."""
        group, kind = split_group_kind(entry)
        opened = next(
            (view.resource for view in self.views.opened() if (view.resource.group, view.resource.kind) == (group, kind)), None
        )
        if opened is not None:
            return opened
        for fresh in (False, True):
            if fresh:
                self.client.discovery.invalidate()
            for known in await self.client.discovery.groups():
                found = next((item for item in known.resources if known.name == group and item.kind == kind), None)
                if found is not None:
                    return Resource(found.group, found.version, found.kind, found.plural, found.namespaced)
        return None

    def told(self, instance: Object, before: Object, after: Object) -> None:
        """The status of an instance was written: tell people what is new."""
        old, new = str(before.get("state") or ""), str(after.get("state") or "")
        if old != new:
            self.measures.transition(f"{instance['apiVersion']}, Kind={instance['kind']}", old, new)
        failing = next((item for item in after["conditions"] if item["type"] == "Ready" and new == states.ERROR), None)
        if failing is not None and not any(
            item.get("message") == failing.get("message") for item in before.get("conditions") or ()
        ):
            self._events.record(instance, "Failed", failing.get("message") or "it failed", type="Warning", action="Reconcile")
        if self.options.condition_events:
            self._transitions(instance, before, after)

    def warn(self, obj: Object, reason: str, note: str) -> None:
        """Tell people of a trouble with an object."""
        self._events.record(obj, reason, note, type="Warning", action="Reconcile")

    def note(self, obj: Object, reason: str, note: str) -> None:
        """Tell people of something that happened to an object."""
        self._events.record(obj, reason, note, action="Reconcile")

    def _transitions(self, instance: Object, before: Object, after: Object) -> None:
        old = {item["type"]: item["status"] for item in before.get("conditions") or ()}
        for item in after["conditions"]:
            kind, status = item["type"], item["status"]
            if old.get(kind) != status:
                say = self.note if status == "True" else self.warn
                say(instance, kind, f"{old.get(kind, 'none')} -> {status}: {item.get('reason', '')}")
