"""A Workload against the quota of its ClusterQueue: what it asks for, what there is at most, what is free, what fits. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from sliceworks.base import quantity
from sliceworks.training.quotas import Quotas
from sliceworks.training.why import matching

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from sliceworks.training.why.evidence import Evidence

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Need:
    """What all pods of one pod set ask for together."""

    name: str
    pods: int
    amounts: Mapping[str, Fraction]
    spec: Object


@dataclass(frozen=True, slots=True)
class Room:
    """One resource of one flavor. `most` is what the queue can ever have, `limit` how much of that may be borrowed (None: all that
    there is), `shared` what its cohort has to share."""

    flavor: str
    resource: str
    nominal: Fraction
    most: Fraction
    used: Fraction
    cohort: bool
    limit: Fraction | None
    shared: Fraction
    shared_used: Fraction

    @property
    def free(self) -> Fraction:
        """What it could have now, borrowed or its own."""
        own = self.most - self.used
        return max(min(own, self.shared - self.shared_used) if self.cohort else own, Fraction(0))

    @property
    def shared_free(self) -> Fraction:
        """What the cohort has free, whoever may have it."""
        return max(self.shared - self.shared_used, Fraction(0)) if self.cohort else self.free


@dataclass(frozen=True, slots=True)
class Fit:
    """How one pod set stands with one flavor: `mismatch` says why it may not use it; else the resource that is shortest."""

    need: Need
    flavor: str
    mismatch: str = ""
    taint: Object | None = None
    room: Room | None = None
    asked: Fraction = Fraction(0)

    @property
    def never(self) -> bool:
        return self.room is not None and self.asked > self.room.most

    @property
    def later(self) -> bool:
        return self.room is not None and not self.never and self.asked > self.room.free

    @property
    def ok(self) -> bool:
        return not self.mismatch and not self.never and not self.later


def needs(workload: Object) -> list[Need]:
    """What a Workload asks for: Kueue's own count where it tells, else the sum of its pods' requests."""
    told = {each["name"]: each.get("resources") or {} for each in (workload.get("status") or {}).get("resourceRequests") or ()}
    found = []
    for pods in workload["spec"]["podSets"]:
        spec, count = (pods.get("template") or {}).get("spec") or {}, int(pods.get("count", 1))
        amounts = {name: quantity.parse(text) for name, text in told.get(pods["name"], {}).items()}
        amounts = amounts or {name: each * count for name, each in matching.requests(spec).items()}
        found.append(Need(pods["name"], count, {name: value for name, value in amounts.items() if value}, spec))
    return found


def uncovered(evidence: Evidence) -> list[str]:
    """Resources that are asked for and that no group of the ClusterQueue covers."""
    covered = {name for group in _groups(evidence.cluster_queue) for name in group.get("coveredResources") or ()}
    wanted = {name for need in needs(evidence.workload or {"spec": {"podSets": []}}) for name in need.amounts}
    return sorted(wanted - covered)


def fits(evidence: Evidence) -> list[list[Fit]]:
    """For every pod set and every group of resources: how it stands with each flavor, the best first.

    What one pod set takes of a flavor is not there for the next.
    """
    taken: dict[tuple[str, str], Fraction] = {}
    found = []
    for need in needs(evidence.workload or {"spec": {"podSets": []}}):
        for group in _groups(evidence.cluster_queue):
            wanted = [name for name in group.get("coveredResources") or () if need.amounts.get(name)]
            if not wanted:
                continue
            ranked = sorted(_flavor_fits(evidence, need, group, wanted, taken), key=_rank)
            found.append(ranked)
            for name in wanted:
                key = (ranked[0].flavor, name)
                taken[key] = taken.get(key, Fraction(0)) + need.amounts[name]
    return found


def _rank(fit: Fit) -> int:
    return 0 if fit.ok else 1 if fit.later else 2 if fit.never else 3


def _flavor_fits(
    evidence: Evidence, need: Need, group: Object, wanted: list[str], taken: Mapping[tuple[str, str], Fraction]
) -> Iterator[Fit]:
    keys = {key for each in group["flavors"] for key in _spec(evidence, each["name"]).get("nodeLabels") or {}}
    for flavor in group["flavors"]:
        name, spec = flavor["name"], _spec(evidence, flavor["name"])
        tolerations = [*(need.spec.get("tolerations") or ()), *(spec.get("tolerations") or ())]
        if taint := matching.untolerated(spec.get("nodeTaints") or (), tolerations):
            yield Fit(need, name, f"the taint {taint['key']} is not tolerated", taint)
        elif missed := matching.unselected(need.spec, spec.get("nodeLabels") or {}, keys):
            yield Fit(need, name, f"{missed} is selected, which its nodes have not")
        else:
            yield _tightest(evidence, need, name, wanted, taken)


def _tightest(evidence: Evidence, need: Need, flavor: str, wanted: Iterable[str], taken: Mapping[tuple[str, str], Fraction]) -> Fit:
    """The resource that stands worst: one that can never be had before one that is in use."""
    found = []
    for resource in wanted:
        asked = need.amounts[resource] + taken.get((flavor, resource), Fraction(0))
        found.append(Fit(need, flavor, room=room(evidence, flavor, resource), asked=asked))
    return min(found, key=lambda fit: (not fit.never, not fit.later, "/" not in (fit.room.resource if fit.room else "")))


def room(evidence: Evidence, flavor: str, resource: str) -> Room:
    """How one resource of one flavor stands in the ClusterQueue and its cohort."""
    queue = evidence.cluster_queue or {}
    name, quota = queue["metadata"]["name"], _quota(queue, flavor, resource)
    nominal, limit, used = _amount(quota.get("nominalQuota")), quota.get("borrowingLimit"), _used(queue, flavor, resource)
    shared, shared_used = nominal, used
    for other in (each for each in evidence.cohort if each["metadata"]["name"] != name):
        theirs = _quota(other, flavor, resource)
        own, use = _amount(theirs.get("nominalQuota")), _used(other, flavor, resource)
        lent = own if theirs.get("lendingLimit") is None else min(_amount(theirs["lendingLimit"]), own)
        shared += lent
        shared_used += max(use - (own - lent), Fraction(0))
    for cohort in evidence.cohorts:
        shared += _amount(_quota(cohort, flavor, resource).get("nominalQuota"))
    most = Quotas(evidence.cohort or (queue,), evidence.cohorts).most(name, (flavor, resource))
    borrowing = None if limit is None else _amount(limit)
    return Room(flavor, resource, nominal, most, used, bool(cohort_of(queue)), borrowing, max(shared, most), shared_used)


def _amount(text: Any) -> Fraction:
    return quantity.parse(str(text or 0))


def cohort_of(queue: Object | None) -> str:
    """The cohort of a ClusterQueue, by the name of either version of the API."""
    spec = (queue or {}).get("spec") or {}
    return str(spec.get("cohortName") or spec.get("cohort") or "")


def tree(cohort: str, cohorts: Iterable[Object]) -> set[str]:
    """All cohorts that share quota with this one: those above it, and all below them."""
    parents = {each["metadata"]["name"]: str((each.get("spec") or {}).get("parentName") or "") for each in cohorts}
    found = {cohort}
    while more := {parent for name, parent in parents.items() if name in found and parent} | {
        name for name, parent in parents.items() if parent in found
    }:
        if more <= found:
            break
        found |= more
    return found


def _groups(queue: Object | None) -> list[Object]:
    found: list[Object] = ((queue or {}).get("spec") or {}).get("resourceGroups") or []
    return found


def _quota(queue: Object, flavor: str, resource: str) -> Object:
    for group in _groups(queue):
        for each in group["flavors"]:
            if each["name"] == flavor:
                found: Object = next((one for one in each["resources"] if one["name"] == resource), {})
                return found
    return {}


def _used(queue: Object, flavor: str, resource: str) -> Fraction:
    for each in (queue.get("status") or {}).get("flavorsReservation") or ():
        if each["name"] == flavor:
            return quantity.parse(
                next((one.get("total") or "0" for one in each.get("resources") or () if one["name"] == resource), "0")
            )
    return Fraction(0)


def _spec(evidence: Evidence, flavor: str) -> Object:
    return (evidence.flavors.get(flavor) or {}).get("spec") or {}
