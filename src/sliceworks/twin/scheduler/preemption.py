"""Preemption: which pods of lower priority would have to go so that one finds room, and where that hurts least."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

from sliceworks.base import clock
from sliceworks.twin.scheduler.decide import fits
from sliceworks.twin.scheduler.links import Links
from sliceworks.twin.scheduler.verdicts import NO_VICTIMS, NOT_HELPFUL, summary

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sliceworks.kube.selectors import LabelSelector
    from sliceworks.twin.scheduler.decide import Unschedulable
    from sliceworks.twin.scheduler.nodes import Node
    from sliceworks.twin.scheduler.pods import Pod
    from sliceworks.twin.scheduler.snapshot import Snapshot

_NEVER = "not eligible due to preemptionPolicy=Never."
_WAITING = "not eligible due to a terminating pod on the nominated node."
_ENOUGH = 100
_OFFSET = 2**31


class Budget(NamedTuple):
    """How many pods of a selector may still go, and whose going is counted already."""

    namespace: str
    selector: LabelSelector
    allowed: int
    counted: frozenset[str]


class Preemption(NamedTuple):
    """The node to make room on, and the pods that go, the most important first."""

    node: Node
    victims: tuple[Pod, ...]
    violations: int = 0


def preempt(pod: Pod, snapshot: Snapshot, failure: Unschedulable, budgets: Iterable[Budget]) -> Preemption | str:
    """Find who could make room, or say why nobody can."""
    if not pod.may_preempt:
        return _NEVER
    nominated = snapshot.nodes.get(pod.nominated) if pod.nominated and not failure.unresolvable_nomination else None
    if nominated is not None and any(_leaves_for(pod, other) for other in nominated.pods.values()):
        return _WAITING
    total, reasons = len(snapshot.nodes), Counter[tuple[str, ...]]()
    lowest = snapshot.lowest_priority
    if lowest is None or lowest >= pod.priority:
        reasons[(NO_VICTIMS,)] = failure.resolvable
    else:
        found = _candidates(pod, snapshot, failure.resolvable_nodes(), tuple(budgets), reasons)
        if found:
            return min(found, key=_harm)
    reasons[(NOT_HELPFUL,)] = total - reasons.total()
    return summary(total, reasons.items())


def _leaves_for(pod: Pod, other: Pod) -> bool:
    return other.leaving_for_others and other.priority < pod.priority


def _candidates(
    pod: Pod, snapshot: Snapshot, nodes: Sequence[Node], budgets: tuple[Budget, ...], reasons: Counter[tuple[str, ...]]
) -> list[Preemption]:
    """Nodes where it would work, until there are enough to choose from; `reasons` counts why it would not."""
    links = Links(pod, snapshot, snapshot.families.spreads(pod))
    offset = clock.randomness().randrange(len(nodes)) if nodes else 0
    found: list[Preemption] = []
    for node in (*nodes[offset:], *nodes[:offset]):
        result = _victims(pod, node, links, snapshot, budgets)
        if isinstance(result, Preemption):
            found.append(result)
            if len(found) >= _ENOUGH and any(not one.violations for one in found):
                break
        else:
            reasons[result] += 1
    return found


def _victims(pod: Pod, node: Node, links: Links, snapshot: Snapshot, budgets: tuple[Budget, ...]) -> Preemption | tuple[str, ...]:
    """The fewest that must go from one node: all of lower priority go, then as many as can come back, the important ones first."""
    gone = sorted((other for other in node.pods.values() if other.priority < pod.priority), key=_importance)
    if not gone:
        return (NO_VICTIMS,)
    verdict = fits(pod, node, links, snapshot, gone)
    if verdict is not None:
        return verdict.reasons
    protected = _protected(gone, budgets)
    victims = list(gone)
    violations = 0
    for other in sorted(gone, key=lambda each: each.key not in protected):
        left = [each for each in victims if each is not other]
        if fits(pod, node, links, snapshot, left) is None:
            victims = left
        elif other.key in protected:
            violations += 1
    return Preemption(node, tuple(victims), violations)


def _protected(pods: list[Pod], budgets: tuple[Budget, ...]) -> set[Any]:
    """Those whose going would break a budget."""
    left = [budget.allowed for budget in budgets]
    found = set()
    for pod in pods:
        for number, budget in enumerate(budgets):
            if budget.namespace != pod.key[0] or budget.selector.everything or not pod.labels:
                continue
            if budget.selector.matches(pod.labels) and pod.key[1] not in budget.counted:
                left[number] -= 1
                if left[number] < 0:
                    found.add(pod.key)
    return found


def _importance(pod: Pod) -> tuple[int, str]:
    """What sorts first is the last to go: by priority, then by how long it runs. One that has not started sorts last."""
    return -pod.priority, pod.started or "~"


def _harm(one: Preemption) -> tuple[int, int, int, int, _Later]:
    """What sorts first hurts least."""
    highest = max(pod.priority for pod in one.victims)
    earliest = min(pod.started or "~" for pod in one.victims if pod.priority == highest)
    return one.violations, highest, sum(pod.priority + _OFFSET for pod in one.victims), len(one.victims), _Later(earliest)


class _Later(str):
    """A time that sorts before those that are earlier."""

    __slots__ = ()

    def __lt__(self, other: str) -> bool:
        return str.__gt__(self, other)
