"""Training jobs: table rows, queries, and everything on the page of one job."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from sliceworks.base.conditions import find_condition
from sliceworks.base.names import pluralize
from sliceworks.console.kinds import EVENTS, JOBSETS, LOCAL_QUEUES, NODES, PODS, WORKLOADS
from sliceworks.console.views.hosts import lost_label
from sliceworks.console.views.incidents import EventRow, event_row
from sliceworks.training.slice_request import request_of_jobset, slice_size
from sliceworks.training.status import (
    ACTIVE_STATES,
    FINISHED_STATES,
    PENDING_STATES,
    PRIORITY_LABEL,
    QUEUE_LABEL,
    STATES,
    TYPE_LABEL,
    Host,
    final_condition,
    job_state,
    list_hosts,
    slice_hosts,
    status_line,
    workers,
)
from sliceworks.training.timeline import TimelineEntry, build_timeline

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from sliceworks.console.cluster_cache import ClusterCache

Object = dict[str, Any]
PAGE_SIZE = 50
SORTS = ("name", "team", "state", "type", "chips", "restarts", "age", "cost")
_RANK = {word: number for number, word in enumerate(STATES)}


@dataclass(frozen=True, slots=True)
class JobRow:
    """A job in the table. `usd` is the cost per hour of its slices, None if unknown; `ready` counts ready slices; `message` is the
    message of the JobSet's final condition."""

    namespace: str
    name: str
    queue: str
    priority: str
    type: str
    state: str
    slices: int
    ready: int
    hosts: int
    chips: int
    restarts: int
    created: str
    started: str
    ended: str
    usd: float | None
    message: str = ""

    @property
    def holds(self) -> bool:
        """Whether the job occupies slices now, or starts and has quota for them."""
        return self.state in ACTIVE_STATES

    @property
    def runs(self) -> bool:
        """Whether the job occupies slices now; the slices of one that starts may not exist yet."""
        return self.holds and (self.state != "starting" or self.ready > 0)


def job_row(jobset: Object) -> JobRow:
    """The table row of a JobSet."""
    metadata, status = jobset["metadata"], jobset.get("status") or {}
    labels, first, request = metadata.get("labels") or {}, workers(jobset), request_of_jobset(jobset)
    hosts, chips = slice_size(jobset)
    counts: Object = next((item for item in status.get("replicatedJobsStatus") or () if item["name"] == first["name"]), {})
    resumed = find_condition(jobset, "Suspended")
    price = request.price if request else None
    return JobRow(
        namespace=metadata["namespace"],
        name=metadata["name"],
        queue=labels.get(QUEUE_LABEL, ""),
        priority=labels.get(PRIORITY_LABEL, ""),
        type=labels.get(TYPE_LABEL, "") or (request.shape.type_name if request else ""),
        state=job_state(jobset),
        slices=first.get("replicas", 1),
        ready=counts.get("ready", 0) + counts.get("succeeded", 0),
        hosts=hosts,
        chips=chips or (request.chips if request else 0),
        restarts=status.get("restarts", 0),
        created=metadata["creationTimestamp"],
        started=_started(jobset, resumed),
        ended=final_condition(jobset).get("lastTransitionTime", ""),
        usd=price.usd if price else None,
        message=final_condition(jobset).get("message", ""),
    )


def _started(jobset: Object, suspended: Object) -> str:
    """When the JobSet was last resumed; its creation time if it was never suspended."""
    if not suspended:
        return "" if jobset["spec"].get("suspend") else str(jobset["metadata"]["creationTimestamp"])
    return str(suspended["lastTransitionTime"]) if suspended["status"] == "False" else ""


@dataclass(frozen=True, slots=True)
class JobQuery:
    """A query for jobs. `page` counts from 0; without `sort`, running jobs come first, then pending, then finished ones."""

    text: str = ""
    team: str = ""
    state: str = ""
    sort: str = ""
    descending: bool = False
    page: int = 0

    @staticmethod
    def read(params: Mapping[str, str]) -> JobQuery:
        """Parse the query parameters of a URL; invalid values are ignored."""
        sort, page = params.get("sort", ""), params.get("page", "")
        column = sort.removeprefix("-")
        return JobQuery(
            text=params.get("text", ""),
            team=params.get("team", ""),
            state=params.get("state", ""),
            sort=column if column in SORTS else "",
            descending=sort.startswith("-") and column in SORTS,
            page=int(page) - 1 if page.isdecimal() and int(page) else 0,
        )

    def to_params(self) -> dict[str, str]:
        """The query as URL parameters; pages count from 1 there."""
        sort = f"-{self.sort}" if self.sort and self.descending else self.sort
        page = str(self.page + 1) if self.page else ""
        params = {"text": self.text, "team": self.team, "state": self.state, "sort": sort, "page": page}
        return {name: value for name, value in params.items() if value}

    def by(self, column: str) -> JobQuery:
        """Cycle the sort of a column: ascending, descending, default order."""
        if self.sort != column:
            return replace(self, sort=column, descending=False, page=0)
        return replace(self, descending=True, page=0) if not self.descending else replace(self, sort="", descending=False, page=0)


@dataclass(frozen=True, slots=True)
class JobsPage:
    """One page of the table: `first` is the index of its first row among the `matches` of `total` jobs."""

    rows: tuple[tuple[str, JobRow], ...]
    first: int
    matches: int
    total: int
    pages: int
    query: JobQuery
    states: tuple[tuple[str, int], ...]
    teams: tuple[str, ...]


def query_jobs(rows: Iterable[JobRow], team_of: Mapping[str, str], query: JobQuery) -> JobsPage:
    """The requested page, or the last one if there are fewer; each row with its team."""
    jobs = [(team_of.get(row.namespace, row.namespace), row) for row in rows]
    words = query.text.lower().split()
    pairs = [pair for pair in jobs if _matches(pair, query, words)]
    _sort(pairs, query)
    pages = max(-(-len(pairs) // PAGE_SIZE), 1)
    page = min(max(query.page, 0), pages - 1)
    counts = Counter(row.state for _, row in jobs)
    return JobsPage(
        rows=tuple(pairs[page * PAGE_SIZE : (page + 1) * PAGE_SIZE]),
        first=page * PAGE_SIZE,
        matches=len(pairs),
        total=len(jobs),
        pages=pages,
        query=replace(query, page=page),
        states=tuple((word, counts[word]) for word in STATES if counts[word]),
        teams=tuple(sorted({team for team, _ in jobs})),
    )


def _matches(pair: tuple[str, JobRow], query: JobQuery, words: list[str]) -> bool:
    team, row = pair
    if (query.team and team != query.team) or (query.state and row.state != query.state):
        return False
    if not words:
        return True
    text = f"{row.namespace}/{row.name} {team} {row.queue} {row.type} {row.priority} {row.state}".lower()
    return all(word in text for word in words)


def _sort(pairs: list[tuple[str, JobRow]], query: JobQuery) -> None:
    """Sort in place; rows that are equal in the column are ordered by age."""
    if not query.sort:
        ended = sorted((pair for pair in pairs if pair[1].state in FINISHED_STATES), key=lambda pair: pair[1].ended, reverse=True)
        others = [item for item in pairs if item[1].state not in FINISHED_STATES]
        pairs[:] = [*sorted(others, key=lambda pair: (pair[1].state in PENDING_STATES, pair[1].created, pair[1].name)), *ended]
        return
    pairs.sort(key=lambda pair: pair[1].created)
    keys = {
        "name": lambda pair: pair[1].name,
        "team": lambda pair: pair[0],
        "state": lambda pair: _RANK.get(pair[1].state, 9),
        "type": lambda pair: pair[1].type,
        "chips": lambda pair: pair[1].chips,
        "restarts": lambda pair: pair[1].restarts,
        "age": lambda pair: pair[1].created,
        "cost": lambda pair: pair[1].usd or 0.0,
    }
    # Ascending age is descending creation time.
    pairs.sort(key=keys[query.sort], reverse=query.descending is not (query.sort == "age"))


KINDS = (JOBSETS, WORKLOADS, PODS, EVENTS)
MAX_HOSTS = 128  # of larger jobs, hosts that are not ready are shown first
_MAX_EVENTS = 20


@dataclass(frozen=True, slots=True)
class JobView:
    """The page of a job, except for its diagnosis and logs."""

    row: JobRow
    line: str
    cluster_queue: str
    image: str
    capacity: str
    restarts_allowed: int
    steps: tuple[TimelineEntry, ...]
    hosts: tuple[Host, ...]
    lost_hosts: Mapping[str, str]  # what has happened to nodes that are not ready, by node name
    more_hosts: int
    hosts_note: str
    events: tuple[EventRow, ...]
    is_deleting: bool
    tensorboard: str = ""
    logs: str = ""


def build_job_view(cache: ClusterCache, namespace: str, name: str, more: Iterable[Object] = ()) -> JobView | None:
    """The current state of a job, or None if not found. `more` are normal events, which the cache does not keep."""
    jobset = cache.table(JOBSETS).get(name, namespace)
    if jobset is None:
        return None
    workload = find_workload(cache, jobset)
    pods = cache.table(PODS).store.by_index("job", f"{namespace}/{name}")
    all_hosts = list_hosts(jobset, pods)
    shown = all_hosts if len(all_hosts) <= MAX_HOSTS else sorted(all_hosts, key=lambda host: host.ready)[:MAX_HOSTS]
    pod = workers(jobset)["template"]["spec"]["template"]["spec"]
    request = request_of_jobset(jobset)
    nodes = [node for pod in pods if (node := cache.table(NODES).get(pod["spec"].get("nodeName", "")))]
    return JobView(
        row=job_row(jobset),
        line=status_line(jobset, workload, pods),
        cluster_queue=_cluster_queue(cache, jobset),
        image=str(pod["containers"][0].get("image", "")),
        capacity=request.capacity if request else "",
        restarts_allowed=(jobset["spec"].get("failurePolicy") or {}).get("maxRestarts", 0),
        steps=tuple(build_timeline(jobset, workload, pods)),
        hosts=tuple(shown),
        lost_hosts={node["metadata"]["name"]: label for node in nodes if (label := lost_label(node))},
        more_hosts=len(all_hosts) - len(shown),
        hosts_note=_hosts_note(all_hosts, len(all_hosts) - len(shown)),
        events=_events(cache, [jobset, *([workload] if workload else []), *pods], more),
        is_deleting="deletionTimestamp" in jobset["metadata"],
        tensorboard=tensorboard_url(jobset),
        logs=logs_url(jobset, nodes),
    )


def tensorboard_url(jobset: Object) -> str:
    """The experiment of the job in Vertex AI TensorBoard, or an empty string."""
    for job in jobset["spec"]["replicatedJobs"]:
        for container in job["template"]["spec"]["template"]["spec"].get("containers") or ():
            options = dict(arg[2:].partition("=")[::2] for arg in container.get("args") or () if arg.startswith("--"))
            instance = options.get("tensorboard_resource_name", "").split("/")
            if len(instance) == 6:
                path = "+".join([*instance, "experiments", options.get("experiment_name", "")])
                return f"https://{instance[3]}.tensorboard.googleusercontent.com/experiment/{quote(path, safe='+')}"
    return ""


def logs_url(jobset: Object, nodes: Iterable[Object]) -> str:
    """The job's logs in Cloud Logging, or an empty string if no pod runs on a machine of Google Cloud."""
    metadata = jobset["metadata"]
    query = (
        f'resource.type="k8s_container"\nresource.labels.namespace_name="{metadata["namespace"]}"\n'
        f'labels."k8s-pod/jobset_sigs_k8s_io/jobset-name"="{metadata["name"]}"'
    )
    for node in nodes:
        provider, _, rest = str(node["spec"].get("providerID", "")).partition("://")
        if provider == "gce" and "sliceworks.dev/node" not in (node["metadata"].get("labels") or {}):
            return f"https://console.cloud.google.com/logs/query;query={quote(query, safe='')}?project={rest.partition('/')[0]}"
    return ""


def _hosts_note(hosts: list[Host], hidden: int) -> str:
    """How many hosts of the slices are ready, as in the status line; pods of helpers are counted separately."""
    members = slice_hosts(hosts)
    ready, succeeded = sum(host.ready for host in members), sum(host.state == "succeeded" for host in members)
    word = f"{succeeded} of {len(members)} succeeded" if succeeded and not ready else f"{ready} of {len(members)} ready"
    notes = [word]
    notes += [pluralize(len(hosts) - len(members), "other pod")] if len(hosts) > len(members) else []
    return ", ".join([*notes, *([f"{hidden} not shown"] if hidden else [])])


def _cluster_queue(cache: ClusterCache, jobset: Object) -> str:
    """The ClusterQueue of the job's LocalQueue, or an empty string."""
    metadata = jobset["metadata"]
    local = cache.table(LOCAL_QUEUES).get((metadata.get("labels") or {}).get(QUEUE_LABEL, ""), metadata["namespace"])
    return str(local["spec"]["clusterQueue"]) if local else ""


def find_workload(cache: ClusterCache, jobset: Object) -> Object | None:
    """The Workload of a JobSet."""
    return next(iter(cache.table(WORKLOADS).store.by_index("owner", jobset["metadata"]["uid"])), None)


def _events(cache: ClusterCache, about: Iterable[Object], more: Iterable[Object]) -> tuple[EventRow, ...]:
    """The events of these objects, latest first; a reason that is repeated for an object is shown with its last message."""
    store = cache.table(EVENTS).store
    warnings = [event for item in about for event in store.by_index("subject", item["metadata"]["uid"])]
    rows = {event["metadata"]["uid"]: event_row(event) for event in (*more, *warnings)}
    merged: dict[tuple[str, str, str], EventRow] = {}
    for row in sorted(rows.values(), key=lambda row: row.at, reverse=True):
        key = (row.kind, row.name, row.reason)
        merged[key] = replace(merged[key], times=merged[key].times + row.times) if key in merged else row
    return tuple(islice(merged.values(), _MAX_EVENTS))
