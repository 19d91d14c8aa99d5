"""Deployments, ReplicaSets, StatefulSets, DaemonSets, ReplicationControllers, ControllerRevisions, and statuses of workloads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sliceworks.schemas.field_errors import OMITTED, forbidden, invalid, not_supported, required
from sliceworks.twin.apiserver.validation.batch import indexes_total
from sliceworks.twin.apiserver.validation.field_checks import (
    Errors,
    check_at_most_100_percent,
    check_dns_label,
    check_immutable,
    check_none_negative,
    check_not_negative,
    check_positive_int_or_percent,
    format_go_struct,
    int_or_percent,
)
from sliceworks.twin.apiserver.validation.pod import pod_template_errors
from sliceworks.twin.apiserver.validation.selectors import is_empty, is_usable, matches, selector_errors
from sliceworks.twin.apiserver.validation.volume import claim_spec_errors

if TYPE_CHECKING:
    from collections.abc import Callable

    from sliceworks.twin.apiserver.validation.defaults import Json

_MORE = "cannot be greater than status.replicas"


def count_check(*fields: str) -> Callable[[Json, Json], Errors]:
    """Build a check that the given status counts are not negative."""

    def check(new: Json, _old: Json) -> Errors:
        errors: Errors = []
        check_none_negative(errors, new.get("status") or {}, "status", *fields)
        return errors

    return check


def replica_check(*parts: str, ready: str = "cannot be greater than readyReplicas") -> Callable[[Json, Json], Errors]:
    """Build a check that no replica count exceeds the total, and that available replicas do not exceed ready ones."""

    def check(new: Json, old: Json) -> Errors:
        errors: Errors = []
        status: Json = new.get("status") or {}
        check_none_negative(
            errors, status, "status", "observedGeneration", "replicas", *parts, "unavailableReplicas", "collisionCount"
        )
        total = status.get("replicas") or 0
        for field in parts:
            if (status.get(field) or 0) > total:
                errors.append(invalid(f"status.{field}", status.get(field) or 0, _MORE))
        available = status.get("availableReplicas") or 0
        if available > (status.get("readyReplicas") or 0):
            errors.append(invalid("status.availableReplicas", available, ready))
        before = (old.get("status") or {}).get("collisionCount")
        if before is not None and (status.get("collisionCount") or 0) < before:
            errors.append(invalid("status.collisionCount", status.get("collisionCount") or 0, "cannot be decremented"))
        return errors

    return check


def job_status_errors(new: Json, old: Json) -> Errors:
    errors: Errors = []
    status, before, spec = new.get("status") or {}, old.get("status") or {}, new.get("spec") or {}
    check_none_negative(errors, status, "status", "active", "succeeded", "failed", "ready", "terminating")
    true, was_true = _true(status), _true(before)
    _conditions(errors, true, was_true)
    complete, finished = "Complete" in true, bool({"Complete", "Failed"} & true)
    start, end = status.get("startTime"), status.get("completionTime")
    if end and not complete:
        errors.append(invalid("status.completionTime", end, "cannot set completionTime when there is no Complete=True condition"))
    if complete and not end:
        errors.append(required("status.completionTime", "completionTime is required for Complete jobs"))
    if start and end and end < start:
        errors.append(invalid("status.completionTime", end, "must be equal to or after `startTime`"))
    if finished and not start and not (spec.get("suspend") and spec.get("completions") == 0):
        errors.append(required("status.startTime", "startTime is required for finished job"))
    for field in ("active", "terminating"):
        if finished and (status.get(field) or 0) > 0:
            errors.append(invalid(f"status.{field}", status[field], f"{field}>0 is invalid for finished job"))
    if (status.get("ready") or 0) > (status.get("active") or 0):
        errors.append(invalid("status.ready", status["ready"], "cannot set more ready pods than active"))
    _indexes(errors, status, spec)
    for field in ("failed", *(() if _is_elastic(spec) else ("succeeded",))):
        if (status.get(field) or 0) < (before.get(field) or 0) and not was_true:
            errors.append(invalid(f"status.{field}", status.get(field) or 0, f"cannot decrease the {field} counter"))
    if before.get("completionTime") and end and end != before["completionTime"]:
        errors.append(invalid("status.completionTime", end, "field is immutable"))
    resumes = "Suspended" in was_true and _is_false(status, "Suspended")
    if before.get("startTime") and start != before["startTime"] and not spec.get("suspend") and not resumes:
        errors.append(required("status.startTime", "startTime cannot be removed for unsuspended job"))
    return errors


def _true(status: Json) -> set[str]:
    return {condition.get("type") or "" for condition in status.get("conditions") or () if condition.get("status") == "True"}


def _is_false(status: Json, kind: str) -> bool:
    return any(condition.get("type") == kind and condition.get("status") == "False" for condition in status.get("conditions") or ())


def _is_elastic(spec: Json) -> bool:
    """Whether the Job can be scaled down, which leaves succeeded indexes out of range."""
    return bool(spec.get("completionMode") == "Indexed" and spec.get("completions") == spec.get("parallelism"))


def _conditions(errors: Errors, true: set[str], was_true: set[str]) -> None:
    path = "status.conditions"
    for condition, other in (
        ("Complete", "Failed"),
        ("Complete", "FailureTarget"),
        ("SuccessCriteriaMet", "Failed"),
        ("SuccessCriteriaMet", "FailureTarget"),
    ):
        if {condition, other} <= true:
            errors.append(invalid(path, OMITTED, f"cannot set {condition}=True and {other}=true conditions"))
    for condition, needed in (("Failed", "FailureTarget"), ("Complete", "SuccessCriteriaMet")):
        if condition in true and needed not in true:
            errors.append(invalid(path, OMITTED, f"cannot set {condition}=True condition without the {needed}=true condition"))
    for kind in ("Failed", "Complete", "FailureTarget"):
        if kind in was_true and kind not in true:
            errors.append(invalid(path, OMITTED, f"cannot disable the terminal {kind}=True condition"))
    if "SuccessCriteriaMet" in was_true and "SuccessCriteriaMet" not in true:
        errors.append(invalid(path, OMITTED, "cannot disable the SuccessCriteriaMet=True condition"))


def _indexes(errors: Errors, status: Json, spec: Json) -> None:
    completions = spec.get("completions")
    done, failed = status.get("completedIndexes") or "", status.get("failedIndexes")
    if done and spec.get("completionMode") != "Indexed":
        errors.append(
            invalid("status.completedIndexes", done, "cannot set non-empty completedIndexes when non-indexed completion mode")
        )
    if failed is not None and spec.get("backoffLimitPerIndex") is None:
        errors.append(
            invalid("status.failedIndexes", failed, "cannot set non-null failedIndexes when backoffLimitPerIndex is null")
        )
    if completions is None:
        return
    counted = {"completedIndexes": done}
    if failed is not None and spec.get("backoffLimitPerIndex") is not None:
        counted["failedIndexes"] = failed
    for field, text in counted.items():
        try:
            indexes_total(text, completions)
        except ValueError as error:
            errors.append(invalid(f"status.{field}", text, f"error parsing {field}: {error}"))


_NO_MATCH = "`selector` does not match template `labels`"

_STATEFUL_SET_FREE = (
    "replicas",
    "ordinals",
    "template",
    "updateStrategy",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
    "minReadySeconds",
)

_STATEFUL_SET_FIXED = (
    "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', "
    "'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden"
)


def deployment_errors(obj: Json) -> Errors:
    errors: Errors = []
    spec: Json = obj.get("spec") or {}
    check_none_negative(errors, spec, "spec", "replicas")
    _selected_template(errors, spec, "ReplicaSet", "deployment")
    _deployment_strategy(errors, spec.get("strategy") or {}, "spec.strategy")
    check_none_negative(errors, spec, "spec", "minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds")
    deadline = spec.get("progressDeadlineSeconds")
    if deadline is not None and deadline <= (spec.get("minReadySeconds") or 0):
        errors.append(invalid("spec.progressDeadlineSeconds", deadline, "must be greater than minReadySeconds"))
    return errors


def replica_set_errors(obj: Json) -> Errors:
    errors: Errors = []
    spec: Json = obj.get("spec") or {}
    check_none_negative(errors, spec, "spec", "replicas", "minReadySeconds")
    _selected_template(errors, spec, "ReplicaSet", "deployment")
    return errors


def stateful_set_errors(obj: Json) -> Errors:
    errors: Errors = []
    spec: Json = obj.get("spec") or {}
    policy = spec.get("podManagementPolicy") or ""
    if not policy:
        errors.append(required("spec.podManagementPolicy"))
    elif policy not in ("OrderedReady", "Parallel"):
        errors.append(invalid("spec.podManagementPolicy", policy, "must be 'OrderedReady' or 'Parallel'"))
    _stateful_set_strategy(errors, spec.get("updateStrategy") or {}, "spec.updateStrategy")
    for field, value in (spec.get("persistentVolumeClaimRetentionPolicy") or {}).items():
        if value not in ("Retain", "Delete"):
            errors.append(not_supported(f"spec.persistentVolumeClaimRetentionPolicy.{field}", value, ("Retain", "Delete")))
    for index, claim in enumerate(spec.get("volumeClaimTemplates") or ()):
        claim_spec_errors(errors, claim.get("spec") or {}, f"spec.volumeClaimTemplates[{index}].spec")
    check_none_negative(errors, spec, "spec", "replicas", "minReadySeconds")
    check_not_negative(errors, (spec.get("ordinals") or {}).get("start"), "spec.ordinals.start")
    if spec.get("serviceName"):
        check_dns_label(errors, spec["serviceName"], "spec.serviceName")
    _selected_template(errors, {**spec, "template": _with_claims(spec)}, "StatefulSet", "statefulset")
    return errors


def daemon_set_errors(obj: Json) -> Errors:
    errors: Errors = []
    spec: Json = obj.get("spec") or {}
    selector, template = spec.get("selector"), spec.get("template") or {}
    labels = (template.get("metadata") or {}).get("labels") or {}
    selector_errors(errors, selector, "spec.selector")
    if is_usable(selector) and not matches(selector, labels):
        errors.append(invalid("spec.template.metadata.labels", labels or None, _NO_MATCH))
    if selector is not None and is_empty(selector):
        errors.append(invalid("spec.selector", selector, "empty selector is invalid for daemonset"))
    _always_template(errors, template, "DaemonSet")
    check_none_negative(errors, spec, "spec", "minReadySeconds")
    _daemon_set_strategy(errors, spec.get("updateStrategy") or {}, "spec.updateStrategy")
    check_none_negative(errors, spec, "spec", "revisionHistoryLimit")
    return errors


def replication_controller_errors(obj: Json) -> Errors:
    errors: Errors = []
    spec: Json = obj.get("spec") or {}
    selector, template = spec.get("selector") or {}, spec.get("template")
    check_none_negative(errors, spec, "spec", "minReadySeconds")
    if not selector:
        errors.append(required("spec.selector"))
    if spec.get("replicas") is None:
        errors.append(required("spec.replicas"))
    check_none_negative(errors, spec, "spec", "replicas")
    if template is None:
        errors.append(required("spec.template"))
        return errors
    labels = (template.get("metadata") or {}).get("labels") or {}
    if not selector.items() <= labels.items():
        errors.append(invalid("spec.template.metadata.labels", labels or None, _NO_MATCH))
    _always_template(errors, template, "ReplicationController")
    return errors


def pod_template_object_errors(obj: Json) -> Errors:
    errors: Errors = []
    pod_template_errors(errors, obj.get("template") or {}, "template")
    return errors


def controller_revision_errors(obj: Json) -> Errors:
    errors: Errors = []
    check_not_negative(errors, obj.get("revision"), "revision")
    if obj.get("data") is None:
        errors.append(required("data", "data is mandatory"))
    elif not isinstance(obj["data"], dict):
        errors.append(required("data", "data must be a valid JSON object"))
    return errors


def selector_update_errors(new: Json, old: Json) -> Errors:
    """The selector of a Deployment, ReplicaSet or DaemonSet is immutable."""
    errors: Errors = []
    check_immutable(errors, (new.get("spec") or {}).get("selector"), (old.get("spec") or {}).get("selector"), "spec.selector")
    return errors


def stateful_set_update_errors(new: Json, old: Json) -> Errors:
    now, before = new.get("spec") or {}, old.get("spec") or {}
    fixed = [{name: value for name, value in spec.items() if name not in _STATEFUL_SET_FREE and value} for spec in (now, before)]
    return [] if fixed[0] == fixed[1] else [forbidden("spec", _STATEFUL_SET_FIXED)]


def controller_revision_update_errors(new: Json, old: Json) -> Errors:
    errors: Errors = []
    check_immutable(errors, new.get("data"), old.get("data"), "data")
    return errors


def _selected_template(errors: Errors, spec: Json, owner: str, kind: str) -> None:
    selector, template = spec.get("selector"), spec.get("template") or {}
    if selector is None:
        errors.append(required("spec.selector"))
    else:
        selector_errors(errors, selector, "spec.selector")
        if is_empty(selector):
            errors.append(invalid("spec.selector", selector, f"empty selector is invalid for {kind}"))
    if not is_usable(selector):
        errors.append(invalid("spec.selector", selector, "" if kind == "statefulset" else "invalid label selector"))
        return
    labels = (template.get("metadata") or {}).get("labels") or {}
    if (selector is None or not is_empty(selector)) and not matches(selector, labels):
        errors.append(invalid("spec.template.metadata.labels", labels or None, _NO_MATCH))
    _always_template(errors, template, owner)


def _always_template(errors: Errors, template: Json, owner: str) -> None:
    """Validate a pod template whose restart policy must be Always."""
    pod_template_errors(errors, template, "spec.template")
    spec = template.get("spec") or {}
    if spec.get("restartPolicy") != "Always":
        errors.append(not_supported("spec.template.spec.restartPolicy", spec.get("restartPolicy") or "", ("Always",)))
    if spec.get("activeDeadlineSeconds") is not None:
        errors.append(forbidden("spec.template.spec.activeDeadlineSeconds", f"activeDeadlineSeconds in {owner} is not Supported"))


def _deployment_strategy(errors: Errors, strategy: Json, path: str) -> None:
    kind, rolling = strategy.get("type"), strategy.get("rollingUpdate")
    if kind == "Recreate":
        if rolling is not None:
            errors.append(forbidden(f"{path}.rollingUpdate", "may not be specified when strategy `type` is 'Recreate'"))
    elif kind == "RollingUpdate":
        unavailable, surge = (rolling or {}).get("maxUnavailable", 0), (rolling or {}).get("maxSurge", 0)
        check_positive_int_or_percent(errors, unavailable, f"{path}.rollingUpdate.maxUnavailable")
        check_positive_int_or_percent(errors, surge, f"{path}.rollingUpdate.maxSurge")
        if not int_or_percent(unavailable) and not int_or_percent(surge):
            errors.append(invalid(f"{path}.rollingUpdate.maxUnavailable", unavailable, "may not be 0 when `maxSurge` is 0"))
        check_at_most_100_percent(errors, unavailable, f"{path}.rollingUpdate.maxUnavailable")
    else:
        errors.append(not_supported(path, format_go_struct(strategy, "type", "rollingUpdate"), ("Recreate", "RollingUpdate")))


def _daemon_set_strategy(errors: Errors, strategy: Json, path: str) -> None:
    kind, rolling = strategy.get("type"), strategy.get("rollingUpdate")
    if kind == "RollingUpdate":
        unavailable, surge = (rolling or {}).get("maxUnavailable", 0), (rolling or {}).get("maxSurge", 0)
        path += ".rollingUpdate"
        check_positive_int_or_percent(errors, unavailable, f"{path}.maxUnavailable")
        check_positive_int_or_percent(errors, surge, f"{path}.maxSurge")
        check_at_most_100_percent(errors, unavailable, f"{path}.maxUnavailable")
        check_at_most_100_percent(errors, surge, f"{path}.maxSurge")
        if int_or_percent(unavailable) and int_or_percent(surge):
            errors.append(invalid(f"{path}.maxSurge", surge, "may not be set when maxUnavailable is non-zero"))
        elif not int_or_percent(unavailable) and not int_or_percent(surge):
            errors.append(required(f"{path}.maxUnavailable", "cannot be 0 when maxSurge is 0"))
    elif kind != "OnDelete":
        errors.append(not_supported(path, format_go_struct(strategy, "type", "rollingUpdate"), ("RollingUpdate", "OnDelete")))


def _stateful_set_strategy(errors: Errors, strategy: Json, path: str) -> None:
    kind, rolling = strategy.get("type") or "", strategy.get("rollingUpdate")
    if not kind:
        errors.append(required(path))
    elif kind == "OnDelete":
        if rolling is not None:
            errors.append(
                invalid(
                    f"{path}.rollingUpdate",
                    format_go_struct(rolling, "partition", "maxUnavailable"),
                    "only allowed for updateStrategy 'RollingUpdate'",
                )
            )
    elif kind == "RollingUpdate":
        check_none_negative(errors, rolling or {}, f"{path}.rollingUpdate", "partition")
    else:
        errors.append(invalid(path, format_go_struct(strategy, "type", "rollingUpdate"), "must be 'RollingUpdate' or 'OnDelete'"))


def _with_claims(spec: Json) -> Json:
    """The template with one volume per volumeClaimTemplate, since volume mounts can refer to them."""
    template = dict(spec.get("template") or {})
    pod = {name: value for name, value in (template.get("spec") or {}).items() if name not in ("hostname", "subdomain")}
    names = [(claim.get("metadata") or {}).get("name") for claim in spec.get("volumeClaimTemplates") or ()]
    if names:
        claimed = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in dict.fromkeys(names)]
        pod["volumes"] = claimed + [volume for volume in pod.get("volumes") or () if volume.get("name") not in names]
    return template | {"spec": pod}
