"""The kinds that pages read: resources, indexes, and the fields that the cache keeps."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final

from sliceworks.catalog import labels
from sliceworks.kube import resources

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from sliceworks.kube.resources import Object, Resource

NAMESPACES: Final = resources.NAMESPACE
NODES: Final = resources.NODE
PODS: Final = resources.POD
EVENTS: Final = resources.CORE_EVENT
JOBSETS: Final = resources.JOBSET
WORKLOADS: Final = resources.WORKLOAD
LOCAL_QUEUES: Final = resources.LOCAL_QUEUE
COHORTS: Final = resources.COHORT
FLAVORS: Final = resources.RESOURCE_FLAVOR
ADMISSION_CHECKS: Final = resources.ADMISSION_CHECK
CLUSTER_QUEUES: Final = resources.CLUSTER_QUEUE

# Kinds that are loaded at startup, so that the first page opens at once.
PRELOADED: Final = (NAMESPACES, CLUSTER_QUEUES, LOCAL_QUEUES, JOBSETS, WORKLOADS, NODES, PODS, EVENTS)

# The component to name when a kind is not installed, by API group.
INSTALLED_BY: Final = {
    "jobset.x-k8s.io": "JobSet",
    "kueue.x-k8s.io": "Kueue",
    "kro.run": "The graph controller",
}


def _by_job(pod: Object) -> Iterable[str]:
    """namespace/name of the JobSet that a pod belongs to."""
    name = (pod["metadata"].get("labels") or {}).get(labels.JOBSET_NAME)
    return (f"{pod['metadata']['namespace']}/{name}",) if name else ()


def _by_node(pod: Object) -> Iterable[str]:
    name = (pod.get("spec") or {}).get("nodeName")
    return (name,) if name else ()


def _by_owner(workload: Object) -> Iterable[str]:
    """uid of the owner of a Workload."""
    return tuple(reference["uid"] for reference in workload["metadata"].get("ownerReferences") or ())


def _by_queue(workload: Object) -> Iterable[str]:
    """namespace/name of the LocalQueue of a Workload."""
    name = (workload.get("spec") or {}).get("queueName")
    return (f"{workload['metadata']['namespace']}/{name}",) if name else ()


def _by_admission(workload: Object) -> Iterable[str]:
    """The ClusterQueue that admitted a Workload."""
    name = ((workload.get("status") or {}).get("admission") or {}).get("clusterQueue")
    return (name,) if name else ()


def _by_pool(node: Object) -> Iterable[str]:
    name = (node["metadata"].get("labels") or {}).get(labels.NODE_POOL)
    return (name,) if name else ()


def _by_subject(event: Object) -> Iterable[str]:
    """uid of the involved object of an event."""
    uid = (event.get("involvedObject") or {}).get("uid")
    return (uid,) if uid else ()


INDEXES: dict[Resource, dict[str, Callable[[Object], Iterable[str]]]] = {
    PODS: {"job": _by_job, "node": _by_node},
    WORKLOADS: {"owner": _by_owner, "queue": _by_queue, "holds": _by_admission},
    NODES: {"pool": _by_pool},
    EVENTS: {"subject": _by_subject},
}

_Object = dict[str, Any]

_METADATA = (
    "name",
    "namespace",
    "uid",
    "resourceVersion",
    "labels",
    "annotations",
    "creationTimestamp",
    "deletionTimestamp",
    "ownerReferences",
)

_CONTAINER = ("name", "image", "ports", "resources")
_POD_SPEC = ("nodeName", "nodeSelector", "schedulingGates")
_POD_STATUS = ("phase", "reason", "message", "podIP", "conditions", "containerStatuses")


def trim(obj: _Object) -> _Object:
    """Remove the fields that no page reads."""
    obj["metadata"].pop("managedFields", None)
    return _pod(obj) if obj.get("kind") == "Pod" else obj


def _pod(pod: _Object) -> _Object:
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    pod_spec: _Object = {key: spec[key] for key in _POD_SPEC if key in spec}
    pod_spec["containers"] = [
        {key: container[key] for key in _CONTAINER if key in container} for container in spec.get("containers") or ()
    ]
    metadata = {key: pod["metadata"][key] for key in _METADATA if key in pod["metadata"]}
    if "labels" in metadata:
        # Most pods share their labels: interning saves memory.
        metadata["labels"] = {sys.intern(key): sys.intern(str(value)) for key, value in metadata["labels"].items()}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": pod_spec,
        "status": {key: status[key] for key in _POD_STATUS if key in status},
    }
