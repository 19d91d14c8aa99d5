"""The StatefulSet integration: its webhooks, and the reconciler that releases pods."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from sliceworks.base.errors import NotFound
from sliceworks.kube.resources import controller_of
from sliceworks.schemas.field_errors import FieldError, forbidden, invalid
from sliceworks.twin.controllers.kueue.base_webhook import is_managed_by_kueue, queue_name_for, raise_if_invalid
from sliceworks.twin.controllers.kueue.configuration import Configuration
from sliceworks.twin.controllers.kueue.kueue_api import (
    FIELD_MANAGER,
    GROUP_FAST_ADMISSION_ANNOTATION,
    GROUP_NAME_LABEL,
    GROUP_SERVING_ANNOTATION,
    GROUP_TOTAL_COUNT_ANNOTATION,
    MANAGED,
    POD_INDEX_LABEL_ANNOTATION,
    PRIORITY_CLASS_LABEL,
    QUEUE_LABEL,
    SCHEDULING_GATES,
    SUSPENDED_BY_PARENT_ANNOTATION,
    USER,
    WORKLOADS,
    Obj,
    workload_name,
)
from sliceworks.twin.controllers.kueue.pod_group import PodGroupIndex, annotation, is_gated, is_managed, role_shape
from sliceworks.twin.controllers.kueue.pod_webhook import queue_change_errors
from sliceworks.twin.controllers.runtime.api_writer import ApiWriter
from sliceworks.twin.controllers.runtime.controller import Change, Controller
from sliceworks.twin.controllers.runtime.controller_context import NamespacedName, object_key
from sliceworks.twin.controllers.runtime.pod_index import is_finished
from sliceworks.twin.controllers.runtime.resource_keys import PODS, STATEFUL_SETS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from sliceworks.twin.apiserver.admission.chain import Admission
    from sliceworks.twin.controllers.runtime.controller_context import ControllerContext

_FRAMEWORK = "statefulset"
_QUEUE_LABEL = QUEUE_LABEL.encode()
_REVISION_LABEL = "controller-revision-hash"


def pod_group_name(name: str) -> str:
    """The name of the group of a StatefulSet's pods and of its Workload."""
    return workload_name("StatefulSet", STATEFUL_SETS, name, "")


def default_statefulset(ctx: Admission, stateful: Obj, old: Mapping[str, Any] | None) -> None:
    """Make the pods of a queued StatefulSet one pod group."""
    if not is_managed_by_kueue(ctx, _FRAMEWORK, stateful):
        return
    labels = stateful["metadata"].setdefault("labels", {})
    labels[QUEUE_LABEL] = queue_name_for(ctx, stateful)
    template = stateful["spec"]["template"].setdefault("metadata", {})
    template_labels = {
        MANAGED: "true",
        GROUP_NAME_LABEL: pod_group_name(stateful["metadata"]["name"]),
        QUEUE_LABEL: labels[QUEUE_LABEL],
    }
    if labels.get(PRIORITY_CLASS_LABEL):
        template_labels[PRIORITY_CLASS_LABEL] = labels[PRIORITY_CLASS_LABEL]
    template.setdefault("labels", {}).update(template_labels)
    template.setdefault("annotations", {}).update(
        {
            SUSPENDED_BY_PARENT_ANNOTATION: _FRAMEWORK,
            GROUP_TOTAL_COUNT_ANNOTATION: str(_replicas(stateful)),
            GROUP_FAST_ADMISSION_ANNOTATION: "true",
            GROUP_SERVING_ANNOTATION: "true",
            POD_INDEX_LABEL_ANNOTATION: "apps.kubernetes.io/pod-index",
        }
    )


def validate_statefulset(ctx: Admission, stateful: Obj, old: Mapping[str, Any] | None) -> None:
    if _FRAMEWORK not in Configuration(ctx.get).frameworks:
        return
    errors = queue_change_errors(stateful, old)
    if old is not None and is_managed_by_kueue(ctx, _FRAMEWORK, stateful):
        new_shape, old_shape = (role_shape(obj["spec"]["template"]["spec"]) for obj in (stateful, old))
        errors += [*_immutable_errors(new_shape, old_shape, "spec.template.spec"), *_replica_errors(ctx, stateful, old)]
    raise_if_invalid(ctx, errors)


def _replicas(stateful: Mapping[str, Any]) -> int:
    return int(stateful["spec"].get("replicas", 1))


def _immutable_errors(new: Any, old: Any, path: str) -> Iterator[FieldError]:
    """One error for each field of a spec that changed."""
    if isinstance(new, dict) and isinstance(old, dict) and not path.endswith((".requests", ".nodeSelector", ".overhead")):
        for key in dict.fromkeys([*new, *old]):
            yield from _immutable_errors(new.get(key), old.get(key), f"{path}.{key}")
    elif isinstance(new, list) and isinstance(old, list) and len(new) == len(old) and path.endswith("ontainers"):
        for index, pair in enumerate(zip(new, old, strict=True)):
            yield from _immutable_errors(*pair, f"{path}[{index}]")
    elif new != old:
        yield invalid(path, new, "field is immutable")


def _replica_errors(ctx: Admission, stateful: Obj, old: Mapping[str, Any]) -> Iterator[FieldError]:
    """A queued StatefulSet scales down to zero only, and up from zero once its pods and its Workload are deleted."""
    path, new_replicas, old_replicas = "spec.replicas", _replicas(stateful), _replicas(old)
    if new_replicas and old_replicas and new_replicas != old_replicas:
        yield invalid(path, new_replicas, "field is immutable")
    if new_replicas and not old_replicas:
        if (stateful.get("status") or {}).get("replicas"):
            yield forbidden(path, "scaling down is still in progress")
        elif ctx.get(WORKLOADS, ctx.namespace, pod_group_name(stateful["metadata"]["name"])) is not None:
            yield forbidden(path, "workload from previous scale-down is still being deleted")


class StatefulSetReconciler(Controller[NamespacedName]):
    """Releases pods whose StatefulSet is deleted or replaces them, and removes the finalizer of finished pods."""

    watches = frozenset({STATEFUL_SETS, PODS})

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._groups = context.shared_index(PodGroupIndex)
        self._writer = ApiWriter(context, USER, fieldManager=FIELD_MANAGER)

    def observe(self, change: Change) -> None:
        if change.resource == STATEFUL_SETS:
            if _QUEUE_LABEL in change.entry.data:
                self.queue.add((change.namespace, change.name))
        elif annotation(change.obj, SUSPENDED_BY_PARENT_ANNOTATION) == _FRAMEWORK:
            owner = controller_of(change.obj)
            if owner is not None and owner["kind"] == "StatefulSet":
                self.queue.add((change.namespace, owner["name"]))

    async def sync(self, key: NamespacedName) -> None:
        namespace, name = key
        stateful = self.context.get(STATEFUL_SETS, namespace, name)
        for pod_name in list(self._groups.names.get((namespace, pod_group_name(name)), ())):
            pod = self.context.get(PODS, namespace, pod_name)
            if pod is not None:
                await self._release(pod, orphaned=_is_orphaned(stateful, pod))

    async def _release(self, pod: Obj, *, orphaned: bool) -> None:
        change: Obj = {}
        if orphaned and is_gated(pod):
            change["spec"] = {
                "schedulingGates": [gate for gate in pod["spec"]["schedulingGates"] if gate["name"] != SCHEDULING_GATES[0]]
            }
        if (orphaned or is_finished(pod)) and is_managed(pod):
            change["metadata"] = {"finalizers": [name for name in pod["metadata"]["finalizers"] if name != MANAGED]}
        if not change:
            return
        with suppress(NotFound):
            await self._writer.patch(object_key(PODS, pod), change)


def _is_orphaned(stateful: Mapping[str, Any] | None, pod: Mapping[str, Any]) -> bool:
    """Whether a pod's StatefulSet is deleted, or is replacing the pods of this revision."""
    if stateful is None:
        return True
    status = stateful.get("status") or {}
    current = status.get("currentRevision")
    return bool(current != status.get("updateRevision") and current == (pod["metadata"].get("labels") or {}).get(_REVISION_LABEL))
