"""Amounts of resources: their names, their values, and requests against limits."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from sliceworks.base import quantity
from sliceworks.schemas.field_errors import FieldError, duplicate, forbidden, invalid, required
from sliceworks.schemas.rules import name_rules
from sliceworks.schemas.rules.texts import NEGATIVE, NOT_POSITIVE, Errors, label

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from sliceworks.schemas.rules.shape import Json

    NameRule = Callable[[Errors, str, str], None]

_COUNTED = frozenset(
    {
        "pods",
        "resourcequotas",
        "services",
        "replicationcontrollers",
        "secrets",
        "configmaps",
        "persistentvolumeclaims",
        "services.nodeports",
        "services.loadbalancers",
    }
)
_CONTAINER = frozenset({"cpu", "memory", "ephemeral-storage"})
_QUOTA = _CONTAINER | _COUNTED | {f"{side}.{name}" for side in ("requests", "limits") for name in _CONTAINER} | {"requests.storage"}
_STANDARD = _QUOTA | {"storage"}
_HUGE, _HUGE_REQUESTS = "hugepages-", "requests.hugepages-"


def is_huge(name: str) -> bool:
    return name.startswith(_HUGE)


def is_native(name: str) -> bool:
    return "/" not in name or "kubernetes.io/" in name


def is_overcommit_allowed(name: str) -> bool:
    return is_native(name) and not is_huge(name)


def is_standard_quota(name: str) -> bool:
    return name in _QUOTA or name.startswith((_HUGE, _HUGE_REQUESTS))


@lru_cache(maxsize=1024)
def is_extended(name: str) -> bool:
    return not is_native(name) and not name.startswith("requests.") and not name_rules.qualified_name_errors(f"requests.{name}")


def resource_name(out: Errors, name: str, path: str) -> None:
    """A resource known to Kubernetes, or a qualified name."""
    if found := name_rules.qualified_name_errors(name):
        out += [invalid(path, name, message) for message in found]
    elif "/" not in name and name not in _STANDARD and not name.startswith((_HUGE, _HUGE_REQUESTS)):
        out.append(invalid(path, name, "must be a standard resource type or fully qualified"))


def container_resource_name(out: Errors, name: str, path: str) -> None:
    if name in _CONTAINER:
        return
    resource_name(out, name, path)
    if "/" not in name:
        if not is_huge(name):
            out.append(invalid(path, name, "must be a standard resource for containers"))
    elif not is_native(name) and not is_extended(name):
        out.append(invalid(path, name, "doesn't follow extended resource name standard"))


def quota_resource_name(out: Errors, name: str, path: str) -> None:
    resource_name(out, name, path)
    if "/" not in name and not is_standard_quota(name):
        out.append(invalid(path, name, "must be a standard resource for quota"))


def amount(out: Errors, name: str, value: Any, path: str) -> None:
    """Never negative; whole numbers for what is counted."""
    nanos = quantity.nanos(value)
    if nanos < 0:
        out.append(invalid(path, quantity.canonical(value), NEGATIVE))
    if nanos % 1_000_000_000 and (name in _COUNTED or is_extended(name)):
        out.append(invalid(path, quantity.canonical(value), "must be an integer"))


def positive(out: Errors, value: Any, path: str) -> None:
    if quantity.nanos(value) <= 0:
        out.append(invalid(path, quantity.canonical(value), NOT_POSITIVE))


def basic_amount(out: Errors, value: Any, path: str) -> None:
    if quantity.whole(value) < 0:
        out.append(invalid(path, quantity.whole(value), "must be a valid resource quantity"))


def requirement_errors(
    out: Errors, value: Json, path: str, claims: Collection[str] = (), name_rule: NameRule = container_resource_name
) -> None:
    """`resources` of a container or a pod."""
    limits, requests = value.get("limits") or {}, value.get("requests") or {}
    plain = name_rule is container_resource_name
    for name, found in limits.items():
        if not plain or not _is_fine(name, found):
            _one(out, name, found, f"{path}.limits[{name}]", name_rule)
    for name, found in requests.items():
        if not plain or not _is_fine(name, found):
            _one(out, name, found, f"{path}.requests[{name}]", name_rule)
        if limits.get(name) != found:
            _against_limit(out, name, found, limits, path)
    if any(map(is_huge, (*limits, *requests))) and not {"cpu", "memory"} & {*limits, *requests}:
        out.append(forbidden(path, "HugePages require cpu or memory"))
    if wanted := value.get("claims"):
        _claims(out, wanted, claims, f"{path}.claims")


@lru_cache(maxsize=4096)
def _is_fine(name: str, value: str) -> bool:
    """Whether a container may ask for this amount. Most do, and most amounts come again."""
    out: Errors = []
    _one(out, name, value, "", container_resource_name)
    return not out


def _one(out: Errors, name: str, value: Any, path: str, name_rule: NameRule) -> None:
    name_rule(out, name, path)
    amount(out, name, value, path)
    if is_huge(name) and not _is_whole_pages(name, value):
        text = quantity.canonical(value)
        out.append(invalid(path, text, f"{text} is not positive integer multiple of {name}"))


def _against_limit(out: Errors, name: str, value: Any, limits: Json, path: str) -> None:
    if name in limits:
        order = quantity.compare(value, limits[name])
        if order and not is_overcommit_allowed(name):
            words = "equal to"
        elif order > 0:
            words = "less than or equal to"
        else:
            return
        detail = f"must be {words} {name} limit of {quantity.canonical(limits[name])}"
        out.append(invalid(f"{path}.requests", quantity.canonical(value), detail))
    elif not is_overcommit_allowed(name):
        out.append(required(f"{path}.limits", "Limit must be set for non overcommitable resources"))


def _is_whole_pages(name: str, value: Any) -> bool:
    try:
        page = quantity.nanos(name.removeprefix(_HUGE))
    except ValueError:
        return False
    return page > 0 and page % 1_000_000_000 == 0 and quantity.nanos(value) % page == 0


def _claims(out: Errors, claims: list[Json], known: Collection[str], path: str) -> None:
    seen: set[str] = set()
    for index, claim in enumerate(claims):
        name, request = claim.get("name") or "", claim.get("request") or ""
        if not name:
            out.append(required(f"{path}[{index}]"))
            continue
        key = f"{name}/{request}" if request else name
        if name in seen or key in seen or (not request and any(found.split("/")[0] == name for found in seen)):
            out.append(duplicate(f"{path}[{index}]", name if name in seen or not request else key))
        elif request:
            label(out, request, f"{path}[{index}].request")
        seen.add(key)
        if name not in known:
            detail = "must be one of the names in pod.spec.resourceClaims" + (
                f": {', '.join(sorted(known))}" if known else " which is empty"
            )
            out.append(FieldError("FieldValueNotFound", f"{path}[{index}]", name, detail))
