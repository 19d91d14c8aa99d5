"""Informers of the slices controller: unschedulable leaders, JobSets, Namespaces and, if installed, Kueue's objects.

Only unscheduled leader pods are watched, and no Nodes, so that the cost does not grow with the number of nodes.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from sliceworks.base import clock
from sliceworks.base.conditions import is_condition_true
from sliceworks.base.errors import NotFound, SliceworksError
from sliceworks.controllers.slices import well_known
from sliceworks.controllers.slices.model import JobSetView, Leader, ObjectReference, WorkloadView
from sliceworks.controllers.slices.object_views import is_drained, object_reference, read_jobset, read_leader, read_workload
from sliceworks.controllers.slices.placements import LEADER_SELECTOR, Placements
from sliceworks.kube.informers import Informers
from sliceworks.kube.resources import GVK, JOBSET, NAMESPACE, POD, Key, Resource

if TYPE_CHECKING:
    from collections.abc import Callable

    from sliceworks.controllers.slices.settings import Settings
    from sliceworks.kube.client import Client
    from sliceworks.kube.informers import Delta, Informer
    from sliceworks.kube.resources import Object

log = logging.getLogger(__name__)
_KUEUE = "kueue.x-k8s.io"
_KUEUE_VERSIONS = ("v1beta2", "v1beta1")
_KUEUE_POLL = 60.0
_UNSCHEDULED = "status.phase=Pending,spec.nodeName="
V = TypeVar("V", Leader, JobSetView, WorkloadView)


class ViewCache(Generic[V]):
    """The views of one kind. The response to a write is used until the watch has caught up."""

    def __init__(self, informer: Informer) -> None:
        self._informer = informer
        self._written: dict[Key, V] = {}

    def record_write(self, view: V) -> None:
        """Record the response to a write."""
        self._written[Key(view.subject.namespace, view.subject.name)] = view

    def __call__(self) -> list[V]:
        """The newest version of every view."""
        views: list[V] = [obj["view"] for obj in self._informer.store if obj["view"] is not None]
        return [self._newest(view) for view in views] if self._written else views

    def _newest(self, view: V) -> V:
        key = Key(view.subject.namespace, view.subject.name)
        written = self._written.get(key)
        if written is None:
            return view
        if written.version <= view.version or written.subject.uid != view.subject.uid:
            del self._written[key]
            return view
        return written


@dataclass(slots=True)
class KueueInformers:
    """Informers of Kueue's objects."""

    workloads: ViewCache[WorkloadView]
    flavors: Informer
    checks: Informer


@dataclass(slots=True)
class ClusterCache:
    """All informers of the controller. Use `open` and `close`."""

    client: Client
    settings: Settings
    changed: Callable[[], None]
    resources: dict[str, Resource] = field(default_factory=lambda: {"JobSet": JOBSET})
    kueue: KueueInformers | None = None
    placements: Placements = field(init=False)
    _all: list[Informers] = field(default_factory=list)
    _leaders: ViewCache[Leader] | None = None
    _jobsets: ViewCache[JobSetView] | None = None
    _namespaces: Informer | None = None
    _kueue_task: asyncio.Task[None] | None = None

    def __post_init__(self) -> None:
        self.placements = Placements(self.client, self.changed)

    async def open(self) -> None:
        """Start the informers and wait until they are synced."""
        pods = self._watch(POD, lambda obj: read_leader(obj, self.settings), labels=LEADER_SELECTOR, fields=_UNSCHEDULED)
        pods.add_handler(self._on_leader_removed)
        jobsets = self._watch(JOBSET, read_jobset)
        self._leaders, self._jobsets = ViewCache(pods), ViewCache(jobsets)
        self._namespaces = self._watch(NAMESPACE, is_drained)
        for informer in (pods, jobsets, self._namespaces):
            await informer.wait_synced()
        await self.placements.open()
        await self._find_kueue()
        if self.kueue is None:
            self._kueue_task = asyncio.create_task(self._poll_kueue())

    async def close(self) -> None:
        """Stop the informers."""
        if self._kueue_task is not None:
            self._kueue_task.cancel()
            await asyncio.gather(self._kueue_task, return_exceptions=True)
        for informers in self._all:
            await informers.close()
        await self.placements.close()

    def leaders(self) -> dict[Key, Leader]:
        """The unschedulable leaders, by Job."""
        return {leader.job: leader for leader in self._leaders()} if self._leaders is not None else {}

    def jobsets(self) -> dict[Key, JobSetView]:
        """All JobSets; the drain annotation of a Namespace or of the cluster applies to its JobSets."""
        jobsets = self._jobsets() if self._jobsets is not None else []
        if drained := self._drained():
            everywhere = well_known.WHOLE_CLUSTER in drained
            jobsets = [
                replace(jobset, drained=True) if everywhere or jobset.ref.namespace in drained else jobset for jobset in jobsets
            ]
        return {jobset.ref: jobset for jobset in jobsets}

    def workloads(self) -> tuple[WorkloadView, ...]:
        """The Workloads with admission checks."""
        return tuple(self.kueue.workloads()) if self.kueue is not None else ()

    def checks(self) -> frozenset[str]:
        """The names of this controller's AdmissionChecks."""
        return frozenset(obj["metadata"]["name"] for obj in self._own_checks())

    def inactive_checks(self) -> tuple[ObjectReference, ...]:
        """This controller's AdmissionChecks without the condition Active."""
        return tuple(
            object_reference(obj["view"]["apiVersion"], "AdmissionCheck", obj["metadata"])
            for obj in self._own_checks()
            if not obj["view"]["active"]
        )

    def flavors(self) -> dict[str, Any]:
        """Node labels and tolerations of each ResourceFlavor."""
        return {obj["metadata"]["name"]: obj["view"] for obj in self.kueue.flavors.store} if self.kueue is not None else {}

    def record_write(self, obj: Object) -> None:
        """Record the response to a write."""
        kind = obj.get("kind")
        if kind == "JobSet" and self._jobsets is not None:
            self._jobsets.record_write(read_jobset(obj))
        elif kind == "Pod" and self._leaders is not None:
            leader = read_leader(obj, self.settings)
            if leader is not None:
                self._leaders.record_write(leader)
        elif kind == "Workload" and self.kueue is not None:
            workload = read_workload(obj)
            if workload is not None:
                self.kueue.workloads.record_write(workload)

    def _on_leader_removed(self, delta: Delta) -> None:
        if delta.kind == "deleted":
            self.placements.track(delta.object["metadata"]["name"], delta.object["metadata"]["namespace"])

    def _drained(self) -> set[str]:
        store = self._namespaces.store if self._namespaces is not None else ()
        return {obj["metadata"]["name"] for obj in store if obj["view"]}

    def _own_checks(self) -> list[Object]:
        return [obj for obj in self.kueue.checks.store if obj["view"]] if self.kueue is not None else []

    def _watch(self, resource: Resource, to_view: Callable[[Object], Any], *, labels: str = "", fields: str = "") -> Informer:
        def transform(obj: Object) -> Object:
            metadata = {name: obj["metadata"][name] for name in _METADATA_FIELDS if name in obj["metadata"]}
            try:
                return {"metadata": metadata, "view": to_view(obj)}
            except Exception:
                log.exception("cannot parse %s %s/%s", resource.kind, metadata.get("namespace"), metadata["name"])
                return {"metadata": metadata, "view": None}

        informers = Informers(self.client, transform=transform)
        self._all.append(informers)
        informer = informers.open(resource, labels=labels, fields=fields)
        informer.add_handler(lambda _: self.changed())
        return informer

    async def _poll_kueue(self) -> None:
        while self.kueue is None:
            await clock.sleep(_KUEUE_POLL)
            await self._find_kueue()

    async def _find_kueue(self) -> None:
        for version in _KUEUE_VERSIONS:
            try:
                await self.client.discovery.by_gvk(GVK(_KUEUE, version, "Workload"))
            except NotFound:
                continue
            except SliceworksError as error:
                log.warning("cannot discover Kueue: %s", error)
                return
            await self._watch_kueue(version)
            return

    async def _watch_kueue(self, version: str) -> None:
        workload = Resource(_KUEUE, version, "Workload", "workloads", subresources=("status",))
        check = Resource(_KUEUE, version, "AdmissionCheck", "admissionchecks", False, ("status",))
        flavor = Resource(_KUEUE, version, "ResourceFlavor", "resourceflavors", False)
        workloads = self._watch(workload, read_workload)
        flavors = self._watch(flavor, _flavor)
        checks = self._watch(check, _check)
        for informer in (workloads, flavors, checks):
            await informer.wait_synced()
        self.resources |= {"Workload": workload, "AdmissionCheck": check}
        self.kueue = KueueInformers(ViewCache(workloads), flavors, checks)
        self.changed()


_METADATA_FIELDS = ("name", "namespace", "uid", "resourceVersion")


def _flavor(obj: Object) -> Object:
    spec = obj.get("spec") or {}
    return {name: spec[name] for name in ("nodeLabels", "tolerations") if spec.get(name)}


def _check(obj: Object) -> Object:
    """The view of this controller's AdmissionChecks; empty for others."""
    if (obj.get("spec") or {}).get("controllerName") != well_known.CHECK_CONTROLLER:
        return {}
    return {"apiVersion": obj["apiVersion"], "active": is_condition_true(obj, "Active")}
