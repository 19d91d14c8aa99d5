"""Why workloads are pending: the first cause of `train why`, computed from the cache within a time budget."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.base import clock
from sliceworks.base.conditions import find_condition
from sliceworks.console.kinds import (
    ADMISSION_CHECKS,
    CLUSTER_QUEUES,
    COHORTS,
    FLAVORS,
    JOBSETS,
    LOCAL_QUEUES,
    NAMESPACES,
    WORKLOADS,
)
from sliceworks.training.diagnosis import workload_causes
from sliceworks.training.diagnosis.analysis import find_causes
from sliceworks.training.diagnosis.model import Evidence
from sliceworks.training.quota import cohort_of, cohort_tree

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sliceworks.console.cluster_cache import ClusterCache

Object = dict[str, Any]
KINDS = (ADMISSION_CHECKS, COHORTS, FLAVORS)
_EVIDENCE = (*KINDS, CLUSTER_QUEUES, JOBSETS, LOCAL_QUEUES, NAMESPACES, WORKLOADS)
_HEAD = 6
_TIME_BUDGET = 0.06  # seconds per page
_TTL = 15.0
_MAX_CACHED = 2_000


class PendingReasons:
    """Why the first workloads of each queue are pending. Reasons are cached, since they change rarely and are costly to compute."""

    def __init__(self, cache: ClusterCache) -> None:
        self._cache = cache
        self._cached: dict[str, tuple[float, int, str]] = {}
        self._deadline = 0.0
        self._computed_one = False
        self.incomplete = False
        """Whether the last page ran out of its time budget."""

    def start_budget(self) -> None:
        """Start the time budget of a page."""
        self._deadline = clock.perf_counter() + _TIME_BUDGET
        self._computed_one = self.incomplete = False
        if len(self._cached) > _MAX_CACHED:
            self._cached.clear()

    def reason(self, workload: Object, place: int, pending: Sequence[Object]) -> str:
        """The first cause; empty until all objects are read, and Kueue's own message if the time budget is spent."""
        if "reading" in [self._cache.table(kind).state for kind in _EVIDENCE]:
            self.incomplete = True  # a cause from half of the objects would be wrong
            return ""
        uid, now = workload["metadata"]["uid"], clock.loop_time()
        expires, at, reason = self._cached.get(uid, (0.0, -1, ""))
        if now < expires and at == place:
            return reason
        if clock.perf_counter() > self._deadline and (reason or self._computed_one):
            self.incomplete = self.incomplete or not reason
            return reason or find_condition(workload, "QuotaReserved").get("message", "")
        self._computed_one = True  # at least one new reason per page, so that a slow machine makes progress
        reason = _why(self._cache, workload, place, pending)
        self._cached[uid] = (now + _TTL, place, reason)
        return reason


def _why(cache: ClusterCache, workload: Object, place: int, pending: Sequence[Object]) -> str:
    """The first cause; Kueue's own message if the JobSet is not found."""
    metadata = workload["metadata"]
    jobset = next(
        (owner for reference in metadata.get("ownerReferences") or () if (owner := _jobset(cache, metadata, reference))), None
    )
    if jobset is None:
        return str(find_condition(workload, "QuotaReserved").get("message", ""))
    return find_causes(_evidence(cache, jobset, workload, place, pending))[0].message


def _jobset(cache: ClusterCache, metadata: Object, owner: Object) -> Object | None:
    return cache.table(JOBSETS).get(owner["name"], metadata["namespace"]) if owner.get("kind") == "JobSet" else None


def _evidence(cache: ClusterCache, jobset: Object, workload: Object, place: int, pending: Sequence[Object]) -> Evidence:
    namespace = workload["metadata"]["namespace"]
    local = cache.table(LOCAL_QUEUES).get(workload["spec"].get("queueName", ""), namespace)
    queue = cache.table(CLUSTER_QUEUES).get(local["spec"]["clusterQueue"]) if local else None
    shared, cohorts = _cohort(cache, queue)
    workloads = cache.table(WORKLOADS).store
    holders = [holder for item in shared for holder in workloads.by_index("holds", item["metadata"]["name"])]
    preemptor = workload_causes.preemptor_uid(workload)
    return Evidence(
        jobset,
        cache.now(),
        workload=workload,
        local_queue=local,
        local_queues=tuple(item["metadata"]["name"] for item in cache.table(LOCAL_QUEUES).store.select(namespace)),
        cluster_queue=queue,
        cohort=shared,
        cohorts=cohorts,
        flavors={item["metadata"]["name"]: item for item in cache.table(FLAVORS).all()},
        checks={check["metadata"]["name"]: check for check in cache.table(ADMISSION_CHECKS).all()},
        namespace_object=cache.table(NAMESPACES).get(namespace),
        queue_index=place,
        head=tuple(pending[:_HEAD]),
        holders=tuple(sorted(holders, key=lambda holder: (holder["metadata"]["namespace"], holder["metadata"]["name"]))),
        preemptor=next(iter(workloads.by_index("owner", preemptor)), None) if preemptor else None,
    )


def _cohort(cache: ClusterCache, queue: Object | None) -> tuple[tuple[Object, ...], tuple[Object, ...]]:
    """The ClusterQueues that share quota with this one, and their Cohorts."""
    name = cohort_of(queue) if queue else ""
    if queue is None or not name:
        return ((queue,) if queue else ()), ()
    cohorts = list(cache.table(COHORTS).all())
    tree = cohort_tree(name, cohorts)
    queues = tuple(item for item in cache.table(CLUSTER_QUEUES).all() if cohort_of(item) in tree)
    return queues or (queue,), tuple(cohort for cohort in cohorts if cohort["metadata"]["name"] in tree)
