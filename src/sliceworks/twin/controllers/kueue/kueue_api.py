"""Names, labels, annotations and condition types of Kueue's API."""

from __future__ import annotations

from hashlib import sha1
from typing import Any

from sliceworks.twin.apiserver.auth.authentication import MASTERS, User

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
NAMESPACES = "/namespaces"
JOBS = "batch/jobs"
JOBSETS = "jobset.x-k8s.io/jobsets"
PODS = "/pods"
DEPLOYMENTS = "apps/deployments"
REPLICASETS = "apps/replicasets"
STATEFULSETS = "apps/statefulsets"

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


def workload_name(kind: str, group: str, name: str, uid: str) -> str:
    """The name that Kueue gives to the Workload of a job."""
    digest = sha1("\n".join((kind, group, name, uid)).encode(), usedforsecurity=False).hexdigest()
    return f"{f'{kind.lower()}-{name}'[:247]}-{digest[:5]}"


def path(plural: str, namespace: str, name: str = "", subresource: str = "") -> str:
    """The URL path of an object or collection of Kueue's API."""
    base = f"/apis/{API_VERSION}" + (f"/namespaces/{namespace}" if namespace else "")
    return f"{base}/{plural}" + (f"/{name}" if name else "") + (f"/{subresource}" if subresource else "")
