"""What pods want of other pods: (anti-)affinity terms and spread constraints, compiled once for all that are written alike."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from sliceworks.kube.selectors import LabelSelector, Requirement, from_label_selector

if TYPE_CHECKING:
    from collections.abc import Mapping

Labels = dict[str, str]

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"


class Term(NamedTuple):
    """Pods of some namespaces with some labels, and the label that tells which nodes are one place."""

    topology: str
    selector: LabelSelector
    namespaces: frozenset[str]
    namespace_selector: LabelSelector | None

    def matches(self, namespace: str, labels: Labels, namespace_labels: Mapping[str, Labels]) -> bool:
        if not self.selector.matches(labels):
            return False
        if namespace in self.namespaces:
            return True
        chosen = self.namespace_selector
        return chosen is not None and chosen.matches(namespace_labels.get(namespace))


class PodTerms(NamedTuple):
    """The terms of one pod; the preferred ones carry their weights, negative for those to be kept away from."""

    affinity: tuple[Term, ...]
    anti_affinity: tuple[Term, ...]
    preferred: tuple[tuple[Term, int], ...]

    def pulls(self) -> tuple[tuple[Term, int], ...]:
        """What a placed pod adds to the scores of pods that come later: what it requires counts one."""
        return (*((term, 1) for term in self.affinity), *self.preferred)


NO_TERMS = PodTerms((), (), ())


def pod_terms(affinity: Mapping[str, Any], namespace: str) -> PodTerms:
    """The terms that a pod's affinity writes, seen from its namespace."""
    towards, away = affinity.get("podAffinity") or {}, affinity.get("podAntiAffinity") or {}
    if not towards and not away:
        return NO_TERMS
    weighted = [(one, 1) for one in towards.get(_PREFERRED) or ()] + [(one, -1) for one in away.get(_PREFERRED) or ()]
    return PodTerms(
        tuple(_term(one, namespace) for one in towards.get(_REQUIRED) or ()),
        tuple(_term(one, namespace) for one in away.get(_REQUIRED) or ()),
        tuple((_term(one.get("podAffinityTerm") or {}, namespace), sign * one.get("weight", 0)) for one, sign in weighted),
    )


def _term(term: Mapping[str, Any], namespace: str) -> Term:
    named, chosen = term.get("namespaces") or (), term.get("namespaceSelector")
    return Term(
        term.get("topologyKey", ""),
        from_label_selector(term.get("labelSelector")),
        frozenset(named if named or chosen is not None else (namespace,)),
        None if chosen is None else from_label_selector(chosen),
    )


class Spread(NamedTuple):
    """How evenly the pods of a selector lie over the places of a topology."""

    topology: str
    selector: LabelSelector
    most_skew: int
    least_domains: int
    honours_affinity: bool
    honours_taints: bool


class Spreads(NamedTuple):
    """The constraints of a pod: those that must hold, and those that count in the score."""

    hard: tuple[Spread, ...]
    soft: tuple[Spread, ...]
    by_default: bool = False


NO_SPREADS = Spreads((), ())


def spreads(constraints: list[dict[str, Any]], labels: Labels) -> Spreads:
    """The constraints that a pod writes; keys to be matched take the pod's own labels."""
    found: dict[str, list[Spread]] = {"DoNotSchedule": [], "ScheduleAnyway": []}
    for one in constraints:
        found[one.get("whenUnsatisfiable", "DoNotSchedule")].append(
            Spread(
                one.get("topologyKey", ""),
                _with_keys(from_label_selector(one.get("labelSelector")), one.get("matchLabelKeys") or (), labels),
                one.get("maxSkew", 1),
                one.get("minDomains") or 1,
                one.get("nodeAffinityPolicy", "Honor") == "Honor",
                one.get("nodeTaintsPolicy", "Ignore") == "Honor",
            )
        )
    return Spreads(tuple(found["DoNotSchedule"]), tuple(found["ScheduleAnyway"]))


def default_spreads(selector: LabelSelector) -> Spreads:
    """What counts for the pods of a service, a replica set or a stateful set that write no constraints."""
    return Spreads((), (Spread(HOSTNAME, selector, 3, 1, True, False), Spread(ZONE, selector, 5, 1, True, False)), by_default=True)


def _with_keys(selector: LabelSelector, keys: list[str] | tuple[str, ...], labels: Labels) -> LabelSelector:
    own = [Requirement(key, "=", (labels[key],)) for key in keys if key in labels]
    if not own or selector.nothing:
        return selector
    known = set(selector.requirements)
    return LabelSelector([*selector.requirements, *(one for one in own if one not in known)])
