"""Jobs and CronJobs."""

from __future__ import annotations

import re
from itertools import product
from typing import TYPE_CHECKING

from sliceworks.base import cron_schedule
from sliceworks.schemas.field_errors import OMITTED
from sliceworks.twin.apiserver.validation import error_list
from sliceworks.twin.apiserver.validation.apps import validate_template_labels
from sliceworks.twin.apiserver.validation.error_list import list_items
from sliceworks.twin.apiserver.validation.pod import validate_pod_template
from sliceworks.twin.apiserver.validation.selectors import validate_label_selector

if TYPE_CHECKING:
    from sliceworks.twin.apiserver.validation.defaults import Json
    from sliceworks.twin.apiserver.validation.error_list import ErrorList

_is_zone_part = re.compile(r"[A-Za-z.\-_0-9+]{1,14}").fullmatch
_ACTIONS = ("Count", "FailIndex", "FailJob", "Ignore")
_INDEXED_ONLY = "requires indexed completion mode"
_MAX_PARALLELISM = 100_000
_MAX_FAILED_INDEXES = 100_000
_MANY_COMPLETIONS = 100_000
_MAX_WITH_MANY_COMPLETIONS = 10_000
_MAX_RULES = 20
_MAX_EXIT_CODES = 255
_MAX_MANAGER_LENGTH = 63
_MAX_INDEXES_LENGTH = 64 * 1024
_MAX_CRON_JOB_LENGTH = 52
_MUTABLE_WHEN_SUSPENDED = ("nodeSelector", "tolerations", "schedulingGates", "affinity")


def validate_schedule(errors: ErrorList, schedule: str, path: str) -> None:
    if not schedule:
        errors.required(path)
        return
    try:
        cron_schedule.parse(schedule)
    except ValueError as error:
        errors.invalid(path, schedule, str(error))
    if "TZ" in schedule:
        errors.invalid(path, schedule, "cannot use TZ or CRON_TZ in schedule, use timeZone field instead")


def validate_time_zone(errors: ErrorList, zone: str | None, path: str) -> None:
    if zone is None:
        return
    if not zone:
        errors.invalid(path, zone, "timeZone must be nil or non-empty string")
        return
    if any(part in (".", "..") or part.startswith("-") or not _is_zone_part(part) for part in zone.split("/")):
        errors.invalid(path, zone, f"unknown time zone {zone}")
        return
    if zone.casefold() == "local":
        detail = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"
        errors.invalid(path, zone, detail)
    if zone != "Local" and cron_schedule.find_zone(zone) is None:
        errors.invalid(path, zone, f"unknown time zone {zone}")


def validate_job(errors: ErrorList, obj: Json) -> None:
    """Validate a Job whose selector the API server has already generated."""
    spec, name = obj.get("spec") or {}, (obj.get("metadata") or {}).get("name") or ""
    validate_job_spec(errors, spec, "spec")
    selector = spec.get("selector")
    if selector is None:
        errors.required("spec.selector")
    else:
        validate_label_selector(errors, selector, "spec.selector")
    validate_template_labels(errors, selector, spec.get("template") or {})
    completions = spec.get("completions") or 0
    if spec.get("completionMode") == "Indexed" and completions > 0:
        hostname = f"{name}-{completions - 1}"
        if error_list.dns1123_label_errors(hostname):
            errors.invalid("metadata.name", name, f"will not able to create pod with invalid DNS label: {hostname}")


def validate_cron_job(errors: ErrorList, obj: Json) -> None:
    spec, name = obj.get("spec") or {}, (obj.get("metadata") or {}).get("name") or ""
    validate_schedule(errors, spec.get("schedule") or "", "spec.schedule")
    errors.check_not_negative(spec, "spec", "startingDeadlineSeconds")
    validate_time_zone(errors, spec.get("timeZone"), "spec.timeZone")
    errors.check_enum(spec, "spec", "concurrencyPolicy", ("Allow", "Forbid", "Replace"))
    template = (spec.get("jobTemplate") or {}).get("spec") or {}
    validate_job_spec(errors, template, "spec.jobTemplate.spec")
    if template.get("selector") is not None:
        errors.invalid("spec.jobTemplate.spec.selector", template["selector"], "`selector` will be auto-generated")
    if template.get("manualSelector"):
        errors.not_supported("spec.jobTemplate.spec.manualSelector", True, ("nil", "false"))
    errors.check_not_negative(spec, "spec", "successfulJobsHistoryLimit", "failedJobsHistoryLimit")
    if len(name) > _MAX_CRON_JOB_LENGTH and not (obj.get("metadata") or {}).get("resourceVersion"):
        errors.invalid("metadata.name", name, f"must be no more than {_MAX_CRON_JOB_LENGTH} characters")


def validate_job_spec(errors: ErrorList, spec: Json, path: str) -> None:
    errors.check_not_negative(
        spec, path, "parallelism", "completions", "activeDeadlineSeconds", "backoffLimit", "ttlSecondsAfterFinished"
    )
    errors.check_not_negative(spec, path, "backoffLimitPerIndex", "maxFailedIndexes")
    if spec.get("maxFailedIndexes") is not None and spec.get("backoffLimitPerIndex") is None:
        errors.required(f"{path}.backoffLimitPerIndex", "when maxFailedIndexes is specified")
    if (manager := spec.get("managedBy")) is not None:
        errors.check_domain_prefixed_path(manager, f"{path}.managedBy")
        if len(manager) > _MAX_MANAGER_LENGTH:
            errors.too_long(f"{path}.managedBy", _MAX_MANAGER_LENGTH)
    mode = spec.get("completionMode")
    errors.check_optional_enum(spec, path, "completionMode", ("NonIndexed", "Indexed"))
    if mode == "Indexed":
        _validate_indexed_job(errors, spec, path)
    elif mode in (None, "NonIndexed"):
        for field in ("backoffLimitPerIndex", "maxFailedIndexes"):
            if spec.get(field) is not None:
                errors.invalid(f"{path}.{field}", spec[field], _INDEXED_ONLY)
    if (failure := spec.get("podFailurePolicy")) is not None:
        _validate_failure_policy(errors, failure, spec, f"{path}.podFailurePolicy")
    if (success := spec.get("successPolicy")) is not None:
        if mode != "Indexed":
            errors.invalid(f"{path}.successPolicy", success, _INDEXED_ONLY)
        else:
            _validate_success_policy(errors, success, spec.get("completions") or 0, f"{path}.successPolicy")
    replacements = ("Failed", "TerminatingOrFailed") if failure is None else ("Failed",)
    errors.check_optional_enum(spec, path, "podReplacementPolicy", replacements)
    validate_pod_template(errors, spec.get("template") or {}, f"{path}.template")
    _validate_restart_policy(errors, spec, f"{path}.template.spec.restartPolicy")


def validate_job_update(errors: ErrorList, new: Json, old: Json) -> None:
    now, before = new.get("spec") or {}, old.get("spec") or {}
    completions, previous = now.get("completions"), before.get("completions")
    if now.get("completionMode") != "Indexed":
        errors.check_immutable(completions, previous, "spec.completions")
    elif completions is not None and completions != previous and completions != now.get("parallelism"):
        errors.invalid("spec.completions", completions, "can only be modified in tandem with spec.parallelism")
    errors.check_unchanged(now, before, "spec", "selector")
    template, old_template = now.get("template") or {}, before.get("template") or {}
    mutable = bool(before.get("suspend")) and not (old.get("status") or {}).get("startTime")
    if template != old_template and (not mutable or _without_scheduling(template) != _without_scheduling(old_template)):
        errors.invalid("spec.template", template, "field is immutable")
    immutable = ("completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy")
    errors.check_unchanged(now, before, "spec", *immutable)


def validate_job_status(errors: ErrorList, new: Json, old: Json) -> None:
    status, before, spec = new.get("status") or {}, old.get("status") or {}, new.get("spec") or {}
    errors.check_not_negative(status, "status", "active", "succeeded", "failed", "ready", "terminating")
    true, was_true = _true(status), _true(before)
    _validate_job_conditions(errors, true, was_true)
    complete, finished = "Complete" in true, bool({"Complete", "Failed"} & true)
    start, end = status.get("startTime"), status.get("completionTime")
    if end and not complete:
        errors.invalid("status.completionTime", end, "cannot set completionTime when there is no Complete=True condition")
    if complete and not end:
        errors.required("status.completionTime", "completionTime is required for Complete jobs")
    if start and end and end < start:
        errors.invalid("status.completionTime", end, "must be equal to or after `startTime`")
    if finished and not start and not (spec.get("suspend") and spec.get("completions") == 0):
        errors.required("status.startTime", "startTime is required for finished job")
    for field in ("active", "terminating"):
        if finished and (status.get(field) or 0) > 0:
            errors.invalid(f"status.{field}", status[field], f"{field}>0 is invalid for finished job")
    if (status.get("ready") or 0) > (status.get("active") or 0):
        errors.invalid("status.ready", status.get("ready"), "cannot set more ready pods than active")
    _validate_job_indexes(errors, status, spec)
    for field in ("failed", *(() if _is_elastic(spec) else ("succeeded",))):
        if (status.get(field) or 0) < (before.get(field) or 0) and not was_true:
            errors.invalid(f"status.{field}", status.get(field) or 0, f"cannot decrease the {field} counter")
    if before.get("completionTime") and end and end != before["completionTime"]:
        errors.invalid("status.completionTime", end, "field is immutable")
    resumes = "Suspended" in was_true and _is_false(status, "Suspended")
    if before.get("startTime") and start != before["startTime"] and not spec.get("suspend") and not resumes:
        errors.required("status.startTime", "startTime cannot be removed for unsuspended job")


def _true(status: Json) -> set[str]:
    return {condition.get("type") or "" for condition in status.get("conditions") or () if condition.get("status") == "True"}


def _is_false(status: Json, kind: str) -> bool:
    return any(condition.get("type") == kind and condition.get("status") == "False" for condition in status.get("conditions") or ())


def _is_elastic(spec: Json) -> bool:
    """Whether the Job can be scaled down, which leaves succeeded indexes out of range."""
    return bool(spec.get("completionMode") == "Indexed" and spec.get("completions") == spec.get("parallelism"))


def _validate_job_conditions(errors: ErrorList, true: set[str], was_true: set[str]) -> None:
    path = "status.conditions"
    for condition, other in product(("Complete", "SuccessCriteriaMet"), ("Failed", "FailureTarget")):
        if {condition, other} <= true:
            errors.invalid(path, OMITTED, f"cannot set {condition}=True and {other}=true conditions")
    for condition, needed in (("Failed", "FailureTarget"), ("Complete", "SuccessCriteriaMet")):
        if condition in true and needed not in true:
            errors.invalid(path, OMITTED, f"cannot set {condition}=True condition without the {needed}=true condition")
    for kind in ("Failed", "Complete", "FailureTarget"):
        if kind in was_true and kind not in true:
            errors.invalid(path, OMITTED, f"cannot disable the terminal {kind}=True condition")
    if "SuccessCriteriaMet" in was_true and "SuccessCriteriaMet" not in true:
        errors.invalid(path, OMITTED, "cannot disable the SuccessCriteriaMet=True condition")


def _validate_job_indexes(errors: ErrorList, status: Json, spec: Json) -> None:
    completions = spec.get("completions")
    done, failed = status.get("completedIndexes") or "", status.get("failedIndexes")
    if done and spec.get("completionMode") != "Indexed":
        errors.invalid("status.completedIndexes", done, "cannot set non-empty completedIndexes when non-indexed completion mode")
    if failed is not None and spec.get("backoffLimitPerIndex") is None:
        errors.invalid("status.failedIndexes", failed, "cannot set non-null failedIndexes when backoffLimitPerIndex is null")
    if completions is None:
        return
    counted = {"completedIndexes": done}
    if failed is not None and spec.get("backoffLimitPerIndex") is not None:
        counted["failedIndexes"] = failed
    for field, text in counted.items():
        try:
            indexes_total(text, completions)
        except ValueError as error:
            errors.invalid(f"status.{field}", text, f"error parsing {field}: {error}")


def indexes_total(text: str, completions: int) -> int:
    """The number of indexes in an interval list such as `1,3-5`. Raises ValueError with Kubernetes' message."""
    total, last = 0, -1
    for part in text.split(",") if text else ():
        first, end = _interval(part, completions)
        if last >= first:
            raise ValueError(f"non-increasing order, previous: {last}, current: {first}")
        total, last = total + end - first + 1, end
    return total


def _interval(part: str, completions: int) -> tuple[int, int]:
    limits = part.split("-")
    if len(limits) > 2:
        raise ValueError(
            f"the fragment \"{part}\" violates the requirement that an index interval can have at most two parts separated by '-'"
        )
    numbers = []
    for limit in limits:
        if not re.fullmatch(r"[+-]?\d+", limit, re.ASCII):
            raise ValueError(f'cannot convert string to integer for index: "{limit}"')
        if int(limit) >= completions:
            raise ValueError(f'too large index: "{limit}"')
        numbers.append(int(limit))
    if len(numbers) == 2 and numbers[0] >= numbers[1]:
        raise ValueError(f"non-increasing order, previous: {numbers[0]}, current: {numbers[1]}")
    return numbers[0], numbers[-1]


def _validate_indexed_job(errors: ErrorList, spec: Json, path: str) -> None:
    completions, parallelism, failed = spec.get("completions"), spec.get("parallelism") or 0, spec.get("maxFailedIndexes")
    if completions is None:
        errors.required(f"{path}.completions", "when completion mode is Indexed")
    if parallelism > _MAX_PARALLELISM:
        detail = f"must be less than or equal to {_MAX_PARALLELISM} when completion mode is Indexed"
        errors.invalid(f"{path}.parallelism", parallelism, detail)
    if completions is not None and failed is not None and failed > completions:
        errors.invalid(f"{path}.maxFailedIndexes", failed, "must be less than or equal to completions")
    if failed is not None and failed > _MAX_FAILED_INDEXES:
        errors.invalid(f"{path}.maxFailedIndexes", failed, f"must be less than or equal to {_MAX_FAILED_INDEXES}")
    if (completions or 0) > _MANY_COMPLETIONS and spec.get("backoffLimitPerIndex") is not None:
        context = f"completions are above {_MANY_COMPLETIONS} and used with backoff limit per index"
        detail = f"must be less than or equal to {_MAX_WITH_MANY_COMPLETIONS} when {context}"
        if failed is None:
            errors.required(f"{path}.maxFailedIndexes", f"must be specified when completions is above {_MANY_COMPLETIONS}")
        if parallelism > _MAX_WITH_MANY_COMPLETIONS:
            errors.invalid(f"{path}.parallelism", parallelism, detail)
        if failed is not None and failed > _MAX_WITH_MANY_COMPLETIONS:
            errors.invalid(f"{path}.maxFailedIndexes", failed, detail)


def _validate_failure_policy(errors: ErrorList, policy: Json, spec: Json, path: str) -> None:
    errors.check_count(policy.get("rules") or (), f"{path}.rules", _MAX_RULES)
    pod = (spec.get("template") or {}).get("spec") or {}
    containers = {container.get("name") for field in ("containers", "initContainers") for container in pod.get(field) or ()}
    for rule, child_path in list_items(policy, path, "rules"):
        codes, conditions = rule.get("onExitCodes"), rule.get("onPodConditions") or []
        _validate_listed_enum(errors, rule, child_path, "action", _ACTIONS)
        if rule.get("action") == "FailIndex" and spec.get("backoffLimitPerIndex") is None:
            errors.invalid(f"{child_path}.action", "FailIndex", "requires the backoffLimitPerIndex to be set")
        if codes is not None:
            _validate_exit_codes(errors, codes, containers, f"{child_path}.onExitCodes")
        _validate_pod_conditions(errors, conditions, f"{child_path}.onPodConditions")
        if codes is not None and conditions:
            errors.invalid(child_path, OMITTED, "specifying both OnExitCodes and OnPodConditions is not supported")
        if codes is None and not conditions:
            errors.invalid(child_path, OMITTED, "specifying one of OnExitCodes and OnPodConditions is required")


def _validate_exit_codes(errors: ErrorList, codes: Json, containers: set[str | None], path: str) -> None:
    operator, name, values = codes.get("operator"), codes.get("containerName"), codes.get("values") or []
    _validate_listed_enum(errors, codes, path, "operator", ("In", "NotIn"))
    if name is not None and name not in containers:
        detail = "must be one of the container or initContainer names in the pod template"
        errors.invalid(f"{path}.containerName", name, detail)
    if not values:
        errors.invalid(f"{path}.values", codes.get("values"), "at least one value is required")
    errors.check_count(values, f"{path}.values", _MAX_EXIT_CODES)
    seen: set[int] = set()
    for index, value in enumerate(values):
        if operator == "In" and value == 0:
            errors.invalid(f"{path}.values[{index}]", value, "must not be 0 for the In operator")
        errors.check_unique(seen, value, f"{path}.values[{index}]")
    if values != sorted(values):
        errors.invalid(f"{path}.values", values, "must be ordered")


def _validate_pod_conditions(errors: ErrorList, conditions: list[Json], path: str) -> None:
    errors.check_count(conditions, path, _MAX_RULES)
    for index, condition in enumerate(conditions):
        errors.check_qualified_name(condition.get("type") or "", f"{path}[{index}].type")
        _validate_listed_enum(errors, condition, f"{path}[{index}]", "status", ("False", "True", "Unknown"))


def _validate_listed_enum(errors: ErrorList, struct: Json, path: str, field: str, allowed: tuple[str, ...]) -> None:
    """Validate an enum whose values are listed if it is not set."""
    listed = " ".join(f'"{value}"' for value in allowed)
    errors.check_enum(struct, path, field, allowed, absent=f"valid values: [{listed}]")


def _validate_success_policy(errors: ErrorList, policy: Json, completions: int, path: str) -> None:
    if not policy.get("rules"):
        errors.required(f"{path}.rules", "at least one rules must be specified when the successPolicy is specified")
    errors.check_count(policy.get("rules") or (), f"{path}.rules", _MAX_RULES)
    for rule, rule_path in list_items(policy, path, "rules"):
        _validate_success_rule(errors, rule, completions, rule_path)


def _validate_success_rule(errors: ErrorList, rule: Json, completions: int, path: str) -> None:
    count, indexes, total = rule.get("succeededCount"), rule.get("succeededIndexes"), 0
    if count is None and indexes is None:
        errors.required(path, "at least one of succeededCount or succeededIndexes must be specified")
    if indexes is not None:
        if len(indexes) > _MAX_INDEXES_LENGTH:
            errors.too_long(f"{path}.succeededIndexes", _MAX_INDEXES_LENGTH)
        try:
            total = indexes_total(indexes, completions)
        except ValueError as error:
            errors.invalid(f"{path}.succeededIndexes", indexes, f"error parsing succeededIndexes: {error}")
    if count is None:
        return
    errors.check_not_negative(rule, path, "succeededCount")
    if count > completions:
        detail = f"must be less than or equal to {completions} (the number of specified completions)"
        errors.invalid(f"{path}.succeededCount", count, detail)
    if indexes is not None and count > total:
        detail = f"must be less than or equal to {total} (the number of indexes in the specified succeededIndexes field)"
        errors.invalid(f"{path}.succeededCount", count, detail)


def _validate_restart_policy(errors: ErrorList, spec: Json, path: str) -> None:
    policy = ((spec.get("template") or {}).get("spec") or {}).get("restartPolicy") or ""
    if policy in ("Always", ""):
        errors.required(path, 'valid values: "OnFailure", "Never"')
    elif policy not in ("OnFailure", "Never"):
        errors.not_supported(path, policy, ("OnFailure", "Never"))
    elif spec.get("podFailurePolicy") is not None and policy != "Never":
        errors.invalid(path, policy, 'only "Never" is supported when podFailurePolicy is specified')


def _without_scheduling(template: Json) -> Json:
    """The pod spec without its scheduling directives, which are mutable while a Job that has not started is suspended."""
    spec = template.get("spec") or {}
    affinity = {name: value for name, value in (spec.get("affinity") or {}).items() if name != "nodeAffinity"}
    return {**{name: value for name, value in spec.items() if name not in _MUTABLE_WHEN_SUSPENDED}, "affinity": affinity}
