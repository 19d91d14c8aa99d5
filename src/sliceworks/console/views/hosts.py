"""One TPU or GPU host: its state, its work and its problem, from its node and pods."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from sliceworks.base.conditions import find_condition
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
    """The state of a host, worst first; a slice has the worst state of its hosts."""

    FAILED = "failed"
    PREEMPTED = "preempted"
    MAINTENANCE = "maintenance"
    MISSING = "missing"
    DRAINING = "draining"
    BOOTING = "booting"
    RUNNING = "running"
    READY = "ready"


STATE_LABELS = {
    HostState.FAILED: "is unreachable",
    HostState.PREEMPTED: "is being preempted",
    HostState.MAINTENANCE: "is in maintenance",
    HostState.MISSING: "has no node",
    HostState.DRAINING: "is draining",
    HostState.BOOTING: "is starting",
    HostState.RUNNING: "runs a job",
    HostState.READY: "is ready and free",
}


@dataclass(frozen=True, slots=True)
class Work:
    """The pod that uses the chips of a host, and its job."""

    pod: str
    namespace: str
    job: str
    running: bool

    def __str__(self) -> str:
        return f"{self.namespace}/{self.job}"


@dataclass(frozen=True, slots=True)
class Host:
    """A host of a slice; `name` is empty if it has no node."""

    number: int
    name: str
    state: HostState
    work: Work | None = None
    message: str = ""
    zone: str = ""
    created: str = ""

    @property
    def summary(self) -> str:
        """The host in one sentence, for tooltips and screen readers."""
        name = f"Host {self.number}{f' ({self.name})' if self.name else ''}"
        what = f"runs {self.work}" if self.state is HostState.RUNNING and self.work else STATE_LABELS[self.state]
        return f"{name} {what}{f': {self.message}' if self.message else ''}"


@lru_cache(maxsize=65_536)
def natural_key(name: str) -> tuple[tuple[int, int | str], ...]:
    """A sort key that orders host-2 before host-10."""
    return tuple((0, int(part)) if part.isdigit() else (1, part) for part in _numbers(name) if part)


def chips(node: Object) -> int:
    """The number of TPU chips or GPUs of a node."""
    capacity = (node.get("status") or {}).get("capacity") or {}
    count = str(capacity.get(labels.TPU) or capacity.get(labels.GPU) or "0")
    return int(count) if count.isdigit() else 0


def work_by_node(pods: Iterable[Object]) -> dict[str, Work]:
    """The pod that uses the chips of each node, by node name."""
    return dict(pair for pair in map(work_of, pods) if pair)


def work_of(pod: Object) -> tuple[str, Work] | None:
    """The node whose chips a pod uses and its work there, or None."""
    node = (pod.get("spec") or {}).get("nodeName")
    phase = (pod.get("status") or {}).get("phase")
    if not node or phase in _ENDED or not requests_chips(pod):
        return None
    return node, _work(pod, running=phase == "Running")


def requests_chips(pod: Object) -> bool:
    """Whether a pod requests TPU chips or GPUs."""
    for container in pod["spec"].get("containers") or ():
        resources = container.get("resources") or {}
        for amounts in (resources.get("limits"), resources.get("requests")):
            if amounts and (labels.TPU in amounts or labels.GPU in amounts):
                return True
    return False


def _work(pod: Object, *, running: bool) -> Work:
    metadata = pod["metadata"]
    pod_labels = metadata.get("labels") or {}
    owner: Mapping[str, Any] = next(iter(metadata.get("ownerReferences") or ()), {})
    job = pod_labels.get(labels.JOBSET_NAME) or pod_labels.get(_JOB) or owner.get("name") or metadata["name"]
    return Work(metadata["name"], metadata.get("namespace", ""), job, running)


def host(number: int, node: Object, work: Work | None, *, drained: bool = False) -> Host:
    """The host of a node."""
    state, message = _state(node, work, drained=drained)
    metadata = node["metadata"]
    zone = (metadata.get("labels") or {}).get(labels.ZONE, "")
    return Host(number, metadata["name"], state, work, message, zone, metadata.get("creationTimestamp", ""))


def _state(node: Object, work: Work | None, *, drained: bool) -> tuple[HostState, str]:
    metadata, spec = node["metadata"], node.get("spec") or {}
    ready = find_condition(node, "Ready")
    if not ready:
        return HostState.BOOTING, ""
    if ready.get("status") != "True":
        return _not_ready_state(node), str(ready.get("message") or "")
    if metadata.get("deletionTimestamp") or drained:
        return HostState.DRAINING, "the slice is being released"
    if spec.get("unschedulable"):
        return HostState.DRAINING, "the node is cordoned"
    if work is not None and work.running:
        return HostState.RUNNING, ""
    return HostState.READY, f"{work} is starting here" if work else ""


def lost_label(node: Object) -> str:
    """What has happened to the host of a node that is not ready; empty if it is ready or still starting."""
    ready = find_condition(node, "Ready")
    return f"host {STATE_LABELS[_not_ready_state(node)]}" if ready and ready.get("status") != "True" else ""


def _not_ready_state(node: Object) -> HostState:
    """Whether a node that is not ready was preempted, is in maintenance or has failed."""
    state = (node["metadata"].get("annotations") or {}).get(_STATE)
    if state in (HostState.PREEMPTED, HostState.MAINTENANCE):
        return HostState(state)
    taints = {taint.get("key") for taint in (node.get("spec") or {}).get("taints") or ()}
    return HostState.PREEMPTED if taints & _LEAVING else HostState.FAILED
