"""Whether a queue can ever admit a job: the flavors that its pods may run on, and the most that it can have of them. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from sliceworks.base.words import closest
from sliceworks.specs.findings import Finding
from sliceworks.specs.parts import SLICE
from sliceworks.training.demands import Demand, demands
from sliceworks.training.quotas import Quotas

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

Object = dict[str, Any]
_TYPE, _COUNT, _QUEUE = ("spec", "slices", "type"), ("spec", "slices", "count"), ("spec", "queue")
_GIB = 2**30


@dataclass(frozen=True, slots=True)
class Park:
    """What a cluster's queues were read to have."""

    queues: tuple[Object, ...]
    flavors: tuple[Object, ...]
    cohorts: tuple[Object, ...] = ()

    def queue(self, name: str) -> Object | None:
        """The ClusterQueue of this name."""
        return next((each for each in self.queues if each["metadata"]["name"] == name), None)

    def fitting(self, demand: Demand, group: Object) -> list[str]:
        """The flavors of a group of resources that pods may run on."""
        names = {each["name"] for each in group["flavors"]}
        known = {each["metadata"]["name"]: each for each in self.flavors if each["metadata"]["name"] in names}
        keys = {key for each in known.values() for key in (each.get("spec") or {}).get("nodeLabels") or ()}
        return [each["name"] for each in group["flavors"] if each["name"] in known and demand.takes(known[each["name"]], keys)]


def never(jobset: Object, queue: str, type_name: str, park: Park) -> list[Finding]:
    """Why a ClusterQueue can never admit a JobSet; nothing where it can."""
    found = park.queue(queue)
    if found is None:
        told = f"the queue leads to the ClusterQueue {queue!r}, which does not exist"
        return [Finding(_QUEUE, told, "sliceworks queues apply makes it; sliceworks queues list shows those that there are")]
    check = _Check(found, type_name, park)
    return [finding for demand in demands(jobset) for finding in check.of(demand)]


class _Check:
    """One queue, with what has been given out of it in thought."""

    def __init__(self, queue: Object, type_name: str, park: Park) -> None:
        self._name: str = queue["metadata"]["name"]
        self._groups: list[Object] = (queue.get("spec") or {}).get("resourceGroups") or []
        self._type = type_name
        self._park = park
        self._quotas = Quotas(park.queues, park.cohorts)
        self._given: dict[tuple[str, str], Fraction] = {}

    def of(self, demand: Demand) -> Iterator[Finding]:
        covered = {name for group in self._groups for name in group["coveredResources"]}
        for resource in demand.requests:
            if resource not in covered and demand.requests[resource]:
                told = f"queue {self._name} has no quota of {resource}, which {demand.name} asks for"
                yield Finding(_path(demand, resource), told, f"let the ClusterQueue cover {resource}: sliceworks queues apply")
        for group in self._groups:
            wanted = {name: demand.requests[name] for name in group["coveredResources"] if demand.requests.get(name)}
            if wanted:
                yield from self._in_group(demand, group, wanted)

    def _in_group(self, demand: Demand, group: Object, wanted: dict[str, Fraction]) -> Iterator[Finding]:
        fitting = self._park.fitting(demand, group)
        if not fitting:
            yield self._no_flavor(demand, [each["name"] for each in group["flavors"]])
            return
        best = max(fitting, key=lambda name: min(self._left(name, resource) - amount for resource, amount in wanted.items()))
        for resource, amount in wanted.items():
            if amount > self._left(best, resource):
                yield self._too_much(demand, best, resource, amount)
            self._given[best, resource] = self._given.get((best, resource), Fraction(0)) + amount

    def _left(self, flavor: str, resource: str) -> Fraction:
        return self._quotas.most(self._name, (flavor, resource)) - self._given.get((flavor, resource), Fraction(0))

    def _no_flavor(self, demand: Demand, names: list[str]) -> Finding:
        if demand.name != SLICE:
            return Finding(("spec", "helpers"), f"queue {self._name} has no machines for {demand.name}", f"it has {_listed(names)}")
        close = closest(self._type, names) if len(names) > 1 else ""
        told = f"queue {self._name} has no {self._type}"
        return Finding(_TYPE, told, f"it has {_listed(names)}" + (f"; {close}" if close else ""))

    def _too_much(self, demand: Demand, flavor: str, resource: str, amount: Fraction) -> Finding:
        own, most = self._quotas.nominal(self._name, (flavor, resource)), self._left(flavor, resource)
        borrowed = f", {_amount(own)} of its own and {_amount(most - own)} that it may borrow" if most > own else ""
        what = f"{resource} of {flavor}" if "/" in resource else resource
        told = f"queue {self._name} can never hold it: {_amount(amount)} {what} is asked for, {_amount(most)} is the most{borrowed}"
        return Finding(_path(demand, resource), told, "ask for less, or let the administrator raise the quota")


def _path(demand: Demand, resource: str) -> tuple[str, ...]:
    if demand.name != SLICE:
        return ("spec", "helpers")
    return ("spec", resource) if resource in ("cpu", "memory") else _COUNT


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names) or "nothing"


def _amount(value: Fraction) -> str:
    return f"{float(value / _GIB):,.0f}Gi" if value >= _GIB else f"{float(value):g}"
