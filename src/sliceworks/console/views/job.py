"""One training job: what it is, what has happened to it, its hosts and what was told about them. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sliceworks.console.kinds import EVENTS, JOBSETS, LOCAL_QUEUES, PODS, WORKLOADS
from sliceworks.console.views.jobs import JobRow, job_row
from sliceworks.console.views.troubles import Told, told
from sliceworks.training.asked import asked
from sliceworks.training.hosts import Host, hosts
from sliceworks.training.stages import line
from sliceworks.training.states import workers
from sliceworks.training.timeline import Step, timeline
from sliceworks.training.words import QUEUE

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sliceworks.console.world import World

Object = dict[str, Any]
KINDS = (JOBSETS, WORKLOADS, PODS, EVENTS)
MOST_HOSTS = 128  # of a job of more hosts those are shown first that are not well
_MOST_EVENTS = 20


@dataclass(frozen=True, slots=True)
class JobView:
    """Everything on a job's page but the answer to why, and logs. `leads_to` is the ClusterQueue behind its queue."""

    row: JobRow
    line: str
    leads_to: str
    image: str
    capacity: str
    restarts_allowed: int
    steps: tuple[Step, ...]
    hosts: tuple[Host, ...]
    more_hosts: int
    told: tuple[Told, ...]
    going: bool


def job_view(world: World, namespace: str, name: str, more: Iterable[Object] = ()) -> JobView | None:
    """The job as it is now; None where there is none. `more` are events that the world does not keep: what went well."""
    jobset = world.table(JOBSETS).get(name, namespace)
    if jobset is None:
        return None
    workload = workload_of(world, jobset)
    pods = world.table(PODS).store.by_index("job", f"{namespace}/{name}")
    every = hosts(jobset, pods)
    shown = every if len(every) <= MOST_HOSTS else sorted(every, key=lambda host: host.ready)[:MOST_HOSTS]
    pod = workers(jobset)["template"]["spec"]["template"]["spec"]
    ask = asked(jobset)
    return JobView(
        row=job_row(jobset),
        line=line(jobset, workload, pods),
        leads_to=_cluster_queue(world, jobset),
        image=str(pod["containers"][0].get("image", "")),
        capacity=ask.capacity if ask else "",
        restarts_allowed=(jobset["spec"].get("failurePolicy") or {}).get("maxRestarts", 0),
        steps=tuple(timeline(jobset, workload, pods)),
        hosts=tuple(shown),
        more_hosts=len(every) - len(shown),
        told=_told(world, [jobset, *([workload] if workload else []), *pods], more),
        going="deletionTimestamp" in jobset["metadata"],
    )


def _cluster_queue(world: World, jobset: Object) -> str:
    """The ClusterQueue that the job's own queue leads to; empty where it has none."""
    metadata = jobset["metadata"]
    local = world.table(LOCAL_QUEUES).get((metadata.get("labels") or {}).get(QUEUE, ""), metadata["namespace"])
    return str(local["spec"]["clusterQueue"]) if local else ""


def workload_of(world: World, jobset: Object) -> Object | None:
    """The Workload that stands for a job."""
    return next(iter(world.table(WORKLOADS).store.by_index("owner", jobset["metadata"]["uid"])), None)


def _told(world: World, about: Iterable[Object], more: Iterable[Object]) -> tuple[Told, ...]:
    """What was told about these objects, the latest first."""
    store = world.table(EVENTS).store
    warnings = [event for each in about for event in store.by_index("subject", each["metadata"]["uid"])]
    found = {event["metadata"]["uid"]: told(event) for event in (*more, *warnings)}
    return tuple(sorted(found.values(), key=lambda each: each.at, reverse=True)[:_MOST_EVENTS])
