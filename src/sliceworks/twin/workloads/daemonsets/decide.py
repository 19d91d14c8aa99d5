"""Which nodes a DaemonSet's pods belong on, and which pods are to be made or deleted. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from sliceworks.twin.scheduler.selection import NodeChoice, node_choice
from sliceworks.twin.workloads.deployments.numbers import scaled
from sliceworks.twin.workloads.nodehealth.eviction import tolerates
from sliceworks.twin.workloads.replicasets import is_available, min_ready

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from sliceworks.twin.workloads.pods import Pod

HASH = "controller-revision-hash"
GENERATION = "pod-template-generation"
_TOLERATED = (
    ("not-ready", "NoExecute"),
    ("unreachable", "NoExecute"),
    ("disk-pressure", "NoSchedule"),
    ("memory-pressure", "NoSchedule"),
    ("pid-pressure", "NoSchedule"),
    ("unschedulable", "NoSchedule"),
)
Obj = dict[str, Any]


class Node(NamedTuple):
    """What matters of a node."""

    labels: Mapping[str, str]
    taints: tuple[Obj, ...]


@dataclass(slots=True)
class Work:
    """Nodes that need a pod, and pods that have to go."""

    create: list[str] = field(default_factory=list)
    delete: list[Pod] = field(default_factory=list)
    ended: list[tuple[str, Pod]] = field(default_factory=list)
    """Those among them that have ended, with their node."""


class Daemons:
    """A DaemonSet at one moment: its nodes, and its pods by the node they are meant for."""

    def __init__(self, found: Obj, nodes: Mapping[str, Node], pods: Mapping[str, list[Pod]], short: str, now: datetime) -> None:
        self.found, self.nodes, self.pods, self.short, self.now = found, nodes, pods, short, now
        self.least = min_ready(found)
        spec = found["spec"]["template"]["spec"]
        self._choice: NodeChoice = node_choice(spec)
        self._name = spec.get("nodeName", "")
        self._tolerations = tolerations(spec)
        self.fitting = {name: self._fits(name, node) for name, node in nodes.items()}

    def _fits(self, name: str, node: Node) -> tuple[bool, bool]:
        """Whether a pod belongs on a node, and whether one that is there may stay."""
        if self._name not in ("", name) or not self._choice.accepts(name, node.labels):
            return False, False
        repelling = [taint for taint in node.taints if not any(tolerates(each, taint) for each in self._tolerations)]
        effects = {taint["effect"] for taint in repelling}
        if effects & {"NoSchedule", "NoExecute"}:
            return False, "NoExecute" not in effects
        return True, True

    def is_new(self, pod: Pod) -> bool:
        generation = (self.found["metadata"].get("annotations") or {}).get("deprecated.daemonset.template.generation")
        return pod.labels.get(HASH) == self.short or (generation is not None and pod.labels.get(GENERATION) == generation)

    def available(self, pod: Pod | None) -> bool:
        return pod is not None and is_available(pod, self.least, self.now)

    def limits(self) -> tuple[int, int]:
        """How many nodes may have two pods in an update, and how many none."""
        strategy = self.found["spec"].get("updateStrategy") or {}
        if strategy.get("type", "RollingUpdate") != "RollingUpdate":
            return 0, 0
        wanted = sum(1 for runs, _ in self.fitting.values() if runs)
        rolling = strategy.get("rollingUpdate") or {}
        surge = scaled(rolling.get("maxSurge", 0), wanted, up=True)
        missing = scaled(rolling.get("maxUnavailable", 1), wanted, up=True)
        return surge, 1 if not surge and not missing else missing


def tolerations(spec: Obj) -> list[Obj]:
    """The tolerations of a DaemonSet's pods: those of the template, and those that let them stay on nodes that are unwell."""
    added = [*_TOLERATED, *([("network-unavailable", "NoSchedule")] if spec.get("hostNetwork") else [])]
    own: list[Obj] = list(spec.get("tolerations") or ())
    for key, effect in added:
        one = {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": effect}
        if one not in own:
            own.append(one)
    return own


def by_age(pods: list[Pod]) -> list[Pod]:
    return sorted(pods, key=lambda pod: (not pod.node, pod.created, pod.name))


def keep(daemons: Daemons) -> Work:
    """One pod on each node that fits, and none elsewhere."""
    work = Work()
    surging = daemons.limits()[0] > 0
    for name, (runs, stays) in daemons.fitting.items():
        there = daemons.pods.get(name)
        if runs and not there:
            work.create.append(name)
        elif stays and there:
            _keep_one(daemons, work, name, there, surging=surging and runs)
        elif there:
            work.delete += [pod for pod in there if not pod.deleting]
    for name, there in daemons.pods.items():
        if name not in daemons.nodes:
            work.delete += [pod for pod in there if not pod.node]
    return work


def _keep_one(daemons: Daemons, work: Work, name: str, there: list[Pod], *, surging: bool) -> None:
    alive = [pod for pod in there if not pod.deleting]
    work.ended += [(name, pod) for pod in alive if pod.ended]
    work.delete += [pod for pod in alive if pod.ended]
    running = by_age([pod for pod in alive if not pod.ended])
    if not surging:
        work.delete += running[1:]
        return
    if not running:
        work.create.append(name)
        return
    new = [pod for pod in running if daemons.is_new(pod)]
    old = [pod for pod in running if not daemons.is_new(pod)]
    work.delete += new[1:] + old[1:]
    if new and old and (not old[0].ready or daemons.available(new[0])):
        work.delete.append(old[0])


def roll(daemons: Daemons) -> Work:
    """One step from older pods to those of the newest template."""
    surge, missing = daemons.limits()
    work, unwell = Work(), 0
    candidates: list[Pod] = []
    targets: list[str] = []
    if (daemons.found["spec"].get("updateStrategy") or {}).get("type", "RollingUpdate") != "RollingUpdate":
        return work
    for name, there in daemons.pods.items():
        alive = [pod for pod in there if not pod.deleting]
        new = [pod for pod in alive if daemons.is_new(pod)]
        old = [pod for pod in alive if not daemons.is_new(pod)]
        if surge:
            if old and not new and daemons.fitting.get(name, (False, False))[0]:
                (work.create if not daemons.available(old[0]) else targets).append(name)
            elif new and old:
                unwell += not daemons.available(new[0])
            continue
        if len(alive) != 1 or not daemons.available(alive[0]):
            unwell += 1
            work.delete += old if len(alive) == 1 else []
        elif old:
            candidates.append(old[0])
    work.delete += candidates[: max(0, missing - unwell)]
    work.create += targets[: max(0, surge - unwell)]
    return work


def status(daemons: Daemons) -> Obj:
    """How many nodes have their pod, and how well it is."""
    counts = dict.fromkeys(("desired", "current", "misscheduled", "ready", "updated", "available"), 0)
    for name, (runs, _) in daemons.fitting.items():
        there = daemons.pods.get(name)
        if not runs:
            counts["misscheduled"] += bool(there)
            continue
        counts["desired"] += 1
        if there:
            pod = by_age(there)[0]
            counts["current"] += 1
            counts["ready"] += pod.ready
            counts["available"] += daemons.available(pod)
            counts["updated"] += daemons.is_new(pod)
    found: Obj = {
        "currentNumberScheduled": counts["current"],
        "numberMisscheduled": counts["misscheduled"],
        "desiredNumberScheduled": counts["desired"],
        "numberReady": counts["ready"],
        "observedGeneration": daemons.found["metadata"].get("generation", 0),
    }
    more = {
        "updatedNumberScheduled": counts["updated"],
        "numberAvailable": counts["available"],
        "numberUnavailable": counts["desired"] - counts["available"],
    }
    return {**found, **{name: count for name, count in more.items() if count}}
