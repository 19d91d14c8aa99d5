"""One machine with chips, as its node and its pods tell of it: how it stands, whose work it does, and what is wrong. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from sliceworks.base.conditions import condition
from sliceworks.catalog import labels

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

Object = dict[str, Any]
INSTANCE_TYPE = "node.kubernetes.io/instance-type"
_STATE = "sliceworks.dev/state"
_LEAVING = frozenset({"cloud.google.com/impending-node-termination", "ToBeDeletedByClusterAutoscaler"})
_JOB = "batch.kubernetes.io/job-name"
_ENDED = ("Succeeded", "Failed")
_numbers = re.compile(r"(\d+)").split


class HostState(StrEnum):
    """How a host stands, worst first: so a slice stands as the first of these that one of its hosts is in."""

    FAILED = "failed"
    PREEMPTED = "preempted"
    MAINTENANCE = "maintenance"
    MISSING = "missing"
    DRAINING = "draining"
    BOOTING = "booting"
    RUNNING = "running"
    READY = "ready"


WORDS = {
    HostState.FAILED: "does not answer",
    HostState.PREEMPTED: "is being taken away",
    HostState.MAINTENANCE: "is in maintenance",
    HostState.MISSING: "has no machine",
    HostState.DRAINING: "takes no new work",
    HostState.BOOTING: "is starting",
    HostState.RUNNING: "runs a job",
    HostState.READY: "is ready and free",
}


@dataclass(frozen=True, slots=True)
class Work:
    """What has a host's chips: a pod, and the job it is of."""

    pod: str
    namespace: str
    job: str
    running: bool

    def __str__(self) -> str:
        return f"{self.namespace}/{self.job}"


@dataclass(frozen=True, slots=True)
class Host:
    """A host of a slice by its number; one without a machine has no name."""

    number: int
    name: str
    state: HostState
    work: Work | None = None
    message: str = ""
    zone: str = ""
    created: str = ""

    @property
    def told(self) -> str:
        """The host in one sentence, for those who hear the drawing or point at it."""
        who = f"Host {self.number}{f' ({self.name})' if self.name else ''}"
        what = f"runs {self.work}" if self.state is HostState.RUNNING and self.work else WORDS[self.state]
        return f"{who} {what}{f': {self.message}' if self.message else ''}"


@lru_cache(maxsize=65_536)
def in_order(name: str) -> tuple[tuple[int, int | str], ...]:
    """Names as people count: host-2 before host-10."""
    return tuple((0, int(part)) if part.isdigit() else (1, part) for part in _numbers(name) if part)


def chips(node: Object) -> int:
    """How many TPU chips or GPUs a node has."""
    capacity = (node.get("status") or {}).get("capacity") or {}
    found = str(capacity.get(labels.TPU) or capacity.get(labels.GPU) or "0")
    return int(found) if found.isdigit() else 0


def at_work(pods: Iterable[Object]) -> dict[str, Work]:
    """By the name of the node: the pod that has its chips."""
    return dict(found for found in map(work_of, pods) if found)


def work_of(pod: Object) -> tuple[str, Work] | None:
    """The node whose chips a pod has, and what it does there; None where it has none."""
    node = (pod.get("spec") or {}).get("nodeName")
    phase = (pod.get("status") or {}).get("phase")
    if not node or phase in _ENDED or not asks_for_chips(pod):
        return None
    return node, _work(pod, running=phase == "Running")


def asks_for_chips(pod: Object) -> bool:
    """Whether a pod wants TPU chips or GPUs."""
    for container in pod["spec"].get("containers") or ():
        resources = container.get("resources") or {}
        for asked in (resources.get("limits"), resources.get("requests")):
            if asked and (labels.TPU in asked or labels.GPU in asked):
                return True
    return False


def _work(pod: Object, *, running: bool) -> Work:
    metadata = pod["metadata"]
    carried = metadata.get("labels") or {}
    owner: Mapping[str, Any] = next(iter(metadata.get("ownerReferences") or ()), {})
    job = carried.get(labels.JOBSET_NAME) or carried.get(_JOB) or owner.get("name") or metadata["name"]
    return Work(metadata["name"], metadata.get("namespace", ""), job, running)


def host(number: int, node: Object, work: Work | None, *, drained: bool = False) -> Host:
    """A host that has a machine."""
    state, message = _state(node, work, drained=drained)
    metadata = node["metadata"]
    zone = (metadata.get("labels") or {}).get(labels.ZONE, "")
    return Host(number, metadata["name"], state, work, message, zone, metadata.get("creationTimestamp", ""))


def _state(node: Object, work: Work | None, *, drained: bool) -> tuple[HostState, str]:
    metadata, spec = node["metadata"], node.get("spec") or {}
    ready = condition(node, "Ready")
    if not ready:
        return HostState.BOOTING, ""
    if ready.get("status") != "True":
        return _unwell(node), str(ready.get("message") or "")
    if metadata.get("deletionTimestamp") or drained:
        return HostState.DRAINING, "its slice is given back"
    if spec.get("unschedulable"):
        return HostState.DRAINING, "the node is cordoned"
    if work is not None and work.running:
        return HostState.RUNNING, ""
    return HostState.READY, f"{work} is starting here" if work else ""


def _unwell(node: Object) -> HostState:
    """Why a node that is not ready is so: taken away, in maintenance, or nobody knows."""
    told = (node["metadata"].get("annotations") or {}).get(_STATE)
    if told in (HostState.PREEMPTED, HostState.MAINTENANCE):
        return HostState(told)
    taints = {each.get("key") for each in (node.get("spec") or {}).get("taints") or ()}
    return HostState.PREEMPTED if taints & _LEAVING else HostState.FAILED
