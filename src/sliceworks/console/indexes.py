"""By what pages find objects without looking through all of a kind."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sliceworks.catalog import labels
from sliceworks.console import kinds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from sliceworks.kube.resources import Object, Resource


def _by_job(pod: Object) -> Iterable[str]:
    """namespace/name of the JobSet that a pod belongs to."""
    name = (pod["metadata"].get("labels") or {}).get(labels.JOBSET_NAME)
    return (f"{pod['metadata']['namespace']}/{name}",) if name else ()


def _by_node(pod: Object) -> Iterable[str]:
    name = (pod.get("spec") or {}).get("nodeName")
    return (name,) if name else ()


def _by_owner(workload: Object) -> Iterable[str]:
    """uid of what a Workload stands for."""
    return tuple(each["uid"] for each in workload["metadata"].get("ownerReferences") or ())


def _by_queue(workload: Object) -> Iterable[str]:
    """namespace/name of the LocalQueue that a Workload is in."""
    name = (workload.get("spec") or {}).get("queueName")
    return (f"{workload['metadata']['namespace']}/{name}",) if name else ()


def _by_holding(workload: Object) -> Iterable[str]:
    """The ClusterQueue whose quota a Workload has."""
    name = ((workload.get("status") or {}).get("admission") or {}).get("clusterQueue")
    return (name,) if name else ()


def _by_pool(node: Object) -> Iterable[str]:
    name = (node["metadata"].get("labels") or {}).get(labels.NODE_POOL)
    return (name,) if name else ()


def _by_subject(event: Object) -> Iterable[str]:
    """uid of what an event is about."""
    uid = (event.get("involvedObject") or {}).get("uid")
    return (uid,) if uid else ()


INDEXES: dict[Resource, dict[str, Callable[[Object], Iterable[str]]]] = {
    kinds.PODS: {"job": _by_job, "node": _by_node},
    kinds.WORKLOADS: {"owner": _by_owner, "queue": _by_queue, "holds": _by_holding},
    kinds.NODES: {"pool": _by_pool},
    kinds.EVENTS: {"subject": _by_subject},
}
