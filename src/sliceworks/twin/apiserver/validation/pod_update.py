"""Updates of pods and of their subresources."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sliceworks.twin.apiserver.pod_resources import qos_class
from sliceworks.twin.apiserver.validation.error_list import MAX_INT32, list_items
from sliceworks.twin.apiserver.validation.pod import MIRROR, validate_pod

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sliceworks.twin.apiserver.validation.defaults import Json
    from sliceworks.twin.apiserver.validation.error_list import ErrorList

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


def validate_pod_update(errors: ErrorList, new: Json, old: Json) -> None:
    _validate_annotations(errors, new, old)
    now, before = new.get("spec") or {}, old.get("spec") or {}
    if now == before:
        return
    for field in ("containers", "initContainers"):
        if len(now.get(field) or ()) != len(before.get(field) or ()):
            errors.forbidden(f"spec.{field}", "pod updates may not add or remove containers")
            return
    if not _validate_deadline(errors, now.get("activeDeadlineSeconds"), before.get("activeDeadlineSeconds")):
        return
    _validate_tolerations(errors, now.get("tolerations") or [], before.get("tolerations") or [])
    _validate_gates(errors, now.get("schedulingGates") or [], before.get("schedulingGates") or [])
    if _reset_mutable_fields(errors, now, before) != before:
        errors.forbidden("spec", f"pod updates may not change fields other than {_UPDATABLE}\n")


def validate_pod_status_update(errors: ErrorList, new: Json, old: Json) -> None:
    """Validate an update of the `status` subresource."""
    status, before = new.get("status") or {}, old.get("status") or {}
    for condition, path in list_items(status, "status", "conditions"):
        errors.check_qualified_name(condition.get("type") or "", f"{path}.Type")
    if (new.get("spec") or {}).get("nodeName") != (old.get("spec") or {}).get("nodeName"):
        errors.forbidden("status.nodeName", "may not be changed directly")
    if before.get("qosClass"):
        errors.check_immutable(status.get("qosClass") or "", before["qosClass"], "status.qosClass")
    for field in ("podIPs", "hostIPs"):
        known_ips = {address.get("ip") for address in before.get(field) or ()}
        for address, path in list_items(status, "status", field):
            if address.get("ip") not in known_ips:
                errors.check_ip(address.get("ip") or "", path)
    spec = old.get("spec") or {}
    for field, containers in (("containerStatuses", "containers"), ("initContainerStatuses", "initContainers")):
        policies = {item["name"]: item.get("restartPolicy") or spec.get("restartPolicy") for item in spec.get(containers) or ()}
        _validate_transitions(errors, status.get(field) or (), before.get(field) or (), policies, f"status.{field}")


def validate_ephemeral_containers_update(errors: ErrorList, new: Json, old: Json) -> None:
    """Validate an update of the `ephemeralcontainers` subresource."""
    validate_pod(errors, new)
    if MIRROR in (old["metadata"].get("annotations") or {}):
        errors.forbidden("", "static pods do not support ephemeral containers")
        return
    containers = {container["name"]: container for container in new["spec"].get("ephemeralContainers") or ()}
    for container in old["spec"].get("ephemeralContainers") or ():
        name = container["name"]
        if containers.get(name) != container:
            verb = "changed" if name in containers else "removed"
            errors.forbidden("spec.ephemeralContainers", f'existing ephemeral containers "{name}" may not be {verb}\n')


def validate_resize(errors: ErrorList, new: Json, old: Json) -> None:
    """Validate an update of the `resize` subresource."""
    validate_pod(errors, new)
    if MIRROR in (old["metadata"].get("annotations") or {}):
        errors.forbidden("", "static pods cannot be resized")
        return
    old_class = (old.get("status") or {}).get("qosClass") or qos_class(old["spec"])
    if qos_class(new["spec"]) != old_class:
        errors.invalid("spec", old_class, "Pod QOS Class may not change as a result of resizing")


def _validate_annotations(errors: ErrorList, new: Json, old: Json) -> None:
    now, before = (new["metadata"].get("annotations") or {}), (old["metadata"].get("annotations") or {})
    for key in sorted(now.keys() | before.keys()):
        if now.get(key) != before.get(key) and (key == MIRROR or key.startswith(_ARMOR)):
            noun = "mirror pod annotation" if key == MIRROR else "AppArmor annotations"
            errors.forbidden(f"metadata.annotations[{key}]", f"may not {'remove or update' if key in before else 'add'} {noun}")


def _validate_deadline(errors: ErrorList, now: int | None, before: int | None) -> bool:
    """Validate the change of activeDeadlineSeconds; false ends the validation of the update."""
    path = "spec.activeDeadlineSeconds"
    if now is None:
        if before is not None:
            errors.invalid(path, None, "must not update from a positive integer to nil value")
        return True
    if not 0 <= now <= MAX_INT32:
        errors.invalid(path, now, f"must be between 0 and {MAX_INT32}, inclusive")
        return False
    if before is not None and before < now:
        errors.invalid(path, now, "must be less than or equal to previous value")
        return False
    return True


def _validate_tolerations(errors: ErrorList, now: list[Json], before: list[Json]) -> None:
    kept = [_without(toleration, "tolerationSeconds") for toleration in now]
    if any(_without(toleration, "tolerationSeconds") not in kept for toleration in before):
        errors.forbidden("spec.tolerations", "existing toleration can not be modified except its tolerationSeconds")


def _validate_gates(errors: ErrorList, now: list[Json], before: list[Json]) -> None:
    known = {gate.get("name") for gate in before}
    for index, gate in enumerate(now):
        if gate.get("name") not in known:
            detail = f"only deletion is allowed, but found new scheduling gate '{gate.get('name')}'"
            errors.forbidden(f"spec.schedulingGates[{index}].name", detail)


def _reset_mutable_fields(errors: ErrorList, now: Json, before: Json) -> Json:
    """The new spec with its mutable fields reset to the old values; any other difference is an error."""
    frozen = dict(now)
    for field in ("containers", "initContainers"):
        if now.get(field):
            pairs = zip(now[field], before[field], strict=True)
            frozen[field] = [container | {"image": old.get("image")} for container, old in pairs]
    for field in ("activeDeadlineSeconds", "schedulingGates", "tolerations"):
        _put(frozen, field, before.get(field))
    if (before.get("terminationGracePeriodSeconds") or 0) < 0 and now.get("terminationGracePeriodSeconds") == 1:
        frozen["terminationGracePeriodSeconds"] = before["terminationGracePeriodSeconds"]
    if before.get("schedulingGates"):
        _validate_gated_update(errors, frozen, now, before)
    return frozen


def _validate_gated_update(errors: ErrorList, frozen: Json, now: Json, before: Json) -> None:
    """Validate the node selector and affinity of a gated pod, which can only become more restrictive."""
    selector, old_selector = now.get("nodeSelector") or {}, before.get("nodeSelector") or {}
    if any(selector.get(key) != value for key, value in old_selector.items()):
        detail = "only additions to spec.nodeSelector are allowed (no mutations or deletions)"
        errors.invalid("spec.nodeSelector", selector or None, detail)
    _put(frozen, "nodeSelector", before.get("nodeSelector"))
    affinity, old_affinity = now.get("affinity") or {}, before.get("affinity") or {}
    _validate_node_affinity_update(errors, affinity.get("nodeAffinity") or {}, old_affinity.get("nodeAffinity") or {})
    merged = dict(affinity)
    _put(merged, "nodeAffinity", old_affinity.get("nodeAffinity"))
    _put(frozen, "affinity", merged or before.get("affinity"))


def _validate_node_affinity_update(errors: ErrorList, now: Json, before: Json) -> None:
    path = f"spec.affinity.nodeAffinity.{_REQUIRED}.nodeSelectorTerms"
    terms = (now.get(_REQUIRED) or {}).get("nodeSelectorTerms") or []
    old_terms = (before.get(_REQUIRED) or {}).get("nodeSelectorTerms") or []
    if old_terms and len(old_terms) != len(terms):
        errors.invalid(path, terms, "no additions/deletions to non-empty NodeSelectorTerms list are allowed")
        return
    for index, (term, old) in enumerate(zip(terms, old_terms, strict=False)):
        parts = [(term.get(field) or [], old.get(field) or []) for field in ("matchExpressions", "matchFields")]
        grew_from_nothing = not any(old_items for _, old_items in parts) and any(items for items, _ in parts)
        if grew_from_nothing or any(items[: len(old_items)] != old_items for items, old_items in parts):
            errors.invalid(f"{path}[{index}]", term, "only additions are allowed (no mutations or deletions)")


def _validate_transitions(errors: ErrorList, now: Sequence[Json], before: Sequence[Json], policies: Json, path: str) -> None:
    """A terminated container stays terminated unless its restart policy, which a sidecar has of its own, restarts it."""
    states = {status.get("name"): status.get("state") or {} for status in now}
    for index, status in enumerate(before):
        ended = (status.get("state") or {}).get("terminated")
        name = status.get("name")
        policy = policies.get(str(name))
        if ended is None or name not in states or policy == "Always" or (ended.get("exitCode") and policy == "OnFailure"):
            continue
        if states[name].get("terminated") is None:
            errors.forbidden(f"{path}[{index}].state", "may not be transitioned to non-terminated state")


def _without(value: Json, field: str) -> Json:
    return {name: item for name, item in value.items() if name != field}


def _put(value: Json, field: str, new_value: object) -> None:
    if new_value is None:
        value.pop(field, None)
    else:
        value[field] = new_value
