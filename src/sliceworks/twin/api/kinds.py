"""The strategies of the built-in kinds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.base import names
from sliceworks.twin.api.strategies import ClusterView, Strategy, field_of

if TYPE_CHECKING:
    from collections.abc import Callable

Obj = dict[str, Any]

_GENERATION = {
    "/pods", "/podtemplates", "/replicationcontrollers", "apps/deployments", "apps/daemonsets", "apps/replicasets",
    "apps/statefulsets", "batch/jobs", "batch/cronjobs", "policy/poddisruptionbudgets", "networking.k8s.io/ingresses",
    "networking.k8s.io/ingressclasses", "networking.k8s.io/networkpolicies", "discovery.k8s.io/endpointslices",
    "scheduling.k8s.io/priorityclasses", "apiextensions.k8s.io/customresourcedefinitions",
}  # fmt: skip
_CREATE_ON_UPDATE = {
    "rbac.authorization.k8s.io/roles", "rbac.authorization.k8s.io/rolebindings", "rbac.authorization.k8s.io/clusterroles",
    "rbac.authorization.k8s.io/clusterrolebindings", "coordination.k8s.io/leases", "/limitranges", "/events",
    "events.k8s.io/events", "/services", "/endpoints",
}  # fmt: skip
_NEEDS_VERSION = {
    "policy/poddisruptionbudgets", "storage.k8s.io/csidrivers", "storage.k8s.io/csistoragecapacities",
    "storage.k8s.io/volumeattachments", "storage.k8s.io/csinodes", "coordination.k8s.io/leases",
    "apiextensions.k8s.io/customresourcedefinitions",
}  # fmt: skip
_RETURNS_DELETED = {
    "storage.k8s.io/csidrivers", "storage.k8s.io/storageclasses", "storage.k8s.io/volumeattachments", "storage.k8s.io/csinodes",
    "storage.k8s.io/volumeattributesclasses", "/resourcequotas", "/persistentvolumes", "/serviceaccounts",
    "/persistentvolumeclaims", "/namespaces", "/pods", "/services", "/podtemplates",
}  # fmt: skip
_NAMES: dict[str, Callable[[str], list[str]]] = {
    "/events": names.path_segment_errors,
    "policy/poddisruptionbudgets": names.path_segment_errors,
    "/namespaces": names.dns1123_label_errors,
    "/services": names.dns1035_label_errors,
    "rbac.authorization.k8s.io/roles": names.path_segment_errors,
    "rbac.authorization.k8s.io/rolebindings": names.path_segment_errors,
    "rbac.authorization.k8s.io/clusterroles": names.path_segment_errors,
    "rbac.authorization.k8s.io/clusterrolebindings": names.path_segment_errors,
}
_STATUS_RESETS: dict[str, dict[str, Any]] = {
    "apps/deployments": {"f:spec": {}, "f:metadata": {"f:labels": {}}},
    "/pods": {"f:spec": {}, "f:metadata": {"f:deletionTimestamp": {}, "f:ownerReferences": {}}},
}
_EVENT_FIELDS = (
    "involvedObject.kind", "involvedObject.namespace", "involvedObject.name", "involvedObject.uid", "involvedObject.apiVersion",
    "involvedObject.resourceVersion", "involvedObject.fieldPath", "reason", "reportingComponent", "type",
)  # fmt: skip
_FIELDS: dict[str, dict[str, Callable[[Obj], str]]] = {
    "/pods": {
        **{
            path: field_of(path)
            for path in ("spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName", "status.phase")
        },
        **{path: field_of(path) for path in ("status.podIP", "status.nominatedNodeName")},
        "spec.hostNetwork": field_of("spec.hostNetwork", "false"),
    },
    "/nodes": {"spec.unschedulable": field_of("spec.unschedulable", "false")},
    "/namespaces": {"status.phase": field_of("status.phase"), "name": field_of("metadata.name")},
    "/persistentvolumes": {"name": field_of("metadata.name")},
    "/persistentvolumeclaims": {"name": field_of("metadata.name")},
    "/secrets": {"type": field_of("type")},
    "/services": {"spec.clusterIP": field_of("spec.clusterIP"), "spec.type": field_of("spec.type")},
    "/replicationcontrollers": {"status.replicas": field_of("status.replicas", "0")},
    "apps/replicasets": {"status.replicas": field_of("status.replicas", "0")},
    "batch/jobs": {"status.successful": field_of("status.succeeded", "0")},
    "/events": {
        **{path: field_of(path) for path in _EVENT_FIELDS},
        "source": lambda obj: str((obj.get("source") or {}).get("component") or obj.get("reportingComponent") or ""),
    },
}


def strategy(key: str, *, has_status: bool) -> Strategy:
    """The strategy of a built-in resource."""
    from sliceworks.twin.api import preparations

    prepare = preparations.CREATE.get(key)
    update = preparations.UPDATE.get(key)
    complete = preparations.COMPLETE.get(key)
    extra: dict[str, Any] = {}
    if prepare:
        extra["prepare_create"] = prepare
    if complete:
        extra["complete"] = complete
    if update:
        extra["prepare_update"] = update
    return Strategy(
        name_errors=_NAMES.get(key, names.dns1123_subdomain_errors),
        generation=key in _GENERATION,
        has_status=has_status,
        status_on_create=key == "/nodes",
        status_resets=_STATUS_RESETS.get(key, {"f:spec": {}}),
        create_on_update=key in _CREATE_ON_UPDATE,
        unconditional_update=key not in _NEEDS_VERSION,
        returns_deleted=key in _RETURNS_DELETED,
        graceful=key == "/pods",
        fields=_FIELDS.get(key, {}),
        **extra,
    )


__all__ = ["ClusterView", "strategy"]
