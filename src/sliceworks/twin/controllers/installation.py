"""The components that run workloads, and what each one installs: webhooks, CustomResourceDefinitions and aggregated APIs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.twin.controllers import config_connector, jobset, kueue, volume_provisioner
from sliceworks.twin.controllers import controller_names as names
from sliceworks.twin.controllers.builtin.cronjob_controller import CronJobController
from sliceworks.twin.controllers.builtin.daemonset_controller import DaemonSetController
from sliceworks.twin.controllers.builtin.deployment_controller import DeploymentController
from sliceworks.twin.controllers.builtin.disruption_controller import DisruptionController
from sliceworks.twin.controllers.builtin.endpoints_controller import EndpointsController
from sliceworks.twin.controllers.builtin.endpointslice_controller import EndpointSliceController
from sliceworks.twin.controllers.builtin.endpointslicemirroring_controller import EndpointSliceMirroringController
from sliceworks.twin.controllers.builtin.ephemeral_volume_controller import EphemeralVolumeController
from sliceworks.twin.controllers.builtin.job_controller import JobController, TTLAfterFinishedController
from sliceworks.twin.controllers.builtin.node_lifecycle import NodeLifecycleController
from sliceworks.twin.controllers.builtin.persistentvolume_controller import PersistentVolumeController
from sliceworks.twin.controllers.builtin.persistentvolume_expander import PersistentVolumeExpander
from sliceworks.twin.controllers.builtin.pod_gc import PodGCController
from sliceworks.twin.controllers.builtin.podautoscaler_controller import HorizontalController
from sliceworks.twin.controllers.builtin.replicaset_controller import ReplicaSetController, ReplicationManager
from sliceworks.twin.controllers.builtin.statefulset_controller import StatefulSetController
from sliceworks.twin.controllers.builtin.taint_eviction import TaintEvictionController
from sliceworks.twin.controllers.kueue.visibility import GROUP as VISIBILITY
from sliceworks.twin.controllers.kueue.visibility import visibility_api
from sliceworks.twin.scheduler.scheduler import Scheduler

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Container, Iterator

    from sliceworks.twin.apiserver.admission.chain import Webhooks
    from sliceworks.twin.apiserver.registry.resources import AggregatedApi
    from sliceworks.twin.controllers.runtime.controller import Controller
    from sliceworks.twin.controllers.runtime.controller_context import ControllerContext
    from sliceworks.twin.store.store import Store

    ControllerFactory = Callable[[ControllerContext], tuple[Controller[Any], ...]]

CONTROLLERS: dict[str, Callable[[ControllerContext], Controller[Any]]] = {
    "job-controller": JobController,
    "ttl-after-finished-controller": TTLAfterFinishedController,
    "cronjob-controller": CronJobController,
    "replicaset-controller": ReplicaSetController,
    "replicationcontroller-controller": ReplicationManager,
    "deployment-controller": DeploymentController,
    "statefulset-controller": StatefulSetController,
    "daemonset-controller": DaemonSetController,
    "endpoints-controller": EndpointsController,
    "endpointslice-controller": EndpointSliceController,
    "endpointslice-mirroring-controller": EndpointSliceMirroringController,
    "disruption-controller": DisruptionController,
    "horizontal-pod-autoscaler-controller": HorizontalController,
    "node-lifecycle-controller": NodeLifecycleController,
    "taint-eviction-controller": TaintEvictionController,
    "pod-garbage-collector-controller": PodGCController,
    "ephemeral-volume-controller": EphemeralVolumeController,
    "persistentvolume-binder-controller": PersistentVolumeController,
    "persistentvolume-expander-controller": PersistentVolumeExpander,
}
"""The controllers of kube-controller-manager that run workloads, in the order in which they observe a change."""


def _scheduler(context: ControllerContext) -> tuple[Controller[Any], ...]:
    return (Scheduler(context),)


_OTHERS: dict[str, tuple[str, ControllerFactory]] = {
    names.JOBSET: ("jobset-controller-manager", jobset.controllers),
    names.KUEUE: ("kueue-controller-manager", kueue.controllers),
    names.CONFIG_CONNECTOR: ("cnrm-controller-manager", config_connector.controllers),
}


def components(without: Collection[str]) -> Iterator[tuple[str, ControllerFactory]]:
    """The components that run workloads, in the order in which they observe a change."""
    if names.SCHEDULER not in without:
        yield names.SCHEDULER, _scheduler
    enabled = [create for name, create in CONTROLLERS.items() if names.is_enabled(name, without)]
    drivers = volume_provisioner.controllers if names.VOLUME_PROVISIONER not in without else lambda _: ()
    if enabled or names.VOLUME_PROVISIONER not in without:
        # The drivers of volumes share a component: they need no outages of their own.
        yield names.CONTROLLER_MANAGER, lambda context: (*(create(context) for create in enabled), *drivers(context))
    for name, component in _OTHERS.items():
        if name not in without:
            yield component


def aggregated_apis(context: ControllerContext, without: Container[str]) -> dict[str, AggregatedApi]:
    """The handlers of API groups that are not backed by the store."""
    return {} if names.KUEUE in without else {VISIBILITY: visibility_api(context)}


def install(
    store: Store, webhooks: Webhooks, *, config_connector_kinds: bool = False, without: Container[str] = ()
) -> list[dict[str, Any]]:
    """Register the webhooks of JobSet, Kueue and Config Connector; returns the objects to create, such as
    their CRDs and the StorageClasses of GKE.

    Config Connector's many CRDs are included only with `config_connector_kinds`.
    """
    if names.CONFIG_CONNECTOR not in without:
        config_connector.install(webhooks)
    return [
        *(volume_provisioner.storage_classes() if names.VOLUME_PROVISIONER not in without else ()),
        *(jobset.install(store, webhooks) if names.JOBSET not in without else ()),
        *(kueue.install(store, webhooks) if names.KUEUE not in without else ()),
        *(config_connector.definitions() if config_connector_kinds else ()),
    ]
