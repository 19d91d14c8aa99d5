"""Whether pods fit nodes or flavors: taints that are tolerated, labels that are selected. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.base import quantity

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from fractions import Fraction

Object = dict[str, Any]
_BYTES = ("memory", "ephemeral-storage")
_KEEPS_OUT = ("NoSchedule", "NoExecute")


def untolerated(taints: Iterable[Object], tolerations: Iterable[Object]) -> Object | None:
    """The first taint that keeps a pod out."""
    known = list(tolerations)
    return next(
        (taint for taint in taints if taint.get("effect") in _KEEPS_OUT and not any(_tolerates(each, taint) for each in known)),
        None,
    )


def _tolerates(toleration: Object, taint: Object) -> bool:
    if toleration.get("effect") not in (None, "", taint.get("effect")):
        return False
    if toleration.get("operator") == "Exists":
        return toleration.get("key") in (None, "", taint["key"])
    return toleration.get("key") == taint["key"] and (toleration.get("value") or "") == (taint.get("value") or "")


def unselected(spec: Object, labels: Mapping[str, str], keys: Iterable[str] | None = None) -> str:
    """What a pod selects and these labels do not have, as people write it; empty where all fits. `keys` are those that count."""
    counted = None if keys is None else set(keys)
    for key, value in (spec.get("nodeSelector") or {}).items():
        if (counted is None or key in counted) and labels.get(key) != value:
            return f"{key}={value}"
    terms = _required(spec)
    misses = [_missed(term.get("matchExpressions") or (), labels, counted) for term in terms]
    return misses[0] if misses and all(misses) else ""


def _required(spec: Object) -> list[Object]:
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    found: list[Object] = (affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}).get("nodeSelectorTerms") or []
    return found


def _missed(expressions: Iterable[Object], labels: Mapping[str, str], keys: set[str] | None) -> str:
    for each in expressions:
        key, operator, values = each["key"], each["operator"], each.get("values") or []
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


def _number(text: str) -> int:
    return int(text) if text.lstrip("-").isdigit() else 0


def requests(spec: Object) -> dict[str, Fraction]:
    """What one pod asks for: its containers together, or its largest init container, and its overhead."""
    total: dict[str, Fraction] = {}
    for container in spec.get("containers") or ():
        for name, amount in asked(container).items():
            total[name] = total.get(name, quantity.parse("0")) + amount
    for container in spec.get("initContainers") or ():
        for name, amount in asked(container).items():
            total[name] = max(total.get(name, amount), amount)
    for name, text in (spec.get("overhead") or {}).items():
        total[name] = total.get(name, quantity.parse("0")) + quantity.parse(text)
    return total


def asked(container: Object) -> dict[str, Fraction]:
    """The requests of one container; a limit counts where no request is named."""
    resources = container.get("resources") or {}
    texts = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
    return {name: quantity.parse(text) for name, text in texts.items()}


def amount(value: Fraction, resource: str) -> str:
    """So much of a resource, for people: `32 chips`, `16 CPUs`, `200 GiB of memory`."""
    if resource in _BYTES:
        number = float(value)
        text = f"{number / 2**30:,.0f} GiB" if number >= 2**30 else f"{number / 2**20:,.0f} MiB"
        return f"{text} of {resource}"
    return f"{float(value):,.10g} {unit(resource, many=value != 1)}"


def share(free: Fraction, whole: Fraction, resource: str) -> str:
    """How much is free of a whole: `none of 32 TPU chips is free`, `4 of 16 CPUs are free`."""
    if not free:
        return f"none of {amount(whole, resource)} is free"
    part = amount(free, resource) if resource in _BYTES else f"{float(free):,.10g}"
    return f"{part} of {amount(whole, resource)} {'is' if free == 1 else 'are'} free"


def either(ways: Iterable[str]) -> str:
    """One way or another, as people write it."""
    known = [each for each in ways if each]
    return ", ".join(known) if len(known) < 2 else f"{', '.join(known[:-1])}, or {known[-1]}"


def unit(resource: str, *, many: bool = True) -> str:
    """What a resource is counted in."""
    word = {"google.com/tpu": "TPU chip", "nvidia.com/gpu": "GPU", "cpu": "CPU", "pods": "pod"}.get(resource)
    if word is None:
        return resource
    return f"{word}s" if many and not word.endswith("s") else word.removesuffix("s") if not many else word
