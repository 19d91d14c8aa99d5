"""The names that Kueue puts on things and reads from them."""

from __future__ import annotations

from hashlib import sha1
from typing import Any

from sliceworks.twin.auth.identity import MASTERS, User

Obj = dict[str, Any]

GROUP = "kueue.x-k8s.io"
API_VERSION = f"{GROUP}/v1beta2"
CLUSTER_QUEUES = f"{GROUP}/clusterqueues"
COHORTS = f"{GROUP}/cohorts"
LOCAL_QUEUES = f"{GROUP}/localqueues"
FLAVORS = f"{GROUP}/resourceflavors"
WORKLOADS = f"{GROUP}/workloads"
CHECKS = f"{GROUP}/admissionchecks"
PRIORITIES = f"{GROUP}/workloadpriorityclasses"
NAMESPACES = "/namespaces"
JOBS = "batch/jobs"
JOBSETS = "jobset.x-k8s.io/jobsets"
PODS = "/pods"
DEPLOYMENTS = "apps/deployments"
REPLICASETS = "apps/replicasets"
STATEFULSETS = "apps/statefulsets"

QUEUE = f"{GROUP}/queue-name"
JOB_UID = f"{GROUP}/job-uid"
PRIORITY = f"{GROUP}/priority-class"
MOST_SECONDS = f"{GROUP}/max-exec-time-seconds"
PODSET = f"{GROUP}/podset"
WORKLOAD = f"{GROUP}/workload"
IN_USE = f"{GROUP}/resource-in-use"
LEAST_PODS = f"{GROUP}/job-min-parallelism"
SAME_COMPLETIONS = f"{GROUP}/job-completions-equal-parallelism"
STOPPING = f"{GROUP}/stopping"
PREBUILT = f"{GROUP}/prebuilt-workload-name"

# Pods and groups of pods.
MANAGED = f"{GROUP}/managed"
"""A label of the pods that wait in queues or did, and the name of the finalizer that holds them."""
GATES = (f"{GROUP}/admission", f"{GROUP}/topology")
PARENT = f"{GROUP}/pod-suspending-parent"
GROUP_NAME = f"{GROUP}/pod-group-name"
GROUP_TOTAL = f"{GROUP}/pod-group-total-count"
GROUP_FAST = f"{GROUP}/pod-group-fast-admission"
GROUP_SERVING = f"{GROUP}/pod-group-serving"
GROUP_INDEX = f"{GROUP}/pod-group-pod-index"
GROUP_INDEX_FROM = f"{GROUP}/pod-group-pod-index-label"
IS_GROUP = f"{GROUP}/is-group-workload"
RETRIABLE = f"{GROUP}/retriable-in-group"
ROLE = f"{GROUP}/role-hash"
REPLACING = "WaitingForReplacementPods"

RESERVED, ADMITTED, EVICTED, PREEMPTED = "QuotaReserved", "Admitted", "Evicted", "Preempted"
REQUEUED, READY, FINISHED, DEACTIVATING = "Requeued", "PodsReady", "Finished", "DeactivationTarget"

USER = User("system:serviceaccount:kueue-system:kueue-controller-manager", groups=(MASTERS,))
MANAGER = "kueue"
ADMISSION, CONTROLLER = "kueue-admission", "kueue-workload-controller"


def workload_name(kind: str, group: str, name: str, uid: str) -> str:
    """The name of the Workload of a job."""
    digest = sha1("\n".join((kind, group, name, uid)).encode(), usedforsecurity=False).hexdigest()
    return f"{f'{kind.lower()}-{name}'[:247]}-{digest[:5]}"


def path(plural: str, namespace: str, name: str = "", below: str = "") -> str:
    """Where an object of Kueue is served."""
    home = f"/apis/{API_VERSION}" + (f"/namespaces/{namespace}" if namespace else "")
    return f"{home}/{plural}" + (f"/{name}" if name else "") + (f"/{below}" if below else "")
