"""When a pod ended, and how long to wait before another takes its place. Pure."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

FIRST, LONGEST = 10.0, 600.0


class Record(NamedTuple):
    """The failures of a Job since its last success."""

    failures: int = 0
    last: datetime | None = None


def next_record(record: Record, succeeded: Iterable[datetime], failed: Iterable[datetime]) -> Record:
    """The record after more pods have ended."""
    good, bad = sorted(succeeded), sorted(failed)
    if not good:
        return Record(record.failures + len(bad), bad[-1]) if bad else record
    after = [moment for moment in bad if moment > good[-1]]
    return Record(len(after), after[-1]) if after else Record()


def remaining(failures: int, last: datetime | None, now: datetime) -> float:
    """Seconds until another pod may be made after so many failures in a row."""
    if not failures or last is None:
        return 0.0
    wait = min(LONGEST, FIRST * 2.0 ** min(failures - 1, 16))
    return max(0.0, wait - (now - last).total_seconds())


def finished_at(pod: Mapping[str, Any]) -> datetime:
    """When a pod ended: by its containers, else by when it stopped to be ready, else by its deletion, else its creation."""
    status, metadata = pod.get("status") or {}, pod["metadata"]
    found = _containers(pod, status)
    if found is not None:
        return found
    for condition in status.get("conditions") or ():
        if condition.get("type") == "Ready" and condition.get("status") == "False" and condition.get("lastTransitionTime"):
            return moment(condition["lastTransitionTime"])
    if metadata.get("deletionTimestamp"):
        return moment(metadata["deletionTimestamp"]) - timedelta(seconds=metadata.get("deletionGracePeriodSeconds") or 0)
    return moment(metadata["creationTimestamp"])


def _containers(pod: Mapping[str, Any], status: Mapping[str, Any]) -> datetime | None:
    sidecars = {
        container["name"]
        for container in (pod.get("spec") or {}).get("initContainers") or ()
        if container.get("restartPolicy") == "Always"
    }
    ended = [container.get("state") or {} for container in status.get("containerStatuses") or ()]
    ended += [each.get("state") or {} for each in status.get("initContainerStatuses") or () if each.get("name") in sidecars]
    times = [(state.get("terminated") or {}).get("finishedAt") for state in ended]
    return max(moment(str(time)) for time in times) if times and all(times) else None


def moment(text: str) -> datetime:
    """A time as Kubernetes writes it."""
    return datetime.fromisoformat(text).astimezone(UTC)
