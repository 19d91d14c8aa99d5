"""The hosts of a job, from its pods: which slice, which node, how each stands. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sliceworks.base.conditions import condition, is_true
from sliceworks.specs.parts import SLICE

if TYPE_CHECKING:
    from collections.abc import Iterable

Object = dict[str, Any]
_JOBSET = "jobset.sigs.k8s.io"
REPLICATED, JOB_INDEX, ATTEMPT = f"{_JOBSET}/replicatedjob-name", f"{_JOBSET}/job-index", f"{_JOBSET}/restart-attempt"
INDEX = "batch.kubernetes.io/job-completion-index"


@dataclass(frozen=True, slots=True)
class Host:
    """One pod that there is, or that there should be: then it has no name."""

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
        """What it is called in a log: `slice-0/1` is the second host of the first slice."""
        return f"{self.job}-{self.slice}/{self.index}"


def hosts(jobset: Object, pods: Iterable[Object]) -> list[Host]:
    """Every host of every slice, then the helpers. Of two pods of one host the newer counts."""
    found: dict[tuple[str, int, int], Host] = {}
    for pod in sorted(pods, key=_age):
        host = read(pod)
        found[host.job, host.slice, host.index] = host
    wanted = []
    for job in jobset["spec"]["replicatedJobs"]:
        for number in range(job.get("replicas", 1)):
            for index in range(job["template"]["spec"].get("parallelism", 1)):
                key = (job["name"], number, index)
                wanted.append(found.get(key) or Host(*key))
    return wanted


def slices_of(found: Iterable[Host]) -> list[Host]:
    """The slices' hosts alone; of a JobSet that has none of our making, all."""
    every = list(found)
    return [each for each in every if each.job == SLICE] or every


def read(pod: Object) -> Host:
    """A pod as a host."""
    metadata, status = pod["metadata"], pod.get("status") or {}
    labels = {**(metadata.get("annotations") or {}), **(metadata.get("labels") or {})}
    containers = status.get("containerStatuses") or []
    return Host(
        job=labels.get(REPLICATED, ""),
        slice=_number(labels.get(JOB_INDEX)),
        index=_number(labels.get(INDEX)),
        pod=metadata["name"],
        node=(pod.get("spec") or {}).get("nodeName", ""),
        state=_state(pod, containers),
        ready=is_true(pod, "Ready"),
        restarts=sum(each.get("restartCount", 0) for each in containers),
        attempt=_number(labels.get(ATTEMPT)),
        since=metadata.get("creationTimestamp", ""),
        address=status.get("podIP", ""),
    )


def _age(pod: Object) -> tuple[int, str]:
    return _number((pod["metadata"].get("labels") or {}).get(ATTEMPT)), pod["metadata"].get("creationTimestamp", "")


def _state(pod: Object, containers: list[Object]) -> str:
    """A word or two; what a container waits for or died of says more than its pod's phase."""
    if "deletionTimestamp" in pod["metadata"]:
        return "ending"
    phase = (pod.get("status") or {}).get("phase", "Pending")
    for container in containers:
        state = container.get("state") or {}
        if ended := state.get("terminated"):
            if ended.get("exitCode"):
                return f"{ended.get('reason') or 'Error'}, exit code {ended['exitCode']}"
        elif waits := state.get("waiting"):
            return str(waits.get("reason") or "waiting")
    if phase == "Pending" and not (pod.get("spec") or {}).get("nodeName"):
        return str(condition(pod, "PodScheduled").get("reason") or "unscheduled").lower()
    return str((pod.get("status") or {}).get("reason") or phase).lower()


def _number(text: str | None) -> int:
    return int(text) if text and text.isdigit() else 0
