"""ResourceQuota: a write that would use more than a namespace has is refused; one that fits is charged at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.base import quantity
from sliceworks.twin.admission import usage
from sliceworks.twin.admission.context import CREATE, UPDATE, Admission, Charge, Obj
from sliceworks.twin.admission.known import QUOTAS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from sliceworks.twin.admission.pod_resources import Amounts


def charge(ctx: Admission, obj: Obj, old: Mapping[str, Any] | None) -> None:
    """Add the new usage of every quota of the namespace that counts this object to `ctx.charges`."""
    if not ctx.namespace or ctx.resource in usage.IGNORED or not _handles(ctx, obj, old):
        return
    charged: list[Charge] = []
    for quota in ctx.find_all(QUOTAS, ctx.namespace):
        status = quota.get("status") or {}
        hard, used = status.get("hard") or {}, status.get("used") or {}
        names = usage.counted(ctx.resource, hard)
        if not names or not usage.in_scope(quota, ctx.resource, obj):
            continue
        _check_known(ctx, obj, quota, names)
        wanted = {name: amount for name, amount in _wanted(ctx, quota, obj, old).items() if name in hard}
        if not wanted:
            continue
        after = {**used, **{name: quantity.add(used.get(name, "0"), amount) for name, amount in wanted.items()}}
        over = [name for name in wanted if quantity.compare(after[name], hard[name]) > 0]
        if over and ctx.subresource != "status":
            shown = (
                f"{title}: {_shown(amounts, over)}" for title, amounts in (("requested", wanted), ("used", used), ("limited", hard))
            )
            raise ctx.forbidden(obj, f"exceeded quota: {quota['metadata']['name']}, {', '.join(shown)}")
        charged.append(Charge(ctx.namespace, quota["metadata"]["name"], after))
    if not ctx.dry_run:
        ctx.charges.extend(charged)


def _handles(ctx: Admission, obj: Obj, old: Mapping[str, Any] | None) -> bool:
    """Whether such a write can change what is used."""
    if ctx.resource == "/pods":
        if ctx.subresource == "resize":
            return ctx.operation == UPDATE
        changed = old is not None and usage.is_terminating(old) != usage.is_terminating(obj)
        return not ctx.subresource and (ctx.operation == CREATE or changed)
    if ctx.subresource:
        return False
    return ctx.operation == CREATE or (ctx.operation == UPDATE and ctx.resource in {"/services", "/persistentvolumeclaims"})


def _check_known(ctx: Admission, obj: Obj, quota: Mapping[str, Any], names: list[str]) -> None:
    name, used = quota["metadata"]["name"], (quota.get("status") or {}).get("used") or {}
    lacking = usage.missing_requests(names, obj) if ctx.resource == "/pods" else ""
    if lacking:
        raise ctx.forbidden(obj, f"failed quota: {name}: {lacking}")
    if any(each not in used for each in names):
        raise ctx.forbidden(obj, f"status unknown for quota: {name}, resources: {','.join(sorted(names))}")


def _wanted(ctx: Admission, quota: Mapping[str, Any], obj: Obj, old: Mapping[str, Any] | None) -> Amounts:
    """What the write uses in addition: nothing is given back before it is really gone."""
    wanted = usage.of(ctx.resource, obj)
    if old is not None and usage.in_scope(quota, ctx.resource, old):
        before = usage.of(ctx.resource, old)
        wanted = {name: quantity.subtract(amount, before.get(name, "0")) for name, amount in wanted.items()}
    return {name: amount for name, amount in wanted.items() if quantity.nanos(amount) > 0}


def _shown(amounts: Mapping[str, str], names: Iterable[str]) -> str:
    return ",".join(f"{name}={quantity.canonical(amounts[name])}" for name in sorted(names) if name in amounts)
