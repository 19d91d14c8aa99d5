"""The DefaultPreemption plugin: which pods of lower priority to evict, and on which node."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from sliceworks.base import clock
from sliceworks.twin.scheduler.node_plugins import NO_PREEMPTION_VICTIMS, PREEMPTION_NOT_HELPFUL, format_fit_error
from sliceworks.twin.scheduler.schedule_one import check_fit
from sliceworks.twin.scheduler.topology_plugins import TopologyFilter

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sliceworks.kube.selectors import LabelSelector
    from sliceworks.twin.scheduler.node_info import NodeInfo
    from sliceworks.twin.scheduler.pod_info import PodInfo, PodKey
    from sliceworks.twin.scheduler.schedule_one import Unschedulable
    from sliceworks.twin.scheduler.snapshot import Snapshot

_POLICY_NEVER = "not eligible due to preemptionPolicy=Never."
_VICTIM_TERMINATING = "not eligible due to a terminating pod on the nominated node."
_MIN_CANDIDATES = 100
_PRIORITY_OFFSET = 2**31


class DisruptionBudget(NamedTuple):
    """The allowed disruptions of a PodDisruptionBudget, and the pods whose disruption is already counted."""

    namespace: str
    selector: LabelSelector
    allowed: int
    disrupted: frozenset[str]


class Preemption(NamedTuple):
    """A node and the pods to evict from it, the most important first."""

    node: NodeInfo
    victims: tuple[PodInfo, ...]
    violations: int = 0


def preempt(pod: PodInfo, snapshot: Snapshot, failure: Unschedulable, budgets: Iterable[DisruptionBudget]) -> Preemption | str:
    """The node and victims that make a pod schedulable, or kube-scheduler's message why preemption does not help."""
    if not pod.can_preempt:
        return _POLICY_NEVER
    nominated = snapshot.nodes.get(pod.nominated) if pod.nominated and not failure.unresolvable_nomination else None
    if nominated is not None and any(other.preempted and other.priority < pod.priority for other in nominated.pods.values()):
        return _VICTIM_TERMINATING
    total, reasons = len(snapshot.nodes), Counter[tuple[str, ...]]()
    lowest = snapshot.lowest_priority
    if lowest is None or lowest >= pod.priority:
        reasons[(NO_PREEMPTION_VICTIMS,)] = failure.resolvable
    else:
        candidates = _dry_run(pod, snapshot, failure.resolvable_nodes(), tuple(budgets), reasons)
        if candidates:
            return min(candidates, key=_rank)
    reasons[(PREEMPTION_NOT_HELPFUL,)] = total - reasons.total()
    return format_fit_error(total, reasons.items())


def _dry_run(
    pod: PodInfo,
    snapshot: Snapshot,
    nodes: Sequence[NodeInfo],
    budgets: tuple[DisruptionBudget, ...],
    reasons: Counter[tuple[str, ...]],
) -> list[Preemption]:
    """Candidates for preemption, until there are enough to choose from; `reasons` counts why other nodes are none."""
    topology = TopologyFilter(pod, snapshot, snapshot.default_spreads.spreads(pod))
    offset = clock.rng().randrange(len(nodes)) if nodes else 0
    candidates: list[Preemption] = []
    for node in (*nodes[offset:], *nodes[:offset]):
        result = _select_victims(pod, node, topology, snapshot, budgets)
        if isinstance(result, Preemption):
            candidates.append(result)
            if len(candidates) >= _MIN_CANDIDATES and any(not candidate.violations for candidate in candidates):
                break
        else:
            reasons[result] += 1
    return candidates


def _select_victims(
    pod: PodInfo, node: NodeInfo, topology: TopologyFilter, snapshot: Snapshot, budgets: tuple[DisruptionBudget, ...]
) -> Preemption | tuple[str, ...]:
    """The fewest victims on a node: remove all pods of lower priority, then reprieve as many as fit, important ones first."""
    lower = sorted((other for other in node.pods.values() if other.priority < pod.priority), key=_importance)
    if not lower:
        return (NO_PREEMPTION_VICTIMS,)
    status = check_fit(pod, node, topology, snapshot, lower)
    if status is not None:
        return status.reasons
    protected = _protected_pods(lower, budgets)
    victims = list(lower)
    violations = 0
    for other in sorted(lower, key=lambda pod: pod.key not in protected):
        remaining = [victim for victim in victims if victim is not other]
        if check_fit(pod, node, topology, snapshot, remaining) is None:
            victims = remaining
        elif other.key in protected:
            violations += 1
    return Preemption(node, tuple(victims), violations)


def _protected_pods(pods: list[PodInfo], budgets: tuple[DisruptionBudget, ...]) -> set[PodKey]:
    """The pods whose eviction would violate a disruption budget."""
    allowed = [budget.allowed for budget in budgets]
    protected = set()
    for pod in pods:
        for number, budget in enumerate(budgets):
            if budget.namespace != pod.key[0] or budget.selector.matches_everything or not pod.labels:
                continue
            if budget.selector.matches(pod.labels) and pod.key[1] not in budget.disrupted:
                allowed[number] -= 1
                if allowed[number] < 0:
                    protected.add(pod.key)
    return protected


def _importance(pod: PodInfo) -> tuple[int, str]:
    """A sort key, most important first: by priority, then by start time; pods that have not started come last."""
    return -pod.priority, pod.started or "~"


def _rank(candidate: Preemption) -> tuple[int, int, int, int, _LatestFirst]:
    """A sort key of candidates, the least harmful first."""
    victims = candidate.victims
    highest = max(pod.priority for pod in victims)
    earliest = min(pod.started or "~" for pod in victims if pod.priority == highest)
    total = sum(pod.priority + _PRIORITY_OFFSET for pod in victims)
    return candidate.violations, highest, total, len(victims), _LatestFirst(earliest)


class _LatestFirst(str):
    """A time string that sorts in descending order."""

    __slots__ = ()

    def __lt__(self, other: str) -> bool:
        return str.__gt__(self, other)
