"""Causes between pods and nodes: pods that are not made, and pods that find no place. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

from sliceworks.training.states import condition
from sliceworks.training.why import kinds, matching
from sliceworks.training.why.answer import Seen, seen

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sliceworks.training.why.answer import Cause
    from sliceworks.training.why.evidence import Evidence

Object = dict[str, Any]
POOL = "cloud.google.com/gke-nodepool"
_EXCLUSIVE = "alpha.jobset.sigs.k8s.io/exclusive-topology"
_INDEX = "batch.kubernetes.io/job-completion-index"
_OVER = ("Succeeded", "Failed")


def unplaced(pods: tuple[Object, ...]) -> list[Object]:
    """Pods for which the scheduler found no place."""
    return [
        pod
        for pod in pods
        if not pod["spec"].get("nodeName")
        and "deletionTimestamp" not in pod["metadata"]
        and condition(pod, "PodScheduled").get("reason") == "Unschedulable"
    ]


def selector_of(pod: Object) -> str:
    """The node selector of a pod, as a label selector."""
    return ",".join(f"{key}={value}" for key, value in sorted((pod["spec"].get("nodeSelector") or {}).items()))


def places(evidence: Evidence) -> Iterator[Cause]:
    """Why pods find no node: one cause for all that select the same nodes."""
    alike: dict[str, list[Object]] = defaultdict(list)
    for pod in unplaced(evidence.pods):
        alike[selector_of(pod)].append(pod)
    for selector, pods in alike.items():
        yield _place(evidence, selector, pods)


def _place(evidence: Evidence, selector: str, pods: list[Object]) -> Cause:
    pod, told = pods[0], condition(pods[0], "PodScheduled")
    where = seen(pod, "status.conditions[PodScheduled]", "Pod")
    said = told.get("message", "")
    nodes = evidence.nodes.get(selector)
    if nodes is None or "Node" in evidence.hidden:
        return kinds.UNSCHEDULABLE.cause(f"{_count(pods)} no place.", where, said=said)
    missed = [matching.unselected(pod["spec"], node["metadata"].get("labels") or {}) for node in nodes]
    fitting = [node for node, miss in zip(nodes, missed, strict=True) if not miss]
    if not fitting:
        return _no_pool(evidence, pods, next(iter(missed), ""), said)
    taints = [matching.untolerated(_lasting(node), pod["spec"].get("tolerations") or ()) for node in fitting]
    if all(taints) and (taint := taints[0]):
        value = f"={taint['value']}" if taint.get("value") else ""
        words = (
            f"{_count(pods)} no place: {_hosts(len(fitting))} would fit, but for the taint {taint['key']}{value}:{taint['effect']}."
        )
        return kinds.TAINT.cause(words, seen(fitting[0], "spec.taints", "Node"), where, said=said)
    usable = [node for node, taint in zip(fitting, taints, strict=True) if not taint]
    return _hosts_short(evidence, pods, usable, said)


def _no_pool(evidence: Evidence, pods: list[Object], missed: str, said: str) -> Cause:
    pod = pods[0]
    chosen = [f"{key}={value}" for key, value in (pod["spec"].get("nodeSelector") or {}).items()]
    absent = [label for label in chosen if evidence.lone_labels.get(label) is False]
    if missed:
        why = f"the nodes that they select are not allowed by {missed}"
    elif not chosen:
        why = "the cluster has no nodes"
    else:
        why = f"no node has the label {' or '.join(absent)}" if absent else f"no node has all of {', '.join(chosen)}"
    made = "have such a node pool made (the slice controller makes them on demand), or ask for another type"
    return kinds.NO_POOL.cause(
        f"{_count(pods)} no place: {why}.",
        seen(pod, "spec.affinity" if missed else "spec.nodeSelector", "Pod"),
        seen(pod, "status.conditions[PodScheduled]", "Pod"),
        remedy=made if any("/" in name for name in matching.requests(pod["spec"])) else "",
        said=said,
    )


def _hosts_short(evidence: Evidence, pods: list[Object], usable: list[Object], said: str) -> Cause:
    """Nodes fit by their labels: there are too few of them, or they are too small, or others are on them."""
    pod = pods[0]
    wanted = matching.requests(pod["spec"])
    large = [node for node in usable if not _too_small(node, wanted)]
    needed, per_slice = _needed(evidence, pod)
    where = seen(pod, "status.conditions[PodScheduled]", "Pod")
    if not large:
        lacking = next(iter(filter(None, (_too_small(node, wanted) for node in usable))), "")
        words = f"{_count(pods)} no place: {_hosts(len(usable))} would fit, but none has {lacking}."
        return kinds.TOO_FEW_HOSTS.cause(words, seen(usable[0], "status.allocatable", "Node"), where, said=said)
    pools = Counter((node["metadata"].get("labels") or {}).get(POOL, "") for node in large)
    exclusive = _EXCLUSIVE in (pod["metadata"].get("annotations") or {})
    slices = sum(count >= per_slice for count in pools.values()) if exclusive else 0
    if len(large) < needed or (exclusive and slices * per_slice < needed):
        words = f"It needs {_hosts(needed)}, and {len(large)} fit."
        if exclusive:
            words = f"It needs {needed // per_slice} node pools of {per_slice} hosts, each alone; there are {slices}."
        return kinds.TOO_FEW_HOSTS.cause(words, Seen("Node", large[0]["metadata"]["name"], "metadata.labels"), where, said=said)
    guests = list(dict.fromkeys(name for node in large for name in evidence.guests.get(node["metadata"]["name"], ())))
    by = f" by {', '.join(guests[:5])}" if guests else ""
    return kinds.HOSTS_IN_USE.cause(
        f"{_count(pods)} no place: the {_hosts(len(large))} that fit are in use{by}.",
        where,
        seen(large[0], "status.allocatable", "Node"),
        said=said,
    )


def _too_small(node: Object, wanted: dict[str, Any]) -> str:
    from sliceworks.base import quantity

    has = (node.get("status") or {}).get("allocatable") or {}
    return next((matching.amount(much, name) for name, much in wanted.items() if quantity.parse(has.get(name, "0")) < much), "")


def _needed(evidence: Evidence, pod: Object) -> tuple[int, int]:
    """How many hosts the part of the job that a pod belongs to needs, and how many each of its slices."""
    name = (pod["metadata"].get("labels") or {}).get("jobset.sigs.k8s.io/replicatedjob-name")
    part = next((each for each in evidence.jobset["spec"]["replicatedJobs"] if each["name"] == name), None)
    if part is None:
        return 1, 1
    hosts = int(part["template"]["spec"].get("parallelism") or 1)
    return hosts * int(part.get("replicas", 1)), hosts


def _lasting(node: Object) -> list[Object]:
    """The taints of a node. One that is cordoned has its taint as well."""
    found: list[Object] = (node.get("spec") or {}).get("taints") or []
    return found


def followers(evidence: Evidence) -> Iterator[Cause]:
    """Hosts that are not even made, until the first of their slice has a place."""
    waiting = [(job, leader) for job in evidence.jobs if (leader := _unplaced_leader(evidence, job)) is not None]
    if not waiting:
        return
    job, leader = waiting[0]
    missing = sum(int(each["spec"].get("parallelism") or 1) - 1 for each, _ in waiting)
    if missing < 1:
        return
    told = next((each for each in evidence.events_of("Job", job["metadata"]["name"]) if each["reason"] == "FailedCreate"), {})
    slices = "one slice wait" if len(waiting) == 1 else f"{len(waiting)} slices wait"
    words = f"{_hosts(missing)} of {slices} until the first host of the slice has a place: all must be in its pool."
    yield kinds.FOLLOWER.cause(
        words,
        seen(leader, f"metadata.annotations[{_EXCLUSIVE}]", "Pod"),
        seen(leader, "spec.nodeName", "Pod"),
        said=told.get("message", ""),
    )


def _unplaced_leader(evidence: Evidence, job: Object) -> Object | None:
    for pod in evidence.pods:
        annotations = pod["metadata"].get("annotations") or {}
        mine = any(each["name"] == job["metadata"]["name"] for each in pod["metadata"].get("ownerReferences") or ())
        if mine and _EXCLUSIVE in annotations and annotations.get(_INDEX) == "0" and not pod["spec"].get("nodeName"):
            return pod
    return None


def refused(evidence: Evidence) -> Iterator[Cause]:
    """Pods that the API server does not take, for another reason than that a leader has no place."""
    for job in evidence.jobs:
        if _unplaced_leader(evidence, job) is not None or "deletionTimestamp" in job["metadata"]:
            continue
        status = job.get("status") or {}
        missing = int(job["spec"].get("parallelism") or 1) - sum(
            int(status.get(name) or 0) for name in ("active", "succeeded", "failed")
        )
        told = next((each for each in evidence.events_of("Job", job["metadata"]["name"]) if each["reason"] == "FailedCreate"), None)
        if told is not None and missing > 0 and not job["spec"].get("suspend"):
            yield kinds.PODS_REFUSED.cause(
                f"{missing} of the pods of {job['metadata']['name']} cannot be made.",
                seen(job, "events[FailedCreate]", "Job"),
                said=told.get("message", ""),
            )
            return


def _count(pods: list[Object]) -> str:
    return "1 pod finds" if len(pods) == 1 else f"{len(pods)} pods find"


def _hosts(count: int) -> str:
    return "1 host" if count == 1 else f"{count} hosts"
