"""Jobs and CronJobs."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from sliceworks.schemas.field_errors import OMITTED, duplicate, invalid, not_supported, required, too_long, too_many
from sliceworks.twin.apiserver.validation import field_checks
from sliceworks.twin.apiserver.validation.field_checks import (
    Errors,
    check_domain_prefixed_path,
    check_immutable,
    check_none_negative,
    check_qualified_name,
)
from sliceworks.twin.apiserver.validation.pod import pod_template_errors
from sliceworks.twin.apiserver.validation.selectors import is_usable, matches, selector_errors

if TYPE_CHECKING:
    from sliceworks.twin.apiserver.validation.defaults import Json

_MONTHS = {
    name: number
    for number, name in enumerate(["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"], 1)
}

_DAYS = {name: number for number, name in enumerate(["sun", "mon", "tue", "wed", "thu", "fri", "sat"])}
_FIELDS: tuple[tuple[int, int, dict[str, int]], ...] = ((0, 59, {}), (0, 23, {}), (1, 31, {}), (1, 12, _MONTHS), (0, 6, _DAYS))
_NICKNAMES = ("@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly")
_is_zone_part = re.compile(r"[A-Za-z.\-_0-9+]{1,14}").fullmatch


def schedule_errors(errors: Errors, schedule: str, path: str) -> None:
    if not schedule:
        errors.append(required(path))
        return
    try:
        _parse(schedule)
    except ValueError as error:
        errors.append(invalid(path, schedule, str(error)))
    if "TZ" in schedule:
        errors.append(invalid(path, schedule, "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"))


def time_zone_errors(errors: Errors, zone: str | None, path: str) -> None:
    if zone is None:
        return
    if not zone:
        errors.append(invalid(path, zone, "timeZone must be nil or non-empty string"))
        return
    if any(part in (".", "..") or part.startswith("-") or not _is_zone_part(part) for part in zone.split("/")):
        errors.append(invalid(path, zone, f"unknown time zone {zone}"))
        return
    if zone.casefold() == "local":
        detail = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"
        errors.append(invalid(path, zone, detail))
    if zone != "Local" and not _is_known(zone):
        errors.append(invalid(path, zone, f"unknown time zone {zone}"))


def _is_known(zone: str) -> bool:
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

    try:
        ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return False
    return True


def _parse(schedule: str) -> None:
    """Raise ValueError if the schedule is not valid."""
    text = schedule
    if text.startswith(("TZ=", "CRON_TZ=")):
        zone, space, text = text.partition(" ")
        if not space:
            raise ValueError("invalid schedule format: runtime error: slice bounds out of range [:-1]")
        if not _is_known(zone.partition("=")[2]):
            raise ValueError(f"provided bad location {zone.partition('=')[2]}: unknown time zone {zone.partition('=')[2]}")
        text = text.strip()
    if text.startswith("@"):
        _nickname(text)
        return
    fields = text.split()
    if len(fields) != len(_FIELDS):
        raise ValueError(f"expected exactly {len(_FIELDS)} fields, found {len(fields)}: [{' '.join(fields)}]")
    for field, (low, high, names) in zip(fields, _FIELDS, strict=True):
        for part in field.split(","):
            if part:
                _check_part(part, low, high, names)


def _nickname(text: str) -> None:
    if text in _NICKNAMES:
        return
    if text.startswith("@every "):
        from sliceworks.base import duration

        try:
            duration.parse(text.removeprefix("@every "))
        except ValueError as error:
            raise ValueError(f"failed to parse duration {text}: {error}") from None
        return
    raise ValueError(f"unrecognized descriptor: {text}")


def _check_part(part: str, low: int, high: int, names: dict[str, int]) -> None:
    """Check one item of a schedule field: `*`, `5` or `1-5`, with an optional step."""
    span, *steps = part.split("/")
    first, last = _span(span, part, low, high, names)
    if len(steps) > 1:
        raise ValueError(f"too many slashes: {part}")
    step = _number(steps[0], {}) if steps else 1
    if steps and "-" not in span:
        last = high
    for is_invalid, words in (
        (first < low, f"beginning of range ({first}) below minimum ({low})"),
        (last > high, f"end of range ({last}) above maximum ({high})"),
        (first > last, f"beginning of range ({first}) beyond end of range ({last})"),
        (step == 0, "step of range should be a positive number"),
    ):
        if is_invalid:
            raise ValueError(f"{words}: {part}")


def _span(span: str, part: str, low: int, high: int, names: dict[str, int]) -> tuple[int, int]:
    ends = span.split("-")
    if ends[0] in ("*", "?"):
        return low, high
    first = _number(ends[0], names)
    if len(ends) > 2:
        raise ValueError(f"too many hyphens: {part}")
    return first, _number(ends[-1], names)


def _number(text: str, names: dict[str, int]) -> int:
    if text.lower() in names:
        return names[text.lower()]
    if not re.fullmatch(r"[+-]?\d+", text, re.ASCII):
        raise ValueError(f'failed to parse int from {text}: strconv.Atoi: parsing "{text}": invalid syntax')
    if int(text) < 0:
        raise ValueError(f"negative number ({int(text)}) not allowed: {text}")
    return int(text)


_ACTIONS = ("Count", "FailIndex", "FailJob", "Ignore")
_STATUSES = ("False", "True", "Unknown")
_POLICIES = ("Allow", "Forbid", "Replace")
_INDEXED_ONLY = "requires indexed completion mode"
_MOST_PARALLEL = 100_000
_MOST_FAILED = 100_000
_MANY_COMPLETIONS = 100_000
_MANY_LIMIT = 10_000
_MOST_RULES = 20
_MOST_CODES = 255
_LONGEST_MANAGER = 63
_LONGEST_INDEXES = 64 * 1024
_LONGEST_CRON_JOB = 52
_MUTABLE_WHEN_SUSPENDED = ("nodeSelector", "tolerations", "schedulingGates", "affinity")


def job_errors(obj: Json) -> Errors:
    """Errors of a Job whose selector the API server has already generated."""
    errors: Errors = []
    spec, name = obj.get("spec") or {}, (obj.get("metadata") or {}).get("name") or ""
    job_spec_errors(errors, spec, "spec")
    selector = spec.get("selector")
    if selector is None:
        errors.append(required("spec.selector"))
    else:
        selector_errors(errors, selector, "spec.selector")
    labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels") or {}
    if is_usable(selector) and not matches(selector, labels):
        errors.append(invalid("spec.template.metadata.labels", labels or None, "`selector` does not match template `labels`"))
    completions = spec.get("completions") or 0
    if spec.get("completionMode") == "Indexed" and completions > 0:
        hostname = f"{name}-{completions - 1}"
        if field_checks.dns1123_label_errors(hostname):
            errors.append(invalid("metadata.name", name, f"will not able to create pod with invalid DNS label: {hostname}"))
    return errors


def cron_job_errors(obj: Json) -> Errors:
    errors: Errors = []
    spec, name = obj.get("spec") or {}, (obj.get("metadata") or {}).get("name") or ""
    schedule_errors(errors, spec.get("schedule") or "", "spec.schedule")
    check_none_negative(errors, spec, "spec", "startingDeadlineSeconds")
    time_zone_errors(errors, spec.get("timeZone"), "spec.timeZone")
    policy = spec.get("concurrencyPolicy") or ""
    if policy not in _POLICIES:
        errors.append(not_supported("spec.concurrencyPolicy", policy, _POLICIES) if policy else required("spec.concurrencyPolicy"))
    template = (spec.get("jobTemplate") or {}).get("spec") or {}
    job_spec_errors(errors, template, "spec.jobTemplate.spec")
    if template.get("selector") is not None:
        errors.append(invalid("spec.jobTemplate.spec.selector", template["selector"], "`selector` will be auto-generated"))
    if template.get("manualSelector"):
        errors.append(not_supported("spec.jobTemplate.spec.manualSelector", True, ("nil", "false")))
    check_none_negative(errors, spec, "spec", "successfulJobsHistoryLimit", "failedJobsHistoryLimit")
    if len(name) > _LONGEST_CRON_JOB and not (obj.get("metadata") or {}).get("resourceVersion"):
        errors.append(invalid("metadata.name", name, f"must be no more than {_LONGEST_CRON_JOB} characters"))
    return errors


def job_spec_errors(errors: Errors, spec: Json, path: str) -> None:
    check_none_negative(
        errors, spec, path, "parallelism", "completions", "activeDeadlineSeconds", "backoffLimit", "ttlSecondsAfterFinished"
    )
    check_none_negative(errors, spec, path, "backoffLimitPerIndex", "maxFailedIndexes")
    if spec.get("maxFailedIndexes") is not None and spec.get("backoffLimitPerIndex") is None:
        errors.append(required(f"{path}.backoffLimitPerIndex", "when maxFailedIndexes is specified"))
    if (manager := spec.get("managedBy")) is not None:
        check_domain_prefixed_path(errors, manager, f"{path}.managedBy")
        if len(manager) > _LONGEST_MANAGER:
            errors.append(too_long(f"{path}.managedBy", _LONGEST_MANAGER))
    mode = spec.get("completionMode")
    if mode not in (None, "NonIndexed", "Indexed"):
        errors.append(not_supported(f"{path}.completionMode", mode, ("NonIndexed", "Indexed")))
    if mode == "Indexed":
        _indexed(errors, spec, path)
    elif mode in (None, "NonIndexed"):
        for field in ("backoffLimitPerIndex", "maxFailedIndexes"):
            if spec.get(field) is not None:
                errors.append(invalid(f"{path}.{field}", spec[field], _INDEXED_ONLY))
    if (failure := spec.get("podFailurePolicy")) is not None:
        _failure_policy(errors, failure, spec, f"{path}.podFailurePolicy")
    if (success := spec.get("successPolicy")) is not None:
        if mode != "Indexed":
            errors.append(invalid(f"{path}.successPolicy", success, _INDEXED_ONLY))
        else:
            _success_policy(errors, success, spec.get("completions") or 0, f"{path}.successPolicy")
    _replacement(errors, spec, f"{path}.podReplacementPolicy")
    pod_template_errors(errors, spec.get("template") or {}, f"{path}.template")
    _restart_policy(errors, spec, f"{path}.template.spec.restartPolicy")


def job_update_errors(new: Json, old: Json) -> Errors:
    errors: Errors = []
    now, before = new.get("spec") or {}, old.get("spec") or {}
    completions, previous = now.get("completions"), before.get("completions")
    if now.get("completionMode") != "Indexed":
        check_immutable(errors, completions, previous, "spec.completions")
    elif completions is not None and completions != previous and completions != now.get("parallelism"):
        errors.append(invalid("spec.completions", completions, "can only be modified in tandem with spec.parallelism"))
    check_immutable(errors, now.get("selector"), before.get("selector"), "spec.selector")
    template, old_template = now.get("template") or {}, before.get("template") or {}
    if template != old_template and (not _may_reschedule(old) or _scheduled_alike(template) != _scheduled_alike(old_template)):
        errors.append(invalid("spec.template", template, "field is immutable"))
    for field in ("completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy"):
        check_immutable(errors, now.get(field), before.get(field), f"spec.{field}")
    return errors


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


def _indexed(errors: Errors, spec: Json, path: str) -> None:
    completions, parallelism, failed = spec.get("completions"), spec.get("parallelism") or 0, spec.get("maxFailedIndexes")
    if completions is None:
        errors.append(required(f"{path}.completions", "when completion mode is Indexed"))
    if parallelism > _MOST_PARALLEL:
        detail = f"must be less than or equal to {_MOST_PARALLEL} when completion mode is Indexed"
        errors.append(invalid(f"{path}.parallelism", parallelism, detail))
    if completions is not None and failed is not None and failed > completions:
        errors.append(invalid(f"{path}.maxFailedIndexes", failed, "must be less than or equal to completions"))
    if failed is not None and failed > _MOST_FAILED:
        errors.append(invalid(f"{path}.maxFailedIndexes", failed, f"must be less than or equal to {_MOST_FAILED}"))
    if (completions or 0) > _MANY_COMPLETIONS and spec.get("backoffLimitPerIndex") is not None:
        context = f"completions are above {_MANY_COMPLETIONS} and used with backoff limit per index"
        words = f"must be less than or equal to {_MANY_LIMIT} when {context}"
        if failed is None:
            errors.append(required(f"{path}.maxFailedIndexes", f"must be specified when completions is above {_MANY_COMPLETIONS}"))
        if parallelism > _MANY_LIMIT:
            errors.append(invalid(f"{path}.parallelism", parallelism, words))
        if failed is not None and failed > _MANY_LIMIT:
            errors.append(invalid(f"{path}.maxFailedIndexes", failed, words))


def _failure_policy(errors: Errors, policy: Json, spec: Json, path: str) -> None:
    rules = policy.get("rules") or []
    if len(rules) > _MOST_RULES:
        errors.append(too_many(f"{path}.rules", len(rules), _MOST_RULES))
    pod = (spec.get("template") or {}).get("spec") or {}
    containers = {container.get("name") for field in ("containers", "initContainers") for container in pod.get(field) or ()}
    for index, rule in enumerate(rules):
        child_path = f"{path}.rules[{index}]"
        action, codes, conditions = rule.get("action") or "", rule.get("onExitCodes"), rule.get("onPodConditions") or []
        if not action:
            errors.append(required(f"{child_path}.action", f"valid values: {_listed(_ACTIONS)}"))
        elif action == "FailIndex" and spec.get("backoffLimitPerIndex") is None:
            errors.append(invalid(f"{child_path}.action", action, "requires the backoffLimitPerIndex to be set"))
        elif action not in _ACTIONS:
            errors.append(not_supported(f"{child_path}.action", action, _ACTIONS))
        if codes is not None:
            _exit_codes(errors, codes, containers, f"{child_path}.onExitCodes")
        _conditions(errors, conditions, f"{child_path}.onPodConditions")
        if codes is not None and conditions:
            errors.append(invalid(child_path, OMITTED, "specifying both OnExitCodes and OnPodConditions is not supported"))
        if codes is None and not conditions:
            errors.append(invalid(child_path, OMITTED, "specifying one of OnExitCodes and OnPodConditions is required"))


def _exit_codes(errors: Errors, codes: Json, containers: set[str | None], path: str) -> None:
    operator, name, values = codes.get("operator") or "", codes.get("containerName"), codes.get("values") or []
    if not operator:
        errors.append(required(f"{path}.operator", f"valid values: {_listed(('In', 'NotIn'))}"))
    elif operator not in ("In", "NotIn"):
        errors.append(not_supported(f"{path}.operator", operator, ("In", "NotIn")))
    if name is not None and name not in containers:
        detail = "must be one of the container or initContainer names in the pod template"
        errors.append(invalid(f"{path}.containerName", name, detail))
    if not values:
        errors.append(invalid(f"{path}.values", codes.get("values"), "at least one value is required"))
    elif len(values) > _MOST_CODES:
        errors.append(too_many(f"{path}.values", len(values), _MOST_CODES))
    seen: set[int] = set()
    for index, value in enumerate(values):
        if operator == "In" and value == 0:
            errors.append(invalid(f"{path}.values[{index}]", value, "must not be 0 for the In operator"))
        if value in seen:
            errors.append(duplicate(f"{path}.values[{index}]", value))
        seen.add(value)
    if values != sorted(values):
        errors.append(invalid(f"{path}.values", values, "must be ordered"))


def _conditions(errors: Errors, conditions: list[Json], path: str) -> None:
    if len(conditions) > _MOST_RULES:
        errors.append(too_many(path, len(conditions), _MOST_RULES))
    for index, condition in enumerate(conditions):
        check_qualified_name(errors, condition.get("type") or "", f"{path}[{index}].type")
        status = condition.get("status") or ""
        if not status:
            errors.append(required(f"{path}[{index}].status", f"valid values: {_listed(_STATUSES)}"))
        elif status not in _STATUSES:
            errors.append(not_supported(f"{path}[{index}].status", status, _STATUSES))


def _success_policy(errors: Errors, policy: Json, completions: int, path: str) -> None:
    rules = policy.get("rules") or []
    if not rules:
        errors.append(required(f"{path}.rules", "at least one rules must be specified when the successPolicy is specified"))
    if len(rules) > _MOST_RULES:
        errors.append(too_many(f"{path}.rules", len(rules), _MOST_RULES))
    for index, rule in enumerate(rules):
        _success_rule(errors, rule, completions, f"{path}.rules[{index}]")


def _success_rule(errors: Errors, rule: Json, completions: int, path: str) -> None:
    count, indexes, total = rule.get("succeededCount"), rule.get("succeededIndexes"), 0
    if count is None and indexes is None:
        errors.append(required(path, "at least one of succeededCount or succeededIndexes must be specified"))
    if indexes is not None:
        if len(indexes) > _LONGEST_INDEXES:
            errors.append(too_long(f"{path}.succeededIndexes", _LONGEST_INDEXES))
        try:
            total = indexes_total(indexes, completions)
        except ValueError as error:
            errors.append(invalid(f"{path}.succeededIndexes", indexes, f"error parsing succeededIndexes: {error}"))
    if count is None:
        return
    check_none_negative(errors, rule, path, "succeededCount")
    if count > completions:
        detail = f"must be less than or equal to {completions} (the number of specified completions)"
        errors.append(invalid(f"{path}.succeededCount", count, detail))
    if indexes is not None and count > total:
        detail = f"must be less than or equal to {total} (the number of indexes in the specified succeededIndexes field)"
        errors.append(invalid(f"{path}.succeededCount", count, detail))


def _replacement(errors: Errors, spec: Json, path: str) -> None:
    policy = spec.get("podReplacementPolicy")
    allowed = ("Failed", "TerminatingOrFailed") if spec.get("podFailurePolicy") is None else ("Failed",)
    if policy is not None and policy not in allowed:
        errors.append(not_supported(path, policy, allowed))


def _restart_policy(errors: Errors, spec: Json, path: str) -> None:
    policy = ((spec.get("template") or {}).get("spec") or {}).get("restartPolicy") or ""
    if policy in ("Always", ""):
        errors.append(required(path, 'valid values: "OnFailure", "Never"'))
    elif policy not in ("OnFailure", "Never"):
        errors.append(not_supported(path, policy, ("OnFailure", "Never")))
    elif spec.get("podFailurePolicy") is not None and policy != "Never":
        errors.append(invalid(path, policy, 'only "Never" is supported when podFailurePolicy is specified'))


def _may_reschedule(old: Json) -> bool:
    """Whether the scheduling directives are still mutable: the Job is suspended and has not started."""
    return bool((old.get("spec") or {}).get("suspend")) and not (old.get("status") or {}).get("startTime")


def _scheduled_alike(template: Json) -> Json:
    """The template without its scheduling directives."""
    spec = {name: value for name, value in (template.get("spec") or {}).items() if name not in _MUTABLE_WHEN_SUSPENDED}
    affinity = {
        name: value for name, value in ((template.get("spec") or {}).get("affinity") or {}).items() if name != "nodeAffinity"
    }
    return {"spec": spec, "affinity": affinity}


def _listed(values: tuple[str, ...]) -> str:
    return "[" + " ".join(f'"{value}"' for value in values) + "]"
