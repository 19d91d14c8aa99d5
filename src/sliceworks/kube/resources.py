"""Group, version, kind and resource paths; built-in resources that need no discovery, and the resources of JobSet and Kueue."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias
from urllib.parse import quote

from sliceworks.base.errors import BadRequest, UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

Object: TypeAlias = dict[str, Any]
_PLAIN_SEGMENT = re.compile(r"[A-Za-z0-9._~:-]+\Z")


class GVK(NamedTuple):
    """Group, version and kind of an object."""

    group: str
    version: str
    kind: str

    @property
    def api_version(self) -> str:
        return format_api_version(self.group, self.version)

    def __str__(self) -> str:
        return f"{self.api_version}, Kind={self.kind}"


class Key(NamedTuple):
    """Namespace and name of an object; the namespace is empty for cluster-scoped objects."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


@dataclass(frozen=True, slots=True)
class Resource:
    """One served resource. `subresources`, `verbs`, `short_names` and `categories` may be empty for resources not from
    discovery."""

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool = True
    subresources: tuple[str, ...] = ()
    singular: str = ""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ()

    @property
    def api_version(self) -> str:
        return format_api_version(self.group, self.version)

    @property
    def gvk(self) -> GVK:
        return GVK(self.group, self.version, self.kind)

    @property
    def qualified(self) -> str:
        """The plural name with its group: `deployments.apps`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def path(self, namespace: str | None = None, name: str | None = None, subresource: str | None = None) -> str:
        """The percent-encoded path of the collection, of an object, or of a subresource."""
        path = f"/apis/{self.group}/{self.version}/" if self.group else f"/api/{self.version}/"
        if namespace and self.namespaced:
            path += f"namespaces/{_segment(namespace)}/"
        elif name is not None and self.namespaced:
            raise UsageError(f"{self.kind} {name}: namespace is required")
        path += self.plural
        if name is not None:
            path += "/" + _segment(name)
            if subresource:
                path += "/" + subresource
        return path


def resource_of_crd(crd: Mapping[str, Any]) -> Resource:
    """The resource of a CustomResourceDefinition, in its storage version."""
    spec = crd["spec"]
    version = next(version for version in spec["versions"] if version.get("storage"))
    names, subresources = spec["names"], tuple(version.get("subresources") or ())
    return Resource(spec["group"], version["name"], names["kind"], names["plural"], spec.get("scope") != "Cluster", subresources)


def format_api_version(group: str, version: str) -> str:
    """The `apiVersion` of a group and version; the core group is empty."""
    return f"{group}/{version}" if group else version


def parse_api_version(api_version: str) -> tuple[str, str]:
    """Group and version of an `apiVersion`; the core group is empty."""
    group, slash, version = api_version.partition("/")
    if not slash:
        group, version = "", group
    if not version or "/" in version:
        raise BadRequest(f"unexpected GroupVersion string: {api_version}")
    return group, version


def gvk_of(obj: Mapping[str, Any]) -> GVK:
    """Group, version and kind of an object."""
    api_version, kind = obj.get("apiVersion"), obj.get("kind")
    if not isinstance(api_version, str) or not api_version:
        raise UsageError(f"{_describe(obj)}: apiVersion is required")
    if not isinstance(kind, str) or not kind:
        raise UsageError(f"{_describe(obj)}: kind is required")
    return GVK(*parse_api_version(api_version), kind)


def key_of(obj: Mapping[str, Any]) -> Key:
    """Namespace and name of an object."""
    metadata = obj["metadata"]
    return Key(metadata.get("namespace", ""), metadata.get("name", ""))


def owner_reference(owner: Mapping[str, Any], *, controller: bool = True, block: bool = True) -> Object:
    """An `ownerReferences` entry for this owner."""
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": controller,
        "blockOwnerDeletion": block,
    }


def controller_of(obj: Mapping[str, Any]) -> Object | None:
    """The owner reference to the controller of an object."""
    for reference in obj["metadata"].get("ownerReferences") or ():
        if reference.get("controller"):
            controller: Object = reference
            return controller
    return None


def _segment(name: str) -> str:
    if not name or name in (".", ".."):
        raise UsageError(f"{name!r} is not a valid path segment")
    return name if _PLAIN_SEGMENT.match(name) else quote(name, safe=":~")


def _describe(obj: Mapping[str, Any]) -> str:
    name = (obj.get("metadata") or {}).get("name")
    return " ".join(str(part) for part in (obj.get("kind") or "object", name) if part)


_STATUS = ("status",)
_SCALED = ("status", "scale")


def _v1(group: str, kind: str, plural: str, *, namespaced: bool = True, subresources: tuple[str, ...] = ()) -> Resource:
    return Resource(group, "v1", kind, plural, namespaced, subresources)


CONFIG_MAP: Final = _v1("", "ConfigMap", "configmaps")
CORE_EVENT: Final = _v1("", "Event", "events")
ENDPOINTS: Final = _v1("", "Endpoints", "endpoints")
LIMIT_RANGE: Final = _v1("", "LimitRange", "limitranges")
NAMESPACE: Final = _v1("", "Namespace", "namespaces", namespaced=False, subresources=("finalize", "status"))
NODE: Final = _v1("", "Node", "nodes", namespaced=False, subresources=_STATUS)
PERSISTENT_VOLUME: Final = _v1("", "PersistentVolume", "persistentvolumes", namespaced=False, subresources=_STATUS)
PERSISTENT_VOLUME_CLAIM: Final = _v1("", "PersistentVolumeClaim", "persistentvolumeclaims", subresources=_STATUS)
POD: Final = _v1("", "Pod", "pods", subresources=("binding", "eviction", "log", "status"))
POD_TEMPLATE: Final = _v1("", "PodTemplate", "podtemplates")
RESOURCE_QUOTA: Final = _v1("", "ResourceQuota", "resourcequotas", subresources=_STATUS)
SECRET: Final = _v1("", "Secret", "secrets")
SERVICE: Final = _v1("", "Service", "services", subresources=_STATUS)
SERVICE_ACCOUNT: Final = _v1("", "ServiceAccount", "serviceaccounts", subresources=("token",))
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


_BUILTIN: Final = {value.gvk: value for value in tuple(globals().values()) if isinstance(value, Resource)}


def _kueue(kind: str, plural: str, *, namespaced: bool = False) -> Resource:
    return Resource("kueue.x-k8s.io", "v1beta2", kind, plural, namespaced, _STATUS)


JOBSET: Final = Resource("jobset.x-k8s.io", "v1alpha2", "JobSet", "jobsets", subresources=_STATUS)
ADMISSION_CHECK: Final = _kueue("AdmissionCheck", "admissionchecks")
CLUSTER_QUEUE: Final = _kueue("ClusterQueue", "clusterqueues")
COHORT: Final = _kueue("Cohort", "cohorts")
LOCAL_QUEUE: Final = _kueue("LocalQueue", "localqueues", namespaced=True)
RESOURCE_FLAVOR: Final = _kueue("ResourceFlavor", "resourceflavors")
WORKLOAD: Final = _kueue("Workload", "workloads", namespaced=True)
WORKLOAD_PRIORITY_CLASS: Final = _kueue("WorkloadPriorityClass", "workloadpriorityclasses")
_VISIBILITY = "visibility.kueue.x-k8s.io"
CLUSTER_QUEUE_VISIBILITY: Final = Resource(_VISIBILITY, "v1beta2", "ClusterQueue", "clusterqueues", namespaced=False)
LOCAL_QUEUE_VISIBILITY: Final = Resource(_VISIBILITY, "v1beta2", "LocalQueue", "localqueues")
"""Queues in Kueue's visibility API, which serves only their subresource `pendingworkloads`."""


def find_builtin(gvk: GVK) -> Resource | None:
    """The resource of a built-in kind; None for other kinds, which need discovery."""
    return _BUILTIN.get(gvk)
