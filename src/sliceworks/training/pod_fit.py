"""Whether pods fit nodes or flavors (taints, node selectors), and amounts of resources for display. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.base.errors import BadRequest
from sliceworks.kube.node_affinity import Tolerations, parse_taints
from sliceworks.kube.selectors import NODE_OPERATORS, from_expressions

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from fractions import Fraction

Object = dict[str, Any]
_BYTES = ("memory", "ephemeral-storage")


def find_untolerated_taint(taints: Iterable[Object], tolerations: Iterable[Object]) -> Object | None:
    """The first taint that keeps a pod off the nodes."""
    known = Tolerations(tolerations)
    return next((taint for taint in taints if known.has_untolerated(parse_taints([taint]))), None)


def describe_unmatched_selector(spec: Object, labels: Mapping[str, str], keys: Iterable[str] | None = None) -> str:
    """The first selector term that these labels do not match, empty if all match. With `keys`, only these labels count."""
    counted = None if keys is None else set(keys)
    for key, value in (spec.get("nodeSelector") or {}).items():
        if (counted is None or key in counted) and labels.get(key) != value:
            return f"{key}={value}"
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    terms = (affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}).get("nodeSelectorTerms") or ()
    mismatches = [_unmatched_expression(term.get("matchExpressions") or (), labels, counted) for term in terms]
    return mismatches[0] if mismatches and all(mismatches) else ""


def _unmatched_expression(expressions: Iterable[Object], labels: Mapping[str, str], keys: set[str] | None) -> str:
    for expression in expressions:
        key = expression["key"]
        if (keys is None or key in keys) and not _matches(expression, labels):
            return f"{key} {expression['operator']} {', '.join(expression.get('values') or ())}".rstrip()
    return ""


def _matches(expression: Object, labels: Mapping[str, str]) -> bool:
    try:
        return all(requirement.matches(labels) for requirement in from_expressions([expression], NODE_OPERATORS))
    except BadRequest:
        return False


def format_amount(value: Fraction, resource: str) -> str:
    """An amount of a resource for display: `32 chips`, `16 CPUs`, `200 GiB of memory`."""
    if resource in _BYTES:
        size = float(value)
        shown = f"{size / 2**30:,.0f} GiB" if size >= 2**30 else f"{size / 2**20:,.0f} MiB"
        return f"{shown} of {resource}"
    return f"{float(value):,.10g} {resource_unit(resource, plural=value != 1)}"


def format_free(free: Fraction, total: Fraction, resource: str) -> str:
    """The free amount of a total: `none of 32 TPU chips is free`, `4 of 16 CPUs are free`."""
    if not free:
        return f"none of {format_amount(total, resource)} is free"
    part = format_amount(free, resource) if resource in _BYTES else f"{float(free):,.10g}"
    return f"{part} of {format_amount(total, resource)} {'is' if free == 1 else 'are'} free"


def resource_unit(resource: str, *, plural: bool = True) -> str:
    """The unit of a resource for display."""
    word = {"google.com/tpu": "TPU chip", "nvidia.com/gpu": "GPU", "cpu": "CPU", "pods": "pod"}.get(resource)
    return resource if word is None else f"{word}s" if plural else word
