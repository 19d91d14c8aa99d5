"""Which pods of a job are meant: a slice, a host, a helper, and which attempt. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sliceworks.base.errors import UsageError
from sliceworks.specs.parts import SLICE
from sliceworks.training import hosts

if TYPE_CHECKING:
    from collections.abc import Iterable

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Choice:
    """What a person has named; None means all."""

    slice: int | None = None
    host: int | None = None
    helper: str | None = None

    def check(self, jobset: Object) -> None:
        """Refuses what the job does not have."""
        jobs = {each["name"]: each for each in jobset["spec"]["replicatedJobs"]}
        job = self.job(jobset)
        if job not in jobs:
            known = sorted(set(jobs) - {SLICE})
            raise UsageError(f"{jobset['metadata']['name']} has no helper {job!r}", hint=f"it has {', '.join(known) or 'none'}")
        most = {"slice": jobs[job].get("replicas", 1), "host": jobs[job]["template"]["spec"].get("parallelism", 1)}
        for what, number in (("slice", self.slice), ("host", self.host)):
            if number is not None and number >= most[what]:
                told = f"{what} {number}: there {'is one' if most[what] == 1 else f'are {most[what]}'}, and they count from 0"
                raise UsageError(told, hint=f"--{what} 0 to {most[what] - 1}" if most[what] > 1 else f"--{what} 0")

    def job(self, jobset: Object) -> str:
        """The replicated Job that is meant: a helper, or the slices; the first of a JobSet that is not of our making."""
        names = [str(each["name"]) for each in jobset["spec"]["replicatedJobs"]]
        return self.helper or (SLICE if SLICE in names else names[0])

    def takes(self, host: hosts.Host, job: str) -> bool:
        """Whether a host is meant."""
        return host.job == job and self.slice in (None, host.slice) and self.host in (None, host.index)


@dataclass(frozen=True, slots=True)
class Source:
    """A container whose log is wanted; `previous` is its run before this one."""

    host: hosts.Host
    pod: Object
    container: str
    previous: bool = False

    @property
    def uid(self) -> str:
        return str(self.pod["metadata"]["uid"])

    @property
    def started(self) -> bool:
        """Whether there is anything to read."""
        found = self._status()
        return bool(found) and (
            "waiting" not in (found.get("state") or {}) or bool((found.get("lastState") or {}).get("terminated"))
        )

    @property
    def ended(self) -> bool:
        """Whether nothing more will come."""
        return (self.pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")

    @property
    def ran_before(self) -> bool:
        """Whether its container runs again in the same pod."""
        return bool((self._status().get("lastState") or {}).get("terminated"))

    def _status(self) -> Object:
        statuses = (self.pod.get("status") or {}).get("containerStatuses") or ()
        return next((each for each in statuses if each["name"] == self.container), {})


def sources(jobset: Object, pods: Iterable[Object], choice: Choice) -> list[Source]:
    """Every pod that is meant, of any attempt, in the order of hosts and attempts."""
    job = choice.job(jobset)
    found = [Source(host, pod, pod["spec"]["containers"][0]["name"]) for pod in pods if choice.takes(host := hosts.read(pod), job)]
    return sorted(found, key=lambda each: (each.host.slice, each.host.index, each.host.attempt, each.host.since))


def latest(found: Iterable[Source]) -> list[Source]:
    """The newest pod of each host."""
    return list({(each.host.slice, each.host.index): each for each in found}.values())


def previous(found: Iterable[Source]) -> list[Source]:
    """What ran before: the pods of the attempt before, or the run before in the same pod."""
    every = list(found)
    newest = {each.uid for each in latest(every)}
    older = latest([each for each in every if each.uid not in newest])
    return older or [Source(each.host, each.pod, each.container, previous=True) for each in every if each.ran_before]
