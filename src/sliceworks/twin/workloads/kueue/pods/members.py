"""The pods of a group: who belongs to it, who counts, and who is one too many."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from sliceworks.base import clock
from sliceworks.twin.workloads.kueue import conditions
from sliceworks.twin.workloads.kueue.keys import GATES, GROUP_NAME, GROUP_TOTAL, MANAGED, PODS, RETRIABLE, Obj
from sliceworks.twin.workloads.kueue.pods.roles import role_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from sliceworks.twin.controllers.loop import Change

_MARK = GROUP_NAME.encode()


class Groups:
    """An index: the names of the pods of each group."""

    watches = frozenset({PODS})

    def __init__(self) -> None:
        self.names: dict[tuple[str, str], dict[str, None]] = {}

    def observe(self, change: Change) -> None:
        if _MARK not in change.entry.data:
            return
        key = (change.namespace, group_of(change.obj))
        if not key[1]:
            return
        if change.type != "DELETED":
            self.names.setdefault(key, {})[change.name] = None
        elif key in self.names:
            self.names[key].pop(change.name, None)
            if not self.names[key]:
                del self.names[key]


def group_of(pod: Mapping[str, Any]) -> str:
    return str((pod["metadata"].get("labels") or {}).get(GROUP_NAME) or "")


def annotation(pod: Mapping[str, Any], name: str) -> str | None:
    found = (pod["metadata"].get("annotations") or {}).get(name)
    return None if found is None else str(found)


def total_of(pod: Mapping[str, Any]) -> int:
    """The number of pods that the group shall have; zero when it is not said rightly."""
    text = annotation(pod, GROUP_TOTAL) or ""
    return int(text) if text.isdigit() else 0


def phase(pod: Mapping[str, Any]) -> str:
    return str((pod.get("status") or {}).get("phase") or "")


def ended(pod: Mapping[str, Any]) -> bool:
    return phase(pod) in ("Succeeded", "Failed")


def gated(pod: Mapping[str, Any]) -> bool:
    return any(gate["name"] == GATES[0] for gate in pod["spec"].get("schedulingGates") or ())


def held(pod: Mapping[str, Any]) -> bool:
    return MANAGED in (pod["metadata"].get("finalizers") or ())


def leaving(pod: Mapping[str, Any]) -> bool:
    return "deletionTimestamp" in pod["metadata"]


def usable(pod: Mapping[str, Any]) -> bool:
    """Whether it can still run, runs or has ended well."""
    return not (leaving(pod) and not pod["spec"].get("nodeName")) and phase(pod) != "Failed"


def running(pod: Mapping[str, Any]) -> bool:
    """Whether it runs, and has not outstayed its time to leave."""
    if phase(pod) != "Running":
        return False
    metadata = pod["metadata"]
    if "deletionTimestamp" not in metadata or metadata.get("deletionGracePeriodSeconds") is None:
        return True
    end = datetime.fromisoformat(metadata["deletionTimestamp"]) + timedelta(seconds=metadata["deletionGracePeriodSeconds"])
    return clock.now() <= end


def final(pods: Iterable[Mapping[str, Any]]) -> bool:
    """Whether a pod says that the group is not to be tried again."""
    return any(annotation(pod, RETRIABLE) == "false" for pod in pods)


def by_worth(pods: Iterable[Obj]) -> list[Obj]:
    """Pods that can run, those first that are to be kept."""
    return sorted(pods, key=lambda pod: (not held(pod), gated(pod), pod["metadata"]["creationTimestamp"]))


def _last_active(pod: Mapping[str, Any], now: datetime) -> datetime:
    times = [
        one["lastTransitionTime"]
        for one in (pod.get("status") or {}).get("conditions") or ()
        if (one["type"], one["status"], one.get("reason")) == ("ContainersReady", "False", "Failed")
    ]
    if leaving(pod):
        times.append(pod["metadata"]["deletionTimestamp"])
    return min([now, *map(datetime.fromisoformat, times)])


def by_end(pods: Iterable[Obj]) -> list[Obj]:
    """Pods that cannot run any more, those first that were of use last."""
    now = clock.now()
    aged = sorted(pods, key=lambda pod: str(pod["metadata"]["creationTimestamp"]))
    recent = sorted(aged, key=lambda pod: _last_active(pod, now), reverse=True)
    return sorted(recent, key=lambda pod: not held(pod))


class Sorted(NamedTuple):
    """Who stays, who is one too many, who has been replaced, and how many are missing."""

    kept: list[Obj]
    excess: list[Obj]
    replaced: list[Obj]
    absent: int


def sort_out(pods: list[Obj], workload: Mapping[str, Any]) -> Sorted:
    """Hold the pods of a group against the roles in its Workload."""
    kept: list[Obj] = []
    excess: list[Obj] = []
    replaced: list[Obj] = []
    absent = 0
    for pod_set in conditions.pod_sets_of(workload):
        mine = [pod for pod in pods if role_of(pod) == pod_set["name"]]
        good, bad, count = by_worth(filter(usable, mine)), [pod for pod in mine if not usable(pod)], pod_set["count"]
        absent += max(0, count - len(good))
        kept += good[:count]
        excess += good[count:]
        stay = max(0, min(len(bad), count - len(good)))
        bad = by_end(bad)
        kept += bad[:stay]
        replaced += bad[stay:]
    return Sorted(kept, excess, replaced, absent)
