"""Whether pods fit nodes or flavors: taints, node selectors, requests. Pure."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

from sliceworks.base import quantity
from sliceworks.kube.pod_requests import sum_containers

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from fractions import Fraction

Object = dict[str, Any]
_BYTES = ("memory", "ephemeral-storage")
_BLOCKING_EFFECTS = ("NoSchedule", "NoExecute")


def find_untolerated_taint(taints: Iterable[Object], tolerations: Iterable[Object]) -> Object | None:
    """The first taint that a pod does not tolerate."""
    known = list(tolerations)
    return next(
        (
            taint
            for taint in taints
            if taint.get("effect") in _BLOCKING_EFFECTS and not any(_tolerates(toleration, taint) for toleration in known)
        ),
        None,
    )


def _tolerates(toleration: Object, taint: Object) -> bool:
    if toleration.get("effect") not in (None, "", taint.get("effect")):
        return False
    if toleration.get("operator") == "Exists":
        return toleration.get("key") in (None, "", taint["key"])
    return toleration.get("key") == taint["key"] and (toleration.get("value") or "") == (taint.get("value") or "")


def describe_unmatched_selector(spec: Object, labels: Mapping[str, str], keys: Iterable[str] | None = None) -> str:
    """The first selector term that these labels do not match, empty if all match. With `keys`, only these labels count."""
    counted = None if keys is None else set(keys)
    for key, value in (spec.get("nodeSelector") or {}).items():
        if (counted is None or key in counted) and labels.get(key) != value:
            return f"{key}={value}"
    terms = _required_terms(spec)
    mismatches = [_unmatched_expression(term.get("matchExpressions") or (), labels, counted) for term in terms]
    return mismatches[0] if mismatches and all(mismatches) else ""


def _required_terms(spec: Object) -> list[Object]:
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    node_selector_terms: list[Object] = (affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}).get(
        "nodeSelectorTerms"
    ) or []
    return node_selector_terms


def _unmatched_expression(expressions: Iterable[Object], labels: Mapping[str, str], keys: set[str] | None) -> str:
    for expression in expressions:
        key, operator, values = expression["key"], expression["operator"], expression.get("values") or []
        if keys is not None and key not in keys:
            continue
        holds = {
            "In": labels.get(key) in values,
            "NotIn": labels.get(key) not in values,
            "Exists": key in labels,
            "DoesNotExist": key not in labels,
            "Gt": key in labels and _number(labels[key]) > _number(values[0] if values else ""),
            "Lt": key in labels and _number(labels[key]) < _number(values[0] if values else ""),
        }
        if not holds.get(operator, True):
            return f"{key} {operator} {', '.join(values)}".rstrip()
    return ""


def _number(value: str) -> int:
    return int(value) if value.lstrip("-").isdigit() else 0


def pod_requests(spec: Object) -> dict[str, Fraction]:
    """The requests of a pod: what its containers need together, plus overhead."""
    total = sum_containers(spec, container_requests, operator.add, max)
    for name, overhead in (spec.get("overhead") or {}).items():
        total[name] = total.get(name, quantity.parse("0")) + quantity.parse(overhead)
    return total


def container_requests(container: Mapping[str, Any]) -> dict[str, Fraction]:
    """The requests of a container; a limit counts if there is no request."""
    resources = container.get("resources") or {}
    requests = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
    return {name: quantity.parse(amount) for name, amount in requests.items()}


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


def join_alternatives(alternatives: Iterable[str]) -> str:
    """Alternatives as a list for display: `a, b, or c`; empty ones are left out."""
    known = [alternative for alternative in alternatives if alternative]
    return ", ".join(known) if len(known) < 2 else f"{', '.join(known[:-1])}, or {known[-1]}"


def resource_unit(resource: str, *, plural: bool = True) -> str:
    """The unit of a resource for display."""
    word = {"google.com/tpu": "TPU chip", "nvidia.com/gpu": "GPU", "cpu": "CPU", "pods": "pod"}.get(resource)
    if word is None:
        return resource
    return f"{word}s" if plural and not word.endswith("s") else word.removesuffix("s") if not plural else word
