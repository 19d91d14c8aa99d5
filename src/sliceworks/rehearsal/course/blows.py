"""Blows, watched: nodes that fail, are taken away or maintained, and pods that crash; and the jobs that were there."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sliceworks.catalog.labels import JOBSET_NAME
from sliceworks.rehearsal.course.plain_jobs import JOB_NAME

if TYPE_CHECKING:
    from sliceworks.twin.store.entries import Change

_STATE, _FAIL = "sliceworks.dev/state", "sliceworks.dev/fail"
_TO_NODES = {
    "silent": ("host", "went silent"),
    "preempted": ("host", "was taken away"),
    "maintenance": ("maintenance", "is maintained"),
}
_TO_PODS = {"crash": "crashed", "oom": "ran out of memory"}


@dataclass(frozen=True, slots=True)
class Blow:
    """What happened to a node or a pod, and whose jobs it struck."""

    at: float
    kind: str
    what: str
    jobs: tuple[str, ...]


class Blows:
    """Collects them, by the marks that a Scenario leaves on nodes and pods."""

    def __init__(self) -> None:
        self.all: list[Blow] = []
        self._on: dict[str, dict[tuple[str, str], str]] = defaultdict(dict)
        self._where: dict[tuple[str, str], str] = {}

    def see_node(self, at: float, change: Change) -> None:
        """A node may have been marked."""
        word = _marked(change, _STATE)
        if word in _TO_NODES:
            kind, what = _TO_NODES[word]
            jobs = tuple(sorted(set(self._on[change.name].values())))
            self.all.append(Blow(at, kind, f"{change.name} {what}", jobs))

    def see_pod(self, at: float, change: Change) -> None:
        """A pod may have been placed, marked, or gone."""
        key, obj = (change.namespace, change.name), change.obj
        labels = obj["metadata"].get("labels") or {}
        job = labels.get(JOBSET_NAME) or labels.get(JOB_NAME)
        ended = (obj.get("status") or {}).get("phase") in ("Succeeded", "Failed")
        if change.type == "DELETED" or ended:
            self._on[self._where.pop(key, "")].pop(key, None)
        elif job and obj["spec"].get("nodeName"):
            self._where[key] = obj["spec"]["nodeName"]
            self._on[self._where[key]][key] = f"{change.namespace}/{job}"
        word = _marked(change, _FAIL)
        if word in _TO_PODS:
            self.all.append(Blow(at, "crash", f"a pod {_TO_PODS[word]}", (f"{change.namespace}/{job}",) if job else ()))


def _marked(change: Change, name: str) -> str:
    """What an annotation says that is new."""
    if change.type == "DELETED" or name.encode() not in change.entry.data:
        return ""
    now = (change.obj["metadata"].get("annotations") or {}).get(name)
    before = ((change.old or {}).get("metadata", {}).get("annotations") or {}).get(name)
    return str(now) if now and now != before else ""
