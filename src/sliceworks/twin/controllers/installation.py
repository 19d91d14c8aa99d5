"""The components that run workloads, and what each one installs: webhooks, CustomResourceDefinitions and aggregated APIs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.twin.controllers import config_connector, jobset, kueue
from sliceworks.twin.controllers.builtin.cronjob_controller import CronJobController
from sliceworks.twin.controllers.builtin.daemonset_controller import DaemonSetController
from sliceworks.twin.controllers.builtin.deployment_controller import DeploymentController
from sliceworks.twin.controllers.builtin.disruption_controller import DisruptionController
from sliceworks.twin.controllers.builtin.endpointslice_controller import EndpointSliceController
from sliceworks.twin.controllers.builtin.job_controller import JobController, TTLAfterFinishedController
from sliceworks.twin.controllers.builtin.node_lifecycle import NodeLifecycleController
from sliceworks.twin.controllers.builtin.pod_gc import PodGCController
from sliceworks.twin.controllers.builtin.podautoscaler_controller import HorizontalController
from sliceworks.twin.controllers.builtin.replicaset_controller import ReplicaSetController, ReplicationManager
from sliceworks.twin.controllers.builtin.statefulset_controller import StatefulSetController
from sliceworks.twin.controllers.builtin.taint_eviction import TaintEvictionController
from sliceworks.twin.controllers.kueue.visibility import GROUP as VISIBILITY
from sliceworks.twin.controllers.kueue.visibility import visibility_api
from sliceworks.twin.scheduler.scheduler import Scheduler

if TYPE_CHECKING:
    from collections.abc import Callable

    from sliceworks.twin.apiserver.admission.chain import Webhooks
    from sliceworks.twin.apiserver.registry.resources import AggregatedApi
    from sliceworks.twin.controllers.runtime.controller import Controller
    from sliceworks.twin.controllers.runtime.controller_context import ControllerContext
    from sliceworks.twin.store.store import Store


def builtin_controllers(context: ControllerContext) -> tuple[Controller[Any], ...]:
    """The controllers of kube-controller-manager that run workloads, in the order in which they observe a change."""
    return (
        JobController(context),
        TTLAfterFinishedController(context),
        CronJobController(context),
        ReplicaSetController(context),
        ReplicationManager(context),
        DeploymentController(context),
        StatefulSetController(context),
        DaemonSetController(context),
        EndpointSliceController(context),
        DisruptionController(context),
        HorizontalController(context),
        NodeLifecycleController(context),
        TaintEvictionController(context),
        PodGCController(context),
    )


def _scheduler(context: ControllerContext) -> tuple[Controller[Any], ...]:
    return (Scheduler(context),)


COMPONENTS: dict[str, Callable[[ControllerContext], tuple[Controller[Any], ...]]] = {
    "kube-scheduler": _scheduler,
    "kube-controller-manager": builtin_controllers,
    "jobset-controller-manager": jobset.controllers,
    "kueue-controller-manager": kueue.controllers,
    "cnrm-controller-manager": config_connector.controllers,
}
"""The controllers by component, in the order in which they observe a change."""


def aggregated_apis(context: ControllerContext) -> dict[str, AggregatedApi]:
    """The handlers of API groups that are not backed by the store."""
    return {VISIBILITY: visibility_api(context)}


def install(store: Store, webhooks: Webhooks, *, config_connector_kinds: bool = False) -> list[dict[str, Any]]:
    """Register the webhooks of JobSet, Kueue and Config Connector; returns the objects to create, such as their CRDs.

    Config Connector's many CRDs are included only with `config_connector_kinds`.
    """
    config_connector.install(webhooks)
    definitions = config_connector.definitions() if config_connector_kinds else []
    return [*jobset.install(store, webhooks), *kueue.install(store, webhooks), *definitions]
