"""LimitRanger: defaults for containers that ask for nothing, and the least and most that anybody may ask for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.base import quantity
from sliceworks.twin.admission import pod_resources
from sliceworks.twin.auth.rules import aggregate

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from sliceworks.twin.admission.context import Admission, Obj

    Amounts = Mapping[str, Any]

RANGES = "/limitranges"
_ANNOTATION = "kubernetes.io/limit-ranger"


def fill_in(ctx: Admission, obj: Obj, old: Mapping[str, Any] | None) -> None:
    """Give containers the default requests and limits of the namespace, and note that in an annotation."""
    for found in ctx.find_all(RANGES, ctx.namespace):
        requests: dict[str, str] = {}
        limits: dict[str, str] = {}
        for limit in (found.get("spec") or {}).get("limits") or ():
            if limit.get("type") == "Container":
                requests.update(limit.get("defaultRequest") or {})
                limits.update(limit.get("default") or {})
        _fill_in_pod(obj, requests, limits)


def _fill_in_pod(obj: Obj, requests: Mapping[str, str], limits: Mapping[str, str]) -> None:
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
    for found in ctx.find_all(RANGES, ctx.namespace):
        _refuse(ctx, obj, list(_pod_errors(found, obj.get("spec") or {})))


def check_claim(ctx: Admission, obj: Obj, old: Mapping[str, Any] | None) -> None:
    if old is not None and old["metadata"].get("deletionTimestamp"):
        return
    requests = ((obj.get("spec") or {}).get("resources") or {}).get("requests") or {}
    for found in ctx.find_all(RANGES, ctx.namespace):
        errors: list[str] = []
        for limit in _limits(found, "PersistentVolumeClaim"):
            for name, amount in (limit.get("min") or {}).items():
                errors.extend(_least("PersistentVolumeClaim", name, amount, (requests, {})))
            for name, amount in (limit.get("max") or {}).items():
                errors.extend(_most_requested("PersistentVolumeClaim", name, amount, requests))
        _refuse(ctx, obj, errors)


def _refuse(ctx: Admission, obj: Obj, errors: list[str]) -> None:
    if errors:
        raise ctx.forbidden(obj, aggregate(errors))


def _limits(found: Mapping[str, Any], kind: str) -> list[Mapping[str, Any]]:
    return [limit for limit in (found.get("spec") or {}).get("limits") or () if limit.get("type") == kind]


def _pod_errors(found: Mapping[str, Any], spec: Mapping[str, Any]) -> Iterator[str]:
    containers = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
    each = [
        ((part.get("resources") or {}).get("requests") or {}, (part.get("resources") or {}).get("limits") or {})
        for part in containers
    ]
    for limit in (found.get("spec") or {}).get("limits") or ():
        if limit.get("type") == "Container":
            for asked in each:
                yield from _errors("Container", limit, asked)
        elif limit.get("type") == "Pod":
            whole = pod_resources.requests(spec, overhead=False), pod_resources.limits(spec, overhead=False)
            yield from _errors("Pod", limit, whole)


def _errors(kind: str, limit: Mapping[str, Any], asked: tuple[Amounts, Amounts]) -> Iterator[str]:
    for name, amount in sorted((limit.get("min") or {}).items()):
        yield from _least(kind, name, amount, asked)
    for name, amount in sorted((limit.get("max") or {}).items()):
        yield from _most(kind, name, amount, asked)
    for name, amount in sorted((limit.get("maxLimitRequestRatio") or {}).items()):
        yield from _ratio(kind, name, amount, asked)


def _least(kind: str, name: str, amount: str, asked: tuple[Amounts, Amounts]) -> Iterator[str]:
    requests, limits = asked
    start = f"minimum {name} usage per {kind} is {quantity.canonical(amount)}"
    if name not in requests:
        yield f"{start}.  No request is specified"
    elif quantity.compare(requests[name], amount) < 0:
        yield f"{start}, but request is {quantity.canonical(requests[name])}"
    elif name in limits and quantity.compare(limits[name], amount) < 0:
        yield f"{start}, but limit is {quantity.canonical(limits[name])}"


def _most(kind: str, name: str, amount: str, asked: tuple[Amounts, Amounts]) -> Iterator[str]:
    requests, limits = asked
    start = f"maximum {name} usage per {kind} is {quantity.canonical(amount)}"
    if name not in limits:
        yield f"{start}.  No limit is specified"
    elif quantity.compare(limits[name], amount) > 0:
        yield f"{start}, but limit is {quantity.canonical(limits[name])}"
    elif name in requests and quantity.compare(requests[name], amount) > 0:
        yield f"{start}, but request is {quantity.canonical(requests[name])}"


def _most_requested(kind: str, name: str, amount: str, requests: Amounts) -> Iterator[str]:
    start = f"maximum {name} usage per {kind} is {quantity.canonical(amount)}"
    if name not in requests:
        yield f"{start}.  No request is specified"
    elif quantity.compare(requests[name], amount) > 0:
        yield f"{start}, but request is {quantity.canonical(requests[name])}"


def _ratio(kind: str, name: str, amount: str, asked: tuple[Amounts, Amounts]) -> Iterator[str]:
    requests, limits = asked
    start = f"{name} max limit to request ratio per {kind} is {quantity.canonical(amount)}"
    request, limit = quantity.parse(requests.get(name, 0)), quantity.parse(limits.get(name, 0))
    if not request:
        yield f"{start}, but no request is specified or request is 0"
    elif not limit:
        yield f"{start}, but no limit is specified or limit is 0"
    elif limit / request > quantity.parse(amount):
        yield f"{start}, but provided ratio is {float(limit / request):f}"
