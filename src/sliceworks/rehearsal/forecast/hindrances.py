"""Why a job does not start in a run that is over: it never can, or it waits for work of which nobody knows how long it runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sliceworks.twin.workloads.kueue.core.model import STRICT, amount_text

if TYPE_CHECKING:
    from sliceworks.rehearsal.forecast.course import Course, Track
    from sliceworks.rehearsal.forecast.jobs import Job
    from sliceworks.twin.workloads.kueue.core.model import Item, Queue
    from sliceworks.twin.workloads.kueue.core.quotas import Node

NEVER, UNKNOWN = "never", "unknown"
_NAMED = 3


def of(job: Job, course: Course) -> tuple[str, str]:
    """The verdict, and the reason in one line."""
    if job.problem:
        return NEVER, job.problem
    if job.key not in course.tracks:
        return NEVER, "it is taken away"
    namespace, name = job.item.queue
    local = course.ledger.locals.get((namespace, name))
    if local is None:
        return NEVER, f"there is no queue {name!r} in namespace {namespace}"
    target = local["spec"].get("clusterQueue") or ""
    if target not in course.ledger.queues:
        return NEVER, f"queue {name} leads to ClusterQueue {target}, which does not exist"
    if (local["spec"].get("stopPolicy") or "None") != "None":
        return NEVER, f"queue {name} is stopped"
    problem = course.ledger.problem(target)
    if problem is not None:
        return NEVER, f"ClusterQueue {target}: {problem[1]}"
    queue = course.ledger.brain.tree.leaves[target]
    return _too_much(job.item, queue) or _behind(job, course, queue) or (NEVER, _words(job, course))


def _too_much(item: Item, queue: Queue) -> tuple[str, str] | None:
    """Whether it asks for more than its queue can ever have."""
    total: dict[str, int] = {}
    for pods in item.pod_sets:
        for resource, amount in pods.requests.items():
            total[resource] = total.get(resource, 0) + amount
    for resource, amount in total.items():
        group = queue.group_of(resource)
        if group is None:
            return NEVER, f"ClusterQueue {queue.name} has no quota for {resource}"
        most = max((queue.potential((flavor, resource)) for flavor in group.flavors), default=0)
        if amount > most and len(item.pod_sets) == 1:
            asked, had = amount_text(resource, amount), amount_text(resource, most)
            return (
                NEVER,
                f"it asks for {asked} {resource}, and ClusterQueue {queue.name} can never have more than {had} of a flavor",
            )
    return None


def _behind(job: Job, course: Course, queue: Queue) -> tuple[str, str] | None:
    """Whether others are in the way: those that may run for ever, or the first of a strict queue."""
    root = _root(queue)
    brain = course.ledger.brain
    endless = [
        track
        for track in course.tracks.values()
        if track.lasts is None and brain.holds(track.item) and _root(brain.tree.leaves[track.item.cluster_queue]) is root
    ]
    if endless:
        return UNKNOWN, f"nothing says how long {_list(endless)} will run"
    first = next(iter(brain.pending[queue.name].ordered()), None)
    if queue.strategy == STRICT and first is not None and first.key != job.key and first.key in course.tracks:
        return (
            NEVER,
            f"ClusterQueue {queue.name} is a strict queue, and {course.tracks[first.key].job.name} is first and cannot start",
        )
    return None


def _list(tracks: list[Track]) -> str:
    names = sorted(track.job.name for track in tracks)
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


def _root(node: Node) -> Node:
    found = node
    while found.parent is not None:
        found = found.parent
    return found


def _words(job: Job, course: Course) -> str:
    """What Kueue says of it."""
    return course.words.get((job.item.queue, job.item.shape)) or "its queue never comes to it"
