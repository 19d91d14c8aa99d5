"""Resources that need no discovery: the built-in kinds this project works with."""

from __future__ import annotations

from functools import cache
from typing import Final

from sliceworks.kube.resources import GVK, Resource

_STATUS = ("status",)
_SCALED = ("status", "scale")


def _core(kind: str, plural: str, *, namespaced: bool = True, subresources: tuple[str, ...] = ()) -> Resource:
    return Resource("", "v1", kind, plural, namespaced, subresources)


def _v1(group: str, kind: str, plural: str, *, namespaced: bool = True, subresources: tuple[str, ...] = ()) -> Resource:
    return Resource(group, "v1", kind, plural, namespaced, subresources)


CONFIG_MAP: Final = _core("ConfigMap", "configmaps")
CORE_EVENT: Final = _core("Event", "events")
ENDPOINTS: Final = _core("Endpoints", "endpoints")
LIMIT_RANGE: Final = _core("LimitRange", "limitranges")
NAMESPACE: Final = _core("Namespace", "namespaces", namespaced=False, subresources=("finalize", "status"))
NODE: Final = _core("Node", "nodes", namespaced=False, subresources=_STATUS)
PERSISTENT_VOLUME: Final = _core("PersistentVolume", "persistentvolumes", namespaced=False, subresources=_STATUS)
PERSISTENT_VOLUME_CLAIM: Final = _core("PersistentVolumeClaim", "persistentvolumeclaims", subresources=_STATUS)
POD: Final = _core("Pod", "pods", subresources=("binding", "eviction", "log", "status"))
POD_TEMPLATE: Final = _core("PodTemplate", "podtemplates")
RESOURCE_QUOTA: Final = _core("ResourceQuota", "resourcequotas", subresources=_STATUS)
SECRET: Final = _core("Secret", "secrets")
SERVICE: Final = _core("Service", "services", subresources=_STATUS)
SERVICE_ACCOUNT: Final = _core("ServiceAccount", "serviceaccounts", subresources=("token",))

CONTROLLER_REVISION: Final = _v1("apps", "ControllerRevision", "controllerrevisions")
DAEMON_SET: Final = _v1("apps", "DaemonSet", "daemonsets", subresources=_STATUS)
DEPLOYMENT: Final = _v1("apps", "Deployment", "deployments", subresources=_SCALED)
REPLICA_SET: Final = _v1("apps", "ReplicaSet", "replicasets", subresources=_SCALED)
STATEFUL_SET: Final = _v1("apps", "StatefulSet", "statefulsets", subresources=_SCALED)

CRON_JOB: Final = _v1("batch", "CronJob", "cronjobs", subresources=_STATUS)
JOB: Final = _v1("batch", "Job", "jobs", subresources=_STATUS)

HORIZONTAL_POD_AUTOSCALER: Final = Resource(
    "autoscaling", "v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers", subresources=_STATUS
)
POD_DISRUPTION_BUDGET: Final = _v1("policy", "PodDisruptionBudget", "poddisruptionbudgets", subresources=_STATUS)

_RBAC = "rbac.authorization.k8s.io"
CLUSTER_ROLE: Final = _v1(_RBAC, "ClusterRole", "clusterroles", namespaced=False)
CLUSTER_ROLE_BINDING: Final = _v1(_RBAC, "ClusterRoleBinding", "clusterrolebindings", namespaced=False)
ROLE: Final = _v1(_RBAC, "Role", "roles")
ROLE_BINDING: Final = _v1(_RBAC, "RoleBinding", "rolebindings")

_AUTHORIZATION = "authorization.k8s.io"
SELF_SUBJECT_ACCESS_REVIEW: Final = _v1(_AUTHORIZATION, "SelfSubjectAccessReview", "selfsubjectaccessreviews", namespaced=False)
SUBJECT_ACCESS_REVIEW: Final = _v1(_AUTHORIZATION, "SubjectAccessReview", "subjectaccessreviews", namespaced=False)
TOKEN_REVIEW: Final = _v1("authentication.k8s.io", "TokenReview", "tokenreviews", namespaced=False)

CUSTOM_RESOURCE_DEFINITION: Final = _v1(
    "apiextensions.k8s.io", "CustomResourceDefinition", "customresourcedefinitions", namespaced=False, subresources=_STATUS
)
ENDPOINT_SLICE: Final = _v1("discovery.k8s.io", "EndpointSlice", "endpointslices")
EVENT: Final = _v1("events.k8s.io", "Event", "events")
INGRESS: Final = _v1("networking.k8s.io", "Ingress", "ingresses", subresources=_STATUS)
LEASE: Final = _v1("coordination.k8s.io", "Lease", "leases")
NETWORK_POLICY: Final = _v1("networking.k8s.io", "NetworkPolicy", "networkpolicies")
PRIORITY_CLASS: Final = _v1("scheduling.k8s.io", "PriorityClass", "priorityclasses", namespaced=False)
STORAGE_CLASS: Final = _v1("storage.k8s.io", "StorageClass", "storageclasses", namespaced=False)


@cache
def _by_gvk() -> dict[GVK, Resource]:
    return {value.gvk: value for value in globals().values() if isinstance(value, Resource)}


def well_known(gvk: GVK) -> Resource | None:
    """The resource of a built-in kind, where no cluster needs to be asked for it."""
    return _by_gvk().get(gvk)
