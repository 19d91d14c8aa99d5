"""Pod (anti-)affinity terms and topology spread constraints, compiled once, and the default spread constraints."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from sliceworks.base.errors import BadRequest
from sliceworks.kube.selectors import LabelSelector, Requirement, from_label_selector

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sliceworks.twin.scheduler.pod_info import PodInfo

Labels = dict[str, str]
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
WORKLOADS = {
    "/replicationcontrollers": ("v1", "ReplicationController"),
    "apps/replicasets": ("apps/v1", "ReplicaSet"),
    "apps/statefulsets": ("apps/v1", "StatefulSet"),
}
NamespacedLabel = tuple[str, str, str]
"""Namespace, label key and value."""


class AffinityTerm(NamedTuple):
    """A PodAffinityTerm: pods by labels and namespaces, and the topology key."""

    topology: str
    selector: LabelSelector
    namespaces: frozenset[str]
    namespace_selector: LabelSelector | None

    def matches(self, namespace: str, labels: Labels, namespace_labels: Mapping[str, Labels]) -> bool:
        if not self.selector.matches(labels):
            return False
        if namespace in self.namespaces:
            return True
        selector = self.namespace_selector
        return selector is not None and selector.matches(namespace_labels.get(namespace))


class PodAffinityTerms(NamedTuple):
    """The terms of one pod; preferred terms have weights, negative ones for anti-affinity."""

    affinity: tuple[AffinityTerm, ...]
    anti_affinity: tuple[AffinityTerm, ...]
    preferred: tuple[tuple[AffinityTerm, int], ...]

    def weighted(self) -> tuple[tuple[AffinityTerm, int], ...]:
        """The terms that a scheduled pod adds to the scores of later pods: required affinity has weight one."""
        return (*((term, 1) for term in self.affinity), *self.preferred)


NO_TERMS = PodAffinityTerms((), (), ())


def parse_affinity_terms(affinity: Mapping[str, Any], namespace: str) -> PodAffinityTerms:
    """The pod affinity and anti-affinity terms of a pod in this namespace."""
    pod_affinity, anti_affinity = affinity.get("podAffinity") or {}, affinity.get("podAntiAffinity") or {}
    if not pod_affinity and not anti_affinity:
        return NO_TERMS
    preferred = [(term, 1) for term in pod_affinity.get(_PREFERRED) or ()]
    preferred += [(term, -1) for term in anti_affinity.get(_PREFERRED) or ()]
    return PodAffinityTerms(
        tuple(_parse_term(term, namespace) for term in pod_affinity.get(_REQUIRED) or ()),
        tuple(_parse_term(term, namespace) for term in anti_affinity.get(_REQUIRED) or ()),
        tuple(
            (_parse_term(term.get("podAffinityTerm") or {}, namespace), sign * term.get("weight", 0)) for term, sign in preferred
        ),
    )


def _parse_term(term: Mapping[str, Any], namespace: str) -> AffinityTerm:
    namespaces, namespace_selector = term.get("namespaces") or (), term.get("namespaceSelector")
    return AffinityTerm(
        term.get("topologyKey", ""),
        from_label_selector(term.get("labelSelector")),
        frozenset(namespaces if namespaces or namespace_selector is not None else (namespace,)),
        None if namespace_selector is None else from_label_selector(namespace_selector),
    )


class SpreadConstraint(NamedTuple):
    """A TopologySpreadConstraint: how evenly pods are spread over the domains of a topology key."""

    topology: str
    selector: LabelSelector
    max_skew: int
    min_domains: int
    honors_affinity: bool
    honors_taints: bool


class SpreadConstraints(NamedTuple):
    """The constraints of a pod: DoNotSchedule (hard) and ScheduleAnyway (soft)."""

    hard: tuple[SpreadConstraint, ...]
    soft: tuple[SpreadConstraint, ...]
    is_default: bool = False


NO_CONSTRAINTS = SpreadConstraints((), ())


def parse_spread_constraints(constraints: list[dict[str, Any]], labels: Labels) -> SpreadConstraints:
    """The constraints of a pod with these labels, which matchLabelKeys refers to."""
    parsed: dict[str, list[SpreadConstraint]] = {"DoNotSchedule": [], "ScheduleAnyway": []}
    for constraint in constraints:
        parsed[constraint.get("whenUnsatisfiable", "DoNotSchedule")].append(
            SpreadConstraint(
                constraint.get("topologyKey", ""),
                _with_label_keys(
                    from_label_selector(constraint.get("labelSelector")), constraint.get("matchLabelKeys") or (), labels
                ),
                constraint.get("maxSkew", 1),
                constraint.get("minDomains") or 1,
                constraint.get("nodeAffinityPolicy", "Honor") == "Honor",
                constraint.get("nodeTaintsPolicy", "Ignore") == "Honor",
            )
        )
    return SpreadConstraints(tuple(parsed["DoNotSchedule"]), tuple(parsed["ScheduleAnyway"]))


def default_constraints(selector: LabelSelector) -> SpreadConstraints:
    """The default constraints of pods that match a Service, ReplicaSet or StatefulSet and have none of their own."""
    return SpreadConstraints(
        (),
        (SpreadConstraint(HOSTNAME, selector, 3, 1, True, False), SpreadConstraint(ZONE, selector, 5, 1, True, False)),
        is_default=True,
    )


def _with_label_keys(selector: LabelSelector, keys: list[str] | tuple[str, ...], labels: Labels) -> LabelSelector:
    added = [Requirement(key, "=", (labels[key],)) for key in keys if key in labels]
    if not added or selector.matches_nothing:
        return selector
    known = set(selector.requirements)
    return LabelSelector([*selector.requirements, *(requirement for requirement in added if requirement not in known)])


class DefaultSpreadSelectors:
    """The selectors of Services and workloads, which the default spread constraints use."""

    def __init__(self) -> None:
        self._services: dict[tuple[str, str], tuple[NamespacedLabel, dict[str, str]]] = {}
        self._by_label: dict[NamespacedLabel, dict[str, dict[str, str]]] = {}
        self._workloads: dict[tuple[str, str, str, str], tuple[Requirement, ...]] = {}
        self._cache: dict[tuple[Requirement, ...], SpreadConstraints] = {}

    def set_service(self, namespace: str, name: str, obj: Mapping[str, Any] | None) -> None:
        before = self._services.pop((namespace, name), None)
        if before is not None:
            del self._by_label[before[0]][name]
        selector: dict[str, str] = ((obj or {}).get("spec") or {}).get("selector") or {}
        if selector:
            label = (namespace, *min(selector.items()))
            self._services[namespace, name] = label, selector
            self._by_label.setdefault(label, {})[name] = selector

    def set_workload(self, resource: str, namespace: str, name: str, obj: Mapping[str, Any] | None) -> None:
        key = (*WORKLOADS[resource], namespace, name)
        if obj is None:
            self._workloads.pop(key, None)
            return
        selector = (obj.get("spec") or {}).get("selector") or {}
        if resource == "/replicationcontrollers":
            selector = {"matchLabels": selector}
        try:
            self._workloads[key] = from_label_selector(selector).requirements
        except BadRequest:
            self._workloads.pop(key, None)

    def spreads(self, pod: PodInfo) -> SpreadConstraints:
        """The constraints of a pod: its own, or the default ones."""
        spreads = pod.shape.spreads
        if spreads.hard or spreads.soft:
            return spreads
        if not self._by_label and not self._workloads:
            return NO_CONSTRAINTS
        requirements = self._merge_selectors(pod)
        if not requirements:
            return NO_CONSTRAINTS
        constraints = self._cache.get(requirements)
        if constraints is None:
            constraints = self._cache[requirements] = default_constraints(LabelSelector(requirements))
            if len(self._cache) > 1024:
                del self._cache[next(iter(self._cache))]
        return constraints

    def _merge_selectors(self, pod: PodInfo) -> tuple[Requirement, ...]:
        namespace, labels = pod.key[0], pod.labels
        merged: dict[str, str] = {}
        for key, value in labels.items():
            for selector in self._by_label.get((namespace, key, value), {}).values():
                if selector.items() <= labels.items():
                    merged.update(selector)
        requirements = [Requirement(key, "=", (value,)) for key, value in sorted(merged.items())]
        if pod.owner is not None:
            requirements += self._workloads.get((pod.owner[0], pod.owner[1], namespace, pod.owner[2]), ())
        return tuple(dict.fromkeys(requirements))
