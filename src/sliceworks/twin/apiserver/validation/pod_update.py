"""Updates of pods and of their status."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sliceworks.schemas.field_errors import forbidden, invalid
from sliceworks.twin.apiserver.validation.field_checks import MAX_INT32, Errors, check_immutable, check_ip, check_qualified_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sliceworks.twin.apiserver.validation.defaults import Json

_MIRROR = "kubernetes.io/config.mirror"
_ARMOR = "container.apparmor.security.beta.kubernetes.io/"
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_UPDATABLE = ",".join(
    (
        "`spec.containers[*].image`",
        "`spec.initContainers[*].image`",
        "`spec.activeDeadlineSeconds`",
        "`spec.tolerations` (only additions to existing tolerations)",
        "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)",
    )
)


def pod_update_errors(new: Json, old: Json) -> Errors:
    errors: Errors = []
    _annotations(errors, new, old)
    now, before = new.get("spec") or {}, old.get("spec") or {}
    if now == before:
        return errors
    for field in ("containers", "initContainers"):
        if len(now.get(field) or ()) != len(before.get(field) or ()):
            errors.append(forbidden(f"spec.{field}", "pod updates may not add or remove containers"))
            return errors
    if not _deadline(errors, now.get("activeDeadlineSeconds"), before.get("activeDeadlineSeconds")):
        return errors
    _tolerations(errors, now.get("tolerations") or [], before.get("tolerations") or [])
    _gates(errors, now.get("schedulingGates") or [], before.get("schedulingGates") or [])
    if _frozen(errors, now, before) != before:
        errors.append(forbidden("spec", f"pod updates may not change fields other than {_UPDATABLE}\n"))
    return errors


def pod_status_errors(new: Json, old: Json) -> Errors:
    """Errors of an update of the `status` subresource."""
    errors: Errors = []
    status, before = new.get("status") or {}, old.get("status") or {}
    for index, condition in enumerate(status.get("conditions") or ()):
        check_qualified_name(errors, condition.get("type") or "", f"status.conditions[{index}].Type")
    if (new.get("spec") or {}).get("nodeName") != (old.get("spec") or {}).get("nodeName"):
        errors.append(forbidden("status.nodeName", "may not be changed directly"))
    if before.get("qosClass"):
        check_immutable(errors, status.get("qosClass") or "", before["qosClass"], "status.qosClass")
    for field in ("podIPs", "hostIPs"):
        known_ips = {address.get("ip") for address in before.get(field) or ()}
        for index, address in enumerate(status.get(field) or ()):
            if address.get("ip") not in known_ips:
                check_ip(errors, address.get("ip") or "", f"status.{field}[{index}]")
    policy = (old.get("spec") or {}).get("restartPolicy")
    if policy != "Always":
        for field in ("containerStatuses", "initContainerStatuses"):
            _transitions(errors, status.get(field) or (), before.get(field) or (), policy, f"status.{field}")
    return errors


def _annotations(errors: Errors, new: Json, old: Json) -> None:
    now, before = (new["metadata"].get("annotations") or {}), (old["metadata"].get("annotations") or {})
    for key in sorted(now.keys() | before.keys()):
        if now.get(key) == before.get(key) or (key != _MIRROR and not key.startswith(_ARMOR)):
            continue
        if key in before:
            what = "mirror pod annotation" if key == _MIRROR else "AppArmor annotations"
            errors.append(forbidden(f"metadata.annotations[{key}]", f"may not remove or update {what}"))
        else:
            what = "mirror pod annotation" if key == _MIRROR else "AppArmor annotations"
            errors.append(forbidden(f"metadata.annotations[{key}]", f"may not add {what}"))


def _deadline(errors: Errors, now: int | None, before: int | None) -> bool:
    """Check the change of activeDeadlineSeconds; false ends the validation of the update."""
    path = "spec.activeDeadlineSeconds"
    if now is None:
        if before is not None:
            errors.append(invalid(path, None, "must not update from a positive integer to nil value"))
        return True
    if not 0 <= now <= MAX_INT32:
        errors.append(invalid(path, now, f"must be between 0 and {MAX_INT32}, inclusive"))
        return False
    if before is not None and before < now:
        errors.append(invalid(path, now, "must be less than or equal to previous value"))
        return False
    return True


def _tolerations(errors: Errors, now: list[Json], before: list[Json]) -> None:
    kept = [_without(toleration, "tolerationSeconds") for toleration in now]
    if any(_without(toleration, "tolerationSeconds") not in kept for toleration in before):
        errors.append(forbidden("spec.tolerations", "existing toleration can not be modified except its tolerationSeconds"))


def _gates(errors: Errors, now: list[Json], before: list[Json]) -> None:
    known = {gate.get("name") for gate in before}
    for index, gate in enumerate(now):
        if gate.get("name") not in known:
            detail = f"only deletion is allowed, but found new scheduling gate '{gate.get('name')}'"
            errors.append(forbidden(f"spec.schedulingGates[{index}].name", detail))


def _frozen(errors: Errors, now: Json, before: Json) -> Json:
    """The new spec with its mutable fields reset to the old values; any other difference is an error."""
    frozen = dict(now)
    for field in ("containers", "initContainers"):
        if now.get(field):
            frozen[field] = [
                container | {"image": old.get("image")} for container, old in zip(now[field], before[field], strict=True)
            ]
    for field in ("activeDeadlineSeconds", "schedulingGates", "tolerations"):
        _put(frozen, field, before.get(field))
    if (before.get("terminationGracePeriodSeconds") or 0) < 0 and now.get("terminationGracePeriodSeconds") == 1:
        frozen["terminationGracePeriodSeconds"] = before["terminationGracePeriodSeconds"]
    if before.get("schedulingGates"):
        _gated(errors, frozen, now, before)
    return frozen


def _gated(errors: Errors, frozen: Json, now: Json, before: Json) -> None:
    """Check the node selector and affinity of a gated pod, which can only become more restrictive."""
    selector, old_selector = now.get("nodeSelector") or {}, before.get("nodeSelector") or {}
    if any(selector.get(key) != value for key, value in old_selector.items()):
        detail = "only additions to spec.nodeSelector are allowed (no mutations or deletions)"
        errors.append(invalid("spec.nodeSelector", selector or None, detail))
    _put(frozen, "nodeSelector", before.get("nodeSelector"))
    affinity, old_affinity = now.get("affinity") or {}, before.get("affinity") or {}
    _node_affinity(errors, affinity.get("nodeAffinity") or {}, old_affinity.get("nodeAffinity") or {})
    merged = _without(affinity, "nodeAffinity") | (
        {"nodeAffinity": old_affinity["nodeAffinity"]} if "nodeAffinity" in old_affinity else {}
    )
    _put(frozen, "affinity", merged or before.get("affinity"))


def _node_affinity(errors: Errors, now: Json, before: Json) -> None:
    path = f"spec.affinity.nodeAffinity.{_REQUIRED}.nodeSelectorTerms"
    terms = (now.get(_REQUIRED) or {}).get("nodeSelectorTerms") or []
    old_terms = (before.get(_REQUIRED) or {}).get("nodeSelectorTerms") or []
    if old_terms and len(old_terms) != len(terms):
        errors.append(invalid(path, terms, "no additions/deletions to non-empty NodeSelectorTerms list are allowed"))
        return
    for index, (term, old) in enumerate(zip(terms, old_terms, strict=False)):
        parts = [(term.get(field) or [], old.get(field) or []) for field in ("matchExpressions", "matchFields")]
        grew_from_nothing = not any(old_items for _, old_items in parts) and any(items for items, _ in parts)
        if grew_from_nothing or any(items[: len(old_items)] != old_items for items, old_items in parts):
            errors.append(invalid(f"{path}[{index}]", term, "only additions are allowed (no mutations or deletions)"))


def _transitions(errors: Errors, now: Sequence[Json], before: Sequence[Json], policy: str | None, path: str) -> None:
    """A terminated container stays terminated, unless it failed and the restart policy is OnFailure."""
    states = {status.get("name"): status.get("state") or {} for status in now}
    for index, status in enumerate(before):
        ended = (status.get("state") or {}).get("terminated")
        name = status.get("name")
        if ended is None or name not in states or (ended.get("exitCode") and policy == "OnFailure"):
            continue
        if states[name].get("terminated") is None:
            errors.append(forbidden(f"{path}[{index}].state", "may not be transitioned to non-terminated state"))


def _without(value: Json, field: str) -> Json:
    return {name: item for name, item in value.items() if name != field}


def _put(value: Json, field: str, new_value: object) -> None:
    if new_value is None:
        value.pop(field, None)
    else:
        value[field] = new_value
