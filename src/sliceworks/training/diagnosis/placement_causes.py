"""Causes between pods and nodes: pods not created, unschedulable pods, too few or occupied hosts. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

from sliceworks.base import quantity
from sliceworks.base.conditions import find_condition
from sliceworks.base.names import pluralize
from sliceworks.catalog.labels import COMPLETION_INDEX, EXCLUSIVE_TOPOLOGY, NODE_POOL, REPLICATED_JOB
from sliceworks.kube.pod_requests import exact_requests
from sliceworks.training import pod_fit
from sliceworks.training.diagnosis import cause_catalog
from sliceworks.training.diagnosis.model import field_reference

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from fractions import Fraction

    from sliceworks.training.diagnosis.model import Cause, Evidence, FieldReference

Object = dict[str, Any]
MAX_NODES = 2000  # nodes that are read; if as many exist, there may be more
_FINISHED = ("Complete", "Failed", "SuccessCriteriaMet", "FailureTarget")


def find_host_shortage(evidence: Evidence, pods: list[Object], usable: list[Object], reported: str) -> Cause:
    """Why the pods fit none of these nodes."""
    pod = pods[0]
    requests = exact_requests(pod["spec"])
    large_nodes = [node for node in usable if not _missing_resources(node, requests)]
    where = field_reference(pod, "status.conditions[PodScheduled]", "Pod")
    if not large_nodes:
        missing = _missing_resources(usable[0], requests)
        message = f"{describe_unschedulable(pods)}: matching hosts: {len(usable)}, but none has {missing}."
        return cause_catalog.TOO_FEW_HOSTS.cause(
            message, field_reference(usable[0], "status.allocatable", "Node"), where, reported=reported
        )
    if (message := _too_few(evidence, pod, large_nodes, requests)) and len(usable) < MAX_NODES:
        return cause_catalog.TOO_FEW_HOSTS.cause(
            message, field_reference(large_nodes[0], "metadata.labels", "Node"), where, reported=reported
        )
    return _in_use(evidence, pods, large_nodes, where, reported)


def _too_few(evidence: Evidence, pod: Object, large_nodes: list[Object], requests: Mapping[str, Fraction]) -> str:
    """A sentence about the missing hosts; empty if there are enough."""
    needed, in_slice = _required_hosts(evidence, pod)
    if EXCLUSIVE_TOPOLOGY in (pod["metadata"].get("annotations") or {}):
        pools = Counter((node["metadata"].get("labels") or {}).get(NODE_POOL, "") for node in large_nodes)
        slices = sum(count >= in_slice for count in pools.values())
        return f"It needs {needed // in_slice} exclusive node pools of {in_slice} hosts; the cluster has {slices}." * (
            slices * in_slice < needed
        )
    capacity = sum(_pods_per_node(node, requests) for node in large_nodes)
    if capacity >= needed:
        return ""
    if capacity == len(large_nodes):
        return f"It needs {pluralize(needed, 'host')}; the cluster has {capacity} that match."
    hosts = pluralize(len(large_nodes), "host")
    return f"It needs capacity for {needed} pods; the {hosts} that match have capacity for {capacity}."


def _in_use(evidence: Evidence, pods: list[Object], large_nodes: list[Object], where: FieldReference, reported: str) -> Cause:
    occupants = list(dict.fromkeys(name for node in large_nodes for name in evidence.occupants.get(node["metadata"]["name"], ())))
    subject, hosts = describe_unschedulable(pods), pluralize(len(large_nodes), "host")
    if not occupants:
        return cause_catalog.UNSCHEDULABLE.cause(f"{subject}, although {hosts} would fit if empty.", where, reported=reported)
    return cause_catalog.HOSTS_IN_USE.cause(
        f"{subject}: the {hosts} that match are in use by {', '.join(occupants[:5])}.",
        where,
        field_reference(large_nodes[0], "status.allocatable", "Node"),
        reported=reported,
    )


def _missing_resources(node: Object, requests: Mapping[str, Fraction]) -> str:
    """The first request of a pod that exceeds the allocatable resources of a node."""
    allocatable = (node.get("status") or {}).get("allocatable") or {}
    return next(
        (
            pod_fit.format_amount(amount, name)
            for name, amount in requests.items()
            if quantity.parse(allocatable.get(name, "0")) < amount
        ),
        "",
    )


def _pods_per_node(node: Object, requests: Mapping[str, Fraction]) -> int:
    """How many such pods fit on an empty node."""
    allocatable = (node.get("status") or {}).get("allocatable") or {}
    return min((int(quantity.parse(allocatable.get(name, "0")) / amount) for name, amount in requests.items() if amount), default=1)


def _required_hosts(evidence: Evidence, pod: Object) -> tuple[int, int]:
    """How many hosts the replicated job of a pod needs, and how many each of its slices."""
    name = (pod["metadata"].get("labels") or {}).get(REPLICATED_JOB)
    replicated_job: Object = next((job for job in evidence.jobset["spec"]["replicatedJobs"] if job["name"] == name), {})
    hosts = int((replicated_job.get("template") or {}).get("spec", {}).get("parallelism") or 1)
    return hosts * int(replicated_job.get("replicas", 1)), hosts


def describe_unschedulable(pods: list[Object]) -> str:
    """The beginning of a sentence about unschedulable pods."""
    return "1 pod is unschedulable" if len(pods) == 1 else f"{len(pods)} pods are unschedulable"


def unschedulable_pods(pods: tuple[Object, ...]) -> list[Object]:
    """Pods that the scheduler reports as unschedulable."""
    return [
        pod
        for pod in pods
        if not pod["spec"].get("nodeName")
        and "deletionTimestamp" not in pod["metadata"]
        and find_condition(pod, "PodScheduled").get("reason") == "Unschedulable"
    ]


def selector_of(pod: Object) -> str:
    """The node selector of a pod, as a label selector."""
    return ",".join(f"{key}={value}" for key, value in sorted((pod["spec"].get("nodeSelector") or {}).items()))


def unschedulable(evidence: Evidence) -> Iterator[Cause]:
    """Why pods are unschedulable: one cause for all pods with the same node selector."""
    by_selector: dict[str, list[Object]] = defaultdict(list)
    for pod in unschedulable_pods(evidence.pods):
        by_selector[selector_of(pod)].append(pod)
    for selector, pods in by_selector.items():
        yield _claim_cause(evidence, pods) or _placement_cause(evidence, selector, pods)


def _placement_cause(evidence: Evidence, selector: str, pods: list[Object]) -> Cause:
    pod, reported = pods[0], find_condition(pods[0], "PodScheduled").get("message", "")
    where = field_reference(pod, "status.conditions[PodScheduled]", "Pod")
    nodes = evidence.nodes.get(selector)
    if nodes is None or "Node" in evidence.hidden:
        return cause_catalog.UNSCHEDULABLE.cause(f"{describe_unschedulable(pods)}.", where, reported=reported)
    mismatches = [pod_fit.describe_unmatched_selector(pod["spec"], node["metadata"].get("labels") or {}) for node in nodes]
    fitting = [node for node, mismatch in zip(nodes, mismatches, strict=True) if not mismatch]
    if not fitting:
        return _no_pool(evidence, pods, next(iter(mismatches), ""), reported)
    taints = [
        pod_fit.find_untolerated_taint((node.get("spec") or {}).get("taints") or (), pod["spec"].get("tolerations") or ())
        for node in fitting
    ]
    if all(taints) and (taint := taints[0]):
        shown = f"{taint['key']}={taint['value']}" if taint.get("value") else taint["key"]
        effect = taint["effect"]
        message = (
            f"{describe_unschedulable(pods)}: matching hosts: {len(fitting)}, all with the untolerated taint {shown}:{effect}."
        )
        return cause_catalog.TAINT.cause(message, field_reference(fitting[0], "spec.taints", "Node"), where, reported=reported)
    usable = [node for node, taint in zip(fitting, taints, strict=True) if not taint]
    return find_host_shortage(evidence, pods, usable, reported)


def _claim_cause(evidence: Evidence, pods: list[Object]) -> Cause | None:
    """A PersistentVolumeClaim of the pods that does not exist or is not bound."""
    for name in claims_of(pods[0]):
        if name not in evidence.claims:
            continue
        claim = evidence.claims[name]
        if claim is None:
            where = field_reference(pods[0], "spec.volumes", "Pod")
            return cause_catalog.VOLUME.cause(
                f"{describe_unschedulable(pods)}: the claim {name} does not exist in {evidence.namespace}.", where
            )
        phase = (claim.get("status") or {}).get("phase", "Pending")
        if phase != "Bound":
            message = f"{describe_unschedulable(pods)}: the claim {name} is {phase.lower()}, not bound to a volume."
            reported = find_condition(pods[0], "PodScheduled").get("message", "")
            return cause_catalog.VOLUME.cause(
                message, field_reference(claim, "status.phase", "PersistentVolumeClaim"), reported=reported
            )
    return None


def claims_of(pod: Object) -> list[str]:
    """The PersistentVolumeClaims that a pod mounts."""
    claims = (volume.get("persistentVolumeClaim") or {} for volume in pod["spec"].get("volumes") or ())
    return [claim["claimName"] for claim in claims if claim]


def _no_pool(evidence: Evidence, pods: list[Object], mismatch: str, reported: str) -> Cause:
    pod = pods[0]
    chosen = [f"{key}={value}" for key, value in (pod["spec"].get("nodeSelector") or {}).items()]
    absent = [label for label in chosen if evidence.label_exists.get(label) is False]
    if mismatch:
        reason = f"the nodes that they select do not match {mismatch}"
    elif not chosen:
        reason = "the cluster has no nodes"
    else:
        reason = f"no node has the label {' or '.join(absent)}" if absent else f"no node has all of {', '.join(chosen)}"
    on_demand = "have a matching node pool created (the slices controller does so on demand), or request another slice type"
    return cause_catalog.NO_POOL.cause(
        f"{describe_unschedulable(pods)}: {reason}.",
        field_reference(pod, "spec.affinity" if mismatch else "spec.nodeSelector", "Pod"),
        field_reference(pod, "status.conditions[PodScheduled]", "Pod"),
        remedy=on_demand if any("/" in name for name in exact_requests(pod["spec"])) else "",
        reported=reported,
    )


def pending_followers(evidence: Evidence) -> Iterator[Cause]:
    """Follower pods that JobSet does not create until the leader pod of their slice is scheduled."""
    blocked = [(job, leader) for job in evidence.jobs if (leader := _unscheduled_leader(evidence, job)) is not None]
    if not blocked:
        return
    job, leader = blocked[0]
    missing = sum(int(job["spec"].get("parallelism") or 1) - 1 for job, _ in blocked)
    if missing < 1:
        return
    event = _failed_create(evidence, job) or {}
    followers, slices = pluralize(missing, "follower"), pluralize(len(blocked), "slice")
    message = f"Not created yet: {followers} of {slices}. They need the node pool of their leader pod, which is not scheduled."
    yield cause_catalog.FOLLOWER.cause(
        message,
        field_reference(leader, f"metadata.annotations[{EXCLUSIVE_TOPOLOGY}]", "Pod"),
        field_reference(leader, "spec.nodeName", "Pod"),
        reported=event.get("message", ""),
    )


def _failed_create(evidence: Evidence, job: Object) -> Object | None:
    events = evidence.events_of("Job", job["metadata"]["name"])
    return next((event for event in events if event["reason"] == "FailedCreate"), None)


def _unscheduled_leader(evidence: Evidence, job: Object) -> Object | None:
    for pod in evidence.pods:
        annotations = pod["metadata"].get("annotations") or {}
        if (
            _belongs_to(pod, job["metadata"]["name"])
            and EXCLUSIVE_TOPOLOGY in annotations
            and annotations.get(COMPLETION_INDEX) == "0"
            and not pod["spec"].get("nodeName")
        ):
            return pod
    return None


def rejected_pods(evidence: Evidence) -> Iterator[Cause]:
    """Pods that the API server rejects, except followers of an unscheduled leader."""
    for job in evidence.jobs:
        if _unscheduled_leader(evidence, job) is not None or "deletionTimestamp" in job["metadata"]:
            continue
        status = job.get("status") or {}
        missing = int(job["spec"].get("parallelism") or 1) - sum(
            int(status.get(name) or 0) for name in ("active", "succeeded", "failed")
        )
        event = _failed_create(evidence, job)
        if event is not None and missing > 0 and not job["spec"].get("suspend"):
            yield cause_catalog.PODS_REJECTED.cause(
                f"{missing} pods of the Job {job['metadata']['name']} cannot be created.",
                field_reference(job, "events[FailedCreate]", "Job"),
                reported=event.get("message", ""),
            )
            return


def missing_pods(evidence: Evidence) -> Iterator[Cause]:
    """Jobs that run but have fewer pods than they should, and pods that the scheduler has not processed."""
    if "Job" in evidence.hidden or "Pod" in evidence.hidden:
        return
    for job in evidence.jobs:
        status, name = job.get("status") or {}, job["metadata"]["name"]
        is_finished = any(
            condition["status"] == "True" for condition in status.get("conditions") or () if condition["type"] in _FINISHED
        )
        expected = min(int(job["spec"].get("parallelism") or 1), int(job["spec"].get("completions") or 1))
        pods = [pod for pod in evidence.pods if _belongs_to(pod, name)]
        if not is_finished and not job["spec"].get("suspend") and not pods:
            where = field_reference(job, "status.active", "Job")
            yield cause_catalog.NO_PODS.cause(f"The Job {name} has none of its {expected} pods.", where)
            return
    waiting = [
        pod
        for pod in evidence.pods
        if not pod["spec"].get("nodeName") and (pod.get("status") or {}).get("phase", "Pending") == "Pending"
    ]
    if waiting:
        condition = find_condition(waiting[0], "PodScheduled")
        gates = ", ".join(gate["name"] for gate in waiting[0]["spec"].get("schedulingGates") or ())
        message = f"{len(waiting)} pods have no node yet" if len(waiting) > 1 else "1 pod has no node yet"
        where = field_reference(waiting[0], "spec.schedulingGates" if gates else "spec.nodeName", "Pod")
        message += f"; the scheduling gate {gates} is not removed." if gates else "."
        yield cause_catalog.NOT_SCHEDULED.cause(message, where, reported=condition.get("message", ""))


def _belongs_to(pod: Object, job: str) -> bool:
    return any(reference["name"] == job for reference in pod["metadata"].get("ownerReferences") or ())
