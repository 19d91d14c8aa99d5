"""Containers whose logs are selected: by slice, host, helper and attempt. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sliceworks.base.errors import UsageError
from sliceworks.specs import SLICE_JOB
from sliceworks.training import status

if TYPE_CHECKING:
    from collections.abc import Iterable

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class PodSelection:
    """The selected slice, host and helper; None means all."""

    slice: int | None = None
    host: int | None = None
    helper: str | None = None

    def check(self, jobset: Object) -> None:
        """Raise UsageError if the job does not have the selection."""
        jobs = {replicated_job["name"]: replicated_job for replicated_job in jobset["spec"]["replicatedJobs"]}
        job = self.job(jobset)
        if job not in jobs:
            known = sorted(set(jobs) - {SLICE_JOB})
            raise UsageError(
                f"{jobset['metadata']['name']} has no helper {job!r}", hint=f"its helpers: {', '.join(known) or 'none'}"
            )
        counts = {"slice": jobs[job].get("replicas", 1), "host": jobs[job]["template"]["spec"].get("parallelism", 1)}
        for option, number in (("slice", self.slice), ("host", self.host)):
            if number is not None and number >= counts[option]:
                message = f"{option} {number} does not exist: the job has {counts[option]}, counted from 0"
                raise UsageError(message, hint=f"--{option} 0 to {counts[option] - 1}" if counts[option] > 1 else f"--{option} 0")

    def job(self, jobset: Object) -> str:
        """The selected replicated job: a helper, the slices, or the first of a foreign JobSet."""
        names = [str(replicated_job["name"]) for replicated_job in jobset["spec"]["replicatedJobs"]]
        return self.helper or (SLICE_JOB if SLICE_JOB in names else names[0])

    def selects(self, host: status.Host, job: str) -> bool:
        """Whether a host is selected."""
        return host.job == job and self.slice in (None, host.slice) and self.host in (None, host.index)


@dataclass(frozen=True, slots=True)
class LogSource:
    """A container whose log is read; `previous` selects its previous run."""

    host: status.Host
    pod: Object
    container: str
    previous: bool = False

    @property
    def uid(self) -> str:
        return str(self.pod["metadata"]["uid"])

    @property
    def started(self) -> bool:
        """Whether the container has started and so has a log."""
        status = self._status()
        return bool(status) and (
            "waiting" not in (status.get("state") or {}) or bool((status.get("lastState") or {}).get("terminated"))
        )

    @property
    def ended(self) -> bool:
        """Whether the pod has finished and the log is complete."""
        return (self.pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")

    @property
    def ran_before(self) -> bool:
        """Whether the container was restarted in the same pod."""
        return bool((self._status().get("lastState") or {}).get("terminated"))

    def _status(self) -> Object:
        statuses = (self.pod.get("status") or {}).get("containerStatuses") or ()
        return next((status for status in statuses if status["name"] == self.container), {})


def list_sources(jobset: Object, pods: Iterable[Object], selection: PodSelection) -> list[LogSource]:
    """The selected pods of all attempts, ordered by host and attempt."""
    job = selection.job(jobset)
    sources = [
        LogSource(host, pod, pod["spec"]["containers"][0]["name"])
        for pod in pods
        if selection.selects(host := status.read_host(pod), job)
    ]
    return sorted(sources, key=lambda source: (source.host.slice, source.host.index, source.host.attempt, source.host.since))


def latest(sources: Iterable[LogSource]) -> list[LogSource]:
    """The newest pod of each host."""
    return list({(source.host.slice, source.host.index): source for source in sources}.values())


def previous(sources: Iterable[LogSource]) -> list[LogSource]:
    """The pods of the previous attempt, or else the previous containers of the same pods."""
    all_sources = list(sources)
    newest = {source.uid for source in latest(all_sources)}
    older = latest([source for source in all_sources if source.uid not in newest])
    return older or [
        LogSource(source.host, source.pod, source.container, previous=True) for source in all_sources if source.ran_before
    ]
