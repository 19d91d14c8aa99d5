"""The built-in kinds: one strategy per resource.

Names, verbs and schemas come from discovery and OpenAPI data. To add a kind without a controller, add its data, a row here and
its rules in `validation`.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from sliceworks.base import names
from sliceworks.schemas import builtins
from sliceworks.twin.apiserver import version_conversion
from sliceworks.twin.apiserver.admission import (
    certificate_signing,
    limit_ranger,
    pod_security,
    priority,
    service_account,
    storage_class,
    toleration,
)
from sliceworks.twin.apiserver.admission.chain import CREATE, UPDATE
from sliceworks.twin.apiserver.printers import core_kinds, network_kinds, pod_kinds, storage_kinds, workload_kinds
from sliceworks.twin.apiserver.registry import api_service_strategy, crd_strategy, device_strategy, service_allocator, strategies
from sliceworks.twin.apiserver.registry.resources import Part, Registry, Resource, Strategy, Subresource, Version, field_getter
from sliceworks.twin.apiserver.validation import (
    admission_registration,
    api_service,
    apps,
    batch,
    certificate_signing_request,
    core_group,
    defaults,
    device_claim,
    endpoints,
    flow_control,
    horizontal_pod_autoscaler,
    network,
    pod,
    pod_update,
    pod_warnings,
    policy,
    rbac_objects,
    resource_slice,
    service,
    storage,
)
from sliceworks.twin.apiserver.validation.defaults import Defaulter, build_defaulter, static_defaults
from sliceworks.twin.apiserver.validation.error_list import ErrorList, immutable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from sliceworks.twin.apiserver.admission.chain import Plugin
    from sliceworks.twin.apiserver.validation.defaults import Json

Obj = dict[str, Any]


_REFERENCE_FIELDS = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")


def _fields(*paths: str) -> dict[str, Callable[[Obj], str]]:
    return {path: field_getter(path) for path in paths}


def _on(*operations: str, run: tuple[Plugin, ...]) -> dict[tuple[str, str], tuple[Plugin, ...]]:
    """The plugins that run for these operations on the object itself."""
    return {(operation, ""): run for operation in operations}


_TEMPLATE_CHECK = _on(CREATE, UPDATE, run=(pod_security.check_template("spec", "template"),))
_TEMPLATE_WARNINGS = pod_warnings.template_warnings("spec", "template")
_NAMED_TEMPLATE_WARNINGS = pod_warnings.template_warnings("spec", "template", names_pods=True)
_NAME_FIELD = {"name": field_getter("metadata.name")}
_REPLICAS_FIELD = {"status.replicas": field_getter("status.replicas", "0")}
_RBAC = Strategy(name_errors=names.path_segment_errors, allow_create_on_update=True)
_REVIEW = Strategy(create_only=True)
_WEBHOOK_CONFIGURATION = Strategy(
    has_generation=True,
    allow_unconditional_update=False,
    validate=admission_registration.validate_webhook_configuration,
    printer=core_kinds.WEBHOOK_CONFIGURATION,
)
_ORPHANED_PODS = (
    "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them or set "
    "propagationPolicy=Orphan to suppress this warning"
)
_EVENT = Strategy(allow_create_on_update=True, printer=core_kinds.EVENT)

STRATEGIES: dict[str, Strategy] = {
    "/bindings": _REVIEW,
    "/configmaps": Strategy(
        validate=core_group.validate_config_map,
        validate_update=core_group.validate_config_map_update,
        printer=core_kinds.CONFIG_MAP,
    ),
    "/endpoints": Strategy(
        allow_create_on_update=True,
        deprecation="v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice",
        validate=endpoints.validate_endpoints,
        printer=network_kinds.ENDPOINTS,
    ),
    "/events": replace(
        _EVENT,
        name_errors=names.path_segment_errors,
        validate=core_group.validate_event,
        selectable_fields={
            **_fields(*(f"involvedObject.{name}" for name in _REFERENCE_FIELDS), "reason", "reportingComponent", "type"),
            "source": lambda obj: str((obj.get("source") or {}).get("component") or obj.get("reportingComponent") or ""),
        },
    ),
    "/limitranges": Strategy(allow_create_on_update=True, validate=policy.validate_limit_range),
    "/namespaces": Strategy(
        name_errors=names.dns1123_label_errors,
        return_deleted_object=True,
        selectable_fields={**_fields("status.phase"), **_NAME_FIELD},
        add_defaults=strategies.label_namespace_name,
        prepare_for_create=strategies.prepare_namespace,
        prepare_for_update=strategies.keep_namespace_spec,
        validate=core_group.validate_namespace,
        validate_status=core_group.validate_namespace_status,
        validating=_on(CREATE, UPDATE, run=(pod_security.check_namespace,)),
        printer=core_kinds.NAMESPACE,
    ),
    "/nodes": Strategy(
        keeps_status_on_create=True,
        selectable_fields={"spec.unschedulable": field_getter("spec.unschedulable", "false")},
        validate=core_group.validate_node,
        validate_update=core_group.validate_node_update,
        mutating=_on(CREATE, run=(toleration.taint_new_node,)),
        printer=core_kinds.NODE,
    ),
    "/persistentvolumeclaims": Strategy(
        return_deleted_object=True,
        selectable_fields=_NAME_FIELD,
        prepare_for_create=strategies.reset_status({"phase": "Pending"}),
        validate=storage.validate_persistent_volume_claim,
        validate_update=storage.validate_persistent_volume_claim_update,
        mutating=_on(
            CREATE,
            run=(
                storage_class.default_storage_class,
                storage_class.add_protection_finalizer("kubernetes.io/pvc-protection"),
            ),
        ),
        validating={
            **_on(CREATE, run=(limit_ranger.check_claim,)),
            **_on(UPDATE, run=(limit_ranger.check_claim, storage_class.check_claim_resize)),
        },
        printer=storage_kinds.PERSISTENT_VOLUME_CLAIM,
    ),
    "/persistentvolumes": Strategy(
        return_deleted_object=True,
        selectable_fields=_NAME_FIELD,
        parts={"status": Part({"f:spec": {}}, strategies.prepare_volume_status, lambda errors, new, old: None)},
        prepare_for_create=strategies.prepare_volume,
        validate=storage.validate_persistent_volume,
        validate_update=storage.validate_persistent_volume_update,
        mutating=_on(CREATE, run=(storage_class.add_protection_finalizer("kubernetes.io/pv-protection"),)),
        printer=storage_kinds.PERSISTENT_VOLUME,
    ),
    "/pods": Strategy(
        has_generation=True,
        status_reset_fields={"f:spec": {}, "f:metadata": {"f:deletionTimestamp": {}, "f:ownerReferences": {}}},
        parts={
            "ephemeralcontainers": Part(
                {"f:status": {}}, strategies.prepare_ephemeral_containers, pod_update.validate_ephemeral_containers_update
            ),
            "resize": Part({"f:status": {}}, strategies.prepare_resize, pod_update.validate_resize),
        },
        return_deleted_object=True,
        graceful_deletion=True,
        selectable_fields={
            **_fields("spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName"),
            **_fields("status.phase", "status.podIP", "status.nominatedNodeName"),
            "spec.hostNetwork": field_getter("spec.hostNetwork", "false"),
        },
        prepare_for_create=strategies.prepare_pod,
        validate=pod.validate_pod,
        validate_metadata=pod.validate_pod_metadata,
        validate_update=pod_update.validate_pod_update,
        validate_status=pod_update.validate_pod_status_update,
        warnings=pod_warnings.pod_warnings,
        warns_on_update=False,  # controllers update pods often
        mutating={
            **_on(
                CREATE,
                run=(
                    limit_ranger.apply_defaults,
                    service_account.service_account,
                    priority.pod_priority,
                    toleration.default_toleration_seconds,
                    toleration.runtime_class,
                ),
            ),
            **_on(UPDATE, run=(priority.pod_priority, toleration.default_toleration_seconds)),
        },
        validating={
            **_on(CREATE, run=(limit_ranger.check_pod, pod_security.check_pod)),
            **_on(UPDATE, run=(pod_security.check_pod,)),
            (UPDATE, "resize"): (limit_ranger.check_pod,),
        },
        printer=pod_kinds.POD,
    ),
    "/podtemplates": Strategy(
        has_generation=True,
        return_deleted_object=True,
        validate=apps.validate_pod_template_object,
        warnings=pod_warnings.template_warnings("template"),
        validating=_on(CREATE, UPDATE, run=(pod_security.check_template("template"),)),
        printer=pod_kinds.POD_TEMPLATE,
    ),
    "/replicationcontrollers": Strategy(
        has_generation=True,
        orphans_by_default=True,
        selectable_fields=_REPLICAS_FIELD,
        prepare_for_create=strategies.reset_status({"replicas": 0}),
        validate=apps.validate_replication_controller,
        validate_status=apps.validate_status_replicas("fullyLabeledReplicas", "readyReplicas", "availableReplicas"),
        warnings=_NAMED_TEMPLATE_WARNINGS,
        validating=_TEMPLATE_CHECK,
        printer=workload_kinds.REPLICATION_CONTROLLER,
    ),
    "/resourcequotas": Strategy(
        return_deleted_object=True,
        prepare_for_create=strategies.reset_status({}),
        validate=policy.validate_resource_quota,
        validate_update=policy.validate_resource_quota_update,
        validate_status=policy.validate_resource_quota_status,
        printer=core_kinds.RESOURCE_QUOTA,
    ),
    "/secrets": Strategy(
        selectable_fields=_fields("type"),
        add_defaults=strategies.encode_string_data,
        validate=core_group.validate_secret,
        validate_update=core_group.validate_secret_update,
        printer=core_kinds.SECRET,
    ),
    "/serviceaccounts": Strategy(return_deleted_object=True, printer=core_kinds.SERVICE_ACCOUNT),
    "/services": Strategy(
        name_errors=names.dns1035_label_errors,
        allow_create_on_update=True,
        return_deleted_object=True,
        selectable_fields=_fields("spec.clusterIP", "spec.type"),
        prepare_for_create=service_allocator.prepare_service,
        prepare_for_update=service_allocator.prepare_service_update,
        validate=service.validate_service,
        validate_update=service.validate_service_update,
        validate_status=service.validate_service_status,
        validate_references=service_allocator.validate_allocation,
        printer=network_kinds.SERVICE,
    ),
    "admissionregistration.k8s.io/mutatingadmissionpolicies": Strategy(
        has_generation=True,
        allow_unconditional_update=False,
        validate=admission_registration.validate_mutating_policy,
        printer=core_kinds.MUTATING_POLICY,
    ),
    "admissionregistration.k8s.io/mutatingadmissionpolicybindings": Strategy(
        has_generation=True,
        allow_unconditional_update=False,
        validate=admission_registration.validate_mutating_policy_binding,
        printer=core_kinds.VALIDATING_POLICY_BINDING,
    ),
    "admissionregistration.k8s.io/mutatingwebhookconfigurations": _WEBHOOK_CONFIGURATION,
    "admissionregistration.k8s.io/validatingadmissionpolicies": Strategy(
        has_generation=True,
        allow_unconditional_update=False,
        prepare_for_create=strategies.reset_status({}),
        validate=admission_registration.validate_admission_policy,
        printer=core_kinds.VALIDATING_POLICY,
    ),
    "admissionregistration.k8s.io/validatingadmissionpolicybindings": Strategy(
        has_generation=True,
        allow_unconditional_update=False,
        validate=admission_registration.validate_admission_policy_binding,
        printer=core_kinds.VALIDATING_POLICY_BINDING,
    ),
    "admissionregistration.k8s.io/validatingwebhookconfigurations": _WEBHOOK_CONFIGURATION,
    "apiextensions.k8s.io/customresourcedefinitions": Strategy(
        has_generation=True,
        allow_unconditional_update=False,
        prepare_for_create=lambda obj, cluster: crd_strategy.reset_status(obj),
        prepare_for_update=lambda new, old, cluster: crd_strategy.record_stored_version(new),
    ),
    "apiregistration.k8s.io/apiservices": Strategy(
        name_errors=names.path_segment_errors,
        allow_unconditional_update=False,
        status_reset_fields={"f:metadata": {}, "f:spec": {}},
        prepare_for_create=lambda obj, cluster: api_service_strategy.reset_status(obj),
        validate=api_service.validate_api_service,
        validate_status=api_service.validate_api_service_status,
        printer=core_kinds.API_SERVICE,
    ),
    "apps/controllerrevisions": Strategy(
        validate=apps.validate_controller_revision,
        validate_update=immutable("data"),
        printer=workload_kinds.CONTROLLER_REVISION,
    ),
    "apps/daemonsets": Strategy(
        has_generation=True,
        add_defaults=strategies.add_template_generation,
        prepare_for_create=strategies.prepare_daemon_set,
        prepare_for_update=strategies.count_template_generation,
        validate=apps.validate_daemon_set,
        validate_update=immutable("spec.selector"),
        validate_status=apps.validate_status_counts(
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
        warnings=_TEMPLATE_WARNINGS,
        validating=_TEMPLATE_CHECK,
        printer=workload_kinds.DAEMON_SET,
    ),
    "apps/deployments": Strategy(
        has_generation=True,
        status_reset_fields={"f:spec": {}, "f:metadata": {"f:labels": {}}},
        prepare_for_create=strategies.reset_status({}),
        validate=apps.validate_deployment,
        validate_update=immutable("spec.selector"),
        validate_status=apps.validate_status_replicas("updatedReplicas", "readyReplicas", "availableReplicas"),
        warnings=_NAMED_TEMPLATE_WARNINGS,
        validating=_TEMPLATE_CHECK,
        printer=workload_kinds.DEPLOYMENT,
    ),
    "apps/replicasets": Strategy(
        has_generation=True,
        selectable_fields=_REPLICAS_FIELD,
        prepare_for_create=strategies.reset_status({"replicas": 0}),
        validate=apps.validate_replica_set,
        validate_update=immutable("spec.selector"),
        validate_status=apps.validate_status_replicas("fullyLabeledReplicas", "readyReplicas", "availableReplicas"),
        warnings=_NAMED_TEMPLATE_WARNINGS,
        validating=_TEMPLATE_CHECK,
        printer=workload_kinds.REPLICA_SET,
    ),
    "apps/statefulsets": Strategy(
        has_generation=True,
        prepare_for_create=strategies.reset_status({"replicas": 0, "availableReplicas": 0}),
        validate=apps.validate_stateful_set,
        validate_update=apps.validate_stateful_set_update,
        validate_status=apps.validate_status_replicas(
            "readyReplicas",
            "currentReplicas",
            "updatedReplicas",
            "availableReplicas",
            ready="cannot be greater than status.readyReplicas",
        ),
        warnings=_TEMPLATE_WARNINGS,
        validating=_TEMPLATE_CHECK,
        printer=workload_kinds.STATEFUL_SET,
    ),
    "authentication.k8s.io/selfsubjectreviews": _REVIEW,
    "authentication.k8s.io/tokenreviews": _REVIEW,
    "authorization.k8s.io/localsubjectaccessreviews": _REVIEW,
    "authorization.k8s.io/selfsubjectaccessreviews": _REVIEW,
    "authorization.k8s.io/selfsubjectrulesreviews": _REVIEW,
    "authorization.k8s.io/subjectaccessreviews": _REVIEW,
    "autoscaling/horizontalpodautoscalers": Strategy(
        prepare_for_create=strategies.reset_status({"desiredReplicas": 0, "currentMetrics": None}),
        validate=horizontal_pod_autoscaler.validate_autoscaler,
        validate_status=apps.validate_status_counts("currentReplicas", "desiredReplicas"),
        conversions={"v1": version_conversion.AUTOSCALER_V1},
        printer=workload_kinds.HORIZONTAL_POD_AUTOSCALER,
    ),
    "batch/cronjobs": Strategy(
        has_generation=True,
        prepare_for_create=strategies.reset_status({}),
        validate=batch.validate_cron_job,
        warnings=pod_warnings.template_warnings("spec", "jobTemplate", "spec", "template", names_pods=True),
        validating=_on(CREATE, UPDATE, run=(pod_security.check_template("spec", "jobTemplate", "spec", "template"),)),
        printer=workload_kinds.CRON_JOB,
    ),
    "batch/jobs": Strategy(
        has_generation=True,
        orphans_by_default=True,
        delete_warning=_ORPHANED_PODS,
        selectable_fields={"status.successful": field_getter("status.succeeded", "0")},
        prepare_for_create=strategies.prepare_job,
        validate=batch.validate_job,
        validate_update=batch.validate_job_update,
        validate_status=batch.validate_job_status,
        warnings=_NAMED_TEMPLATE_WARNINGS,
        validating=_TEMPLATE_CHECK,
        printer=workload_kinds.JOB,
    ),
    "certificates.k8s.io/certificatesigningrequests": Strategy(
        name_errors=certificate_signing_request.any_name_errors,
        selectable_fields=_fields("spec.signerName"),
        reset_fields={"f:spec": {}, "f:status": {}},
        parts={
            "approval": Part(
                {"f:spec": {}, "f:status": {"f:certificate": {}}},
                strategies.prepare_signing_approval,
                certificate_signing_request.validate_approval,
            ),
            "status": Part(
                {"f:spec": {}, "f:status": {"f:conditions": {}}},
                strategies.prepare_signing_status,
                certificate_signing_request.validate_status,
            ),
        },
        prepare_for_create=strategies.reset_status({}),
        prepare_for_update=strategies.keep_signing_request,
        validate=certificate_signing_request.validate_request,
        mutating=_on(CREATE, run=(certificate_signing.set_requester,)),
        validating=_on(CREATE, run=(certificate_signing.check_subject,)),
        printer=core_kinds.CERTIFICATE_SIGNING_REQUEST,
    ),
    "coordination.k8s.io/leases": Strategy(
        allow_create_on_update=True,
        allow_unconditional_update=False,
        validate=core_group.validate_lease,
        printer=core_kinds.LEASE,
    ),
    "discovery.k8s.io/endpointslices": Strategy(
        has_generation=True,
        validate=endpoints.validate_endpoint_slice,
        validate_update=immutable("addressType"),
        printer=network_kinds.ENDPOINT_SLICE,
    ),
    "events.k8s.io/events": replace(
        _EVENT,
        storage_key="/events",
        validate=core_group.validate_events_v1,
        validate_update=core_group.validate_events_v1_update,
        selectable_fields={  # read from objects as they are stored
            **{f"regarding.{name}": field_getter(f"involvedObject.{name}") for name in _REFERENCE_FIELDS},
            **_fields("reason", "type"),
            "reportingController": field_getter("reportingComponent"),
        },
        conversions={"v1": version_conversion.EVENTS_V1},
    ),
    "flowcontrol.apiserver.k8s.io/flowschemas": Strategy(
        has_generation=True,
        prepare_for_create=strategies.reset_status({}),
        validate=flow_control.validate_flow_schema,
        validate_status=flow_control.validate_conditions,
        printer=core_kinds.FLOW_SCHEMA,
    ),
    "flowcontrol.apiserver.k8s.io/prioritylevelconfigurations": Strategy(
        has_generation=True,
        prepare_for_create=strategies.reset_status({}),
        validate=flow_control.validate_priority_level,
        validate_status=flow_control.validate_conditions,
        printer=core_kinds.PRIORITY_LEVEL_CONFIGURATION,
    ),
    "networking.k8s.io/ingressclasses": Strategy(
        has_generation=True,
        validate=network.validate_ingress_class,
        validate_update=immutable("spec.controller"),
        printer=network_kinds.INGRESS_CLASS,
    ),
    "networking.k8s.io/ingresses": Strategy(
        has_generation=True,
        prepare_for_create=strategies.reset_status({"loadBalancer": {}}),
        validate=network.validate_ingress,
        validate_status=network.validate_ingress_status,
        warnings=pod_warnings.ingress_warnings,
        mutating=_on(CREATE, run=(storage_class.default_ingress_class,)),
        printer=network_kinds.INGRESS,
    ),
    "networking.k8s.io/ipaddresses": Strategy(
        name_errors=network.ip_address_name_errors,
        validate=network.validate_ip_address,
        validate_update=immutable("spec.parentRef"),
        printer=network_kinds.IP_ADDRESS,
    ),
    "networking.k8s.io/networkpolicies": Strategy(
        has_generation=True, validate=network.validate_network_policy, printer=network_kinds.NETWORK_POLICY
    ),
    "networking.k8s.io/servicecidrs": Strategy(
        validate=network.validate_service_cidr,
        validate_update=network.validate_service_cidr_update,
        printer=network_kinds.SERVICE_CIDR,
    ),
    "node.k8s.io/runtimeclasses": Strategy(
        validate=policy.validate_runtime_class,
        validate_update=immutable("handler"),
        printer=core_kinds.RUNTIME_CLASS,
    ),
    "policy/poddisruptionbudgets": Strategy(
        name_errors=names.path_segment_errors,
        has_generation=True,
        allow_unconditional_update=False,
        prepare_for_create=strategies.reset_status(
            {"disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0}
        ),
        validate=policy.validate_pod_disruption_budget,
        validate_status=apps.validate_status_counts("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"),
        printer=workload_kinds.POD_DISRUPTION_BUDGET,
    ),
    "rbac.authorization.k8s.io/clusterrolebindings": replace(
        _RBAC,
        validate=rbac_objects.validate_cluster_role_binding,
        validate_update=rbac_objects.validate_binding_update,
        printer=core_kinds.ROLE_BINDING,
    ),
    "rbac.authorization.k8s.io/clusterroles": replace(_RBAC, validate=rbac_objects.validate_cluster_role),
    "rbac.authorization.k8s.io/rolebindings": replace(
        _RBAC,
        validate=rbac_objects.validate_role_binding,
        validate_update=rbac_objects.validate_binding_update,
        printer=core_kinds.ROLE_BINDING,
    ),
    "rbac.authorization.k8s.io/roles": replace(_RBAC, validate=rbac_objects.validate_role),
    "resource.k8s.io/deviceclasses": Strategy(
        return_deleted_object=True,
        has_generation=True,
        prepare_for_create=device_strategy.prepare_device_class,
        prepare_for_update=device_strategy.update_device_class,
        validate=device_claim.validate_device_class,
        printer=core_kinds.DEVICE_CLASS,
    ),
    "resource.k8s.io/resourceclaims": Strategy(
        return_deleted_object=True,
        status_reset_fields={"f:metadata": {}, "f:spec": {}},
        parts={
            "status": Part(
                {"f:metadata": {}, "f:spec": {}},
                device_strategy.prepare_claim_status,
                device_claim.validate_resource_claim_status,
            )
        },
        prepare_for_create=device_strategy.prepare_resource_claim,
        prepare_for_update=device_strategy.update_resource_claim,
        validate=device_claim.validate_resource_claim,
        validate_update=immutable("spec"),
        validate_references=device_claim.validate_admin_access,
        printer=core_kinds.RESOURCE_CLAIM,
    ),
    "resource.k8s.io/resourceclaimtemplates": Strategy(
        return_deleted_object=True,
        prepare_for_create=device_strategy.prepare_resource_claim_template,
        prepare_for_update=device_strategy.update_resource_claim_template,
        validate=device_claim.validate_resource_claim_template,
        validate_update=immutable("spec"),
        validate_references=device_claim.validate_admin_access,
        printer=core_kinds.RESOURCE_CLAIM_TEMPLATE,
    ),
    "resource.k8s.io/resourceslices": Strategy(
        return_deleted_object=True,
        has_generation=True,
        selectable_fields=_fields("spec.driver", "spec.nodeName"),
        prepare_for_create=device_strategy.prepare_resource_slice,
        prepare_for_update=device_strategy.update_resource_slice,
        validate=resource_slice.validate_resource_slice,
        validate_update=resource_slice.validate_resource_slice_update,
        warnings=resource_slice.driver_warnings,
        printer=core_kinds.RESOURCE_SLICE,
    ),
    "scheduling.k8s.io/priorityclasses": Strategy(
        has_generation=True,
        validate=policy.validate_priority_class,
        validate_update=policy.validate_priority_class_update,
        validating=_on(CREATE, UPDATE, run=(priority.check_single_default,)),
        printer=core_kinds.PRIORITY_CLASS,
    ),
    "storage.k8s.io/csidrivers": Strategy(
        allow_unconditional_update=False,
        return_deleted_object=True,
        validate=storage.validate_csi_driver,
        validate_update=storage.validate_csi_driver_update,
        printer=storage_kinds.CSI_DRIVER,
    ),
    "storage.k8s.io/csinodes": Strategy(
        allow_unconditional_update=False,
        return_deleted_object=True,
        validate=storage.validate_csi_node,
        printer=storage_kinds.CSI_NODE,
    ),
    "storage.k8s.io/csistoragecapacities": Strategy(
        allow_unconditional_update=False,
        validate=storage.validate_csi_storage_capacity,
        validate_update=immutable("nodeTopology", "storageClassName"),
    ),
    "storage.k8s.io/storageclasses": Strategy(
        return_deleted_object=True,
        validate=storage.validate_storage_class,
        validate_update=storage.validate_storage_class_update,
        printer=storage_kinds.STORAGE_CLASS,
    ),
    "storage.k8s.io/volumeattachments": Strategy(
        allow_unconditional_update=False,
        return_deleted_object=True,
        prepare_for_create=strategies.reset_status({"attached": False}),
        validate=storage.validate_volume_attachment,
        validate_update=immutable("spec"),
        printer=storage_kinds.VOLUME_ATTACHMENT,
    ),
    "storage.k8s.io/volumeattributesclasses": Strategy(
        return_deleted_object=True,
        validate=storage.validate_volume_attributes_class,
        validate_update=storage.validate_volume_attributes_class_update,
        mutating=_on(CREATE, run=(storage_class.add_protection_finalizer("kubernetes.io/vac-protection"),)),
        printer=storage_kinds.VOLUME_ATTRIBUTES_CLASS,
    ),
}


def builtin_registry(features: Iterable[str] = ()) -> Registry:
    """A registry of all built-in resources, and of those that optional features add."""
    scheme = builtins.builtin_scheme()
    resources: dict[str, Resource] = {}
    optional = [item for feature in features for item in scheme.optional[feature]]
    for item in (*scheme.resources, *optional):
        key = f"{item.group}/{item.plural}"
        version = Version(
            item.version,
            cache(partial(scheme.schema, item.group, item.version, item.kind)),
            {sub.name: Subresource(sub.name, sub.kind, sub.verbs, sub.group, sub.version) for sub in item.subresources},
            item.verbs,
            STRATEGIES[key].deprecation,
        )
        if key in resources:
            resources[key].versions[item.version] = version
            continue
        resources[key] = Resource(
            group=item.group,
            kind=item.kind,
            plural=item.plural,
            singular=item.singular,
            namespaced=item.namespaced,
            versions={item.version: version},
            storage_version=item.version if item in optional else scheme.storage_version(item.group),
            storage_hash=item.storage_version_hash,
            strategy=replace(STRATEGIES[key], has_status="status" in version.subresources),
            short_names=item.short_names,
            categories=item.categories,
        )
    registry = Registry()
    for resource in resources.values():
        registry.add(resource)
    return registry


_CORE = "io.k8s.api.core.v1."
_APPS = "io.k8s.api.apps.v1."
_CONDITIONAL_DEFAULTS: dict[str, Defaulter] = {
    builtins.component_name("apiextensions.k8s.io", "v1", "CustomResourceDefinition"): crd_strategy.set_defaults,
    _CORE + "Container": defaults.container,
    _CORE + "EphemeralContainer": defaults.container,
    _CORE + "Volume": defaults.volume,
    _CORE + "ImageVolumeSource": defaults.image_volume,
    _CORE + "Pod": defaults.pod,
    _CORE + "PodSpec": defaults.pod_spec,
    _CORE + "ResourceRequirements": defaults.resource_lists("limits", "requests"),
    _CORE + "VolumeResourceRequirements": defaults.resource_lists("limits", "requests"),
    _CORE + "ResourceQuotaSpec": defaults.resource_lists("hard"),
    _CORE + "PersistentVolumeSpec": defaults.resource_lists("capacity"),
    _CORE + "Service": defaults.service,
    _CORE + "ServiceSpec": defaults.service_spec,
    _CORE + "ServicePort": defaults.service_port,
    _CORE + "NodeStatus": defaults.node_status,
    _CORE + "LimitRangeItem": defaults.limit_range_item,
    _CORE + "ReplicationController": defaults.replication_controller,
    _APPS + "DeploymentStrategy": defaults.rolling_update(maxUnavailable="25%", maxSurge="25%"),
    _APPS + "DaemonSetUpdateStrategy": defaults.rolling_update(maxUnavailable=1, maxSurge=0),
    _APPS + "StatefulSetSpec": defaults.stateful_set_spec,
    _APPS + "StatefulSetUpdateStrategy": defaults.stateful_set_strategy,
    "io.k8s.api.batch.v1.Job": defaults.job,
    "io.k8s.api.autoscaling.v1.HorizontalPodAutoscaler": defaults.autoscaler_v1,
    "io.k8s.api.autoscaling.v2.HorizontalPodAutoscaler": defaults.autoscaler_v2,
    "io.k8s.api.resource.v1.DeviceSubRequest": defaults.device_request,
    "io.k8s.api.resource.v1.ExactDeviceRequest": defaults.device_request,
    "io.k8s.api.flowcontrol.v1.FlowSchemaSpec": defaults.nonzero(matchingPrecedence=1000),
    "io.k8s.api.flowcontrol.v1.QueuingConfiguration": defaults.nonzero(handSize=8, queues=64, queueLengthLimit=50),
    "io.k8s.api.rbac.v1.Subject": defaults.subject,
    "io.k8s.api.networking.v1.NetworkPolicySpec": defaults.network_policy_spec,
}


@cache
def defaulters() -> dict[str, Defaulter]:
    """By schema component: a function that sets the defaults of a value's own fields. Parents come before children."""
    static = static_defaults()
    components = {**static, **_CONDITIONAL_DEFAULTS}
    return {name: build_defaulter(static.get(name, {}), _CONDITIONAL_DEFAULTS.get(name)) for name in components}


@cache
def checks() -> dict[str, Callable[[Json, str], ErrorList]]:
    """By schema component: `Strategy.validate` in the form in which the schema engine calls it."""
    scheme = builtins.builtin_scheme()
    return {
        builtins.component_name(item.group, item.version, item.kind): partial(_check, validate)
        for item in (*scheme.resources, *(item for items in scheme.optional.values() for item in items))
        if (validate := STRATEGIES[f"{item.group}/{item.plural}"].validate) is not None
    }


def _check(validate: Callable[[ErrorList, Obj], None], value: Json, _path: str) -> ErrorList:
    errors = ErrorList()
    validate(errors, value)
    return errors


builtins.builtin_scheme().register(defaulters(), checks())
