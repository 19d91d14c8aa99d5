"""Observes every change of the twin's store; the record is built from what it collected."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sliceworks.base import clock
from sliceworks.catalog.labels import NODE_POOL
from sliceworks.rehearsal.simulation.chip_observer import NODES, PODS, ChipObserver
from sliceworks.rehearsal.simulation.incidents import DisruptionObserver
from sliceworks.rehearsal.simulation.instance_observer import InstanceObserver
from sliceworks.rehearsal.simulation.job_observer import JOBS, JOBSETS, WORKLOADS, JobObserver
from sliceworks.rehearsal.simulation.pool_observer import POOLS, PoolObserver
from sliceworks.training.queues import TEAM_LABEL

if TYPE_CHECKING:
    from collections.abc import Callable

    from sliceworks.rehearsal.simulation.pool_observer import ObservedPool
    from sliceworks.twin.store.watch_cache import Change

_NAMESPACES = "/namespaces"


class Observer:
    """Dispatches every change of the store to the observers; calls `on_change` after each, for progress output."""

    def __init__(self, on_change: Callable[[Observer], None]) -> None:
        self._on_change = on_change
        self._begin = clock.loop_time()
        self._teams: dict[str, str] = {}
        self.jobs, self.machines, self.chips, self.instances = (
            JobObserver(self.team_of),
            PoolObserver(),
            ChipObserver(self.team_of),
            InstanceObserver(),
        )
        self.disruptions = DisruptionObserver()
        self.pools: dict[str, ObservedPool] = {}
        """All pools of the run by name, including deleted ones."""

    @property
    def now(self) -> float:
        """Twin seconds since the start."""
        return clock.loop_time() - self._begin

    def team_of(self, namespace: str) -> str:
        """Team of a namespace; the namespace's own name if it has no team."""
        return self._teams.get(namespace, namespace)

    def _observe_node_pool(self, at: float, change: Change) -> None:
        """Derive the pool of a node that the cloud did not create."""
        pool = str((change.obj["metadata"].get("labels") or {}).get(NODE_POOL) or "")
        if pool:
            self.machines.observe_node(at, pool, change)
            self._record_pool(pool)

    def _record_pool(self, name: str) -> None:
        if (pool := self.machines.find(name)) is not None:
            self.pools[name] = pool

    def observe(self, change: Change) -> None:
        """Process one change."""
        at, resource = self.now, change.resource
        if resource == PODS:
            self.chips.observe_pod(at, change)
            self.disruptions.observe_pod(at, change)
        elif resource == NODES:
            self.chips.observe_node(at, change)
            self.disruptions.observe_node(at, change)
            self._observe_node_pool(at, change)
        elif resource == POOLS:
            self.machines.observe(at, change)
            self._record_pool(change.name)
        elif resource == JOBSETS:
            self.jobs.observe_jobset(at, change)
        elif resource == JOBS:
            self.jobs.observe_job(at, change)
            self.instances.observe(at, change)
        elif resource == WORKLOADS:
            self.jobs.observe_workload(at, change)
        elif resource == _NAMESPACES:
            self._teams[change.name] = str((change.obj["metadata"].get("labels") or {}).get(TEAM_LABEL) or change.name)
        else:
            self.instances.observe(at, change)
        self._on_change(self)
