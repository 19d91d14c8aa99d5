"""LimitRanger: default requests and limits, and their bounds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.base import quantity
from sliceworks.twin.apiserver import pod_resources
from sliceworks.twin.apiserver.auth.rbac import aggregate_errors

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from sliceworks.twin.apiserver.admission.chain import Admission, Obj

    Amounts = Mapping[str, Any]

RANGES = "/limitranges"
_ANNOTATION = "kubernetes.io/limit-ranger"


def apply_defaults(ctx: Admission, obj: Obj, old: Mapping[str, Any] | None) -> None:
    """Set the default requests and limits of the namespace, and record them in an annotation."""
    for limit_range in ctx.find_all(RANGES, ctx.namespace):
        requests: dict[str, str] = {}
        limits: dict[str, str] = {}
        for item in _items(limit_range, "Container"):
            requests.update(item.get("defaultRequest") or {})
            limits.update(item.get("default") or {})
        _apply_pod_defaults(obj, requests, limits)


def _apply_pod_defaults(obj: Obj, requests: Mapping[str, str], limits: Mapping[str, str]) -> None:
    notes: list[str] = []
    spec = obj.get("spec") or {}
    for title, key in (("container", "containers"), ("init container", "initContainers")):
        for container in spec.get(key) or ():
            for side, word, defaults in (("requests", "request", requests), ("limits", "limit", limits)):
                added = sorted(name for name in defaults if name not in ((container.get("resources") or {}).get(side) or {}))
                if added:
                    amounts = container.setdefault("resources", {}).setdefault(side, {})
                    amounts.update({name: defaults[name] for name in added})
                    notes.append(f"{', '.join(added)} {word} for {title} {container.get('name', '')}")
    if notes:
        obj["metadata"].setdefault("annotations", {})[_ANNOTATION] = "LimitRanger plugin set: " + "; ".join(notes)


def check_pod(ctx: Admission, obj: Obj, old: Mapping[str, Any] | None) -> None:
    """Reject a pod outside the limits of its namespace."""
    for limit_range in ctx.find_all(RANGES, ctx.namespace):
        _raise_if_exceeded(ctx, obj, list(_pod_errors(limit_range, obj.get("spec") or {})))


def check_claim(ctx: Admission, obj: Obj, old: Mapping[str, Any] | None) -> None:
    """Reject a claim outside the limits of its namespace."""
    if old is not None and old["metadata"].get("deletionTimestamp"):
        return
    requests = ((obj.get("spec") or {}).get("resources") or {}).get("requests") or {}
    for limit_range in ctx.find_all(RANGES, ctx.namespace):
        errors: list[str] = []
        for item in _items(limit_range, "PersistentVolumeClaim"):
            for name, amount in (item.get("min") or {}).items():
                errors.extend(_min_errors("PersistentVolumeClaim", name, amount, (requests, {})))
            for name, amount in (item.get("max") or {}).items():
                errors.extend(_max_request_errors("PersistentVolumeClaim", name, amount, requests))
        _raise_if_exceeded(ctx, obj, errors)


def _raise_if_exceeded(ctx: Admission, obj: Obj, errors: list[str]) -> None:
    if errors:
        raise ctx.forbidden(obj, aggregate_errors(errors))


def _items(limit_range: Mapping[str, Any], kind: str) -> list[Mapping[str, Any]]:
    return [item for item in (limit_range.get("spec") or {}).get("limits") or () if item.get("type") == kind]


def _pod_errors(limit_range: Mapping[str, Any], spec: Mapping[str, Any]) -> Iterator[str]:
    containers = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
    for item in (limit_range.get("spec") or {}).get("limits") or ():
        if item.get("type") == "Container":
            for container in containers:
                resources = container.get("resources") or {}
                yield from _errors("Container", item, (resources.get("requests") or {}, resources.get("limits") or {}))
        elif item.get("type") == "Pod":
            total = pod_resources.pod_requests(spec, overhead=False), pod_resources.pod_limits(spec, overhead=False)
            yield from _errors("Pod", item, total)


def _errors(kind: str, item: Mapping[str, Any], resources: tuple[Amounts, Amounts]) -> Iterator[str]:
    for name, amount in sorted((item.get("min") or {}).items()):
        yield from _min_errors(kind, name, amount, resources)
    for name, amount in sorted((item.get("max") or {}).items()):
        yield from _max_errors(kind, name, amount, resources)
    for name, amount in sorted((item.get("maxLimitRequestRatio") or {}).items()):
        yield from _ratio_errors(kind, name, amount, resources)


def _min_errors(kind: str, name: str, amount: str, resources: tuple[Amounts, Amounts]) -> Iterator[str]:
    requests, limits = resources
    start = f"minimum {name} usage per {kind} is {quantity.canonical(amount)}"
    if name not in requests:
        yield f"{start}.  No request is specified"
    elif quantity.compare(requests[name], amount) < 0:
        yield f"{start}, but request is {quantity.canonical(requests[name])}"
    elif name in limits and quantity.compare(limits[name], amount) < 0:
        yield f"{start}, but limit is {quantity.canonical(limits[name])}"


def _max_errors(kind: str, name: str, amount: str, resources: tuple[Amounts, Amounts]) -> Iterator[str]:
    requests, limits = resources
    start = f"maximum {name} usage per {kind} is {quantity.canonical(amount)}"
    if name not in limits:
        yield f"{start}.  No limit is specified"
    elif quantity.compare(limits[name], amount) > 0:
        yield f"{start}, but limit is {quantity.canonical(limits[name])}"
    elif name in requests and quantity.compare(requests[name], amount) > 0:
        yield f"{start}, but request is {quantity.canonical(requests[name])}"


def _max_request_errors(kind: str, name: str, amount: str, requests: Amounts) -> Iterator[str]:
    start = f"maximum {name} usage per {kind} is {quantity.canonical(amount)}"
    if name not in requests:
        yield f"{start}.  No request is specified"
    elif quantity.compare(requests[name], amount) > 0:
        yield f"{start}, but request is {quantity.canonical(requests[name])}"


def _ratio_errors(kind: str, name: str, amount: str, resources: tuple[Amounts, Amounts]) -> Iterator[str]:
    requests, limits = resources
    start = f"{name} max limit to request ratio per {kind} is {quantity.canonical(amount)}"
    request, limit = quantity.parse(requests.get(name, 0)), quantity.parse(limits.get(name, 0))
    if not request:
        yield f"{start}, but no request is specified or request is 0"
    elif not limit:
        yield f"{start}, but no limit is specified or limit is 0"
    elif limit / request > quantity.parse(amount):
        yield f"{start}, but provided ratio is {float(limit / request):f}"
