"""What the controller watches, kept as views: leaders that wait, JobSets, Namespaces, and Kueue's objects where it is installed.

Only pods that wait for a place are watched at all, and Nodes are not: a cluster of ten thousand nodes costs next to nothing.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from sliceworks.base import clock
from sliceworks.base.conditions import is_true
from sliceworks.base.errors import NotFound, SliceworksError
from sliceworks.controllers.slices import words
from sliceworks.controllers.slices.reading import is_drained, read_jobset, read_leader, read_workload, subject
from sliceworks.controllers.slices.seats import LEADERS, Seats
from sliceworks.controllers.slices.views import JobSetView, Leader, Ref, Subject, WorkloadView
from sliceworks.kube.informers import Informers
from sliceworks.kube.resources import GVK, Resource
from sliceworks.kube.well_known import NAMESPACE, POD

if TYPE_CHECKING:
    from collections.abc import Callable

    from sliceworks.controllers.slices.settings import Settings
    from sliceworks.kube.client import Client
    from sliceworks.kube.informers import Delta, Informer
    from sliceworks.kube.resources import Object

log = logging.getLogger(__name__)
JOBSET = Resource("jobset.x-k8s.io", "v1alpha2", "JobSet", "jobsets", subresources=("status",))
_KUEUE = "kueue.x-k8s.io"
_KUEUE_VERSIONS = ("v1beta2", "v1beta1")
_LOOK_FOR_KUEUE = 60.0
_NOT_PLACED = "status.phase=Pending,spec.nodeName="
V = TypeVar("V", Leader, JobSetView, WorkloadView)


class Views(Generic[V]):
    """The views of one kind. What a write answered counts until the watch has caught up with it."""

    def __init__(self, informer: Informer) -> None:
        self._informer = informer
        self._answered: dict[Ref, V] = {}

    def answered(self, view: V) -> None:
        """An object as the cluster answered a write."""
        self._answered[Ref(view.subject.namespace, view.subject.name)] = view

    def __call__(self) -> list[V]:
        """Every view, as new as it is known."""
        found: list[V] = [obj["view"] for obj in self._informer.store if obj["view"] is not None]
        return [self._newest(view) for view in found] if self._answered else found

    def _newest(self, view: V) -> V:
        key = Ref(view.subject.namespace, view.subject.name)
        answered = self._answered.get(key)
        if answered is None:
            return view
        if answered.version <= view.version or answered.subject.uid != view.subject.uid:
            del self._answered[key]
            return view
        return answered


@dataclass(slots=True)
class Kueue:
    """Kueue's objects, once it is installed."""

    workloads: Views[WorkloadView]
    flavors: Informer
    checks: Informer


@dataclass(slots=True)
class Watching:
    """All that is watched. Use `open` and `close`."""

    client: Client
    settings: Settings
    changed: Callable[[], None]
    resources: dict[str, Resource] = field(default_factory=lambda: {"JobSet": JOBSET})
    kueue: Kueue | None = None
    seats: Seats = field(init=False)
    _all: list[Informers] = field(default_factory=list)
    _leaders: Views[Leader] | None = None
    _jobsets: Views[JobSetView] | None = None
    _namespaces: Informer | None = None
    _looking: asyncio.Task[None] | None = None

    def __post_init__(self) -> None:
        self.seats = Seats(self.client, self.changed)

    async def open(self) -> None:
        """Fill the caches."""
        pods = self._watch(POD, lambda obj: read_leader(obj, self.settings), labels=LEADERS, fields=_NOT_PLACED)
        pods.add_handler(self._waits_no_more)
        jobsets = self._watch(JOBSET, read_jobset)
        self._leaders, self._jobsets = Views(pods), Views(jobsets)
        self._namespaces = self._watch(NAMESPACE, is_drained)
        for informer in (pods, jobsets, self._namespaces):
            await informer.wait_synced()
        await self.seats.open()
        await self._find_kueue()
        if self.kueue is None:
            self._looking = asyncio.create_task(self._look_for_kueue())

    async def close(self) -> None:
        """End every watch."""
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.gather(self._looking, return_exceptions=True)
        for informers in self._all:
            await informers.close()
        await self.seats.close()

    def leaders(self) -> dict[Ref, Leader]:
        """The leaders that wait, by their Jobs."""
        return {leader.job: leader for leader in self._leaders()} if self._leaders is not None else {}

    def jobsets(self) -> dict[Ref, JobSetView]:
        """All JobSets; those whose Namespace is drained, or the whole cluster, are."""
        found = self._jobsets() if self._jobsets is not None else []
        if drained := self._drained():
            everywhere = words.WHOLE_CLUSTER in drained
            found = [replace(each, drained=True) if everywhere or each.ref.namespace in drained else each for each in found]
        return {jobset.ref: jobset for jobset in found}

    def workloads(self) -> tuple[WorkloadView, ...]:
        """The Workloads that have admission checks."""
        return tuple(self.kueue.workloads()) if self.kueue is not None else ()

    def checks(self) -> frozenset[str]:
        """The names of the AdmissionChecks that are ours."""
        return frozenset(obj["metadata"]["name"] for obj in self._own_checks())

    def idle_checks(self) -> tuple[Subject, ...]:
        """Those of them that do not say yet that they are active."""
        return tuple(
            subject(obj["view"]["apiVersion"], "AdmissionCheck", obj["metadata"])
            for obj in self._own_checks()
            if not obj["view"]["active"]
        )

    def flavors(self) -> dict[str, Any]:
        """What each ResourceFlavor brings."""
        return {obj["metadata"]["name"]: obj["view"] for obj in self.kueue.flavors.store} if self.kueue is not None else {}

    def seen(self, obj: Object) -> None:
        """An object as the cluster answered a write."""
        kind = obj.get("kind")
        if kind == "JobSet" and self._jobsets is not None:
            self._jobsets.answered(read_jobset(obj))
        elif kind == "Pod" and self._leaders is not None:
            leader = read_leader(obj, self.settings)
            if leader is not None:
                self._leaders.answered(leader)
        elif kind == "Workload" and self.kueue is not None:
            workload = read_workload(obj)
            if workload is not None:
                self.kueue.workloads.answered(workload)

    def _waits_no_more(self, delta: Delta) -> None:
        if delta.kind == "deleted":
            self.seats.look(delta.object["metadata"]["name"], delta.object["metadata"]["namespace"])

    def _drained(self) -> set[str]:
        store = self._namespaces.store if self._namespaces is not None else ()
        return {obj["metadata"]["name"] for obj in store if obj["view"]}

    def _own_checks(self) -> list[Object]:
        return [obj for obj in self.kueue.checks.store if obj["view"]] if self.kueue is not None else []

    def _watch(self, resource: Resource, read: Callable[[Object], Any], *, labels: str = "", fields: str = "") -> Informer:
        def slim(obj: Object) -> Object:
            metadata = {name: obj["metadata"][name] for name in _KEPT if name in obj["metadata"]}
            try:
                return {"metadata": metadata, "view": read(obj)}
            except Exception:
                log.exception("%s %s/%s cannot be read", resource.kind, metadata.get("namespace"), metadata["name"])
                return {"metadata": metadata, "view": None}

        informers = Informers(self.client, transform=slim)
        self._all.append(informers)
        informer = informers.open(resource, labels=labels, fields=fields)
        informer.add_handler(lambda _: self.changed())
        return informer

    async def _look_for_kueue(self) -> None:
        while self.kueue is None:
            await clock.sleep(_LOOK_FOR_KUEUE)
            await self._find_kueue()

    async def _find_kueue(self) -> None:
        for version in _KUEUE_VERSIONS:
            try:
                await self.client.discovery.by_gvk(GVK(_KUEUE, version, "Workload"))
            except NotFound:
                continue
            except SliceworksError as error:
                log.warning("whether Kueue is installed cannot be seen: %s", error)
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
        self.kueue = Kueue(Views(workloads), flavors, checks)
        self.changed()


_KEPT = ("name", "namespace", "uid", "resourceVersion")


def _flavor(obj: Object) -> Object:
    spec = obj.get("spec") or {}
    return {name: spec[name] for name in ("nodeLabels", "tolerations") if spec.get(name)}


def _check(obj: Object) -> Object:
    """An AdmissionCheck of ours: whether it says that it is active; nothing for those of others."""
    if (obj.get("spec") or {}).get("controllerName") != words.CHECK_CONTROLLER:
        return {}
    return {"apiVersion": obj["apiVersion"], "active": is_true(obj, "Active")}
