"""Kueue's cache: one index of the cluster's objects for all of its controllers, which feeds the queue manager."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.base import clock
from sliceworks.base.conditions import is_condition_true
from sliceworks.kube.resources import controller_of
from sliceworks.kube.selectors import LabelSelector, from_label_selector
from sliceworks.twin.controllers.kueue import model_builder, workload_status
from sliceworks.twin.controllers.kueue.configuration import CONFIG_MAP_NAME, parse_configuration
from sliceworks.twin.controllers.kueue.core.queue_manager import Inadmissible, QueueManager
from sliceworks.twin.controllers.kueue.core.workload_queue import NAMESPACE_MISMATCH
from sliceworks.twin.controllers.kueue.kueue_api import (
    ADMISSION_CHECKS,
    ADMITTED,
    CLUSTER_QUEUES,
    COHORTS,
    FINISHED,
    IS_GROUP_WORKLOAD_ANNOTATION,
    LOCAL_QUEUES,
    PODS_READY,
    QUOTA_RESERVED,
    RESOURCE_FLAVORS,
    WORKLOADS,
    Obj,
)
from sliceworks.twin.controllers.runtime.resource_keys import CONFIG_MAPS, NAMESPACES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sliceworks.twin.controllers.kueue.core.model import WorkloadInfo, WorkloadKey
    from sliceworks.twin.controllers.runtime.controller import Change

JobKey = tuple[str, str, str]
"""The kind, namespace and name of a job."""
WATCHED_RESOURCES = frozenset({CLUSTER_QUEUES, COHORTS, LOCAL_QUEUES, RESOURCE_FLAVORS, WORKLOADS, ADMISSION_CHECKS, NAMESPACES})


class Cache:
    """Follows Kueue's objects.

    `workloads_by_owner` has the Workloads of each job, `workloads_by_queue` those of each LocalQueue. `assumed` are Workloads
    that the scheduler admitted but whose status is not written yet. `admitted` and `pods_ready` are those with these conditions.
    """

    watches = WATCHED_RESOURCES | {CONFIG_MAPS}

    def __init__(self) -> None:
        self.queue_manager = QueueManager(self._check_head)
        self.cluster_queues: dict[str, Obj] = {}
        self.local_queues: dict[WorkloadKey, Obj] = {}
        self.workloads_by_owner: dict[JobKey, dict[WorkloadKey, None]] = {}
        self.workloads_by_queue: dict[WorkloadKey, set[WorkloadKey]] = {}
        self.assumed: set[WorkloadKey] = set()
        self.admitted: set[WorkloadKey] = set()
        self.pods_ready: set[WorkloadKey] = set()
        self._failed_checks: set[WorkloadKey] = set()
        self._active_checks: dict[str, bool] = {}
        self._namespace_labels: dict[str, dict[str, str]] = {}
        self._selectors: dict[str, LabelSelector] = {}
        self._owners: dict[WorkloadKey, JobKey] = {}
        self._local_queue_of: dict[WorkloadKey, WorkloadKey] = {}
        self._handlers: dict[str, Callable[[Change], None]] = {
            CLUSTER_QUEUES: self._update_cluster_queue,
            COHORTS: self._update_cohort,
            LOCAL_QUEUES: self._update_local_queue,
            RESOURCE_FLAVORS: self._update_flavor,
            WORKLOADS: self._update_workload,
            ADMISSION_CHECKS: self._update_admission_check,
            NAMESPACES: self._update_namespace,
            CONFIG_MAPS: self._update_configuration,
        }
        self._by_eviction = True

    def observe(self, change: Change) -> None:
        self._handlers[change.resource](change)

    def _update_configuration(self, change: Change) -> None:
        if (change.namespace, change.name) == CONFIG_MAP_NAME:
            pods_ready = parse_configuration(change.obj if change.type != "DELETED" else None).pods_ready
            self._by_eviction = pods_ready is None or pods_ready.by_eviction

    # Queues, cohorts, flavors, admission checks and namespaces.

    def _update_cluster_queue(self, change: Change) -> None:
        name = change.name
        if change.type == "DELETED":
            self.cluster_queues.pop(name, None)
            self._selectors.pop(name, None)
            self.queue_manager.drop_cluster_queue(name)
            return
        obj, old = change.obj, self.cluster_queues.get(name)
        if old is None or spec_of(old) != spec_of(obj):
            self._selectors[name] = from_label_selector(spec_of(obj).get("namespaceSelector"))
            self.queue_manager.put_cluster_queue(name, model_builder.build_cluster_queue(obj))
        self.cluster_queues[name] = obj
        self.queue_manager.set_active(name, self.inactive_reason(name) is None)

    def _update_cohort(self, change: Change) -> None:
        if change.type == "DELETED":
            self.queue_manager.drop_cohort(change.name)
        else:
            spec = spec_of(change.obj)
            self.queue_manager.put_cohort(change.name, spec.get("parentName") or "", model_builder.build_quotas(spec))

    def _update_local_queue(self, change: Change) -> None:
        key = (change.namespace, change.name)
        if change.type == "DELETED":
            self.local_queues.pop(key, None)
            self.queue_manager.drop_local_queue(key)
            return
        self.local_queues[key] = change.obj
        if is_stopped(change.obj):
            self.queue_manager.drop_local_queue(key)
        else:
            self.queue_manager.put_local_queue(key, spec_of(change.obj).get("clusterQueue") or "")

    def _update_flavor(self, change: Change) -> None:
        if change.type == "DELETED":
            self.queue_manager.drop_flavor(change.name)
        else:
            flavor = model_builder.build_flavor(change.obj)
            if self.queue_manager.flavors.get(change.name) == flavor:
                return
            self.queue_manager.put_flavor(flavor)
        self._update_active_queues()

    def _update_admission_check(self, change: Change) -> None:
        if change.type == "DELETED":
            self._active_checks.pop(change.name, None)
        else:
            self._active_checks[change.name] = is_condition_true(change.obj, "Active")
        self._update_active_queues()

    def _update_active_queues(self) -> None:
        for name in self.cluster_queues:
            was_active = self.queue_manager.tree.cluster_queues[name].active
            self.queue_manager.set_active(name, self.inactive_reason(name) is None)
            if not was_active:
                self.queue_manager.requeue_cluster_queue(name)

    def _update_namespace(self, change: Change) -> None:
        if change.type == "DELETED":
            self._namespace_labels.pop(change.name, None)
            return
        labels = change.obj["metadata"].get("labels") or {}
        if self._namespace_labels.get(change.name) != labels:
            self._namespace_labels[change.name] = labels
            for name in self.cluster_queues:
                self.queue_manager.requeue_cluster_queue(name)

    def inactive_reason(self, name: str) -> tuple[str, str] | None:
        """Why a ClusterQueue cannot admit workloads, as reason and message; None when it is active."""
        obj = self.cluster_queues[name]
        if obj["metadata"].get("deletionTimestamp"):
            return "Terminating", "Can't admit new workloads; clusterQueue is terminating"
        checks = sorted(checks_of(obj))
        missing_flavors = [flavor for flavor in flavors_of(obj) if flavor not in self.queue_manager.flavors]
        missing_checks = [check for check in checks if check not in self._active_checks]
        inactive_checks = [check for check in checks if self._active_checks.get(check) is False]
        reasons: list[tuple[str, str]] = []
        if is_stopped(obj):
            reasons.append(("Stopped", "is stopped"))
        for reason, description, names in (
            ("FlavorNotFound", "missing ResourceFlavor(s)", missing_flavors),
            ("AdmissionCheckNotFound", "missing AdmissionCheck(s)", missing_checks),
            ("AdmissionCheckInactive", "inactive AdmissionCheck(s)", inactive_checks),
        ):
            if names:
                reasons.append((reason, f"references {description}: {','.join(names)}"))
        if not reasons:
            return None
        return reasons[0][0], f"Can't admit new workloads: {', '.join(message for _, message in reasons)}."

    # Workloads.

    def _update_workload(self, change: Change) -> None:
        key = (change.namespace, change.name)
        if change.type == "DELETED":
            self._drop_workload(key)
            return
        obj = change.obj
        self._index_workload(key, obj)
        if is_condition_true(obj, FINISHED) or not workload_status.is_active(obj):
            self.assumed.discard(key)
            self.queue_manager.delete_workload(key)
        elif is_condition_true(obj, QUOTA_RESERVED):
            self._update_reserved(key, obj)
        elif key not in self.assumed:
            self._update_pending(key, obj)

    def _index_workload(self, key: WorkloadKey, obj: Mapping[str, Any]) -> None:
        owner = owner_of(obj)
        if owner is not None:
            self._owners[key] = owner
            self.workloads_by_owner.setdefault(owner, {})[key] = None
        local_queue = (key[0], obj["spec"].get("queueName") or "")
        old_queue = self._local_queue_of.get(key)
        if old_queue != local_queue:
            if old_queue is not None:
                self.workloads_by_queue[old_queue].discard(key)
            self._local_queue_of[key] = local_queue
            self.workloads_by_queue.setdefault(local_queue, set()).add(key)
        for keys, holds in (
            (self.admitted, is_condition_true(obj, ADMITTED)),
            (self.pods_ready, is_condition_true(obj, PODS_READY)),
            (self._failed_checks, workload_status.has_check_in_state(obj, "Retry", "Rejected")),
        ):
            (keys.add if holds else keys.discard)(key)

    def _drop_workload(self, key: WorkloadKey) -> None:
        for keys in (self.assumed, self.admitted, self.pods_ready, self._failed_checks):
            keys.discard(key)
        self.queue_manager.delete_workload(key)
        owner = self._owners.pop(key, None)
        if owner is not None:
            del self.workloads_by_owner[owner][key]
            if not self.workloads_by_owner[owner]:
                del self.workloads_by_owner[owner]
        local_queue = self._local_queue_of.pop(key, None)
        if local_queue is not None:
            self.workloads_by_queue[local_queue].discard(key)

    def _build_workload(self, obj: Obj) -> WorkloadInfo:
        return model_builder.build_workload(obj, clock.timestamp(), by_eviction=self._by_eviction)

    def _update_reserved(self, key: WorkloadKey, obj: Obj) -> None:
        new = self._build_workload(obj)
        old = self.queue_manager.workloads.get(key)
        queue = self.queue_manager.tree.cluster_queues.get(new.cluster_queue)
        self.assumed.discard(key)
        if old is not None and queue is not None and self.queue_manager.has_quota(old) and old.usage == new.usage:
            if old.priority != new.priority:
                old.priority = new.priority
                self.queue_manager.requeue_cluster_queue(queue.name)
            old.evicted, old.reserved_at, old.time, old.user_data = new.evicted, new.reserved_at, new.time, new.user_data
            return
        self.queue_manager.reserve(new)
        if old is not None and old.cluster_queue == new.cluster_queue:
            self.queue_manager.requeue_cluster_queue(new.cluster_queue)

    def _update_pending(self, key: WorkloadKey, obj: Obj) -> None:
        new = self._build_workload(obj)
        old = self.queue_manager.workloads.get(key)
        unchanged = (
            old is not None
            and not self.queue_manager.has_quota(old)
            and (old.user_data, old.in_backoff) == (new.user_data, new.in_backoff)
        )
        if not unchanged:
            self.queue_manager.add_or_update_workload(new)

    def requeue_workload(self, key: WorkloadKey, obj: Obj | None) -> None:
        """Queue a Workload again whose admission could not be written."""
        if obj is not None and not is_condition_true(obj, QUOTA_RESERVED):
            self._update_pending(key, obj)

    def _check_head(self, workload: WorkloadInfo) -> Inadmissible | None:
        namespace = workload.key[0]
        if workload.key in self._failed_checks:
            return Inadmissible(workload, "The workload has failed admission checks")
        labels = self._namespace_labels.get(namespace)
        if labels is None:
            return Inadmissible(workload, f'Could not obtain workload namespace: Namespace "{namespace}" not found')
        if not self._selectors[workload.cluster_queue].matches(labels):
            return Inadmissible(workload, "Workload namespace doesn't match ClusterQueue selector", NAMESPACE_MISMATCH)
        return None


def owner_of(obj: Mapping[str, Any]) -> JobKey | None:
    """The job that owns a Workload."""
    metadata = obj["metadata"]
    if IS_GROUP_WORKLOAD_ANNOTATION in (metadata.get("annotations") or {}):
        return "PodGroup", metadata["namespace"], metadata["name"]
    owner = controller_of(obj)
    return (owner["kind"], metadata["namespace"], owner["name"]) if owner else None


def spec_of(queue: Mapping[str, Any]) -> Mapping[str, Any]:
    """The spec of a queue or Cohort, which may be missing."""
    return queue.get("spec") or {}


def is_stopped(obj: Mapping[str, Any]) -> bool:
    return (spec_of(obj).get("stopPolicy") or "None") != "None"


def flavors_of(obj: Mapping[str, Any]) -> list[str]:
    """The flavors of a ClusterQueue, in order."""
    return [flavor["name"] for group in spec_of(obj).get("resourceGroups") or () for flavor in group["flavors"]]


def checks_of(obj: Mapping[str, Any]) -> dict[str, set[str]]:
    """The admission checks of a ClusterQueue, each with the flavors that it applies to."""
    all_flavors = set(flavors_of(obj))
    rules = (spec_of(obj).get("admissionChecksStrategy") or {}).get("admissionChecks") or ()
    return {rule["name"]: set(rule.get("onFlavors") or ()) or all_flavors for rule in rules}


def checks_for(queue: Mapping[str, Any], workload: Mapping[str, Any]) -> set[str]:
    """The checks that a Workload must pass; checks of single flavors are known once flavors are assigned."""
    checks, all_flavors = checks_of(queue), set(flavors_of(queue))
    if all(flavors == all_flavors for flavors in checks.values()):
        return set(checks)
    admission = (workload.get("status") or {}).get("admission")
    if not admission:
        return set()
    assigned = {flavor for pods in admission["podSetAssignments"] for flavor in (pods.get("flavors") or {}).values()}
    return {name for name, flavors in checks.items() if flavors & assigned}
