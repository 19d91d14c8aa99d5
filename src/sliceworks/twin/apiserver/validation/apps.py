"""Deployments, ReplicaSets, StatefulSets, DaemonSets, ReplicationControllers, ControllerRevisions and PodTemplates."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sliceworks.twin.apiserver.validation import error_list
from sliceworks.twin.apiserver.validation.error_list import ErrorList, format_go_struct, int_or_percent, list_items
from sliceworks.twin.apiserver.validation.pod import validate_pod_template
from sliceworks.twin.apiserver.validation.selectors import is_empty, parse_label_selector, validate_label_selector
from sliceworks.twin.apiserver.validation.volume import validate_claim_spec

if TYPE_CHECKING:
    from collections.abc import Callable

    from sliceworks.twin.apiserver.validation.defaults import Json

    UpdateValidation = Callable[[ErrorList, Json, Json], None]

NO_MATCH = "`selector` does not match template `labels`"
_STATEFUL_SET_MUTABLE = (
    "replicas",
    "ordinals",
    "template",
    "updateStrategy",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
    "minReadySeconds",
)
_STATEFUL_SET_IMMUTABLE = (
    "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', "
    "'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden"
)


def validate_status_counts(*fields: str) -> UpdateValidation:
    """Build the validation of a status whose counts must not be negative."""
    return lambda errors, new, _old: errors.check_not_negative(new.get("status") or {}, "status", *fields)


def validate_status_replicas(*parts: str, ready: str = "cannot be greater than readyReplicas") -> UpdateValidation:
    """Build the validation of a status with replicas: no part exceeds all, available ones do not exceed ready ones."""

    def validate(errors: ErrorList, new: Json, old: Json) -> None:
        status: Json = new.get("status") or {}
        errors.check_not_negative(
            status, "status", "observedGeneration", "replicas", *parts, "unavailableReplicas", "collisionCount"
        )
        total = status.get("replicas") or 0
        for field in parts:
            if (status.get(field) or 0) > total:
                errors.invalid(f"status.{field}", status.get(field) or 0, "cannot be greater than status.replicas")
        available = status.get("availableReplicas") or 0
        if available > (status.get("readyReplicas") or 0):
            errors.invalid("status.availableReplicas", available, ready)
        before = (old.get("status") or {}).get("collisionCount")
        if before is not None and (status.get("collisionCount") or 0) < before:
            errors.invalid("status.collisionCount", status.get("collisionCount") or 0, "cannot be decremented")

    return validate


def validate_deployment(errors: ErrorList, obj: Json) -> None:
    spec: Json = obj.get("spec") or {}
    errors.check_not_negative(spec, "spec", "replicas")
    _validate_selected_template(errors, spec, "ReplicaSet", "deployment")
    _validate_deployment_strategy(errors, spec.get("strategy") or {}, "spec.strategy")
    errors.check_not_negative(spec, "spec", "minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds")
    deadline = spec.get("progressDeadlineSeconds")
    if deadline is not None and deadline <= (spec.get("minReadySeconds") or 0):
        errors.invalid("spec.progressDeadlineSeconds", deadline, "must be greater than minReadySeconds")


def validate_replica_set(errors: ErrorList, obj: Json) -> None:
    spec: Json = obj.get("spec") or {}
    errors.check_not_negative(spec, "spec", "replicas", "minReadySeconds")
    _validate_selected_template(errors, spec, "ReplicaSet", "deployment")


def validate_stateful_set(errors: ErrorList, obj: Json) -> None:
    spec: Json = obj.get("spec") or {}
    policy = spec.get("podManagementPolicy") or ""
    if not policy:
        errors.required("spec.podManagementPolicy")
    elif policy not in ("OrderedReady", "Parallel"):
        errors.invalid("spec.podManagementPolicy", policy, "must be 'OrderedReady' or 'Parallel'")
    _validate_stateful_set_strategy(errors, spec.get("updateStrategy") or {}, "spec.updateStrategy")
    retention = spec.get("persistentVolumeClaimRetentionPolicy") or {}
    for field in retention:
        errors.check_supported(retention, "spec.persistentVolumeClaimRetentionPolicy", field, ("Retain", "Delete"))
    for claim, path in list_items(spec, "spec", "volumeClaimTemplates"):
        validate_claim_spec(errors, claim.get("spec") or {}, f"{path}.spec")
    errors.check_not_negative(spec, "spec", "replicas", "minReadySeconds")
    errors.check_not_negative(spec.get("ordinals") or {}, "spec.ordinals", "start")
    errors.check_optional_names(spec, "spec", error_list.dns1123_label_errors, "serviceName")
    _validate_selected_template(errors, {**spec, "template": _with_claims(spec)}, "StatefulSet", "statefulset")


def validate_daemon_set(errors: ErrorList, obj: Json) -> None:
    spec: Json = obj.get("spec") or {}
    selector, template = spec.get("selector"), spec.get("template") or {}
    validate_label_selector(errors, selector, "spec.selector")
    validate_template_labels(errors, selector, template)
    if selector is not None and is_empty(selector):
        errors.invalid("spec.selector", selector, "empty selector is invalid for daemonset")
    _validate_always_template(errors, template, "DaemonSet")
    errors.check_not_negative(spec, "spec", "minReadySeconds")
    _validate_daemon_set_strategy(errors, spec.get("updateStrategy") or {}, "spec.updateStrategy")
    errors.check_not_negative(spec, "spec", "revisionHistoryLimit")


def validate_replication_controller(errors: ErrorList, obj: Json) -> None:
    spec: Json = obj.get("spec") or {}
    selector, template = spec.get("selector") or {}, spec.get("template")
    errors.check_not_negative(spec, "spec", "minReadySeconds")
    errors.check_required(spec, "spec", "selector")
    if spec.get("replicas") is None:
        errors.required("spec.replicas")
    errors.check_not_negative(spec, "spec", "replicas")
    if template is None:
        errors.required("spec.template")
        return
    labels = (template.get("metadata") or {}).get("labels") or {}
    if not selector.items() <= labels.items():
        errors.invalid("spec.template.metadata.labels", labels or None, NO_MATCH)
    _validate_always_template(errors, template, "ReplicationController")


def validate_pod_template_object(errors: ErrorList, obj: Json) -> None:
    validate_pod_template(errors, obj.get("template") or {}, "template")


def validate_controller_revision(errors: ErrorList, obj: Json) -> None:
    errors.check_not_negative(obj, "", "revision")
    if obj.get("data") is None:
        errors.required("data", "data is mandatory")
    elif not isinstance(obj["data"], dict):
        errors.required("data", "data must be a valid JSON object")


def validate_stateful_set_update(errors: ErrorList, new: Json, old: Json) -> None:
    now, before = (
        {name: value for name, value in (obj.get("spec") or {}).items() if name not in _STATEFUL_SET_MUTABLE and value}
        for obj in (new, old)
    )
    if now != before:
        errors.forbidden("spec", _STATEFUL_SET_IMMUTABLE)


def validate_template_labels(errors: ErrorList, selector: Json | None, template: Json) -> None:
    """Check that a valid selector matches the labels of the template."""
    labels = (template.get("metadata") or {}).get("labels") or {}
    parsed = parse_label_selector(selector)
    if parsed is not None and not parsed.matches(labels):
        errors.invalid("spec.template.metadata.labels", labels or None, NO_MATCH)


def _validate_selected_template(errors: ErrorList, spec: Json, owner: str, kind: str) -> None:
    selector, template = spec.get("selector"), spec.get("template") or {}
    if selector is None:
        errors.required("spec.selector")
    else:
        validate_label_selector(errors, selector, "spec.selector")
        if is_empty(selector):
            errors.invalid("spec.selector", selector, f"empty selector is invalid for {kind}")
    if parse_label_selector(selector) is None:
        errors.invalid("spec.selector", selector, "" if kind == "statefulset" else "invalid label selector")
        return
    validate_template_labels(errors, selector, template)
    _validate_always_template(errors, template, owner)


def _validate_always_template(errors: ErrorList, template: Json, owner: str) -> None:
    """Validate a pod template whose restart policy must be Always."""
    validate_pod_template(errors, template, "spec.template")
    spec = template.get("spec") or {}
    errors.check_supported(spec, "spec.template.spec", "restartPolicy", ("Always",))
    errors.check_unset(spec, "spec.template.spec", f"activeDeadlineSeconds in {owner} is not Supported", "activeDeadlineSeconds")


def _validate_rolling_update(errors: ErrorList, rolling: Json, path: str) -> tuple[int | str, int | str]:
    """Validate and return maxUnavailable and maxSurge."""
    unavailable, surge = rolling.get("maxUnavailable", 0), rolling.get("maxSurge", 0)
    errors.check_positive_int_or_percent(unavailable, f"{path}.maxUnavailable")
    errors.check_positive_int_or_percent(surge, f"{path}.maxSurge")
    return unavailable, surge


def _validate_deployment_strategy(errors: ErrorList, strategy: Json, path: str) -> None:
    kind, rolling = strategy.get("type"), strategy.get("rollingUpdate")
    if kind == "Recreate":
        errors.check_unset(strategy, path, "may not be specified when strategy `type` is 'Recreate'", "rollingUpdate")
    elif kind == "RollingUpdate":
        unavailable, surge = _validate_rolling_update(errors, rolling or {}, f"{path}.rollingUpdate")
        if not int_or_percent(unavailable) and not int_or_percent(surge):
            errors.invalid(f"{path}.rollingUpdate.maxUnavailable", unavailable, "may not be 0 when `maxSurge` is 0")
        errors.check_at_most_100_percent(unavailable, f"{path}.rollingUpdate.maxUnavailable")
    else:
        errors.not_supported(path, format_go_struct(strategy, "type", "rollingUpdate"), ("Recreate", "RollingUpdate"))


def _validate_daemon_set_strategy(errors: ErrorList, strategy: Json, path: str) -> None:
    kind, rolling = strategy.get("type"), strategy.get("rollingUpdate")
    if kind == "RollingUpdate":
        path += ".rollingUpdate"
        unavailable, surge = _validate_rolling_update(errors, rolling or {}, path)
        errors.check_at_most_100_percent(unavailable, f"{path}.maxUnavailable")
        errors.check_at_most_100_percent(surge, f"{path}.maxSurge")
        if int_or_percent(unavailable) and int_or_percent(surge):
            errors.invalid(f"{path}.maxSurge", surge, "may not be set when maxUnavailable is non-zero")
        elif not int_or_percent(unavailable) and not int_or_percent(surge):
            errors.required(f"{path}.maxUnavailable", "cannot be 0 when maxSurge is 0")
    elif kind != "OnDelete":
        errors.not_supported(path, format_go_struct(strategy, "type", "rollingUpdate"), ("RollingUpdate", "OnDelete"))


def _validate_stateful_set_strategy(errors: ErrorList, strategy: Json, path: str) -> None:
    kind, rolling = strategy.get("type") or "", strategy.get("rollingUpdate")
    if not kind:
        errors.required(path)
    elif kind == "OnDelete":
        if rolling is not None:
            shown = format_go_struct(rolling, "partition", "maxUnavailable")
            errors.invalid(f"{path}.rollingUpdate", shown, "only allowed for updateStrategy 'RollingUpdate'")
    elif kind == "RollingUpdate":
        errors.check_not_negative(rolling or {}, f"{path}.rollingUpdate", "partition")
    else:
        errors.invalid(path, format_go_struct(strategy, "type", "rollingUpdate"), "must be 'RollingUpdate' or 'OnDelete'")


def _with_claims(spec: Json) -> Json:
    """The template with one volume per volumeClaimTemplate, since volume mounts can refer to them."""
    template = dict(spec.get("template") or {})
    pod = {name: value for name, value in (template.get("spec") or {}).items() if name not in ("hostname", "subdomain")}
    names = [(claim.get("metadata") or {}).get("name") for claim in spec.get("volumeClaimTemplates") or ()]
    if names:
        claimed = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in dict.fromkeys(names)]
        pod["volumes"] = claimed + [volume for volume in pod.get("volumes") or () if volume.get("name") not in names]
    return template | {"spec": pod}
