"""Whether a queue can ever admit a JobSet, and the expected position and wait of a submission. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from sliceworks.base import duration, quantity
from sliceworks.base.names import suggest_name
from sliceworks.kube.selectors import LabelSelector, Requirement
from sliceworks.specs import SLICE_JOB
from sliceworks.specs.documents import DocumentProblem
from sliceworks.training.quota import QuotaTree

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from sliceworks.specs.training import TrainingSpec

Object = dict[str, Any]
_OPERATORS = {"In": "in", "NotIn": "notin", "Exists": "exists", "DoesNotExist": "!", "Gt": "gt", "Lt": "lt"}


@dataclass(frozen=True, slots=True)
class PodSetRequests:
    """The requests of all pods of one replicated job together."""

    name: str
    requests: dict[str, Fraction]
    pod: Object

    def can_use(self, flavor: Object, keys: set[str]) -> bool:
        """Whether the pods can run on a flavor's nodes; of node labels, only `keys` count."""
        spec = flavor.get("spec") or {}
        labels = spec.get("nodeLabels") or {}
        tolerations = [*(self.pod.get("tolerations") or ()), *(spec.get("tolerations") or ())]
        if not all(_tolerated(taint, tolerations) for taint in spec.get("nodeTaints") or ()):
            return False
        selector = {key: value for key, value in (self.pod.get("nodeSelector") or {}).items() if key in keys}
        return all(labels.get(key) == value for key, value in selector.items()) and self._affine(labels, keys)

    def _affine(self, labels: dict[str, str], keys: set[str]) -> bool:
        affinity = (self.pod.get("affinity") or {}).get("nodeAffinity") or {}
        terms = (affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}).get("nodeSelectorTerms") or ()
        relevant = [list(_requirements(term, keys)) for term in terms]
        if not all(relevant):
            return True  # a term without flavor labels matches every flavor
        return not relevant or any(LabelSelector(item).matches(labels) for item in relevant)


def list_requests(jobset: Object) -> list[PodSetRequests]:
    """The requests of each replicated job."""
    return [_pod_set_requests(job) for job in jobset["spec"]["replicatedJobs"]]


def _pod_set_requests(job: Object) -> PodSetRequests:
    spec = job["template"]["spec"]
    pods = job.get("replicas", 1) * min(spec.get("parallelism", 1), spec.get("completions", spec.get("parallelism", 1)))
    pod = spec["template"]["spec"]
    total: dict[str, Fraction] = {}
    for container in pod["containers"]:
        resources = container.get("resources") or {}
        for name, amount in {**(resources.get("limits") or {}), **(resources.get("requests") or {})}.items():
            total[name] = total.get(name, Fraction(0)) + quantity.parse(str(amount)) * pods
    return PodSetRequests(job["name"], total, pod)


def _requirements(term: Object, keys: set[str]) -> Iterator[Requirement]:
    for expression in term.get("matchExpressions") or ():
        if expression["key"] in keys:
            yield Requirement(expression["key"], _OPERATORS[expression["operator"]], tuple(expression.get("values") or ()))


def _tolerated(taint: Object, tolerations: Iterable[Object]) -> bool:
    if taint.get("effect") not in ("NoSchedule", "NoExecute"):
        return True
    return any(_tolerates(toleration, taint) for toleration in tolerations)


def _tolerates(toleration: Object, taint: Object) -> bool:
    if toleration.get("effect") not in (None, "", taint["effect"]):
        return False
    if not toleration.get("key"):
        return toleration.get("operator") == "Exists"
    if toleration["key"] != taint["key"]:
        return False
    return toleration.get("operator") == "Exists" or toleration.get("value", "") == taint.get("value", "")


_TYPE, _COUNT, _QUEUE = ("spec", "slices", "type"), ("spec", "slices", "count"), ("spec", "queue")
_GIB = 2**30


@dataclass(frozen=True, slots=True)
class QueueObjects:
    """ClusterQueues, ResourceFlavors and Cohorts of a cluster."""

    queues: tuple[Object, ...]
    flavors: tuple[Object, ...]
    cohorts: tuple[Object, ...] = ()

    def queue(self, name: str) -> Object | None:
        """The ClusterQueue of this name."""
        return next((item for item in self.queues if item["metadata"]["name"] == name), None)

    def usable_flavors(self, pod_set: PodSetRequests, group: Object) -> list[str]:
        """The flavors of a resource group that the pods can run on."""
        names = {flavor["name"] for flavor in group["flavors"]}
        known = {item["metadata"]["name"]: item for item in self.flavors if item["metadata"]["name"] in names}
        keys = {key for flavor in known.values() for key in (flavor.get("spec") or {}).get("nodeLabels") or ()}
        return [
            flavor["name"]
            for flavor in group["flavors"]
            if flavor["name"] in known and pod_set.can_use(known[flavor["name"]], keys)
        ]


def explain_inadmissible(jobset: Object, queue: str, type_name: str, queue_objects: QueueObjects) -> list[DocumentProblem]:
    """Why a ClusterQueue can never admit a JobSet; empty if it can."""
    cluster_queue = queue_objects.queue(queue)
    if cluster_queue is None:
        message = f"the queue references the ClusterQueue {queue!r}, which does not exist"
        return [
            DocumentProblem(_QUEUE, message, "sliceworks queues apply creates it; sliceworks queues list shows the existing queues")
        ]
    check = _Check(cluster_queue, type_name, queue_objects)
    return [finding for pod_set in list_requests(jobset) for finding in check.find_problems(pod_set)]


class _Check:
    """One queue, and the quota that the checked pod sets would use."""

    def __init__(self, queue: Object, type_name: str, queue_objects: QueueObjects) -> None:
        self._name: str = queue["metadata"]["name"]
        self._groups: list[Object] = (queue.get("spec") or {}).get("resourceGroups") or []
        self._type = type_name
        self._queue_objects = queue_objects
        self._quotas = QuotaTree(queue_objects.queues, queue_objects.cohorts)
        self._assigned: dict[tuple[str, str], Fraction] = {}

    def find_problems(self, pod_set: PodSetRequests) -> Iterator[DocumentProblem]:
        covered = {name for group in self._groups for name in group["coveredResources"]}
        for resource in pod_set.requests:
            if resource not in covered and pod_set.requests[resource]:
                message = f"queue {self._name} has no quota for {resource}, which {pod_set.name} requests"
                yield DocumentProblem(
                    _path(pod_set, resource), message, f"add {resource} to the ClusterQueue: sliceworks queues apply"
                )
        for group in self._groups:
            requests = {name: pod_set.requests[name] for name in group["coveredResources"] if pod_set.requests.get(name)}
            if requests:
                yield from self._check_group(pod_set, group, requests)

    def _check_group(self, pod_set: PodSetRequests, group: Object, requests: dict[str, Fraction]) -> Iterator[DocumentProblem]:
        fitting = self._queue_objects.usable_flavors(pod_set, group)
        if not fitting:
            yield self._no_flavor(pod_set, [flavor["name"] for flavor in group["flavors"]])
            return
        best = max(fitting, key=lambda name: min(self._available(name, resource) - amount for resource, amount in requests.items()))
        for resource, amount in requests.items():
            if amount > self._available(best, resource):
                yield self._exceeds_quota(pod_set, best, resource, amount)
            self._assigned[best, resource] = self._assigned.get((best, resource), Fraction(0)) + amount

    def _available(self, flavor: str, resource: str) -> Fraction:
        return self._quotas.maximum(self._name, (flavor, resource)) - self._assigned.get((flavor, resource), Fraction(0))

    def _no_flavor(self, pod_set: PodSetRequests, names: list[str]) -> DocumentProblem:
        if pod_set.name != SLICE_JOB:
            return DocumentProblem(
                ("spec", "helpers"), f"queue {self._name} has no machines for {pod_set.name}", f"it has {_listed(names)}"
            )
        close = suggest_name(self._type, names) if len(names) > 1 else ""
        message = f"queue {self._name} has no {self._type}"
        return DocumentProblem(_TYPE, message, f"it has {_listed(names)}" + (f"; {close}" if close else ""))

    def _exceeds_quota(self, pod_set: PodSetRequests, flavor: str, resource: str, amount: Fraction) -> DocumentProblem:
        nominal, maximum = self._quotas.nominal(self._name, (flavor, resource)), self._available(flavor, resource)
        borrowed = f" ({_amount(nominal)} nominal, {_amount(maximum - nominal)} borrowed)" if maximum > nominal else ""
        subject = f"{resource} of {flavor}" if "/" in resource else resource
        message = (
            f"queue {self._name} can never admit it: requests {_amount(amount)} {subject}, maximum is {_amount(maximum)}{borrowed}"
        )
        return DocumentProblem(_path(pod_set, resource), message, "request less, or have an administrator raise the quota")


def _path(pod_set: PodSetRequests, resource: str) -> tuple[str, ...]:
    if pod_set.name != SLICE_JOB:
        return ("spec", "helpers")
    return ("spec", resource) if resource in ("cpu", "memory") else _COUNT


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names) or "nothing"


def _amount(value: Fraction) -> str:
    return f"{float(value / _GIB):,.0f}Gi" if value >= _GIB else f"{float(value):g}"


def warn_of_ready_timeout(spec: TrainingSpec, timeout: float) -> str:
    """A warning if Kueue's timeout for ready pods evicts the job in every attempt; empty otherwise.

    Kueue waits until all replicated jobs are ready or have succeeded, also those that start after others have completed.
    """
    limit = duration.human(timeout)
    if spec.after:
        explanation = "`after` starts when the training has completed, and Kueue counts it from the admission"
        return f"spec.after: Kueue evicts the job if it is not complete within {limit}: {explanation}; {_RAISE_TIMEOUT}"
    if not spec.before:
        return ""
    estimates = [step.estimate for step in spec.before if step.estimate is not None]
    if len(estimates) < len(spec.before):
        consequence = f"Kueue evicts the job if its slices are not ready within {limit} of its admission, and `before` counts"
        return f"spec.before: {consequence}; set the estimate of each step to have it checked"
    if sum(estimates) < timeout:
        return ""
    explanation = f"`before` takes {duration.human(sum(estimates))}, and Kueue counts it"
    return f"spec.before: Kueue evicts the job if its slices are not ready within {limit}: {explanation}; {_RAISE_TIMEOUT}"


_RAISE_TIMEOUT = "submit the steps as jobs, or have `queues.readyWithin` of the Environment raised"
UNKNOWN = "unknown"
NO_WAIT = "none"


@dataclass(frozen=True, slots=True)
class WaitEstimate:
    """`ahead` is None if the queue may not be read; `wait` is `none` or `unknown`."""

    ahead: int | None = None
    wait: str = UNKNOWN


def estimate_wait(
    jobset: Object, queue: str, priority: int, queue_objects: QueueObjects | None, pending: Iterable[Object] | None
) -> WaitEstimate:
    """Estimate from the current queue: jobs ahead, and whether quota is free now."""
    cluster_queue = queue_objects.queue(queue) if queue_objects else None
    if queue_objects is None or cluster_queue is None:
        return WaitEstimate()
    if pending is not None:
        ahead = sum(int(item.get("priority") or 0) >= priority for item in pending)
    elif not (cluster_queue.get("status") or {}).get("pendingWorkloads"):
        ahead = 0
    else:
        return WaitEstimate()
    return WaitEstimate(
        ahead, NO_WAIT if ahead == 0 and _is_active(cluster_queue) and _fits_now(jobset, cluster_queue, queue_objects) else UNKNOWN
    )


def _is_active(queue: Object) -> bool:
    return (queue["spec"].get("stopPolicy") or "None") == "None"


def _fits_now(jobset: Object, queue: Object, queue_objects: QueueObjects) -> bool:
    """Whether the unused quota of the queue, own and borrowed, covers all requests."""
    tree, name, assigned = (
        QuotaTree(queue_objects.queues, queue_objects.cohorts),
        queue["metadata"]["name"],
        dict[tuple[str, str], Fraction](),
    )
    for pod_set in list_requests(jobset):
        for group in queue["spec"].get("resourceGroups") or ():
            requests = {name: pod_set.requests[name] for name in group["coveredResources"] if pod_set.requests.get(name)}
            fitting = (
                flavor
                for flavor in queue_objects.usable_flavors(pod_set, group)
                if all(
                    tree.available(name, (flavor, resource)) - assigned.get((flavor, resource), Fraction(0)) >= amount
                    for resource, amount in requests.items()
                )
            )
            flavor = next(fitting, None)
            if flavor is None:
                return False
            for resource, amount in requests.items():
                assigned[flavor, resource] = assigned.get((flavor, resource), Fraction(0)) + amount
    return True
