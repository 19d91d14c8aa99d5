"""The controllers of Kubernetes' own workloads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.twin.workloads.autoscalers.controller import Autoscalers
from sliceworks.twin.workloads.cronjobs.controller import CronJobs
from sliceworks.twin.workloads.daemonsets.controller import DaemonSets
from sliceworks.twin.workloads.deployments.controller import Deployments
from sliceworks.twin.workloads.disruption import Disruption
from sliceworks.twin.workloads.endpoints.controller import EndpointSlices
from sliceworks.twin.workloads.jobs.controller import Jobs
from sliceworks.twin.workloads.jobs.ttl import FinishedJobs
from sliceworks.twin.workloads.nodehealth.eviction import TaintEviction
from sliceworks.twin.workloads.nodehealth.lifecycle import NodeLifecycle
from sliceworks.twin.workloads.nodehealth.pod_garbage import PodGarbage
from sliceworks.twin.workloads.replicasets import ReplicaSets
from sliceworks.twin.workloads.statefulsets.controller import StatefulSets

if TYPE_CHECKING:
    from sliceworks.twin.controllers.loop import Controller
    from sliceworks.twin.controllers.world import World


def controllers(world: World) -> tuple[Controller[Any], ...]:
    """All of them, in the order in which they are told of a change."""
    return (
        Jobs(world),
        FinishedJobs(world),
        CronJobs(world),
        ReplicaSets(world),
        Deployments(world),
        StatefulSets(world),
        DaemonSets(world),
        EndpointSlices(world),
        Disruption(world),
        Autoscalers(world),
        NodeLifecycle(world),
        TaintEviction(world),
        PodGarbage(world),
    )
