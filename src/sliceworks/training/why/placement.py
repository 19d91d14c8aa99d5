"""Causes between pods and nodes: pods that are not made, and pods that find no place. Pure."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from sliceworks.base.conditions import condition
from sliceworks.training.why import hosts, kinds, matching
from sliceworks.training.why.answer import seen

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sliceworks.training.why.answer import Cause
    from sliceworks.training.why.evidence import Evidence

Object = dict[str, Any]
_INDEX = "batch.kubernetes.io/job-completion-index"


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
        yield _claim(evidence, pods) or _place(evidence, selector, pods)


def _place(evidence: Evidence, selector: str, pods: list[Object]) -> Cause:
    pod, told = pods[0], condition(pods[0], "PodScheduled")
    where = seen(pod, "status.conditions[PodScheduled]", "Pod")
    said = told.get("message", "")
    nodes = evidence.nodes.get(selector)
    if nodes is None or "Node" in evidence.hidden:
        return kinds.UNSCHEDULABLE.cause(f"{hosts.finds(pods)} no place.", where, said=said)
    missed = [matching.unselected(pod["spec"], node["metadata"].get("labels") or {}) for node in nodes]
    fitting = [node for node, miss in zip(nodes, missed, strict=True) if not miss]
    if not fitting:
        return _no_pool(evidence, pods, next(iter(missed), ""), said)
    taints = [matching.untolerated(_lasting(node), pod["spec"].get("tolerations") or ()) for node in fitting]
    if all(taints) and (taint := taints[0]):
        shown = f"{taint['key']}={taint['value']}" if taint.get("value") else taint["key"]
        words = (
            f"{hosts.finds(pods)} no place: {hosts.several(len(fitting))} would fit, but for the taint {shown}:{taint['effect']}."
        )
        return kinds.TAINT.cause(words, seen(fitting[0], "spec.taints", "Node"), where, said=said)
    usable = [node for node, taint in zip(fitting, taints, strict=True) if not taint]
    return hosts.short(evidence, pods, usable, said)


def _claim(evidence: Evidence, pods: list[Object]) -> Cause | None:
    """A claim for a volume that no place can be found for before it is bound."""
    for name in claims_of(pods[0]):
        if name not in evidence.claims:
            continue
        claim = evidence.claims[name]
        if claim is None:
            where = seen(pods[0], "spec.volumes", "Pod")
            return kinds.VOLUME.cause(f"{hosts.finds(pods)} no place: there is no claim {name} in {evidence.namespace}.", where)
        phase = (claim.get("status") or {}).get("phase", "Pending")
        if phase != "Bound":
            words = f"{hosts.finds(pods)} no place: the claim {name} is {phase.lower()}, not bound to a volume."
            said = condition(pods[0], "PodScheduled").get("message", "")
            return kinds.VOLUME.cause(words, seen(claim, "status.phase", "PersistentVolumeClaim"), said=said)
    return None


def claims_of(pod: Object) -> list[str]:
    """The claims that a pod mounts."""
    found = (each.get("persistentVolumeClaim") or {} for each in pod["spec"].get("volumes") or ())
    return [each["claimName"] for each in found if each]


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
        f"{hosts.finds(pods)} no place: {why}.",
        seen(pod, "spec.affinity" if missed else "spec.nodeSelector", "Pod"),
        seen(pod, "status.conditions[PodScheduled]", "Pod"),
        remedy=made if any("/" in name for name in matching.requests(pod["spec"])) else "",
        said=said,
    )


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
    words = f"{hosts.several(missing)} of {slices} until the first host of the slice has a place: all must be in its pool."
    yield kinds.FOLLOWER.cause(
        words,
        seen(leader, f"metadata.annotations[{hosts.EXCLUSIVE}]", "Pod"),
        seen(leader, "spec.nodeName", "Pod"),
        said=told.get("message", ""),
    )


def _unplaced_leader(evidence: Evidence, job: Object) -> Object | None:
    for pod in evidence.pods:
        annotations = pod["metadata"].get("annotations") or {}
        mine = any(each["name"] == job["metadata"]["name"] for each in pod["metadata"].get("ownerReferences") or ())
        if mine and hosts.EXCLUSIVE in annotations and annotations.get(_INDEX) == "0" and not pod["spec"].get("nodeName"):
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
