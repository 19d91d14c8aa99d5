"""StatefulSets in queues: their pods are one group, which is admitted as a whole with its first pod."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.base.errors import NotFound
from sliceworks.kube.resources import controller_of
from sliceworks.schemas.field_errors import FieldError, forbidden, invalid
from sliceworks.twin.controllers.loop import Change, Controller
from sliceworks.twin.controllers.world import MERGE
from sliceworks.twin.workloads.kueue.configuration import Configuration
from sliceworks.twin.workloads.kueue.keys import (
    GATES,
    GROUP_FAST,
    GROUP_INDEX_FROM,
    GROUP_NAME,
    GROUP_SERVING,
    GROUP_TOTAL,
    MANAGED,
    MANAGER,
    PARENT,
    PODS,
    PRIORITY,
    QUEUE,
    STATEFULSETS,
    USER,
    WORKLOADS,
    Obj,
    workload_name,
)
from sliceworks.twin.workloads.kueue.pods.hooks import OWN_NAMESPACES, maker_errors, queue_for, queued_owner
from sliceworks.twin.workloads.kueue.pods.members import Groups, annotation, ended, gated, held
from sliceworks.twin.workloads.kueue.pods.roles import shape
from sliceworks.twin.workloads.kueue.refusing import refuse

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from sliceworks.twin.admission.context import Admission
    from sliceworks.twin.controllers.world import World

_FRAMEWORK = "statefulset"
_MARK, _QUEUED = PARENT.encode(), QUEUE.encode()
_REVISION = "controller-revision-hash"


def group_name(name: str) -> str:
    """The group of a StatefulSet's pods; its Workload has the same name."""
    return workload_name("StatefulSet", "apps", name, "")


def pass_on(ctx: Admission, stateful: Obj, old: Mapping[str, Any] | None) -> None:
    """Make one group of the pods of a StatefulSet that names a queue."""
    if not _is_queued(ctx, stateful):
        return
    labels = stateful["metadata"].setdefault("labels", {})
    labels[QUEUE] = queue_for(ctx, stateful)
    made = stateful["spec"]["template"].setdefault("metadata", {})
    given = {MANAGED: "true", GROUP_NAME: group_name(stateful["metadata"]["name"]), QUEUE: labels[QUEUE]}
    if labels.get(PRIORITY):
        given[PRIORITY] = labels[PRIORITY]
    made.setdefault("labels", {}).update(given)
    made.setdefault("annotations", {}).update(
        {
            PARENT: _FRAMEWORK,
            GROUP_TOTAL: str(_replicas(stateful)),
            GROUP_FAST: "true",
            GROUP_SERVING: "true",
            GROUP_INDEX_FROM: "apps.kubernetes.io/pod-index",
        }
    )


def check(ctx: Admission, stateful: Obj, old: Mapping[str, Any] | None) -> None:
    if _FRAMEWORK not in Configuration(ctx.get).frameworks:
        return
    errors = maker_errors(stateful, old)
    if old is not None and _is_queued(ctx, stateful):
        new, was = (shape(one["spec"]["template"]["spec"]) for one in (stateful, old))
        errors += [*_changes(new, was, "spec.template.spec"), *_size_errors(ctx, stateful, old)]
    refuse(ctx, errors)


def _is_queued(ctx: Admission, stateful: Obj) -> bool:
    if _FRAMEWORK not in Configuration(ctx.get).frameworks or ctx.namespace in OWN_NAMESPACES:
        return False
    return bool(queue_for(ctx, stateful)) and not queued_owner(ctx, stateful)


def _replicas(stateful: Mapping[str, Any]) -> int:
    return int(stateful["spec"].get("replicas", 1))


def _changes(new: Any, was: Any, path: str) -> Iterator[FieldError]:
    """Every part of a spec that is not what it was."""
    if isinstance(new, dict) and isinstance(was, dict) and not path.endswith((".requests", ".nodeSelector", ".overhead")):
        for key in dict.fromkeys([*new, *was]):
            yield from _changes(new.get(key), was.get(key), f"{path}.{key}")
    elif isinstance(new, list) and isinstance(was, list) and len(new) == len(was) and path.endswith("ontainers"):
        for index, pair in enumerate(zip(new, was, strict=True)):
            yield from _changes(*pair, f"{path}[{index}]")
    elif new != was:
        yield invalid(path, new, "field is immutable")


def _size_errors(ctx: Admission, stateful: Obj, old: Mapping[str, Any]) -> Iterator[FieldError]:
    """It may go down to nothing, and up from there once everything is gone."""
    path, size, was = "spec.replicas", _replicas(stateful), _replicas(old)
    if size and was and size != was:
        yield invalid(path, size, "field is immutable")
    if size and not was:
        if (stateful.get("status") or {}).get("replicas"):
            yield forbidden(path, "scaling down is still in progress")
        elif ctx.get(WORKLOADS, ctx.namespace, group_name(stateful["metadata"]["name"])) is not None:
            yield forbidden(path, "workload from previous scale-down is still being deleted")


class StatefulPods(Controller[tuple[str, str]]):
    """Lets pods go whose StatefulSet is gone or has moved on to another template, and holds none that has ended."""

    watches = frozenset({STATEFULSETS, PODS})

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._groups = world.shared(Groups)

    def observe(self, change: Change) -> None:
        if change.resource == STATEFULSETS:
            if _QUEUED in change.entry.data:
                self.queue.add((change.namespace, change.name))
        elif _MARK in change.entry.data and annotation(change.obj, PARENT) == _FRAMEWORK:
            owner = controller_of(change.obj)
            if owner is not None and owner["kind"] == "StatefulSet":
                self.queue.add((change.namespace, owner["name"]))

    async def sync(self, key: tuple[str, str]) -> None:
        namespace, name = key
        stateful = self.world.get(STATEFULSETS, namespace, name)
        for pod_name in list(self._groups.names.get((namespace, group_name(name)), ())):
            pod = self.world.get(PODS, namespace, pod_name)
            if pod is not None:
                await self._let_go(pod, _is_left(stateful, pod))

    async def _let_go(self, pod: Obj, left: bool) -> None:
        change: Obj = {}
        if left and gated(pod):
            change["spec"] = {"schedulingGates": [gate for gate in pod["spec"]["schedulingGates"] if gate["name"] != GATES[0]]}
        if (left or ended(pod)) and held(pod):
            change["metadata"] = {"finalizers": [one for one in pod["metadata"]["finalizers"] if one != MANAGED]}
        if not change:
            return
        path = f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"
        try:
            await self.world.tell(USER, "PATCH", path, change, content_type=MERGE, fieldManager=MANAGER)
        except NotFound:
            return


def _is_left(stateful: Mapping[str, Any] | None, pod: Mapping[str, Any]) -> bool:
    """Whether a pod has no StatefulSet any more, or one that replaces pods of its template."""
    if stateful is None:
        return True
    status = stateful.get("status") or {}
    current = status.get("currentRevision")
    return bool(current != status.get("updateRevision") and current == (pod["metadata"].get("labels") or {}).get(_REVISION))
