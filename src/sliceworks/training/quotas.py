"""How much a queue can ever give: its own quota, and what its cohort may lend it. Pure: from objects as they were read.

Kueue's rule: a queue gives its cohort all that it may lend, and takes back no more than it may borrow; cohorts do the same.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from sliceworks.base import quantity

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

Object = dict[str, Any]
Kind = tuple[str, str]
"""A flavor, and a resource of it."""
_NOTHING = Fraction(0)


@dataclass(frozen=True, slots=True)
class Quota:
    """What a queue or a cohort says of one resource."""

    nominal: Fraction
    borrowing: Fraction | None = None
    lending: Fraction | None = None


@dataclass(frozen=True, slots=True)
class Node:
    """A queue, or a cohort: its own quotas, and the cohort that it is in."""

    quotas: dict[Kind, Quota] = field(default_factory=dict)
    parent: str = ""


class Quotas:
    """All cluster queues and cohorts, as one tree. Cohorts that nobody wrote down exist by being named."""

    def __init__(self, queues: Iterable[Object], cohorts: Iterable[Object] = ()) -> None:
        self._queues = {each["metadata"]["name"]: _node(each) for each in queues}
        self._cohorts = {each["metadata"]["name"]: _node(each) for each in cohorts}
        for node in (*self._queues.values(), *list(self._cohorts.values())):
            if node.parent:
                self._cohorts.setdefault(node.parent, Node())

    def nominal(self, queue: str, kind: Kind) -> Fraction:
        """What is the queue's own."""
        found = self._queues[queue].quotas.get(kind)
        return found.nominal if found else _NOTHING

    def most(self, queue: str, kind: Kind) -> Fraction:
        """The most that the queue can have, when nobody else has anything."""
        return self._potential(self._queues[queue], self.nominal(queue, kind), kind)

    def _potential(self, node: Node, whole: Fraction, kind: Kind, above: tuple[str, ...] = ()) -> Fraction:
        if not node.parent or node.parent in above:
            return whole
        parent = self._cohorts[node.parent]
        around = (*above, node.parent)
        most = _kept(node, whole, kind) + self._potential(parent, self._whole(node.parent, kind), kind, around)
        quota = node.quotas.get(kind)
        return most if quota is None or quota.borrowing is None else min(most, whole + quota.borrowing)

    def _whole(self, cohort: str, kind: Kind, above: tuple[str, ...] = ()) -> Fraction:
        """What a cohort has to share: its own quota, and what those in it lend."""
        own = self._cohorts[cohort].quotas.get(kind)
        total = own.nominal if own else _NOTHING
        for queue in self._queues.values():
            if queue.parent == cohort and kind in queue.quotas:
                nominal = queue.quotas[kind].nominal
                total += nominal - _kept(queue, nominal, kind)
        for name, child in self._cohorts.items():
            if child.parent == cohort and name not in above:
                whole = self._whole(name, kind, (*above, cohort))
                total += whole - _kept(child, whole, kind)
        return total


def _kept(node: Node, whole: Fraction, kind: Kind) -> Fraction:
    """What is never lent."""
    quota = node.quotas.get(kind)
    return max(_NOTHING, whole - quota.lending) if quota and quota.lending is not None else _NOTHING


def _node(obj: Object) -> Node:
    spec = obj.get("spec") or {}
    parent = spec.get("cohortName") or spec.get("cohort") or spec.get("parentName") or spec.get("parent") or ""
    return Node(dict(_quotas(spec)), parent)


def _quotas(spec: Object) -> Iterator[tuple[Kind, Quota]]:
    for group in spec.get("resourceGroups") or ():
        for flavor in group["flavors"]:
            for resource in flavor["resources"]:
                limits = (_amount(resource.get(key)) for key in ("borrowingLimit", "lendingLimit"))
                yield (flavor["name"], resource["name"]), Quota(quantity.parse(str(resource["nominalQuota"])), *limits)


def _amount(value: object) -> Fraction | None:
    return None if value is None else quantity.parse(str(value))
