"""Kueue v1beta2 as Kueue v0.15 behaves, for Jobs, JobSets, pods, groups of pods, Deployments and StatefulSets: its definitions, its
webhooks and its controllers.

Not here: fair sharing, topology-aware scheduling, MultiKueue, elastic jobs, and Workloads that are made before their jobs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.twin.admission.context import CREATE, UPDATE
from sliceworks.twin.api import conversions
from sliceworks.twin.workloads.kueue import webhooks as hooks
from sliceworks.twin.workloads.kueue.conversion import CONVERSIONS
from sliceworks.twin.workloads.kueue.jobs import Jobs
from sliceworks.twin.workloads.kueue.keys import (
    CLUSTER_QUEUES,
    COHORTS,
    DEPLOYMENTS,
    FLAVORS,
    JOBS,
    JOBSETS,
    PODS,
    STATEFULSETS,
    WORKLOADS,
)
from sliceworks.twin.workloads.kueue.pods import hooks as pod_hooks
from sliceworks.twin.workloads.kueue.pods import stateful
from sliceworks.twin.workloads.kueue.pods.stateful import StatefulPods
from sliceworks.twin.workloads.kueue.queues import Queues
from sliceworks.twin.workloads.kueue.scheduler import Scheduling
from sliceworks.twin.workloads.kueue.workloads import Workloads

if TYPE_CHECKING:
    from sliceworks.twin.admission.plugins import Webhooks
    from sliceworks.twin.controllers.loop import Controller
    from sliceworks.twin.controllers.world import World
    from sliceworks.twin.store.store import Store


def definitions() -> list[dict[str, Any]]:
    """The CustomResourceDefinitions of Kueue."""
    import gzip
    from importlib.resources import files

    import orjson

    found: list[dict[str, Any]] = orjson.loads(gzip.decompress((files(__package__) / "data" / "definitions.json.gz").read_bytes()))
    return found


def install(store: Store, webhooks: Webhooks) -> list[dict[str, Any]]:
    """Put Kueue's webhooks in place; returns the objects it brings along."""
    for resource, (shown, stored) in CONVERSIONS.items():
        conversions.special(resource, "v1beta1", shown=shown, stored=stored)
    for resource in (CLUSTER_QUEUES, FLAVORS):
        webhooks.change(resource, CREATE, hooks.mark_in_use)
    for resource in (JOBS, JOBSETS):
        webhooks.change(resource, CREATE, hooks.suspend)
    webhooks.change(WORKLOADS, CREATE, hooks.show_pod_sets)
    webhooks.change(WORKLOADS, UPDATE, hooks.keep_spec)
    webhooks.change(PODS, CREATE, pod_hooks.hold)
    for operation in (CREATE, UPDATE):
        webhooks.change(DEPLOYMENTS, operation, pod_hooks.pass_on)
        webhooks.judge(PODS, operation, pod_hooks.check_pod)
        webhooks.judge(DEPLOYMENTS, operation, pod_hooks.check_deployment)
        webhooks.change(STATEFULSETS, operation, stateful.pass_on)
        webhooks.judge(STATEFULSETS, operation, stateful.check)
        webhooks.judge(CLUSTER_QUEUES, operation, hooks.check_cluster_queue)
        webhooks.judge(COHORTS, operation, hooks.check_cohort)
        webhooks.judge(WORKLOADS, operation, hooks.check_workload)
        for resource in (JOBS, JOBSETS):
            webhooks.judge(resource, operation, hooks.check_job)
    return definitions()


def controllers(world: World) -> tuple[Controller[Any], ...]:
    return (Scheduling(world), Workloads(world), Jobs(world), Queues(world), StatefulPods(world))
