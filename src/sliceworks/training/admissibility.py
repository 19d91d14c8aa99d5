"""Whether a queue can ever admit a JobSet, and the expected position and wait of a submission. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sliceworks.base import duration
from sliceworks.base.names import suggest_name
from sliceworks.specs import SLICE_JOB
from sliceworks.specs.documents import DocumentProblem
from sliceworks.training.flavor_fit import QueueQuota, jobset_requests

if TYPE_CHECKING:
    from collections.abc import Iterable
    from fractions import Fraction

    from sliceworks.specs.training import TrainingSpec
    from sliceworks.training.flavor_fit import FlavorFit, PodSetRequests

Object = dict[str, Any]
_TYPE, _COUNT, _QUEUE = ("spec", "slices", "type"), ("spec", "slices", "count"), ("spec", "queue")
_GIB = 2**30
_RAISE_TIMEOUT = "submit the steps as jobs, or have `queues.readyWithin` of the Environment raised"
UNKNOWN = "unknown"
NO_WAIT = "none"


@dataclass(frozen=True, slots=True)
class QueueObjects:
    """ClusterQueues, ResourceFlavors and Cohorts of a cluster."""

    queues: tuple[Object, ...]
    flavors: tuple[Object, ...]
    cohorts: tuple[Object, ...] = ()

    def queue(self, name: str) -> Object | None:
        """The ClusterQueue of this name."""
        return next((item for item in self.queues if item["metadata"]["name"] == name), None)

    def quota(self, queue: Object) -> QueueQuota:
        """The flavors and quota of a ClusterQueue."""
        return QueueQuota(queue, {item["metadata"]["name"]: item for item in self.flavors}, self.queues, self.cohorts)


def explain_inadmissible(jobset: Object, queue: str, type_name: str, queue_objects: QueueObjects) -> list[DocumentProblem]:
    """Why a ClusterQueue can never admit a JobSet; empty if it can."""
    cluster_queue = queue_objects.queue(queue)
    if cluster_queue is None:
        message = f"the queue references the ClusterQueue {queue!r}, which does not exist"
        hint = "sliceworks queues apply creates it; sliceworks queues list shows the existing queues"
        return [DocumentProblem(_QUEUE, message, hint)]
    quota, pod_sets = queue_objects.quota(cluster_queue), jobset_requests(jobset)
    problems = [_not_covered(queue, pod_set, name) for pod_set in pod_sets for name in quota.uncovered([pod_set])]
    for ranked in quota.fits(pod_sets):
        if ranked[0].mismatch:
            problems.append(_no_flavor(queue, ranked, type_name))
        elif ranked[0].never_fits:
            problems.append(_exceeds_quota(queue, ranked[0]))
    return problems


def _not_covered(queue: str, pod_set: PodSetRequests, resource: str) -> DocumentProblem:
    message = f"queue {queue} has no quota for {resource}, which {pod_set.name} requests"
    return DocumentProblem(_path(pod_set, resource), message, f"add {resource} to the ClusterQueue: sliceworks queues apply")


def _no_flavor(queue: str, fits: list[FlavorFit], type_name: str) -> DocumentProblem:
    names, pod_set = [fit.flavor for fit in fits], fits[0].pod_set
    hint = f"it has {', '.join(names)}"
    if pod_set.name != SLICE_JOB:
        return DocumentProblem(("spec", "helpers"), f"queue {queue} has no machines for {pod_set.name}", hint)
    close = suggest_name(type_name, names) if len(names) > 1 else ""
    return DocumentProblem(_TYPE, f"queue {queue} has no {type_name}", f"{hint}; {close}" if close else hint)


def _exceeds_quota(queue: str, fit: FlavorFit) -> DocumentProblem:
    headroom = fit.headroom
    assert headroom is not None
    own = fit.pod_set.requests[headroom.resource]
    maximum = headroom.maximum - (fit.requested - own)
    borrowed = (
        f" ({_amount(headroom.nominal)} nominal, {_amount(maximum - headroom.nominal)} borrowed)"
        if maximum > headroom.nominal
        else ""
    )
    subject = f"{headroom.resource} of {headroom.flavor}" if "/" in headroom.resource else headroom.resource
    message = f"queue {queue} can never admit it: requests {_amount(own)} {subject}, maximum is {_amount(maximum)}{borrowed}"
    hint = "request less, or have an administrator raise the quota"
    return DocumentProblem(_path(fit.pod_set, headroom.resource), message, hint)


def _path(pod_set: PodSetRequests, resource: str) -> tuple[str, ...]:
    if pod_set.name != SLICE_JOB:
        return ("spec", "helpers")
    return ("spec", resource) if resource in ("cpu", "memory") else _COUNT


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
    fits = queue_objects.quota(cluster_queue).fits(jobset_requests(jobset))
    is_free = ahead == 0 and _is_active(cluster_queue) and all(ranked[0].fits_now for ranked in fits)
    return WaitEstimate(ahead, NO_WAIT if is_free else UNKNOWN)


def _is_active(queue: Object) -> bool:
    return (queue["spec"].get("stopPolicy") or "None") == "None"
