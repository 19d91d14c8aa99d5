"""What a JobSet asks its queue for: so much of each resource, on nodes of a kind. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from sliceworks.base import quantity
from sliceworks.kube.selectors import LabelSelector, Requirement

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

Object = dict[str, Any]
_OPERATORS = {"In": "in", "NotIn": "notin", "Exists": "exists", "DoesNotExist": "!", "Gt": "gt", "Lt": "lt"}


@dataclass(frozen=True, slots=True)
class Demand:
    """All pods of one replicated Job together."""

    name: str
    requests: dict[str, Fraction]
    pod: Object

    def takes(self, flavor: Object, keys: set[str]) -> bool:
        """Whether its pods may run on a flavor's nodes, by the labels that flavors tell apart."""
        spec = flavor.get("spec") or {}
        labels = spec.get("nodeLabels") or {}
        tolerations = [*(self.pod.get("tolerations") or ()), *(spec.get("tolerations") or ())]
        if not all(_tolerated(taint, tolerations) for taint in spec.get("nodeTaints") or ()):
            return False
        selector = {key: value for key, value in (self.pod.get("nodeSelector") or {}).items() if key in keys}
        return all(labels.get(key) == value for key, value in selector.items()) and self._affine(labels, keys)

    def _affine(self, labels: dict[str, str], keys: set[str]) -> bool:
        affinity = (self.pod.get("affinity") or {}).get("nodeAffinity") or {}
        terms = (affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}).get("nodeSelectorTerms") or ()
        relevant = [list(_requirements(term, keys)) for term in terms]
        if not all(relevant):
            return True  # a term that says nothing of flavors lets any of them do
        return not relevant or any(LabelSelector(each).matches(labels) for each in relevant)


def demands(jobset: Object) -> list[Demand]:
    """One for each replicated Job."""
    return [_demand(each) for each in jobset["spec"]["replicatedJobs"]]


def _demand(job: Object) -> Demand:
    spec = job["template"]["spec"]
    pods = job.get("replicas", 1) * min(spec.get("parallelism", 1), spec.get("completions", spec.get("parallelism", 1)))
    pod = spec["template"]["spec"]
    total: dict[str, Fraction] = {}
    for container in pod["containers"]:
        resources = container.get("resources") or {}
        for name, amount in {**(resources.get("limits") or {}), **(resources.get("requests") or {})}.items():
            total[name] = total.get(name, Fraction(0)) + quantity.parse(str(amount)) * pods
    return Demand(job["name"], total, pod)


def _requirements(term: Object, keys: set[str]) -> Iterator[Requirement]:
    for each in term.get("matchExpressions") or ():
        if each["key"] in keys:
            yield Requirement(each["key"], _OPERATORS[each["operator"]], tuple(each.get("values") or ()))


def _tolerated(taint: Object, tolerations: Iterable[Object]) -> bool:
    if taint.get("effect") not in ("NoSchedule", "NoExecute"):
        return True
    return any(_tolerates(each, taint) for each in tolerations)


def _tolerates(toleration: Object, taint: Object) -> bool:
    if toleration.get("effect") not in (None, "", taint["effect"]):
        return False
    if not toleration.get("key"):
        return toleration.get("operator") == "Exists"
    if toleration["key"] != taint["key"]:
        return False
    return toleration.get("operator") == "Exists" or toleration.get("value", "") == taint.get("value", "")
