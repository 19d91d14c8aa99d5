"""Resource names, quantities, requests and limits."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from sliceworks.base import quantity
from sliceworks.schemas.field_errors import FieldError, invalid
from sliceworks.twin.apiserver.validation import error_list
from sliceworks.twin.apiserver.validation.error_list import NEGATIVE, NOT_POSITIVE, ErrorList

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from sliceworks.twin.apiserver.validation.defaults import Json

    NameRule = Callable[[ErrorList, str, str], None]

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
    return not is_native(name) and not name.startswith("requests.") and not error_list.qualified_name_errors(f"requests.{name}")


def validate_resource_name(errors: ErrorList, name: str, path: str) -> None:
    """Check for a standard resource name or a qualified name."""
    if messages := error_list.qualified_name_errors(name):
        errors.extend(invalid(path, name, message) for message in messages)
    elif "/" not in name and name not in _STANDARD and not name.startswith((_HUGE, _HUGE_REQUESTS)):
        errors.invalid(path, name, "must be a standard resource type or fully qualified")


def validate_container_resource_name(errors: ErrorList, name: str, path: str) -> None:
    if name in _CONTAINER:
        return
    validate_resource_name(errors, name, path)
    if "/" not in name:
        if not is_huge(name):
            errors.invalid(path, name, "must be a standard resource for containers")
    elif not is_native(name) and not is_extended(name):
        errors.invalid(path, name, "doesn't follow extended resource name standard")


def validate_quota_resource_name(errors: ErrorList, name: str, path: str) -> None:
    validate_resource_name(errors, name, path)
    if "/" not in name and not is_standard_quota(name):
        errors.invalid(path, name, "must be a standard resource for quota")


def validate_quantity(errors: ErrorList, name: str, value: Any, path: str) -> None:
    """Check that a quantity is not negative, and an integer unless the resource is divisible."""
    nanos = quantity.nanos(value)
    if nanos < 0:
        errors.invalid(path, quantity.canonical(value), NEGATIVE)
    if nanos % 1_000_000_000 and (name in _COUNTED or is_extended(name)):
        errors.invalid(path, quantity.canonical(value), "must be an integer")


def validate_positive_quantity(errors: ErrorList, value: Any, path: str) -> None:
    if quantity.nanos(value) <= 0:
        errors.invalid(path, quantity.canonical(value), NOT_POSITIVE)


def validate_basic_quantity(errors: ErrorList, value: Any, path: str) -> None:
    if quantity.round_up(value) < 0:
        errors.invalid(path, quantity.round_up(value), "must be a valid resource quantity")


def validate_resource_requirements(
    errors: ErrorList, value: Json, path: str, claims: Collection[str] = (), name_rule: NameRule = validate_container_resource_name
) -> None:
    """Validate `resources` of a container or pod."""
    limits, requests = value.get("limits") or {}, value.get("requests") or {}
    plain = name_rule is validate_container_resource_name
    for side, amounts in (("limits", limits), ("requests", requests)):
        for name, amount in amounts.items():
            if not plain or not _is_valid_amount(name, amount):
                _validate_amount(errors, name, amount, f"{path}.{side}[{name}]", name_rule)
            if amounts is requests and limits.get(name) != amount:
                _validate_against_limit(errors, name, amount, limits, path)
    if any(map(is_huge, (*limits, *requests))) and not {"cpu", "memory"} & {*limits, *requests}:
        errors.forbidden(path, "HugePages require cpu or memory")
    if container_claims := value.get("claims"):
        _validate_claims(errors, container_claims, claims, f"{path}.claims")


@lru_cache(maxsize=4096)
def _is_valid_amount(name: str, value: str) -> bool:
    """Whether the quantity is valid for a container; cached, since few distinct quantities occur."""
    errors = ErrorList()
    _validate_amount(errors, name, value, "", validate_container_resource_name)
    return not errors


def _validate_amount(errors: ErrorList, name: str, value: Any, path: str, name_rule: NameRule) -> None:
    name_rule(errors, name, path)
    validate_quantity(errors, name, value, path)
    if is_huge(name) and not _is_whole_pages(name, value):
        text = quantity.canonical(value)
        errors.invalid(path, text, f"{text} is not positive integer multiple of {name}")


def _validate_against_limit(errors: ErrorList, name: str, value: Any, limits: Json, path: str) -> None:
    if name in limits:
        order = quantity.compare(value, limits[name])
        if order and not is_overcommit_allowed(name):
            words = "equal to"
        elif order > 0:
            words = "less than or equal to"
        else:
            return
        detail = f"must be {words} {name} limit of {quantity.canonical(limits[name])}"
        errors.invalid(f"{path}.requests", quantity.canonical(value), detail)
    elif not is_overcommit_allowed(name):
        errors.required(f"{path}.limits", "Limit must be set for non overcommitable resources")


def _is_whole_pages(name: str, value: Any) -> bool:
    try:
        page = quantity.nanos(name.removeprefix(_HUGE))
    except ValueError:
        return False
    return page > 0 and page % 1_000_000_000 == 0 and quantity.nanos(value) % page == 0


def _validate_claims(errors: ErrorList, claims: list[Json], known: Collection[str], path: str) -> None:
    seen: set[str] = set()
    for index, claim in enumerate(claims):
        name, request = claim.get("name") or "", claim.get("request") or ""
        if not name:
            errors.required(f"{path}[{index}]")
            continue
        key = f"{name}/{request}" if request else name
        if name in seen or key in seen or (not request and any(entry.split("/")[0] == name for entry in seen)):
            errors.duplicate(f"{path}[{index}]", name if name in seen or not request else key)
        elif request:
            errors.check_dns_label(request, f"{path}[{index}].request")
        seen.add(key)
        if name not in known:
            detail = "must be one of the names in pod.spec.resourceClaims" + (
                f": {', '.join(sorted(known))}" if known else " which is empty"
            )
            errors.append(FieldError("FieldValueNotFound", f"{path}[{index}]", name, detail))
