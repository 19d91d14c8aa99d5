"""Which nodes a pod accepts, and which taints it bears: node selectors, node affinity and tolerations, compiled once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from sliceworks.base.errors import BadRequest
from sliceworks.kube.label_grammar import requirement
from sliceworks.kube.selectors import LabelSelector, Requirement

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_OPERATORS = {"In": "in", "NotIn": "notin", "Exists": "exists", "DoesNotExist": "!", "Gt": "gt", "Lt": "lt"}
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_UNSCHEDULABLE = "node.kubernetes.io/unschedulable"
Taint = tuple[str, str, str]


class NodeTerm(NamedTuple):
    """All of its conditions must hold; one without any holds nowhere."""

    labels: LabelSelector | None
    fields: tuple[Requirement, ...]

    def matches(self, name: str, labels: Mapping[str, str]) -> bool:
        if self.labels is None:
            return False
        return self.labels.matches(labels) and all(field.matches({"metadata.name": name}) for field in self.fields)


class NodeChoice(NamedTuple):
    """What a pod requires of its node, and what it prefers."""

    selector: LabelSelector
    required: tuple[NodeTerm, ...] | None
    preferred: tuple[tuple[int, NodeTerm], ...]

    def accepts(self, name: str, labels: Mapping[str, str]) -> bool:
        if not self.selector.matches(labels):
            return False
        return self.required is None or any(term.matches(name, labels) for term in self.required)

    def liking(self, name: str, labels: Mapping[str, str]) -> int:
        """The weights of what it prefers and finds here."""
        return sum(weight for weight, term in self.preferred if term.matches(name, labels))

    def names(self) -> frozenset[str] | None:
        """The only nodes it can be, where every term names some."""
        if not self.required:
            return None
        found: set[str] = set()
        for term in self.required:
            wanted = [set(field.values) for field in term.fields if field.operator == "in"]
            if not wanted:
                return None
            found |= set.intersection(*wanted)
        return frozenset(found)

    def exact(self) -> tuple[str, str] | None:
        """A label that every node it accepts has: where to start looking."""
        for one in self.selector.requirements:
            if len(one.values) == 1 and one.operator in ("=", "in"):
                return one.key, one.values[0]
        if self.required is not None and len(self.required) == 1 and self.required[0].labels is not None:
            for one in self.required[0].labels.requirements:
                if len(one.values) == 1 and one.operator in ("=", "in"):
                    return one.key, one.values[0]
        return None


def node_choice(spec: Mapping[str, Any]) -> NodeChoice:
    """The choice that a pod's spec writes."""
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get(_REQUIRED)
    return NodeChoice(
        LabelSelector(Requirement(key, "=", (value,)) for key, value in (spec.get("nodeSelector") or {}).items()),
        None if required is None else tuple(map(_node_term, required.get("nodeSelectorTerms") or ())),
        tuple((one.get("weight", 0), _node_term(one.get("preference") or {})) for one in affinity.get(_PREFERRED) or ()),
    )


def _node_term(term: Mapping[str, Any]) -> NodeTerm:
    expressions, fields = term.get("matchExpressions") or (), term.get("matchFields") or ()
    if not expressions and not fields:
        return NodeTerm(None, ())
    try:
        return NodeTerm(LabelSelector(_requirements(expressions)), tuple(_requirements(fields)))
    except BadRequest:
        # A term that cannot be read holds nowhere; the others still count.
        return NodeTerm(None, ())


def _requirements(expressions: Iterable[Mapping[str, Any]]) -> list[Requirement]:
    return [requirement(one.get("key", ""), _OPERATORS[one["operator"]], tuple(one.get("values") or ())) for one in expressions]


class Tolerations:
    """The taints a pod bears."""

    __slots__ = ("_all", "bears_unschedulable")

    def __init__(self, tolerations: Iterable[Mapping[str, Any]]) -> None:
        self._all = tuple(
            (one.get("key") or "", one.get("operator") or "Equal", one.get("value") or "", one.get("effect") or "")
            for one in tolerations
        )
        self.bears_unschedulable = self.bears((_UNSCHEDULABLE, "", "NoSchedule"))

    def bears(self, taint: Taint) -> bool:
        key, value, effect = taint
        for wanted_key, operator, wanted_value, wanted_effect in self._all:
            if wanted_effect and wanted_effect != effect:
                continue
            if wanted_key and wanted_key != key:
                continue
            if operator == "Exists" or (operator == "Equal" and wanted_value == value):
                return True
        return False

    def refuses(self, taints: Iterable[Taint]) -> bool:
        """Whether one of the taints keeps the pod away."""
        return any(taint[2] in ("NoSchedule", "NoExecute") and not self.bears(taint) for taint in taints)

    def dislikes(self, taints: Iterable[Taint]) -> int:
        """How many of the taints that only discourage it does not bear."""
        return sum(taint[2] == "PreferNoSchedule" and not self.bears(taint) for taint in taints)
