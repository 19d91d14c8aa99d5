"""Which nodes a DaemonSet runs on, which pods to create or delete, and its status. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from sliceworks.kube.node_affinity import Tolerations, parse_node_affinity
from sliceworks.twin.controllers.builtin.pod_control import is_available, min_ready_seconds, scaled_value
from sliceworks.twin.controllers.runtime.revisions import REVISION_LABEL

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from sliceworks.kube.node_affinity import Taint
    from sliceworks.kube.resources import Object
    from sliceworks.twin.controllers.runtime.pod_index import Pod

TEMPLATE_GENERATION = "pod-template-generation"
_TEMPLATE_GENERATION_ANNOTATION = "deprecated.daemonset.template.generation"
_TOLERATED_TAINTS = (
    ("not-ready", "NoExecute"),
    ("unreachable", "NoExecute"),
    ("disk-pressure", "NoSchedule"),
    ("memory-pressure", "NoSchedule"),
    ("pid-pressure", "NoSchedule"),
    ("unschedulable", "NoSchedule"),
)


class Node(NamedTuple):
    """The fields of a node that decide whether pods run on it."""

    labels: Mapping[str, str]
    taints: tuple[Taint, ...]


@dataclass(slots=True)
class PodChanges:
    """The nodes to create a pod for, and the pods to delete."""

    create: list[str] = field(default_factory=list)
    delete: list[Pod] = field(default_factory=list)
    finished: list[tuple[str, Pod]] = field(default_factory=list)
    """The finished ones among the pods to delete, with their nodes."""


class DaemonSetState:
    """A DaemonSet, all nodes, and its pods by target node."""

    def __init__(
        self, daemon_set: Object, nodes: Mapping[str, Node], pods: Mapping[str, list[Pod]], revision_hash: str, now: datetime
    ) -> None:
        self.daemon_set, self.nodes, self.pods, self.revision_hash, self.now = daemon_set, nodes, pods, revision_hash, now
        self.min_ready = min_ready_seconds(daemon_set)
        spec = daemon_set["spec"]["template"]["spec"]
        self._affinity = parse_node_affinity(spec)
        self._node_name = spec.get("nodeName", "")
        self._tolerations = Tolerations(daemon_tolerations(spec))
        self.eligibility = {name: self._should_run(name, node) for name, node in nodes.items()}

    def _should_run(self, name: str, node: Node) -> tuple[bool, bool]:
        """Whether a pod should run on a node, and whether a running one may continue to run."""
        if self._node_name not in ("", name) or not self._affinity.matches(name, node.labels):
            return False, False
        effects = {taint[2] for taint in node.taints if not self._tolerations.tolerates(taint)}
        if effects & {"NoSchedule", "NoExecute"}:
            return False, "NoExecute" not in effects
        return True, True

    def is_updated(self, pod: Pod) -> bool:
        generation = template_generation(self.daemon_set)
        return pod.labels.get(REVISION_LABEL) == self.revision_hash or (
            generation is not None and pod.labels.get(TEMPLATE_GENERATION) == generation
        )

    def is_available(self, pod: Pod | None) -> bool:
        return pod is not None and is_available(pod, self.min_ready, self.now)

    def surge_and_unavailable(self) -> tuple[int, int]:
        """maxSurge and maxUnavailable as numbers; if both are zero, one pod may be unavailable."""
        strategy = self.daemon_set["spec"].get("updateStrategy") or {}
        if strategy.get("type", "RollingUpdate") != "RollingUpdate":
            return 0, 0
        desired = sum(1 for runs, _ in self.eligibility.values() if runs)
        rolling = strategy.get("rollingUpdate") or {}
        surge = scaled_value(rolling.get("maxSurge", 0), desired, round_up=True)
        unavailable = scaled_value(rolling.get("maxUnavailable", 1), desired, round_up=True)
        return surge, 1 if not surge and not unavailable else unavailable


def daemon_tolerations(spec: Object) -> list[Object]:
    """The tolerations of a DaemonSet's pods: those of the template, and those of unhealthy nodes' taints."""
    taints = [*_TOLERATED_TAINTS, *([("network-unavailable", "NoSchedule")] if spec.get("hostNetwork") else [])]
    tolerations: list[Object] = list(spec.get("tolerations") or ())
    for key, effect in taints:
        toleration = {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": effect}
        if toleration not in tolerations:
            tolerations.append(toleration)
    return tolerations


def template_generation(daemon_set: Object) -> str | None:
    """The deprecated template generation annotation."""
    generation: str | None = (daemon_set["metadata"].get("annotations") or {}).get(_TEMPLATE_GENERATION_ANNOTATION)
    return generation


def by_age(pods: list[Pod]) -> list[Pod]:
    return sorted(pods, key=lambda pod: (not pod.node, pod.created, pod.name))


def manage(state: DaemonSetState) -> PodChanges:
    """The changes to one pod on each eligible node and none on others."""
    changes = PodChanges()
    surging = state.surge_and_unavailable()[0] > 0
    for name, (should_run, may_continue) in state.eligibility.items():
        pods = state.pods.get(name)
        if should_run and not pods:
            changes.create.append(name)
        elif may_continue and pods:
            _manage_node(state, changes, name, pods, surging=surging and should_run)
        elif pods:
            changes.delete += [pod for pod in pods if not pod.deleting]
    for name, pods in state.pods.items():
        if name not in state.nodes:
            changes.delete += [pod for pod in pods if not pod.node]
    return changes


def _manage_node(state: DaemonSetState, changes: PodChanges, name: str, pods: list[Pod], *, surging: bool) -> None:
    current = [pod for pod in pods if not pod.deleting]
    changes.finished += [(name, pod) for pod in current if pod.finished]
    changes.delete += [pod for pod in current if pod.finished]
    active = by_age([pod for pod in current if not pod.finished])
    if not surging:
        changes.delete += active[1:]
        return
    if not active:
        changes.create.append(name)
        return
    new = [pod for pod in active if state.is_updated(pod)]
    old = [pod for pod in active if not state.is_updated(pod)]
    changes.delete += new[1:] + old[1:]
    if new and old and (not old[0].ready or state.is_available(new[0])):
        changes.delete.append(old[0])


def rolling_update(state: DaemonSetState) -> PodChanges:
    """One step of a rolling update to the current template."""
    max_surge, max_unavailable = state.surge_and_unavailable()
    changes, unavailable = PodChanges(), 0
    candidates: list[Pod] = []
    targets: list[str] = []
    if (state.daemon_set["spec"].get("updateStrategy") or {}).get("type", "RollingUpdate") != "RollingUpdate":
        return changes
    for name, pods in state.pods.items():
        current = [pod for pod in pods if not pod.deleting]
        new = [pod for pod in current if state.is_updated(pod)]
        old = [pod for pod in current if not state.is_updated(pod)]
        if max_surge:
            if old and not new and state.eligibility.get(name, (False, False))[0]:
                (changes.create if not state.is_available(old[0]) else targets).append(name)
            elif new and old:
                unavailable += not state.is_available(new[0])
            continue
        if len(current) != 1 or not state.is_available(current[0]):
            unavailable += 1
            changes.delete += old if len(current) == 1 else []
        elif old:
            candidates.append(old[0])
    changes.delete += candidates[: max(0, max_unavailable - unavailable)]
    changes.create += targets[: max(0, max_surge - unavailable)]
    return changes


def compute_status(state: DaemonSetState) -> Object:
    """The status: the nodes with and without their pod."""
    counts = dict.fromkeys(("desired", "current", "misscheduled", "ready", "updated", "available"), 0)
    for name, (should_run, _) in state.eligibility.items():
        pods = state.pods.get(name)
        if not should_run:
            counts["misscheduled"] += bool(pods)
            continue
        counts["desired"] += 1
        if pods:
            pod = by_age(pods)[0]
            counts["current"] += 1
            counts["ready"] += pod.ready
            counts["available"] += state.is_available(pod)
            counts["updated"] += state.is_updated(pod)
    status: Object = {
        "currentNumberScheduled": counts["current"],
        "numberMisscheduled": counts["misscheduled"],
        "desiredNumberScheduled": counts["desired"],
        "numberReady": counts["ready"],
        "observedGeneration": state.daemon_set["metadata"].get("generation", 0),
    }
    optional = {
        "updatedNumberScheduled": counts["updated"],
        "numberAvailable": counts["available"],
        "numberUnavailable": counts["desired"] - counts["available"],
    }
    return {**status, **{name: count for name, count in optional.items() if count}}
