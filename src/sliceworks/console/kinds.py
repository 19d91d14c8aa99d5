"""The kinds that pages read, by short names. A page that needs another opens it: `world.table(resource)`."""

from __future__ import annotations

from typing import Final

from sliceworks.kube import well_known
from sliceworks.kube.resources import Resource

NAMESPACES: Final = well_known.NAMESPACE
NODES: Final = well_known.NODE
PODS: Final = well_known.POD
EVENTS: Final = well_known.CORE_EVENT
JOBSETS: Final = Resource("jobset.x-k8s.io", "v1alpha2", "JobSet", "jobsets")
_KUEUE = ("kueue.x-k8s.io", "v1beta2")
WORKLOADS: Final = Resource(*_KUEUE, "Workload", "workloads")
LOCAL_QUEUES: Final = Resource(*_KUEUE, "LocalQueue", "localqueues")
COHORTS: Final = Resource(*_KUEUE, "Cohort", "cohorts", namespaced=False)
FLAVORS: Final = Resource(*_KUEUE, "ResourceFlavor", "resourceflavors", namespaced=False)
CHECKS: Final = Resource(*_KUEUE, "AdmissionCheck", "admissionchecks", namespaced=False)
CLUSTER_QUEUES: Final = Resource(*_KUEUE, "ClusterQueue", "clusterqueues", namespaced=False)

# What is read from the beginning, so that the first page is there at once.
FROM_THE_BEGINNING: Final = (NAMESPACES, CLUSTER_QUEUES, LOCAL_QUEUES, JOBSETS, WORKLOADS, NODES, PODS, EVENTS)

# What a person knows a kind by, where it is not installed.
INSTALLED_BY: Final = {
    "jobset.x-k8s.io": "JobSet",
    "kueue.x-k8s.io": "Kueue",
    "kro.run": "The graph controller",
}
