"""A Workload against the flavors and quota of its ClusterQueue: requested, available, maximum. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from sliceworks.base import quantity
from sliceworks.training.diagnosis import pod_fit
from sliceworks.training.quota import QuotaTree

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from sliceworks.training.diagnosis.model import Evidence

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class PodSetNeed:
    """The requests of all pods of one pod set together."""

    name: str
    pods: int
    amounts: Mapping[str, Fraction]
    spec: Object


@dataclass(frozen=True, slots=True)
class QuotaRoom:
    """The quota of one resource in one flavor.

    `maximum` is the most that the queue can use, `limit` its borrowing limit (None: unlimited), `shared` the quota of its cohort.
    """

    flavor: str
    resource: str
    nominal: Fraction
    maximum: Fraction
    used: Fraction
    cohort: bool
    limit: Fraction | None
    shared: Fraction
    shared_used: Fraction

    @property
    def free(self) -> Fraction:
        """The quota available to the queue now, borrowed quota included."""
        own = self.maximum - self.used
        return max(min(own, self.shared - self.shared_used) if self.cohort else own, Fraction(0))

    @property
    def shared_free(self) -> Fraction:
        """The unused quota of the cohort, whatever the borrowing limits."""
        return max(self.shared - self.shared_used, Fraction(0)) if self.cohort else self.free


@dataclass(frozen=True, slots=True)
class FlavorFit:
    """A pod set against a flavor: `mismatch` says why it cannot use the flavor; otherwise `room` is the scarcest resource."""

    need: PodSetNeed
    flavor: str
    mismatch: str = ""
    taint: Object | None = None
    room: QuotaRoom | None = None
    requested: Fraction = Fraction(0)

    @property
    def never_fits(self) -> bool:
        return self.room is not None and self.requested > self.room.maximum

    @property
    def fits_later(self) -> bool:
        return self.room is not None and not self.never_fits and self.requested > self.room.free

    @property
    def fits_now(self) -> bool:
        return not self.mismatch and not self.never_fits and not self.fits_later


def needs(workload: Object) -> list[PodSetNeed]:
    """The requests of a Workload: as Kueue reports them, else the sum of its pods' requests."""
    reported = {
        request["name"]: request.get("resources") or {} for request in (workload.get("status") or {}).get("resourceRequests") or ()
    }
    result = []
    for pods in workload["spec"]["podSets"]:
        spec, count = (pods.get("template") or {}).get("spec") or {}, int(pods.get("count", 1))
        amounts = {name: quantity.parse(amount) for name, amount in reported.get(pods["name"], {}).items()}
        amounts = amounts or {name: amount * count for name, amount in pod_fit.pod_requests(spec).items()}
        result.append(PodSetNeed(pods["name"], count, {name: value for name, value in amounts.items() if value}, spec))
    return result


def uncovered(evidence: Evidence) -> list[str]:
    """Requested resources that no resource group of the ClusterQueue covers."""
    covered = {name for group in _groups(evidence.cluster_queue) for name in group.get("coveredResources") or ()}
    requested = {name for need in needs(evidence.workload or {"spec": {"podSets": []}}) for name in need.amounts}
    return sorted(requested - covered)


def fits(evidence: Evidence) -> list[list[FlavorFit]]:
    """For every pod set and resource group, its fit in each flavor, best first.

    Quota assigned to one pod set is not available to the next.
    """
    assigned: dict[tuple[str, str], Fraction] = {}
    result = []
    for need in needs(evidence.workload or {"spec": {"podSets": []}}):
        for group in _groups(evidence.cluster_queue):
            resources = [name for name in group.get("coveredResources") or () if need.amounts.get(name)]
            if not resources:
                continue
            ranked = sorted(_flavor_fits(evidence, need, group, resources, assigned), key=_rank)
            result.append(ranked)
            for name in resources:
                key = (ranked[0].flavor, name)
                assigned[key] = assigned.get(key, Fraction(0)) + need.amounts[name]
    return result


def _rank(fit: FlavorFit) -> int:
    return 0 if fit.fits_now else 1 if fit.fits_later else 2 if fit.never_fits else 3


def _flavor_fits(
    evidence: Evidence, need: PodSetNeed, group: Object, resources: list[str], assigned: Mapping[tuple[str, str], Fraction]
) -> Iterator[FlavorFit]:
    keys = {key for flavor in group["flavors"] for key in _spec(evidence, flavor["name"]).get("nodeLabels") or {}}
    for flavor in group["flavors"]:
        name, spec = flavor["name"], _spec(evidence, flavor["name"])
        tolerations = [*(need.spec.get("tolerations") or ()), *(spec.get("tolerations") or ())]
        if taint := pod_fit.find_untolerated_taint(spec.get("nodeTaints") or (), tolerations):
            yield FlavorFit(need, name, f"the taint {taint['key']} is not tolerated", taint)
        elif unmatched := pod_fit.describe_unmatched_selector(need.spec, spec.get("nodeLabels") or {}, keys):
            yield FlavorFit(need, name, f"its nodes do not match {unmatched}")
        else:
            yield _tightest(evidence, need, name, resources, assigned)


def _tightest(
    evidence: Evidence, need: PodSetNeed, flavor: str, resources: Iterable[str], assigned: Mapping[tuple[str, str], Fraction]
) -> FlavorFit:
    """The scarcest resource: one that exceeds the maximum comes before one that is in use."""
    candidates = []
    for resource in resources:
        requested = need.amounts[resource] + assigned.get((flavor, resource), Fraction(0))
        candidates.append(FlavorFit(need, flavor, room=room(evidence, flavor, resource), requested=requested))
    return min(
        candidates, key=lambda fit: (not fit.never_fits, not fit.fits_later, "/" not in (fit.room.resource if fit.room else ""))
    )


def room(evidence: Evidence, flavor: str, resource: str) -> QuotaRoom:
    """The quota of one resource in one flavor, in the ClusterQueue and its cohort."""
    queue = evidence.cluster_queue or {}
    name, quota = queue["metadata"]["name"], _quota(queue, flavor, resource)
    nominal, limit, used = _amount(quota.get("nominalQuota")), quota.get("borrowingLimit"), _used(queue, flavor, resource)
    shared, shared_used = nominal, used
    for member in (item for item in evidence.cohort if item["metadata"]["name"] != name):
        member_quota = _quota(member, flavor, resource)
        own, use = _amount(member_quota.get("nominalQuota")), _used(member, flavor, resource)
        lendable = own if member_quota.get("lendingLimit") is None else min(_amount(member_quota["lendingLimit"]), own)
        shared += lendable
        shared_used += max(use - (own - lendable), Fraction(0))
    for cohort in evidence.cohorts:
        shared += _amount(_quota(cohort, flavor, resource).get("nominalQuota"))
    maximum = QuotaTree(evidence.cohort or (queue,), evidence.cohorts).maximum(name, (flavor, resource))
    borrowing = None if limit is None else _amount(limit)
    return QuotaRoom(flavor, resource, nominal, maximum, used, bool(cohort_of(queue)), borrowing, max(shared, maximum), shared_used)


def _amount(value: Any) -> Fraction:
    return quantity.parse(str(value or 0))


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


def _groups(queue: Object | None) -> list[Object]:
    resource_groups: list[Object] = ((queue or {}).get("spec") or {}).get("resourceGroups") or []
    return resource_groups


def _quota(queue: Object, flavor: str, resource: str) -> Object:
    for group in _groups(queue):
        for item in group["flavors"]:
            if item["name"] == flavor:
                result: Object = next((quota for quota in item["resources"] if quota["name"] == resource), {})
                return result
    return {}


def _used(queue: Object, flavor: str, resource: str) -> Fraction:
    for item in (queue.get("status") or {}).get("flavorsReservation") or ():
        if item["name"] == flavor:
            return quantity.parse(
                next((usage.get("total") or "0" for usage in item.get("resources") or () if usage["name"] == resource), "0")
            )
    return Fraction(0)


def _spec(evidence: Evidence, flavor: str) -> Object:
    return (evidence.flavors.get(flavor) or {}).get("spec") or {}
