"""Status of a training job: its labels and states, its hosts, and one line that says where it is. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sliceworks.base.conditions import find_condition, is_condition_true
from sliceworks.base.names import pluralize
from sliceworks.catalog.labels import COMPLETION_INDEX, JOB_INDEX, QUEUE_NAME, REPLICATED_JOB, RUN_SECONDS
from sliceworks.specs import SLICE_JOB

if TYPE_CHECKING:
    from collections.abc import Iterable

TYPE_LABEL = "sliceworks.dev/type"
QUEUE_LABEL = QUEUE_NAME
PRIORITY_LABEL = "kueue.x-k8s.io/priority-class"
_RESTART_ATTEMPT = "jobset.sigs.k8s.io/restart-attempt"
ACTIVE_STATES = ("running", "starting", "restarting")
PENDING_STATES = ("queued", "suspended")
FINISHED_STATES = ("failed", "completed")
STATES = (*ACTIVE_STATES, *PENDING_STATES, *FINISHED_STATES)
Object = dict[str, Any]


def job_state(jobset: Object) -> str:
    """One word: completed, failed, queued, suspended, restarting, running or starting. Helpers do not count."""
    status = jobset.get("status") or {}
    for kind, word in (("Completed", "completed"), ("Failed", "failed")):
        if is_condition_true(jobset, kind):
            return word
    if (jobset.get("spec") or {}).get("suspend"):
        return "queued" if QUEUE_LABEL in (jobset["metadata"].get("labels") or {}) else "suspended"
    if is_condition_true(jobset, "RestartingJobSet"):
        return "restarting"
    ready = {item["name"]: item.get("ready", 0) + item.get("succeeded", 0) for item in status.get("replicatedJobsStatus") or ()}
    return "running" if all(ready.get(name, 0) >= count for name, count in _expected_jobs(jobset).items()) else "starting"


def _expected_jobs(jobset: Object) -> dict[str, int]:
    """The expected number of ready jobs: of the slices, or of all replicated jobs of a foreign JobSet."""
    expected = {job["name"]: job.get("replicas", 1) for job in jobset["spec"]["replicatedJobs"]}
    return {SLICE_JOB: expected[SLICE_JOB]} if SLICE_JOB in expected else expected


def workers(jobset: Object) -> Object:
    """The replicated job of the slices, or the first of a foreign JobSet."""
    jobs: list[Object] = jobset["spec"]["replicatedJobs"]
    return next((job for job in jobs if job["name"] == SLICE_JOB), jobs[0])


def pod_spec(jobset: Object) -> Object:
    """The pod spec of the workers."""
    spec: Object = workers(jobset)["template"]["spec"]["template"]["spec"]
    return spec


def final_condition(jobset: Object) -> Object:
    """The condition Completed or Failed if it is true, else an empty dict."""
    for kind in ("Completed", "Failed"):
        condition = find_condition(jobset, kind)
        if condition.get("status") == "True":
            return condition
    return {}


@dataclass(frozen=True, slots=True)
class Host:
    """A host of a slice; without a pod, its `pod` is empty."""

    job: str
    slice: int
    index: int
    pod: str = ""
    node: str = ""
    state: str = "no pod yet"
    ready: bool = False
    restarts: int = 0
    attempt: int = 0
    since: str = ""
    address: str = ""

    @property
    def label(self) -> str:
        """Its name in logs: `slice-0/1` is the second host of the first slice."""
        return f"{self.job}-{self.slice}/{self.index}"


def list_hosts(jobset: Object, pods: Iterable[Object]) -> list[Host]:
    """Every host of every slice, then the helpers. A newer pod of the same host replaces an older one."""
    hosts: dict[tuple[str, int, int], Host] = {}
    for pod in sorted(pods, key=_age):
        host = read_host(pod)
        hosts[host.job, host.slice, host.index] = host
    expected = []
    for job in jobset["spec"]["replicatedJobs"]:
        for number in range(job.get("replicas", 1)):
            for index in range(job["template"]["spec"].get("parallelism", 1)):
                key = (job["name"], number, index)
                expected.append(hosts.get(key) or Host(*key))
    return expected


def slice_hosts(hosts: Iterable[Host]) -> list[Host]:
    """The hosts of the slices, or all hosts of a foreign JobSet."""
    all_hosts = list(hosts)
    return [item for item in all_hosts if item.job == SLICE_JOB] or all_hosts


def read_host(pod: Object) -> Host:
    """A pod as a host."""
    metadata, status = pod["metadata"], pod.get("status") or {}
    labels = {**(metadata.get("annotations") or {}), **(metadata.get("labels") or {})}
    containers = status.get("containerStatuses") or []
    return Host(
        job=labels.get(REPLICATED_JOB, ""),
        slice=_number(labels.get(JOB_INDEX)),
        index=_number(labels.get(COMPLETION_INDEX)),
        pod=metadata["name"],
        node=(pod.get("spec") or {}).get("nodeName", ""),
        state=_host_state(pod, containers),
        ready=is_condition_true(pod, "Ready"),
        restarts=sum(container.get("restartCount", 0) for container in containers),
        attempt=_number(labels.get(_RESTART_ATTEMPT)),
        since=metadata.get("creationTimestamp", ""),
        address=status.get("podIP", ""),
    )


def _age(pod: Object) -> tuple[int, str]:
    return _number((pod["metadata"].get("labels") or {}).get(_RESTART_ATTEMPT)), pod["metadata"].get("creationTimestamp", "")


def _host_state(pod: Object, containers: list[Object]) -> str:
    """The state for display: the reason of a waiting or failed container takes precedence over the phase."""
    if "deletionTimestamp" in pod["metadata"]:
        return "ending"
    phase = (pod.get("status") or {}).get("phase", "Pending")
    for container in containers:
        state = container.get("state") or {}
        if ended := state.get("terminated"):
            if ended.get("exitCode"):
                return f"{ended.get('reason') or 'Error'}, exit code {ended['exitCode']}"
        elif waiting := state.get("waiting"):
            return str(waiting.get("reason") or "waiting")
    if phase == "Pending" and not (pod.get("spec") or {}).get("nodeName"):
        return str(find_condition(pod, "PodScheduled").get("reason") or "unscheduled").lower()
    return str((pod.get("status") or {}).get("reason") or phase).lower()


def _number(value: str | None) -> int:
    return int(value) if value and value.isdigit() else 0


def status_line(jobset: Object, workload: Object | None, pods: Iterable[Object]) -> str:
    """The state of a job with its details in one line."""
    state = job_state(jobset)
    if state in ("completed", "failed"):
        return f"{state}: {final_condition(jobset).get('message', '')}".rstrip(": ")
    if state == "queued":
        return _describe_queued(jobset, workload)
    hosts = slice_hosts(list_hosts(jobset, pods))
    ready = sum(host.ready for host in hosts)
    ended = sum(host.state == "succeeded" for host in hosts)
    restarts = (jobset.get("status") or {}).get("restarts", 0)
    line = f"{state}: {ready} of {len(hosts)} hosts are ready"
    line += f", {ended} have ended" if ended else ""
    return line + (f", after {pluralize(restarts, 'restart')}" if restarts else "")


def _describe_queued(jobset: Object, workload: Object | None) -> str:
    queue = jobset["metadata"]["labels"][QUEUE_LABEL]
    waiting = find_condition(workload, "QuotaReserved")
    if waiting.get("status") == "True":
        return f"queued: quota reserved in {queue}, admission checks pending"
    why = str(waiting.get("message") or find_condition(workload, "Evicted").get("message") or "")
    return f"queued in {queue}: {why}" if why else f"queued in {queue}"


def is_pending_workload(workload: Object) -> bool:
    """Whether a Workload is pending: it has no quota, and is neither finished nor deactivated."""
    has_quota, is_active = (workload.get("status") or {}).get("admission"), (workload.get("spec") or {}).get("active") is not False
    return is_active and not has_quota and not is_condition_true(workload, "Finished")


def estimated_run_time(workload: Object) -> float | None:
    """A Workload's run time in seconds by the annotations of its pods: the sum of the steps of a TrainingJob, else the maximum."""
    sets = workload["spec"]["podSets"]
    annotations = [((pods["template"].get("metadata") or {}).get("annotations") or {}).get(RUN_SECONDS) for pods in sets]
    estimates = [seconds for value in annotations if (seconds := _positive_number(value))]
    if any(pods["name"] == SLICE_JOB for pods in sets):
        return sum(estimates) if estimates else None
    return max(estimates, default=None)


def _positive_number(value: Any) -> float:
    try:
        return max(float(value or 0), 0.0)
    except ValueError:
        return 0.0


def owner_name(obj: Object) -> str:
    """The name of the first owner of an object, or its own name if it has no owner."""
    metadata = obj["metadata"]
    return str(next((reference["name"] for reference in metadata.get("ownerReferences") or ()), metadata["name"]))
