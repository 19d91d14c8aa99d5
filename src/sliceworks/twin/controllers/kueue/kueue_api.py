"""Names, labels, annotations and condition types of Kueue's API."""

from __future__ import annotations

from hashlib import sha1
from typing import TYPE_CHECKING, Any

from sliceworks.twin.apiserver.auth.authentication import MASTERS, User

if TYPE_CHECKING:
    from collections.abc import Mapping

Obj = dict[str, Any]

GROUP = "kueue.x-k8s.io"
API_VERSION = f"{GROUP}/v1beta2"
CLUSTER_QUEUES = f"{GROUP}/clusterqueues"
COHORTS = f"{GROUP}/cohorts"
LOCAL_QUEUES = f"{GROUP}/localqueues"
RESOURCE_FLAVORS = f"{GROUP}/resourceflavors"
WORKLOADS = f"{GROUP}/workloads"
ADMISSION_CHECKS = f"{GROUP}/admissionchecks"
WORKLOAD_PRIORITY_CLASSES = f"{GROUP}/workloadpriorityclasses"

QUEUE_LABEL = f"{GROUP}/queue-name"
JOB_UID_LABEL = f"{GROUP}/job-uid"
PRIORITY_CLASS_LABEL = f"{GROUP}/priority-class"
MAX_EXEC_TIME_SECONDS_LABEL = f"{GROUP}/max-exec-time-seconds"
POD_SET_LABEL = f"{GROUP}/podset"
WORKLOAD_ANNOTATION = f"{GROUP}/workload"
RESOURCE_IN_USE_FINALIZER = f"{GROUP}/resource-in-use"
MIN_PARALLELISM_ANNOTATION = f"{GROUP}/job-min-parallelism"
COMPLETIONS_EQUAL_PARALLELISM_ANNOTATION = f"{GROUP}/job-completions-equal-parallelism"
STOPPING_ANNOTATION = f"{GROUP}/stopping"
PREBUILT_WORKLOAD_LABEL = f"{GROUP}/prebuilt-workload-name"

# Pods and pod groups.
MANAGED = f"{GROUP}/managed"
"""The label of pods that Kueue manages, and the finalizer that it puts on them."""
SCHEDULING_GATES = (f"{GROUP}/admission", f"{GROUP}/topology")
SUSPENDED_BY_PARENT_ANNOTATION = f"{GROUP}/pod-suspending-parent"
GROUP_NAME_LABEL = f"{GROUP}/pod-group-name"
GROUP_TOTAL_COUNT_ANNOTATION = f"{GROUP}/pod-group-total-count"
GROUP_FAST_ADMISSION_ANNOTATION = f"{GROUP}/pod-group-fast-admission"
GROUP_SERVING_ANNOTATION = f"{GROUP}/pod-group-serving"
POD_INDEX_LABEL = f"{GROUP}/pod-group-pod-index"
POD_INDEX_LABEL_ANNOTATION = f"{GROUP}/pod-group-pod-index-label"
IS_GROUP_WORKLOAD_ANNOTATION = f"{GROUP}/is-group-workload"
RETRIABLE_IN_GROUP_ANNOTATION = f"{GROUP}/retriable-in-group"
ROLE_HASH_ANNOTATION = f"{GROUP}/role-hash"
WAITING_FOR_REPLACEMENT_PODS = "WaitingForReplacementPods"

QUOTA_RESERVED, ADMITTED, EVICTED, PREEMPTED = "QuotaReserved", "Admitted", "Evicted", "Preempted"
REQUEUED, PODS_READY, FINISHED, DEACTIVATION_TARGET = "Requeued", "PodsReady", "Finished", "DeactivationTarget"

USER = User("system:serviceaccount:kueue-system:kueue-controller-manager", groups=(MASTERS,))
FIELD_MANAGER = "kueue"
ADMISSION_NAME, WORKLOAD_CONTROLLER_NAME = "kueue-admission", "kueue-workload-controller"


def workload_name(kind: str, resource: str, name: str, uid: str) -> str:
    """The name that Kueue gives to the Workload of a job; the group is part of its hash."""
    group = resource.partition("/")[0]
    digest = sha1("\n".join((kind, group, name, uid)).encode(), usedforsecurity=False).hexdigest()
    return f"{f'{kind.lower()}-{name}'[:247]}-{digest[:5]}"


def label_value(obj: Mapping[str, Any], name: str) -> str:
    """The value of a label; empty when it is missing."""
    return str((obj["metadata"].get("labels") or {}).get(name) or "")


def queue_name(job: Mapping[str, Any]) -> str:
    """The LocalQueue of a job; empty when it has none."""
    return label_value(job, QUEUE_LABEL)
