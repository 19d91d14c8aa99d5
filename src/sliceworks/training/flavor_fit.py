"""Pod sets against the flavors and quota of a ClusterQueue: requested, available, maximum. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from sliceworks.base import quantity
from sliceworks.kube.pod_requests import exact_requests
from sliceworks.training import pod_fit
from sliceworks.training.quota import QuotaTree, cohort_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    Assigned = Mapping[tuple[str, str], Fraction]

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class PodSetRequests:
    """The requests of all pods of one pod set together; `spec` is their pod spec."""

    name: str
    requests: Mapping[str, Fraction]
    spec: Object


def workload_requests(workload: Object) -> list[PodSetRequests]:
    """The pod sets of a Workload: as Kueue reports their requests, else the sum of those of its pods."""
    reported = {
        request["name"]: request.get("resources") or {} for request in (workload.get("status") or {}).get("resourceRequests") or ()
    }
    result = []
    for pod_set in workload["spec"]["podSets"]:
        spec, amounts = (pod_set.get("template") or {}).get("spec") or {}, reported.get(pod_set["name"]) or {}
        requests = {name: quantity.parse(amount) for name, amount in amounts.items()}
        result.append(PodSetRequests(pod_set["name"], requests or _total(spec, int(pod_set.get("count", 1))), spec))
    return result


def jobset_requests(jobset: Object) -> list[PodSetRequests]:
    """The pod sets of a JobSet: one for each replicated job."""
    result = []
    for job in jobset["spec"]["replicatedJobs"]:
        spec = job["template"]["spec"]
        pods = job.get("replicas", 1) * min(spec.get("parallelism", 1), spec.get("completions", spec.get("parallelism", 1)))
        pod = spec["template"]["spec"]
        result.append(PodSetRequests(job["name"], _total(pod, pods), pod))
    return result


def _total(spec: Object, pods: int) -> dict[str, Fraction]:
    return {name: amount * pods for name, amount in exact_requests(spec).items()}


@dataclass(frozen=True, slots=True)
class QuotaHeadroom:
    """The quota of one resource in one flavor.

    `maximum` is the most that the queue can use, `free` what it can use now, borrowed quota included; `shared` and `shared_free`
    are the same whatever its borrowing limit, which is `limit` (None: unlimited).
    """

    flavor: str
    resource: str
    nominal: Fraction
    maximum: Fraction
    used: Fraction
    free: Fraction
    cohort: bool
    limit: Fraction | None
    shared: Fraction
    shared_free: Fraction


@dataclass(frozen=True, slots=True)
class FlavorFit:
    """A pod set against a flavor: `mismatch` says why it cannot use the flavor; otherwise `headroom` is the scarcest resource.

    `requested` is the amount of that resource, with what the pod sets before it got.
    """

    pod_set: PodSetRequests
    flavor: str
    mismatch: str = ""
    taint: Object | None = None
    headroom: QuotaHeadroom | None = None
    requested: Fraction = Fraction(0)

    @property
    def never_fits(self) -> bool:
        return self.headroom is not None and self.requested > self.headroom.maximum

    @property
    def fits_later(self) -> bool:
        return self.headroom is not None and not self.never_fits and self.requested > self.headroom.free

    @property
    def fits_now(self) -> bool:
        return not self.mismatch and not self.never_fits and not self.fits_later

    @property
    def rank(self) -> int:
        return 0 if self.fits_now else 1 if self.fits_later else 2 if self.never_fits else 3


class QueueQuota:
    """The flavors and quota of a ClusterQueue. `queues` and `cohorts` are those that share quota with it."""

    def __init__(
        self, queue: Object, flavors: Mapping[str, Object], queues: Iterable[Object], cohorts: Iterable[Object] = ()
    ) -> None:
        self._name, self._flavors, self._in_cohort = queue["metadata"]["name"], flavors, bool(cohort_of(queue))
        self._groups: list[Object] = (queue.get("spec") or {}).get("resourceGroups") or []
        self._tree = QuotaTree(queues, cohorts)

    def uncovered(self, pod_sets: Iterable[PodSetRequests]) -> list[str]:
        """Requested resources that no resource group covers."""
        covered = {name for group in self._groups for name in group.get("coveredResources") or ()}
        return sorted({name for pod_set in pod_sets for name, amount in pod_set.requests.items() if amount} - covered)

    def fits(self, pod_sets: Iterable[PodSetRequests]) -> list[list[FlavorFit]]:
        """For every pod set and resource group, its fit in each flavor, best first.

        Quota assigned to one pod set is not available to the next.
        """
        assigned: dict[tuple[str, str], Fraction] = {}
        result = []
        for pod_set in pod_sets:
            for group in self._groups:
                resources = [name for name in group.get("coveredResources") or () if pod_set.requests.get(name)]
                if not resources:
                    continue
                ranked = sorted(self._flavor_fits(pod_set, group, resources, assigned), key=lambda fit: fit.rank)
                result.append(ranked)
                for name in resources:
                    key = (ranked[0].flavor, name)
                    assigned[key] = assigned.get(key, Fraction(0)) + pod_set.requests[name]
        return result

    def _flavor_fits(self, pod_set: PodSetRequests, group: Object, resources: list[str], assigned: Assigned) -> Iterator[FlavorFit]:
        specs = {flavor["name"]: (self._flavors.get(flavor["name"]) or {}).get("spec") or {} for flavor in group["flavors"]}
        keys = {key for spec in specs.values() for key in spec.get("nodeLabels") or {}}
        for name, spec in specs.items():
            tolerations = [*(pod_set.spec.get("tolerations") or ()), *(spec.get("tolerations") or ())]
            if taint := pod_fit.find_untolerated_taint(spec.get("nodeTaints") or (), tolerations):
                yield FlavorFit(pod_set, name, f"the taint {taint['key']} is not tolerated", taint)
            elif unmatched := pod_fit.describe_unmatched_selector(pod_set.spec, spec.get("nodeLabels") or {}, keys):
                yield FlavorFit(pod_set, name, f"its nodes do not match {unmatched}")
            else:
                yield self._tightest(pod_set, name, resources, assigned)

    def _tightest(self, pod_set: PodSetRequests, flavor: str, resources: list[str], assigned: Assigned) -> FlavorFit:
        """The scarcest resource: one that exceeds the maximum comes before one that is in use."""
        candidates = []
        for resource in resources:
            requested = pod_set.requests[resource] + assigned.get((flavor, resource), Fraction(0))
            candidates.append(FlavorFit(pod_set, flavor, headroom=self._headroom(flavor, resource), requested=requested))
        return min(
            candidates,
            key=lambda fit: (not fit.never_fits, not fit.fits_later, "/" not in (fit.headroom.resource if fit.headroom else "")),
        )

    def _headroom(self, flavor: str, resource: str) -> QuotaHeadroom:
        tree, name, key = self._tree, self._name, (flavor, resource)
        return QuotaHeadroom(
            flavor,
            resource,
            nominal=tree.nominal(name, key),
            maximum=tree.maximum(name, key),
            used=tree.reserved(name, key),
            free=max(tree.available(name, key), Fraction(0)),
            cohort=self._in_cohort,
            limit=tree.borrowing_limit(name, key),
            shared=tree.maximum(name, key, limited=False),
            shared_free=max(tree.available(name, key, limited=False), Fraction(0)),
        )
