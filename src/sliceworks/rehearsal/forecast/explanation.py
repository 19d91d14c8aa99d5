"""Why a job does not start in a trial, and what the forecast assumes."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from sliceworks.base import duration
from sliceworks.base.names import join_first
from sliceworks.twin.controllers.kueue.core.model import STRICT_FIFO, format_quantity

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sliceworks.rehearsal.forecast.arrivals import Arrivals
    from sliceworks.rehearsal.forecast.jobs import Job
    from sliceworks.rehearsal.forecast.run_time import History
    from sliceworks.rehearsal.forecast.snapshot import Snapshot
    from sliceworks.rehearsal.forecast.trial import JobProgress, Trial
    from sliceworks.twin.controllers.kueue.core.model import ClusterQueue, WorkloadInfo
    from sliceworks.twin.controllers.kueue.core.quota_tree import ResourceNode

NEVER, UNKNOWN = "never", "unknown"
_MAX_LISTED = 3


def explain_blocked(job: Job, trial: Trial) -> tuple[str, str]:
    """Why a job does not start in a trial: verdict and reason."""
    if job.problem:
        return NEVER, job.problem
    if job.key not in trial.progress:
        return NEVER, "it is deleted during the forecast"
    namespace, name = job.item.queue
    local = trial.cache.local_queues.get((namespace, name))
    if local is None:
        return NEVER, f"queue {name!r} not found in namespace {namespace}"
    target = local["spec"].get("clusterQueue") or ""
    if target not in trial.cache.cluster_queues:
        return NEVER, f"queue {name} refers to ClusterQueue {target}, which does not exist"
    if (local["spec"].get("stopPolicy") or "None") != "None":
        return NEVER, f"queue {name} is stopped"
    problem = trial.cache.inactive_reason(target)
    if problem is not None:
        return NEVER, f"ClusterQueue {target}: {problem[1]}"
    queue = trial.cache.queue_manager.tree.cluster_queues[target]
    return _exceeds_queue(job.item, queue) or _blocked_by_others(job, trial, queue) or (NEVER, _kueue_message(job, trial))


def _exceeds_queue(item: WorkloadInfo, queue: ClusterQueue) -> tuple[str, str] | None:
    """Whether it requests more than its queue can ever get."""
    total: dict[str, int] = {}
    for pods in item.pod_sets:
        for resource, amount in pods.requests.items():
            total[resource] = total.get(resource, 0) + amount
    for resource, amount in total.items():
        group = queue.resource_group_for(resource)
        if group is None:
            return NEVER, f"ClusterQueue {queue.name} has no quota for {resource}"
        available = max((queue.potential_available((flavor, resource)) for flavor in group.flavors), default=0)
        if amount > available and len(item.pod_sets) == 1:
            requested, limit = format_quantity(resource, amount), format_quantity(resource, available)
            return (
                NEVER,
                f"it requests {requested} {resource}, ClusterQueue {queue.name} provides at most {limit} per flavor",
            )
    return None


def _blocked_by_others(job: Job, trial: Trial, queue: ClusterQueue) -> tuple[str, str] | None:
    """Whether other jobs block it: those with unknown run time, or the head of a StrictFIFO queue."""
    root = _root(queue)
    manager = trial.cache.queue_manager
    unbounded = [
        track
        for track in trial.progress.values()
        if track.run_time is None
        and manager.has_quota(track.item)
        and _root(manager.tree.cluster_queues[track.item.cluster_queue]) is root
    ]
    if unbounded:
        return UNKNOWN, f"the run time of {_list_jobs(unbounded)} is unknown"
    first = next(iter(manager.pending[queue.name].ordered()), None)
    if queue.strategy == STRICT_FIFO and first is not None and first.key != job.key and first.key in trial.progress:
        return (
            NEVER,
            f"ClusterQueue {queue.name} is StrictFIFO, and its head {trial.progress[first.key].job.name} cannot start",
        )
    return None


def _list_jobs(tracks: list[JobProgress]) -> str:
    return join_first(sorted(track.job.name for track in tracks), _MAX_LISTED)


def _root(node: ResourceNode) -> ResourceNode:
    result = node
    while result.parent is not None:
        result = result.parent
    return result


def _kueue_message(job: Job, trial: Trial) -> str:
    """Kueue's own message for the workload."""
    return trial.messages.get((job.item.queue, job.item.equivalence_hash)) or "Kueue never considers it"


def list_assumptions(snapshot: Snapshot, jobs: Sequence[Job], history: History, arrivals: Arrivals) -> list[str]:
    """The assumptions of a forecast, one sentence each."""
    return [
        _arrivals(arrivals),
        _capacity(history),
        *_run_times(jobs, history),
        *_preemption(jobs),
        *_checks(snapshot),
    ]


def _arrivals(arrivals: Arrivals) -> str:
    if not arrivals.days:
        return "No other jobs are submitted."
    rate = sum(map(len, arrivals.days)) / len(arrivals.days)
    return f"Jobs arrive as in the last {len(arrivals.days)} days, {rate:.0f} per day."


def _capacity(history: History) -> str:
    ready = f"are ready {duration.human(history.boot)} after admission, as before" if history.boot else "start at admission"
    return f"Nodes exist for all quota, no node fails, and jobs {ready}."


def _run_times(jobs: Sequence[Job], history: History) -> list[str]:
    sources: Counter[str] = Counter()
    unknown: list[str] = []
    for job in jobs:
        known = history.run_time(job)
        if known.distribution is None:
            unknown.append(job.name)
        sources[_source_group(known.source)] += 1
    del sources["unknown"]
    result = []
    if sources:
        result.append("Run times: " + ", ".join(f"{count} from {group}" for group, count in sources.most_common()) + ".")
    if unknown:
        names = ", ".join(sorted(unknown)[:_MAX_LISTED]) + (" and others" if len(unknown) > _MAX_LISTED else "")
        result.append(f"The run time of {len(unknown)} of {len(jobs)} jobs is unknown ({names}): assumed to never finish.")
    return result


def _source_group(source: str) -> str:
    if source.startswith("estimate"):
        return "estimates corrected by earlier runs" if "as right as" in source else "estimates, within a factor of two"
    if source.startswith("assumed"):
        return "your assumptions"
    return "unknown" if source == "unknown" else "similar runs"


def _preemption(jobs: Sequence[Job]) -> list[str]:
    resuming = sum(job.resumes for job in jobs)
    except_for = f", except {resuming} of {len(jobs)} jobs with a checkpoint folder" if resuming else ""
    return [f"Preempted jobs restart from the beginning{except_for}."]


def _checks(snapshot: Snapshot) -> list[str]:
    result = []
    queues = snapshot.list("ClusterQueue")
    if any((queue["spec"].get("admissionChecksStrategy") or {}).get("admissionChecks") for queue in queues):
        result.append("Admission checks pass immediately.")
    if any(queue["spec"].get("fairSharing") for queue in queues):
        result.append("Fair sharing is ignored: workloads are ordered by priority and time.")
    return result
