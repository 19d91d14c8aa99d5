"""Quota of a cluster queue, nominal and borrowed from its cohort: the maximum, and what is unused now. Pure.

As in Kueue, a queue lends its cohort up to its lendingLimit and borrows up to its borrowingLimit; so do nested cohorts.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from sliceworks.base import quantity

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

Object = dict[str, Any]
FlavorResource = tuple[str, str]
"""A flavor, and a resource of it."""
_ZERO = Fraction(0)


@dataclass(frozen=True, slots=True)
class Quota:
    """The quota of one resource in a ClusterQueue or Cohort."""

    nominal: Fraction
    borrowing: Fraction | None = None
    lending: Fraction | None = None


@dataclass(frozen=True, slots=True)
class QuotaNode:
    """A ClusterQueue or Cohort: its quotas and its parent cohort."""

    quotas: dict[FlavorResource, Quota] = field(default_factory=dict)
    parent: str = ""
    reserved: dict[FlavorResource, Fraction] = field(default_factory=dict)
    """What the workloads of a ClusterQueue have reserved, as its status reports it."""


class QuotaTree:
    """All cluster queues and cohorts, as one tree. A cohort without an object exists if it is referenced."""

    def __init__(self, queues: Iterable[Object], cohorts: Iterable[Object] = ()) -> None:
        self._queues = {queue["metadata"]["name"]: _node(queue) for queue in queues}
        self._cohorts = {cohort["metadata"]["name"]: _node(cohort) for cohort in cohorts}
        for node in (*self._queues.values(), *list(self._cohorts.values())):
            if node.parent:
                self._cohorts.setdefault(node.parent, QuotaNode())

    def nominal(self, queue: str, flavor_resource: FlavorResource) -> Fraction:
        """The nominal quota of the queue."""
        quota = self._queues[queue].quotas.get(flavor_resource)
        return quota.nominal if quota else _ZERO

    def borrowing_limit(self, queue: str, flavor_resource: FlavorResource) -> Fraction | None:
        """The borrowing limit of the queue; None if it is unlimited."""
        quota = self._queues[queue].quotas.get(flavor_resource)
        return quota.borrowing if quota else None

    def reserved(self, queue: str, flavor_resource: FlavorResource) -> Fraction:
        """What the workloads of the queue have reserved."""
        return self._queues[queue].reserved.get(flavor_resource, _ZERO)

    def maximum(self, queue: str, flavor_resource: FlavorResource, *, limited: bool = True) -> Fraction:
        """The maximum quota of the queue if all others are idle; with `limited=False`, whatever its own borrowing limit."""
        node = self._node(queue, flavor_resource, limited=limited)
        return self._potential(node, self.nominal(queue, flavor_resource), flavor_resource)

    def _node(self, queue: str, flavor_resource: FlavorResource, *, limited: bool) -> QuotaNode:
        node = self._queues[queue]
        quota = node.quotas.get(flavor_resource)
        if limited or quota is None:
            return node
        return replace(node, quotas={**node.quotas, flavor_resource: replace(quota, borrowing=None)})

    def _potential(
        self, node: QuotaNode, quota_total: Fraction, flavor_resource: FlavorResource, above: tuple[str, ...] = ()
    ) -> Fraction:
        if not node.parent or node.parent in above:
            return quota_total
        parent = self._cohorts[node.parent]
        around = (*above, node.parent)
        maximum = _not_lendable(node, quota_total, flavor_resource) + self._potential(
            parent, self._shareable(node.parent, flavor_resource), flavor_resource, around
        )
        quota = node.quotas.get(flavor_resource)
        return maximum if quota is None or quota.borrowing is None else min(maximum, quota_total + quota.borrowing)

    def available(self, queue: str, flavor_resource: FlavorResource, *, limited: bool = True) -> Fraction:
        """The quota that the queue can reserve now, own and borrowed; negative if quota was reduced below usage."""
        node, reserved = self._node(queue, flavor_resource, limited=limited), self.reserved(queue, flavor_resource)
        return self._available(node, self.nominal(queue, flavor_resource), reserved, flavor_resource)

    def _available(
        self, node: QuotaNode, quota_total: Fraction, used: Fraction, flavor_resource: FlavorResource, above: tuple[str, ...] = ()
    ) -> Fraction:
        if not node.parent or node.parent in above:
            return quota_total - used
        parent, not_lendable = self._cohorts[node.parent], _not_lendable(node, quota_total, flavor_resource)
        shared = self._shareable(node.parent, flavor_resource), self._used(node.parent, flavor_resource)
        free = self._available(parent, *shared, flavor_resource, (*above, node.parent))
        quota = node.quotas.get(flavor_resource)
        if quota is not None and quota.borrowing is not None:
            free = min(free, quota_total - not_lendable - max(_ZERO, used - not_lendable) + quota.borrowing)
        return max(_ZERO, not_lendable - used) + free

    def _used(self, cohort: str, flavor_resource: FlavorResource, above: tuple[str, ...] = ()) -> Fraction:
        """What the members of a cohort have reserved of the quota that it shares."""
        total = _ZERO
        for queue in self._queues.values():
            if queue.parent == cohort:
                nominal = queue.quotas[flavor_resource].nominal if flavor_resource in queue.quotas else _ZERO
                total += max(_ZERO, queue.reserved.get(flavor_resource, _ZERO) - _not_lendable(queue, nominal, flavor_resource))
        for name, child in self._cohorts.items():
            if child.parent == cohort and name not in above:
                quota_total = self._shareable(name, flavor_resource, (*above, cohort))
                used = self._used(name, flavor_resource, (*above, cohort))
                total += max(_ZERO, used - _not_lendable(child, quota_total, flavor_resource))
        return total

    def _shareable(self, cohort: str, flavor_resource: FlavorResource, above: tuple[str, ...] = ()) -> Fraction:
        """The quota that a cohort shares: its own, and what its members lend."""
        own = self._cohorts[cohort].quotas.get(flavor_resource)
        total = own.nominal if own else _ZERO
        for queue in self._queues.values():
            if queue.parent == cohort and flavor_resource in queue.quotas:
                nominal = queue.quotas[flavor_resource].nominal
                total += nominal - _not_lendable(queue, nominal, flavor_resource)
        for name, child in self._cohorts.items():
            if child.parent == cohort and name not in above:
                quota_total = self._shareable(name, flavor_resource, (*above, cohort))
                total += quota_total - _not_lendable(child, quota_total, flavor_resource)
        return total


def _not_lendable(node: QuotaNode, quota_total: Fraction, flavor_resource: FlavorResource) -> Fraction:
    """The quota that is never lent."""
    quota = node.quotas.get(flavor_resource)
    return max(_ZERO, quota_total - quota.lending) if quota and quota.lending is not None else _ZERO


def _node(obj: Object) -> QuotaNode:
    spec = obj.get("spec") or {}
    parent = cohort_of(obj) or spec.get("parentName") or spec.get("parent") or ""
    return QuotaNode(dict(_quotas(spec)), parent, dict(_reservations(obj)))


def _reservations(queue: Object) -> Iterator[tuple[FlavorResource, Fraction]]:
    for flavor in (queue.get("status") or {}).get("flavorsReservation") or ():
        for resource in flavor.get("resources") or ():
            yield (flavor["name"], resource["name"]), quantity.parse(str(resource.get("total") or "0"))


def _quotas(spec: Object) -> Iterator[tuple[FlavorResource, Quota]]:
    for group in spec.get("resourceGroups") or ():
        for flavor in group["flavors"]:
            for resource in flavor["resources"]:
                limits = (_amount(resource.get(key)) for key in ("borrowingLimit", "lendingLimit"))
                yield (flavor["name"], resource["name"]), Quota(quantity.parse(str(resource["nominalQuota"])), *limits)


def _amount(value: object) -> Fraction | None:
    return None if value is None else quantity.parse(str(value))


def cohort_of(queue: Object | None) -> str:
    """The cohort of a ClusterQueue, in v1beta1 or v1beta2."""
    spec = (queue or {}).get("spec") or {}
    return str(spec.get("cohortName") or spec.get("cohort") or "")


def cohort_tree(cohort: str, cohorts: Iterable[Object]) -> set[str]:
    """All cohorts that share quota with this one: its ancestors, and all their descendants."""
    parents = {obj["metadata"]["name"]: str((obj.get("spec") or {}).get("parentName") or "") for obj in cohorts}
    result = {cohort}
    while related := {parent for name, parent in parents.items() if name in result and parent} | {
        name for name, parent in parents.items() if parent in result
    }:
        if related <= result:
            break
        result |= related
    return result
