"""Which rule belongs to which component or kind."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from sliceworks.schemas.rules import (
    access,
    autoscaling,
    cluster,
    configuration,
    defaulting,
    defaulting_jobs,
    endpoints,
    jobs,
    networking,
    pod_updates,
    pods,
    policies,
    services,
    statuses,
    storage,
    storage_classes,
    warnings,
    workloads,
)
from sliceworks.schemas.rules.shape import Defaulter, defaulter, static_defaults

if TYPE_CHECKING:
    from collections.abc import Callable

    from sliceworks.schemas.rules.shape import Json
    from sliceworks.schemas.rules.texts import Errors

_CORE = "io.k8s.api.core.v1."
_APPS = "io.k8s.api.apps.v1."
_PACKAGES = {
    "": "io.k8s.api.core",
    "apps": "io.k8s.api.apps",
    "batch": "io.k8s.api.batch",
    "autoscaling": "io.k8s.api.autoscaling",
    "policy": "io.k8s.api.policy",
    "rbac.authorization.k8s.io": "io.k8s.api.rbac",
    "networking.k8s.io": "io.k8s.api.networking",
    "discovery.k8s.io": "io.k8s.api.discovery",
    "storage.k8s.io": "io.k8s.api.storage",
    "scheduling.k8s.io": "io.k8s.api.scheduling",
    "coordination.k8s.io": "io.k8s.api.coordination",
    "events.k8s.io": "io.k8s.api.events",
}

_CONDITIONAL: dict[str, Defaulter] = {
    _CORE + "Container": defaulting.container,
    _CORE + "EphemeralContainer": defaulting.container,
    _CORE + "Volume": defaulting.volume,
    _CORE + "ImageVolumeSource": defaulting.image_volume,
    _CORE + "Pod": defaulting.pod,
    _CORE + "PodSpec": defaulting.pod_spec,
    _CORE + "ResourceRequirements": defaulting.resource_lists("limits", "requests"),
    _CORE + "VolumeResourceRequirements": defaulting.resource_lists("limits", "requests"),
    _CORE + "ResourceQuotaSpec": defaulting.resource_lists("hard"),
    _CORE + "PersistentVolumeSpec": defaulting.resource_lists("capacity"),
    _CORE + "Service": defaulting.service,
    _CORE + "ServiceSpec": defaulting.service_spec,
    _CORE + "ServicePort": defaulting.service_port,
    _CORE + "NodeStatus": defaulting.node_status,
    _CORE + "LimitRangeItem": defaulting.limit_range_item,
    _CORE + "ReplicationController": defaulting_jobs.replication_controller,
    _APPS + "DeploymentStrategy": defaulting.rolling_update(maxUnavailable="25%", maxSurge="25%"),
    _APPS + "DaemonSetUpdateStrategy": defaulting.rolling_update(maxUnavailable=1, maxSurge=0),
    _APPS + "StatefulSetSpec": defaulting_jobs.stateful_set_spec,
    _APPS + "StatefulSetUpdateStrategy": defaulting_jobs.stateful_set_strategy,
    "io.k8s.api.batch.v1.Job": defaulting_jobs.job,
    "io.k8s.api.autoscaling.v1.HorizontalPodAutoscaler": defaulting_jobs.autoscaler_v1,
    "io.k8s.api.autoscaling.v2.HorizontalPodAutoscaler": defaulting_jobs.autoscaler_v2,
    "io.k8s.api.rbac.v1.Subject": defaulting.subject,
    "io.k8s.api.networking.v1.NetworkPolicySpec": defaulting.network_policy_spec,
}


@cache
def defaulters() -> dict[str, Defaulter]:
    """By component: fills a value's own fields in place. Parents come before children."""
    static = static_defaults()
    return {name: defaulter(static.get(name, {}), _CONDITIONAL.get(name)) for name in {**static, **_CONDITIONAL}}


@cache
def kind_checks() -> dict[str, Callable[[Json], Errors]]:
    """By kind: what is wrong with a whole object, its metadata apart."""
    return {
        "/Pod": pods.pod_object_errors,
        "/PodTemplate": workloads.pod_template_object_errors,
        "/ReplicationController": workloads.replication_controller_errors,
        "/Service": services.service_errors,
        "/Endpoints": endpoints.endpoints_errors,
        "/ConfigMap": configuration.config_map_errors,
        "/Secret": configuration.secret_errors,
        "/Namespace": cluster.namespace_errors,
        "/Node": cluster.node_errors,
        "/Event": cluster.event_errors,
        "/PersistentVolume": storage.volume_errors,
        "/PersistentVolumeClaim": storage.claim_errors,
        "/ResourceQuota": policies.quota_errors,
        "/LimitRange": policies.limit_range_errors,
        "apps/Deployment": workloads.deployment_errors,
        "apps/ReplicaSet": workloads.replica_set_errors,
        "apps/StatefulSet": workloads.stateful_set_errors,
        "apps/DaemonSet": workloads.daemon_set_errors,
        "apps/ControllerRevision": workloads.controller_revision_errors,
        "batch/Job": jobs.job_errors,
        "batch/CronJob": jobs.cron_job_errors,
        "autoscaling/HorizontalPodAutoscaler": autoscaling.autoscaler_errors,
        "policy/PodDisruptionBudget": policies.disruption_budget_errors,
        "rbac.authorization.k8s.io/Role": access.role_errors,
        "rbac.authorization.k8s.io/ClusterRole": access.cluster_role_errors,
        "rbac.authorization.k8s.io/RoleBinding": access.binding_errors(namespaced=True),
        "rbac.authorization.k8s.io/ClusterRoleBinding": access.binding_errors(namespaced=False),
        "networking.k8s.io/Ingress": networking.ingress_errors,
        "networking.k8s.io/IngressClass": networking.ingress_class_errors,
        "networking.k8s.io/NetworkPolicy": networking.network_policy_errors,
        "discovery.k8s.io/EndpointSlice": endpoints.endpoint_slice_errors,
        "storage.k8s.io/StorageClass": storage_classes.storage_class_errors,
        "storage.k8s.io/CSIDriver": storage_classes.csi_driver_errors,
        "storage.k8s.io/CSINode": storage_classes.csi_node_errors,
        "storage.k8s.io/VolumeAttachment": storage_classes.attachment_errors,
        "storage.k8s.io/VolumeAttributesClass": storage_classes.attributes_class_errors,
        "scheduling.k8s.io/PriorityClass": policies.priority_class_errors,
        "coordination.k8s.io/Lease": cluster.lease_errors,
        "events.k8s.io/Event": cluster.new_event_errors,
    }


@cache
def checks() -> dict[str, Callable[[Json, str], Errors]]:
    """`kind_checks` by component, in the form in which the schema engine calls them."""
    found: dict[str, Callable[[Json, str], Errors]] = {}
    for kind, check in kind_checks().items():
        group, _, name = kind.partition("/")
        for version in ("v1", "v2") if group == "autoscaling" else ("v1",):
            found[f"{_PACKAGES[group]}.{version}.{name}"] = lambda value, _path, check=check: check(value)  # type: ignore[misc]
    return found


@cache
def update_checks() -> dict[str, Callable[[Json, Json], Errors]]:
    """By kind: what an update changed that may not change, metadata apart."""
    return {
        "/Pod": pod_updates.pod_update_errors,
        "/Service": services.service_update_errors,
        "/ConfigMap": configuration.config_map_update_errors,
        "/Secret": configuration.secret_update_errors,
        "/Node": cluster.node_update_errors,
        "/PersistentVolume": storage.volume_update_errors,
        "/PersistentVolumeClaim": storage.claim_update_errors,
        "/ResourceQuota": policies.quota_update_errors,
        "apps/Deployment": workloads.same_selector,
        "apps/ReplicaSet": workloads.same_selector,
        "apps/DaemonSet": workloads.same_selector,
        "apps/StatefulSet": workloads.stateful_set_update_errors,
        "apps/ControllerRevision": workloads.controller_revision_update_errors,
        "batch/Job": jobs.job_update_errors,
        "rbac.authorization.k8s.io/RoleBinding": access.binding_update_errors,
        "rbac.authorization.k8s.io/ClusterRoleBinding": access.binding_update_errors,
        "networking.k8s.io/IngressClass": networking.ingress_class_update_errors,
        "discovery.k8s.io/EndpointSlice": endpoints.endpoint_slice_update_errors,
        "storage.k8s.io/StorageClass": storage_classes.storage_class_update_errors,
        "storage.k8s.io/CSIDriver": storage_classes.csi_driver_update_errors,
        "storage.k8s.io/VolumeAttachment": storage_classes.attachment_update_errors,
        "storage.k8s.io/VolumeAttributesClass": storage_classes.attributes_class_update_errors,
        "scheduling.k8s.io/PriorityClass": policies.priority_class_update_errors,
        "events.k8s.io/Event": cluster.new_event_update_errors,
    }


@cache
def status_checks() -> dict[str, Callable[[Json, Json], Errors]]:
    """By kind: what is wrong with a write to the status."""
    return {
        "/Pod": pod_updates.pod_status_errors,
        "/Service": services.service_status_errors,
        "/Namespace": cluster.namespace_status_errors,
        "/ResourceQuota": policies.quota_status_errors,
        "/ReplicationController": statuses.replicas("fullyLabeledReplicas", "readyReplicas", "availableReplicas"),
        "apps/Deployment": statuses.replicas("updatedReplicas", "readyReplicas", "availableReplicas"),
        "apps/ReplicaSet": statuses.replicas("fullyLabeledReplicas", "readyReplicas", "availableReplicas"),
        "apps/StatefulSet": statuses.replicas(
            "readyReplicas",
            "currentReplicas",
            "updatedReplicas",
            "availableReplicas",
            ready="cannot be greater than status.readyReplicas",
        ),
        "apps/DaemonSet": statuses.counts(
            "currentNumberScheduled",
            "numberMisscheduled",
            "desiredNumberScheduled",
            "numberReady",
            "observedGeneration",
            "updatedNumberScheduled",
            "numberAvailable",
            "numberUnavailable",
            "collisionCount",
        ),
        "batch/Job": statuses.job_status_errors,
        "autoscaling/HorizontalPodAutoscaler": statuses.counts("currentReplicas", "desiredReplicas"),
        "policy/PodDisruptionBudget": statuses.counts("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"),
        "networking.k8s.io/Ingress": networking.ingress_status_errors,
    }


@cache
def kind_warnings() -> dict[str, Callable[[Json], list[str]]]:
    """By kind: what is accepted, but with a warning."""
    template = warnings.template_warnings("spec", "template")
    naming = warnings.template_warnings("spec", "template", names_pods=True)
    return {
        "/Pod": warnings.pod_warnings,
        "/PodTemplate": warnings.template_warnings("template"),
        "/ReplicationController": naming,
        "apps/Deployment": naming,
        "apps/ReplicaSet": naming,
        "apps/StatefulSet": template,
        "apps/DaemonSet": template,
        "batch/Job": naming,
        "batch/CronJob": warnings.template_warnings("spec", "jobTemplate", "spec", "template", names_pods=True),
        "networking.k8s.io/Ingress": warnings.ingress_warnings,
    }
