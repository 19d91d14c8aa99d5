"""Resource names, quantities, requests and limits."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from sliceworks.base import quantity
from sliceworks.schemas.field_errors import FieldError, duplicate, forbidden, invalid, required
from sliceworks.twin.apiserver.validation import field_checks
from sliceworks.twin.apiserver.validation.field_checks import NEGATIVE, NOT_POSITIVE, Errors, check_dns_label

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from sliceworks.twin.apiserver.validation.defaults import Json

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
    return not is_native(name) and not name.startswith("requests.") and not field_checks.qualified_name_errors(f"requests.{name}")


def check_resource_name(errors: Errors, name: str, path: str) -> None:
    """Check for a standard resource name or a qualified name."""
    if messages := field_checks.qualified_name_errors(name):
        errors += [invalid(path, name, message) for message in messages]
    elif "/" not in name and name not in _STANDARD and not name.startswith((_HUGE, _HUGE_REQUESTS)):
        errors.append(invalid(path, name, "must be a standard resource type or fully qualified"))


def check_container_resource_name(errors: Errors, name: str, path: str) -> None:
    if name in _CONTAINER:
        return
    check_resource_name(errors, name, path)
    if "/" not in name:
        if not is_huge(name):
            errors.append(invalid(path, name, "must be a standard resource for containers"))
    elif not is_native(name) and not is_extended(name):
        errors.append(invalid(path, name, "doesn't follow extended resource name standard"))


def check_quota_resource_name(errors: Errors, name: str, path: str) -> None:
    check_resource_name(errors, name, path)
    if "/" not in name and not is_standard_quota(name):
        errors.append(invalid(path, name, "must be a standard resource for quota"))


def check_quantity(errors: Errors, name: str, value: Any, path: str) -> None:
    """Check that a quantity is not negative, and an integer unless the resource is divisible."""
    nanos = quantity.nanos(value)
    if nanos < 0:
        errors.append(invalid(path, quantity.canonical(value), NEGATIVE))
    if nanos % 1_000_000_000 and (name in _COUNTED or is_extended(name)):
        errors.append(invalid(path, quantity.canonical(value), "must be an integer"))


def check_positive_quantity(errors: Errors, value: Any, path: str) -> None:
    if quantity.nanos(value) <= 0:
        errors.append(invalid(path, quantity.canonical(value), NOT_POSITIVE))


def check_basic_quantity(errors: Errors, value: Any, path: str) -> None:
    if quantity.round_up(value) < 0:
        errors.append(invalid(path, quantity.round_up(value), "must be a valid resource quantity"))


def requirement_errors(
    errors: Errors, value: Json, path: str, claims: Collection[str] = (), name_rule: NameRule = check_container_resource_name
) -> None:
    """Errors of `resources` of a container or pod."""
    limits, requests = value.get("limits") or {}, value.get("requests") or {}
    plain = name_rule is check_container_resource_name
    for name, amount in limits.items():
        if not plain or not _is_valid_amount(name, amount):
            _amount_errors(errors, name, amount, f"{path}.limits[{name}]", name_rule)
    for name, amount in requests.items():
        if not plain or not _is_valid_amount(name, amount):
            _amount_errors(errors, name, amount, f"{path}.requests[{name}]", name_rule)
        if limits.get(name) != amount:
            _against_limit(errors, name, amount, limits, path)
    if any(map(is_huge, (*limits, *requests))) and not {"cpu", "memory"} & {*limits, *requests}:
        errors.append(forbidden(path, "HugePages require cpu or memory"))
    if container_claims := value.get("claims"):
        _claims(errors, container_claims, claims, f"{path}.claims")


@lru_cache(maxsize=4096)
def _is_valid_amount(name: str, value: str) -> bool:
    """Whether the quantity is valid for a container; cached, since few distinct quantities occur."""
    errors: Errors = []
    _amount_errors(errors, name, value, "", check_container_resource_name)
    return not errors


def _amount_errors(errors: Errors, name: str, value: Any, path: str, name_rule: NameRule) -> None:
    name_rule(errors, name, path)
    check_quantity(errors, name, value, path)
    if is_huge(name) and not _is_whole_pages(name, value):
        text = quantity.canonical(value)
        errors.append(invalid(path, text, f"{text} is not positive integer multiple of {name}"))


def _against_limit(errors: Errors, name: str, value: Any, limits: Json, path: str) -> None:
    if name in limits:
        order = quantity.compare(value, limits[name])
        if order and not is_overcommit_allowed(name):
            words = "equal to"
        elif order > 0:
            words = "less than or equal to"
        else:
            return
        detail = f"must be {words} {name} limit of {quantity.canonical(limits[name])}"
        errors.append(invalid(f"{path}.requests", quantity.canonical(value), detail))
    elif not is_overcommit_allowed(name):
        errors.append(required(f"{path}.limits", "Limit must be set for non overcommitable resources"))


def _is_whole_pages(name: str, value: Any) -> bool:
    try:
        page = quantity.nanos(name.removeprefix(_HUGE))
    except ValueError:
        return False
    return page > 0 and page % 1_000_000_000 == 0 and quantity.nanos(value) % page == 0


def _claims(errors: Errors, claims: list[Json], known: Collection[str], path: str) -> None:
    seen: set[str] = set()
    for index, claim in enumerate(claims):
        name, request = claim.get("name") or "", claim.get("request") or ""
        if not name:
            errors.append(required(f"{path}[{index}]"))
            continue
        key = f"{name}/{request}" if request else name
        if name in seen or key in seen or (not request and any(entry.split("/")[0] == name for entry in seen)):
            errors.append(duplicate(f"{path}[{index}]", name if name in seen or not request else key))
        elif request:
            check_dns_label(errors, request, f"{path}[{index}].request")
        seen.add(key)
        if name not in known:
            detail = "must be one of the names in pod.spec.resourceClaims" + (
                f": {', '.join(sorted(known))}" if known else " which is empty"
            )
            errors.append(FieldError("FieldValueNotFound", f"{path}[{index}]", name, detail))
