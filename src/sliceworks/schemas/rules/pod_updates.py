"""What may change in a pod once it is there: very little."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sliceworks.schemas.field_errors import forbidden, invalid
from sliceworks.schemas.rules.texts import MAX_INT32, Errors, address, immutable, qualified

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sliceworks.schemas.rules.shape import Json

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
    out: Errors = []
    _annotations(out, new, old)
    now, before = new.get("spec") or {}, old.get("spec") or {}
    if now == before:
        return out
    for field in ("containers", "initContainers"):
        if len(now.get(field) or ()) != len(before.get(field) or ()):
            out.append(forbidden(f"spec.{field}", "pod updates may not add or remove containers"))
            return out
    if not _deadline(out, now.get("activeDeadlineSeconds"), before.get("activeDeadlineSeconds")):
        return out
    _tolerations(out, now.get("tolerations") or [], before.get("tolerations") or [])
    _gates(out, now.get("schedulingGates") or [], before.get("schedulingGates") or [])
    if _frozen(out, now, before) != before:
        out.append(forbidden("spec", f"pod updates may not change fields other than {_UPDATABLE}\n"))
    return out


def pod_status_errors(new: Json, old: Json) -> Errors:
    """The `status` subresource: the node's report must not contradict what was."""
    out: Errors = []
    status, before = new.get("status") or {}, old.get("status") or {}
    for index, condition in enumerate(status.get("conditions") or ()):
        qualified(out, condition.get("type") or "", f"status.conditions[{index}].Type")
    if (new.get("spec") or {}).get("nodeName") != (old.get("spec") or {}).get("nodeName"):
        out.append(forbidden("status.nodeName", "may not be changed directly"))
    if before.get("qosClass"):
        immutable(out, status.get("qosClass") or "", before["qosClass"], "status.qosClass")
    for field in ("podIPs", "hostIPs"):
        known = {found.get("ip") for found in before.get(field) or ()}
        for index, found in enumerate(status.get(field) or ()):
            if found.get("ip") not in known:
                address(out, found.get("ip") or "", f"status.{field}[{index}]")
    policy = (old.get("spec") or {}).get("restartPolicy")
    if policy != "Always":
        for field in ("containerStatuses", "initContainerStatuses"):
            _transitions(out, status.get(field) or (), before.get(field) or (), policy, f"status.{field}")
    return out


def _annotations(out: Errors, new: Json, old: Json) -> None:
    now, before = (new["metadata"].get("annotations") or {}), (old["metadata"].get("annotations") or {})
    for key in sorted(now.keys() | before.keys()):
        if now.get(key) == before.get(key) or (key != _MIRROR and not key.startswith(_ARMOR)):
            continue
        if key in before:
            what = "mirror pod annotation" if key == _MIRROR else "AppArmor annotations"
            out.append(forbidden(f"metadata.annotations[{key}]", f"may not remove or update {what}"))
        else:
            what = "mirror pod annotation" if key == _MIRROR else "AppArmor annotations"
            out.append(forbidden(f"metadata.annotations[{key}]", f"may not add {what}"))


def _deadline(out: Errors, now: int | None, before: int | None) -> bool:
    """Whether it is worth looking on."""
    path = "spec.activeDeadlineSeconds"
    if now is None:
        if before is not None:
            out.append(invalid(path, None, "must not update from a positive integer to nil value"))
        return True
    if not 0 <= now <= MAX_INT32:
        out.append(invalid(path, now, f"must be between 0 and {MAX_INT32}, inclusive"))
        return False
    if before is not None and before < now:
        out.append(invalid(path, now, "must be less than or equal to previous value"))
        return False
    return True


def _tolerations(out: Errors, now: list[Json], before: list[Json]) -> None:
    kept = [_without(toleration, "tolerationSeconds") for toleration in now]
    if any(_without(toleration, "tolerationSeconds") not in kept for toleration in before):
        out.append(forbidden("spec.tolerations", "existing toleration can not be modified except its tolerationSeconds"))


def _gates(out: Errors, now: list[Json], before: list[Json]) -> None:
    known = {gate.get("name") for gate in before}
    for index, gate in enumerate(now):
        if gate.get("name") not in known:
            detail = f"only deletion is allowed, but found new scheduling gate '{gate.get('name')}'"
            out.append(forbidden(f"spec.schedulingGates[{index}].name", detail))


def _frozen(out: Errors, now: Json, before: Json) -> Json:
    """The new spec with everything that may change set back."""
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
        _gated(out, frozen, now, before)
    return frozen


def _gated(out: Errors, frozen: Json, now: Json, before: Json) -> None:
    """A pod that waits at a gate may be narrowed to fewer nodes."""
    selector, old_selector = now.get("nodeSelector") or {}, before.get("nodeSelector") or {}
    if any(selector.get(key) != value for key, value in old_selector.items()):
        detail = "only additions to spec.nodeSelector are allowed (no mutations or deletions)"
        out.append(invalid("spec.nodeSelector", selector or None, detail))
    _put(frozen, "nodeSelector", before.get("nodeSelector"))
    affinity, old_affinity = now.get("affinity") or {}, before.get("affinity") or {}
    _node_affinity(out, affinity.get("nodeAffinity") or {}, old_affinity.get("nodeAffinity") or {})
    merged = _without(affinity, "nodeAffinity") | (
        {"nodeAffinity": old_affinity["nodeAffinity"]} if "nodeAffinity" in old_affinity else {}
    )
    _put(frozen, "affinity", merged or before.get("affinity"))


def _node_affinity(out: Errors, now: Json, before: Json) -> None:
    path = f"spec.affinity.nodeAffinity.{_REQUIRED}.nodeSelectorTerms"
    terms = (now.get(_REQUIRED) or {}).get("nodeSelectorTerms") or []
    old_terms = (before.get(_REQUIRED) or {}).get("nodeSelectorTerms") or []
    if old_terms and len(old_terms) != len(terms):
        out.append(invalid(path, terms, "no additions/deletions to non-empty NodeSelectorTerms list are allowed"))
        return
    for index, (term, old) in enumerate(zip(terms, old_terms, strict=False)):
        parts = [(term.get(field) or [], old.get(field) or []) for field in ("matchExpressions", "matchFields")]
        grew_from_nothing = not any(known for _, known in parts) and any(found for found, _ in parts)
        if grew_from_nothing or any(found[: len(known)] != known for found, known in parts):
            out.append(invalid(f"{path}[{index}]", term, "only additions are allowed (no mutations or deletions)"))


def _transitions(out: Errors, now: Sequence[Json], before: Sequence[Json], policy: str | None, path: str) -> None:
    """A container that has ended for good does not start again."""
    states = {status.get("name"): status.get("state") or {} for status in now}
    for index, status in enumerate(before):
        ended = (status.get("state") or {}).get("terminated")
        name = status.get("name")
        if ended is None or name not in states or (ended.get("exitCode") and policy == "OnFailure"):
            continue
        if states[name].get("terminated") is None:
            out.append(forbidden(f"{path}[{index}].state", "may not be transitioned to non-terminated state"))


def _without(value: Json, field: str) -> Json:
    return {name: found for name, found in value.items() if name != field}


def _put(value: Json, field: str, found: object) -> None:
    if found is None:
        value.pop(field, None)
    else:
        value[field] = found
