"""Node selectors, node affinity, taints and tolerations, compiled once. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from sliceworks.base.errors import BadRequest
from sliceworks.kube.selectors import NODE_OPERATORS, LabelSelector, from_expressions, from_labels

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from sliceworks.kube.selectors import Requirement

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_UNSCHEDULABLE = "node.kubernetes.io/unschedulable"
Taint = tuple[str, str, str]
"""Key, value and effect."""


class NodeSelectorTerm(NamedTuple):
    """All requirements must hold; a term without requirements (`labels` is None) matches no node."""

    labels: LabelSelector | None
    fields: tuple[Requirement, ...]

    def matches(self, name: str, labels: Mapping[str, str]) -> bool:
        if self.labels is None:
            return False
        return self.labels.matches(labels) and all(field.matches({"metadata.name": name}) for field in self.fields)


class NodeAffinity(NamedTuple):
    """A pod's node selector, and its required and preferred node affinity."""

    selector: LabelSelector
    required: tuple[NodeSelectorTerm, ...] | None
    preferred: tuple[tuple[int, NodeSelectorTerm], ...]

    def matches(self, name: str, labels: Mapping[str, str]) -> bool:
        """Whether a node meets the selector and the required affinity."""
        if not self.selector.matches(labels):
            return False
        return self.required is None or any(term.matches(name, labels) for term in self.required)

    def preferred_weight(self, name: str, labels: Mapping[str, str]) -> int:
        """The total weight of the preferred terms that a node matches."""
        return sum(weight for weight, term in self.preferred if term.matches(name, labels))

    def node_names(self) -> frozenset[str] | None:
        """The only nodes that can be accepted, if every required term lists node names; else None."""
        if not self.required:
            return None
        names: set[str] = set()
        for term in self.required:
            values = [set(field.values) for field in term.fields if field.operator == "in"]
            if not values:
                return None
            names |= set.intersection(*values)
        return frozenset(names)

    def exact_label(self) -> tuple[str, str] | None:
        """A label that every accepted node has, to narrow a search; None if there is none."""
        label = exact_label(self.selector)
        if label is None and self.required is not None and len(self.required) == 1 and self.required[0].labels is not None:
            label = exact_label(self.required[0].labels)
        return label


def exact_label(selector: LabelSelector) -> tuple[str, str] | None:
    """A label that everything matching the selector has; None if there is none."""
    return next(((item.key, item.values[0]) for item in selector.requirements if item.is_exact), None)


def parse_node_affinity(spec: Mapping[str, Any]) -> NodeAffinity:
    """The node selector and node affinity of a pod spec."""
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required, preferred = affinity.get(_REQUIRED), affinity.get(_PREFERRED) or ()
    return NodeAffinity(
        from_labels(spec.get("nodeSelector") or {}),
        None if required is None else parse_node_selector(required),
        tuple((term.get("weight", 0), _parse_term(term.get("preference") or {})) for term in preferred),
    )


def parse_node_selector(selector: Mapping[str, Any]) -> tuple[NodeSelectorTerm, ...]:
    """The terms of a node selector, of which a node must match one."""
    return tuple(map(_parse_term, selector.get("nodeSelectorTerms") or ()))


def _parse_term(term: Mapping[str, Any]) -> NodeSelectorTerm:
    expressions, fields = term.get("matchExpressions") or (), term.get("matchFields") or ()
    if not expressions and not fields:
        return NodeSelectorTerm(None, ())
    try:
        labels = LabelSelector(from_expressions(expressions, NODE_OPERATORS))
        return NodeSelectorTerm(labels, tuple(from_expressions(fields, NODE_OPERATORS)))
    except BadRequest:
        # An invalid term matches no node; the other terms still count.
        return NodeSelectorTerm(None, ())


def parse_taints(taints: Iterable[Mapping[str, Any]]) -> tuple[Taint, ...]:
    return tuple((taint.get("key", ""), taint.get("value", ""), taint.get("effect", "")) for taint in taints)


class Tolerations:
    """The tolerations of a pod."""

    __slots__ = ("_tolerations", "tolerates_unschedulable")

    def __init__(self, tolerations: Iterable[Mapping[str, Any]]) -> None:
        self._tolerations = tuple(
            (
                toleration.get("key") or "",
                toleration.get("operator") or "Equal",
                toleration.get("value") or "",
                toleration.get("effect") or "",
            )
            for toleration in tolerations
        )
        self.tolerates_unschedulable = self.tolerates((_UNSCHEDULABLE, "", "NoSchedule"))

    def tolerates(self, taint: Taint) -> bool:
        taint_key, taint_value, taint_effect = taint
        for key, operator, value, effect in self._tolerations:
            if effect and effect != taint_effect:
                continue
            if key and key != taint_key:
                continue
            if operator == "Exists" or (operator == "Equal" and value == taint_value):
                return True
        return False

    def has_untolerated(self, taints: Iterable[Taint]) -> bool:
        """Whether one of the taints keeps the pod off a node."""
        return any(taint[2] in ("NoSchedule", "NoExecute") and not self.tolerates(taint) for taint in taints)

    def count_untolerated_preferred(self, taints: Iterable[Taint]) -> int:
        """The number of PreferNoSchedule taints that the pod does not tolerate."""
        return sum(taint[2] == "PreferNoSchedule" and not self.tolerates(taint) for taint in taints)
