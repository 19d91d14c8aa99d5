"""IP families of Services. The cluster has one family; only headless Services without a selector may have others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.twin.apiserver.validation.error_list import list_items, parse_ip
from sliceworks.twin.apiserver.validation.service import is_headless

if TYPE_CHECKING:
    from sliceworks.twin.apiserver.validation.error_list import ErrorList

Obj = dict[str, Any]
FAMILY_FIELDS = ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy")
_CLUSTER, _OTHER = "IPv4", "IPv6"
_SINGLE, _REQUIRED = "SingleStack", "RequireDualStack"


def is_configured(spec: Obj) -> bool:
    """Whether the cluster has addresses of the first family that a Service requests."""
    return bool((spec.get("ipFamilies") or [_CLUSTER])[0] == _CLUSTER)


def set_default_families(spec: Obj, old_spec: Obj) -> None:
    """Set the policy, and the families of a Service's addresses; an address of another family is an error later."""
    is_free = _is_free(spec)
    policy = spec.setdefault("ipFamilyPolicy", _REQUIRED if is_free else _SINGLE)
    families = list(spec.get("ipFamilies") or ())
    addresses = [] if is_headless(spec) else spec.get("clusterIPs") or []
    if not addresses:
        families = families or [_CLUSTER]
    for address in addresses[len(families) :]:
        if _family(address) != _CLUSTER:
            break
        families.append(_CLUSTER)
    if is_free and len(families) == 1 and policy != _SINGLE and _has_changed(spec, old_spec):
        families.append(_OTHER if families[0] == _CLUSTER else _CLUSTER)
    if families:
        spec["ipFamilies"] = families


def validate_families(errors: ErrorList, spec: Obj, old_spec: Obj) -> None:
    """Check that the cluster has the families that a Service requests, unless the Service has them already."""
    if not _has_changed(spec, old_spec):
        return
    before, policy = len(errors), spec.get("ipFamilyPolicy")
    addresses, families = spec.get("clusterIPs") or [], spec.get("ipFamilies") or []
    for values, noun in ((addresses, "cluster IPs"), (families, "IP families")):
        if policy == _SINGLE and len(values) > 1:
            detail = f"must be 'RequireDualStack' or 'PreferDualStack' when multiple {noun} are specified"
            errors.invalid("spec.ipFamilyPolicy", policy, detail)
    for index in range(len(families), len(addresses)):
        if (family := _family(addresses[index])) not in (None, _CLUSTER):
            errors.invalid(f"spec.clusterIPs[{index}]", addresses, f"{family} is not configured on this cluster")
    if len(errors) > before or _is_free(spec):
        return
    if policy == _REQUIRED:
        errors.invalid("spec.ipFamilyPolicy", policy, "this cluster is not configured for dual-stack services")
    for family, path in list_items(spec, "spec", "ipFamilies"):
        if family != _CLUSTER:
            errors.invalid(path, family, "not configured on this cluster")


def _is_free(spec: Obj) -> bool:
    """Whether the cluster allocates no addresses to a Service, and selects no pods for it."""
    return is_headless(spec) and not spec.get("selector")


def _has_changed(spec: Obj, old_spec: Obj) -> bool:
    return any(spec.get(field) != old_spec.get(field) for field in ("type", *FAMILY_FIELDS))


def _family(address: str) -> str | None:
    parsed = parse_ip(address)
    return f"IPv{parsed.version}" if parsed is not None else None
