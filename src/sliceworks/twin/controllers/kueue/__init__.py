"""Kueue v1beta2 as Kueue v0.15 behaves: its definitions, webhooks, controllers and visibility API.

`kueue_api`                 names, labels, annotations and condition types
`configuration`             Kueue's Configuration, read from its ConfigMap
`core`                      the scheduling core: pure functions and types
`workload_status`           conditions and timeouts of a Workload
`model_builder`             builds the core's types from API objects
`cache`                     follows all objects and feeds the core's queue manager
`integrations`              Jobs and JobSets behind one interface
`workload_writer`           writes Workloads and their status
`job_adapter`               starts and stops jobs
`pod_group`                 roles and members of pod groups
`pod_integration`           single pods and pod groups as jobs
`job_reconciler`            keeps each job and its Workload in agreement
`kueue_scheduler`           runs admission cycles and writes their decisions
`workload_controller`       admission checks, eviction, timeouts and deactivation
`queue_controller`          status and finalizers of queues, flavors and admission checks
`base_webhook`              what the webhooks of all jobs share
`kueue_webhooks`            webhooks of Kueue's kinds, Jobs and JobSets; conversion from and to v1beta1
`pod_webhook`               webhooks of pods and Deployments
`statefulset_integration`   webhooks and reconciler of StatefulSets
`visibility`                the visibility API: pending workloads of a queue
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.twin.apiserver import version_conversion
from sliceworks.twin.apiserver.admission.chain import CREATE, UPDATE
from sliceworks.twin.controllers.kueue import kueue_webhooks as hooks
from sliceworks.twin.controllers.kueue import pod_webhook as pod_hooks
from sliceworks.twin.controllers.kueue import statefulset_integration
from sliceworks.twin.controllers.kueue.job_reconciler import JobReconciler
from sliceworks.twin.controllers.kueue.kueue_api import CLUSTER_QUEUES, COHORTS, RESOURCE_FLAVORS, WORKLOADS
from sliceworks.twin.controllers.kueue.kueue_scheduler import Scheduler
from sliceworks.twin.controllers.kueue.kueue_webhooks import CONVERSIONS
from sliceworks.twin.controllers.kueue.queue_controller import QueueReconciler
from sliceworks.twin.controllers.kueue.statefulset_integration import StatefulSetReconciler
from sliceworks.twin.controllers.kueue.workload_controller import WorkloadReconciler
from sliceworks.twin.controllers.runtime.resource_keys import DEPLOYMENTS, JOBS, JOBSETS, PODS, STATEFUL_SETS

if TYPE_CHECKING:
    from sliceworks.twin.apiserver.admission.chain import Webhooks
    from sliceworks.twin.controllers.runtime.controller import Controller
    from sliceworks.twin.controllers.runtime.controller_context import ControllerContext
    from sliceworks.twin.store.store import Store


def definitions() -> list[dict[str, Any]]:
    """The CustomResourceDefinitions of Kueue."""
    import gzip
    from importlib.resources import files

    import orjson

    data = (files(__package__) / "data" / "definitions.json.gz").read_bytes()
    crds: list[dict[str, Any]] = orjson.loads(gzip.decompress(data))
    return crds


def install(store: Store, webhooks: Webhooks) -> list[dict[str, Any]]:
    """Register Kueue's webhooks and conversions; returns the objects to create."""
    for resource, (shown, stored) in CONVERSIONS.items():
        version_conversion.register_conversion(resource, "v1beta1", shown=shown, stored=stored)
    for resource in (CLUSTER_QUEUES, RESOURCE_FLAVORS):
        webhooks.add_mutating(resource, CREATE, hooks.add_in_use_finalizer)
    for resource in (JOBS, JOBSETS):
        webhooks.add_mutating(resource, CREATE, hooks.suspend_job)
    webhooks.add_mutating(WORKLOADS, CREATE, hooks.default_pod_sets)
    webhooks.add_mutating(WORKLOADS, UPDATE, hooks.default_spec)
    webhooks.add_mutating(PODS, CREATE, pod_hooks.gate_pod)
    for operation in (CREATE, UPDATE):
        webhooks.add_mutating(DEPLOYMENTS, operation, pod_hooks.default_deployment)
        webhooks.add_validating(PODS, operation, pod_hooks.validate_pod)
        webhooks.add_validating(DEPLOYMENTS, operation, pod_hooks.validate_deployment)
        webhooks.add_mutating(STATEFUL_SETS, operation, statefulset_integration.default_statefulset)
        webhooks.add_validating(STATEFUL_SETS, operation, statefulset_integration.validate_statefulset)
        webhooks.add_validating(CLUSTER_QUEUES, operation, hooks.validate_cluster_queue)
        webhooks.add_validating(COHORTS, operation, hooks.validate_cohort)
        webhooks.add_validating(WORKLOADS, operation, hooks.validate_workload)
        for resource in (JOBS, JOBSETS):
            webhooks.add_validating(resource, operation, hooks.validate_job)
    return definitions()


def controllers(context: ControllerContext) -> tuple[Controller[Any], ...]:
    return (
        Scheduler(context),
        WorkloadReconciler(context),
        JobReconciler(context),
        QueueReconciler(context),
        StatefulSetReconciler(context),
    )
