"""The flavor assigner: for each pod set and resource group, the first flavor that fits best."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from sliceworks.kube.node_affinity import Tolerations, parse_node_affinity
from sliceworks.twin.controllers.kueue.core.model import NEVER, TRY_NEXT_FLAVOR, AssignmentState, format_quantity
from sliceworks.twin.controllers.kueue.core.quota_tree import lowest_fitting_height

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from sliceworks.twin.controllers.kueue.core.model import (
        ClusterQueue,
        Flavor,
        PodSet,
        Policy,
        Requests,
        ResourceGroup,
        WorkloadInfo,
    )
    from sliceworks.twin.controllers.kueue.core.quota_tree import FlavorResource, FlavorResourceQuantities

    Oracle = Callable[[ClusterQueue, WorkloadInfo, FlavorResource, int], "GranularMode"]

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"

# Whether a flavor can be assigned, from worst to best.
NO_FIT, NO_PREEMPTION_CANDIDATES, PREEMPT, RECLAIM, FIT = range(5)
_MODE_NAMES = ("NoFit", "Preempt", "Preempt", "Preempt", "Fit")


class GranularMode(NamedTuple):
    """Whether a flavor can be assigned, and the height in the quota tree from which it would borrow."""

    preemption: int
    borrowing_level: int


_WORST, _BEST = GranularMode(NO_FIT, 1 << 30), GranularMode(FIT, 0)


def check_flavor(flavor: Flavor | None, name: str, pod_set: PodSet, label_keys: frozenset[str]) -> str:
    """Why a pod set cannot use a flavor, as Kueue says it; empty when it can. Node selectors count for these label keys only."""
    if flavor is None:
        return f"flavor {name} not found"
    if flavor.taints:
        tolerations = Tolerations([*(pod_set.spec.get("tolerations") or ()), *flavor.tolerations])
        for taint in flavor.taints:
            if taint[2] in ("NoSchedule", "NoExecute") and not tolerations.tolerates(taint):
                key, value, effect = taint
                return f"untolerated taint {{{key} {value} {effect} <nil>}} in flavor {name}"
    if not pod_set.spec.get("nodeSelector") and not pod_set.spec.get("affinity"):
        return ""
    if not parse_node_affinity(_flavor_affinity(pod_set.spec, label_keys)).matches("", flavor.labels):
        return f"flavor {name} doesn't match node affinity"
    return ""


def _flavor_affinity(spec: Mapping[str, Any], label_keys: frozenset[str]) -> dict[str, Any]:
    """A pod's node selector and affinity reduced to these label keys. A term without any of them matches every flavor."""
    selector = {key: value for key, value in (spec.get("nodeSelector") or {}).items() if key in label_keys}
    affinity = ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(_REQUIRED) or {}
    terms = []
    for term in affinity.get("nodeSelectorTerms") or ():
        expressions = [expression for expression in term.get("matchExpressions") or () if expression["key"] in label_keys]
        if not expressions:
            return {"nodeSelector": selector}
        terms.append({"matchExpressions": expressions})
    if not terms:
        return {"nodeSelector": selector}
    return {"nodeSelector": selector, "affinity": {"nodeAffinity": {_REQUIRED: {"nodeSelectorTerms": terms}}}}


@dataclass(slots=True)
class FlavorAssignment:
    """The flavor of one resource."""

    flavor: str
    mode: int
    borrow: int
    tried_flavor_index: int = 0


class FlavorAttempt(NamedTuple):
    """The result of trying one flavor."""

    mode: int
    borrow: int
    reasons: frozenset[str]


@dataclass(slots=True)
class PodSetAssignment:
    """The flavors of one pod set, and the reasons why they do not fit now."""

    pod_set: PodSet
    flavors: dict[str, FlavorAssignment] = field(default_factory=dict)
    reasons: list[str] = field(default_factory=list)
    attempts: dict[str, FlavorAttempt] = field(default_factory=dict)

    @property
    def representative_mode(self) -> int:
        """NO_FIT, PREEMPT or FIT: that of its worst flavor."""
        mode = FIT if not self.reasons else min((flavor.mode for flavor in self.flavors.values()), default=NO_FIT)
        return mode if mode in (NO_FIT, FIT) else PREEMPT


@dataclass(slots=True)
class Assignment:
    """The flavors of a workload. `mode` is one of NO_FIT, PREEMPT and FIT."""

    pod_sets: list[PodSetAssignment]
    usage: FlavorResourceQuantities
    borrowing: int
    last_state: AssignmentState
    mode: int = NO_FIT

    def message(self) -> str:
        """Why the workload cannot be admitted now, as Kueue says it."""
        return "; ".join(
            f"couldn't assign flavors to pod set {assignment.pod_set.name}: {', '.join(sorted(assignment.reasons))}"
            for assignment in self.pod_sets
            if assignment.reasons
        )

    def flavor_resources_needing_preemption(self) -> set[FlavorResource]:
        return {
            (assigned.flavor, resource)
            for assignment in self.pod_sets
            for resource, assigned in assignment.flavors.items()
            if NO_FIT < assigned.mode < FIT
        }

    def flavors_considered(self) -> str:
        """The flavors that were tried and did not fit without borrowing, as the QuotaReserved event lists them."""
        parts = []
        for assignment in self.pod_sets:
            attempts = (_format_attempt(name, assignment.attempts[name]) for name in sorted(assignment.attempts))
            if shown := ", ".join(filter(None, attempts)):
                parts.append(f"{assignment.pod_set.name}: {shown}")
        return " | ".join(parts)


def _format_attempt(name: str, attempt: FlavorAttempt) -> str:
    if attempt.mode == FIT and not attempt.borrow:
        return ""
    borrow = f";borrow={attempt.borrow}" if attempt.borrow else ""
    reasons = f";{';'.join(sorted(attempt.reasons))}" if attempt.reasons else ""
    return f"{name}({_MODE_NAMES[attempt.mode]}{borrow}{reasons})"


class FlavorAssigner:
    """Assigns flavors to one workload in one ClusterQueue; `oracle` simulates preemption for one flavor and resource."""

    def __init__(self, queue: ClusterQueue, flavors: Mapping[str, Flavor], oracle: Oracle) -> None:
        self._queue, self._flavors, self._oracle = queue, flavors, oracle

    def assign(self, workload: WorkloadInfo, pod_sets: Sequence[PodSet]) -> Assignment:
        """Flavors for all pod sets; stops at the first pod set that gets none."""
        queue = self._queue
        if workload.last_assignment is not None and queue.generation > workload.last_assignment.generation:
            workload.last_assignment = None
        assignment = Assignment([], {}, 0, AssignmentState([], queue.generation))
        counts_pods = queue.resource_group_for("pods") is not None
        for index, pod_set in enumerate(pod_sets):
            requests = {**pod_set.requests, "pods": pod_set.count} if counts_pods else pod_set.requests
            assigned = self._assign_pod_set(workload, index, pod_set, requests, assignment.usage)
            self._append(assignment, assigned, requests)
            if requests and not assigned.flavors:
                return assignment
        assignment.mode = min((assigned.representative_mode for assigned in assignment.pod_sets), default=NO_FIT)
        return assignment

    def _append(self, assignment: Assignment, pod_set: PodSetAssignment, requests: Requests) -> None:
        assignment.pod_sets.append(pod_set)
        for resource, assigned in pod_set.flavors.items():
            assignment.borrowing = max(assignment.borrowing, assigned.borrow)
            flavor_resource = (assigned.flavor, resource)
            assignment.usage[flavor_resource] = assignment.usage.get(flavor_resource, 0) + requests[resource]
        indexes = {resource: assigned.tried_flavor_index for resource, assigned in pod_set.flavors.items()}
        assignment.last_state.flavor_indexes.append(indexes)

    def _assign_pod_set(
        self, workload: WorkloadInfo, index: int, pod_set: PodSet, requests: Requests, used: FlavorResourceQuantities
    ) -> PodSetAssignment:
        assigned = PodSetAssignment(pod_set)
        for resource in sorted(requests):
            if resource in assigned.flavors:
                continue
            group = self._queue.resource_group_for(resource)
            if group is None:
                return PodSetAssignment(pod_set, {}, [f"resource {resource} unavailable in ClusterQueue"], assigned.attempts)
            group_requests = {name: amount for name, amount in requests.items() if name in group.resources}
            start = _next_flavor_index(workload.last_assignment, index, resource)
            flavors, reasons = self._find_flavor(
                workload, group, pod_set, group_requests, used=used, start=start, attempts=assigned.attempts
            )
            if not flavors:
                return PodSetAssignment(pod_set, {}, reasons, assigned.attempts)
            assigned.flavors.update(flavors)
            assigned.reasons += reasons
        return assigned

    def _find_flavor(
        self,
        workload: WorkloadInfo,
        group: ResourceGroup,
        pod_set: PodSet,
        requests: Requests,
        *,
        used: FlavorResourceQuantities,
        start: int,
        attempts: dict[str, FlavorAttempt],
    ) -> tuple[dict[str, FlavorAssignment], list[str]]:
        """The best flavor of a group from `start` on, and the reasons why it does not fit now."""
        policy, label_keys = self._queue.policy, self._label_keys(group)
        best: dict[str, FlavorAssignment] = {}
        best_mode, reasons, index = _WORST, list[str](), -1
        for index in range(start, len(group.flavors)):
            name = group.flavors[index]
            mismatch = check_flavor(self._flavors.get(name), name, pod_set, label_keys)
            if mismatch:
                reasons.append(mismatch)
                _record(attempts, name, FlavorAttempt(NO_FIT, 0, frozenset((mismatch,))))
                continue
            flavors, mode, flavor_reasons = self._try_flavor(workload, name, requests, used)
            reasons += flavor_reasons
            borrow = max((assigned.borrow for assigned in flavors.values()), default=0)
            _record(attempts, name, FlavorAttempt(mode.preemption, borrow, frozenset(flavor_reasons)))
            if not _should_try_next_flavor(mode, policy):
                best, best_mode = flavors, mode
                break
            if _is_preferred(mode, best_mode, policy):
                best, best_mode = flavors, mode
        for assigned in best.values():
            assigned.tried_flavor_index = -1 if index == len(group.flavors) - 1 else index
        return best, [] if best_mode.preemption == FIT else reasons

    def _try_flavor(
        self, workload: WorkloadInfo, flavor: str, requests: Requests, used: FlavorResourceQuantities
    ) -> tuple[dict[str, FlavorAssignment], GranularMode, list[str]]:
        flavors: dict[str, FlavorAssignment] = {}
        worst, reasons = _BEST, list[str]()
        for resource in sorted(requests):
            flavor_resource = (flavor, resource)
            mode = self._fits_resource_quota(workload, flavor_resource, used.get(flavor_resource, 0), requests[resource], reasons)
            if _is_preferred(worst, mode, self._queue.policy):
                worst = mode
            if worst.preemption == NO_FIT:
                break
            flavors[resource] = FlavorAssignment(flavor, *mode)
        return flavors, worst, reasons

    def _fits_resource_quota(
        self, workload: WorkloadInfo, flavor_resource: FlavorResource, used: int, request: int, reasons: list[str]
    ) -> GranularMode:
        """`used` is the request of the pod sets before this one; appends to `reasons` unless the request fits."""
        queue, (flavor, resource), amount = self._queue, flavor_resource, used + request
        maximum = queue.potential_available(flavor_resource)
        if amount > maximum:
            shown = [format_quantity(resource, value) for value in (used, request, maximum)]
            reasons.append(
                f"insufficient quota for {resource} in flavor {flavor}, previously considered podsets requests ({shown[0]}) + "
                f"current podset request ({shown[1]}) > maximum capacity ({shown[2]})"
            )
            return GranularMode(NO_FIT, 0)
        borrow, may_reclaim = lowest_fitting_height(queue, flavor_resource, amount)
        available = max(0, queue.available(flavor_resource))
        if amount <= available:
            return GranularMode(FIT, borrow)
        missing = format_quantity(resource, amount - available)
        reasons.append(f"insufficient unused quota for {resource} in flavor {flavor}, {missing} more needed")
        quota = queue.quotas.get(flavor_resource)
        if amount <= (quota.nominal if quota else 0) or may_reclaim or queue.policy.borrow_within_cohort != NEVER:
            return self._oracle(queue, workload, flavor_resource, amount)
        return GranularMode(NO_FIT, borrow)

    def _label_keys(self, group: ResourceGroup) -> frozenset[str]:
        flavors = (self._flavors.get(name) for name in group.flavors)
        return frozenset(key for flavor in flavors if flavor is not None for key in flavor.labels)


def _record(attempts: dict[str, FlavorAttempt], name: str, new: FlavorAttempt) -> None:
    old = attempts.get(name)
    attempts[name] = (
        new if old is None else FlavorAttempt(min(old.mode, new.mode), max(old.borrow, new.borrow), old.reasons | new.reasons)
    )


def _next_flavor_index(last_assignment: AssignmentState | None, index: int, resource: str) -> int:
    if last_assignment is None or index >= len(last_assignment.flavor_indexes):
        return 0
    return last_assignment.flavor_indexes[index].get(resource, -1) + 1


def _is_preferred(mode: GranularMode, other: GranularMode, policy: Policy) -> bool:
    """Whether a ClusterQueue prefers the first mode."""
    if mode.preemption == NO_FIT:
        return False
    if other.preemption == NO_FIT:
        return True
    if policy.preference == "BorrowingOverPreemption":
        return (mode.borrowing_level, -mode.preemption) < (other.borrowing_level, -other.preemption)
    return (-mode.preemption, mode.borrowing_level) < (-other.preemption, other.borrowing_level)


def _should_try_next_flavor(mode: GranularMode, policy: Policy) -> bool:
    if mode.preemption <= NO_PREEMPTION_CANDIDATES:
        return True
    if mode.preemption != FIT and policy.when_can_preempt == TRY_NEXT_FLAVOR:
        return True
    return mode.borrowing_level != 0 and policy.when_can_borrow == TRY_NEXT_FLAVOR
