"""Jobs and CronJobs: completions, indexes, policies of failure and success."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from sliceworks.schemas.field_errors import OMITTED, duplicate, invalid, not_supported, required, too_long, too_many
from sliceworks.schemas.rules import name_rules
from sliceworks.schemas.rules.cron import schedule_errors, time_zone_errors
from sliceworks.schemas.rules.pods import pod_template_errors
from sliceworks.schemas.rules.selectors import is_usable, matches, selector_errors
from sliceworks.schemas.rules.texts import Errors, domain_prefixed_path, immutable, none_negative, qualified

if TYPE_CHECKING:
    from sliceworks.schemas.rules.shape import Json

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
    """The selector is there already: the API server generates it before it validates."""
    out: Errors = []
    spec, name = obj.get("spec") or {}, (obj.get("metadata") or {}).get("name") or ""
    job_spec_errors(out, spec, "spec")
    selector = spec.get("selector")
    if selector is None:
        out.append(required("spec.selector"))
    else:
        selector_errors(out, selector, "spec.selector")
    labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels") or {}
    if is_usable(selector) and not matches(selector, labels):
        out.append(invalid("spec.template.metadata.labels", labels or None, "`selector` does not match template `labels`"))
    completions = spec.get("completions") or 0
    if spec.get("completionMode") == "Indexed" and completions > 0:
        hostname = f"{name}-{completions - 1}"
        if name_rules.dns1123_label_errors(hostname):
            out.append(invalid("metadata.name", name, f"will not able to create pod with invalid DNS label: {hostname}"))
    return out


def cron_job_errors(obj: Json) -> Errors:
    out: Errors = []
    spec, name = obj.get("spec") or {}, (obj.get("metadata") or {}).get("name") or ""
    schedule_errors(out, spec.get("schedule") or "", "spec.schedule")
    none_negative(out, spec, "spec", "startingDeadlineSeconds")
    time_zone_errors(out, spec.get("timeZone"), "spec.timeZone")
    policy = spec.get("concurrencyPolicy") or ""
    if policy not in _POLICIES:
        out.append(not_supported("spec.concurrencyPolicy", policy, _POLICIES) if policy else required("spec.concurrencyPolicy"))
    template = (spec.get("jobTemplate") or {}).get("spec") or {}
    job_spec_errors(out, template, "spec.jobTemplate.spec")
    if template.get("selector") is not None:
        out.append(invalid("spec.jobTemplate.spec.selector", template["selector"], "`selector` will be auto-generated"))
    if template.get("manualSelector"):
        out.append(not_supported("spec.jobTemplate.spec.manualSelector", True, ("nil", "false")))
    none_negative(out, spec, "spec", "successfulJobsHistoryLimit", "failedJobsHistoryLimit")
    if len(name) > _LONGEST_CRON_JOB and not (obj.get("metadata") or {}).get("resourceVersion"):
        out.append(invalid("metadata.name", name, f"must be no more than {_LONGEST_CRON_JOB} characters"))
    return out


def job_spec_errors(out: Errors, spec: Json, path: str) -> None:
    none_negative(out, spec, path, "parallelism", "completions", "activeDeadlineSeconds", "backoffLimit", "ttlSecondsAfterFinished")
    none_negative(out, spec, path, "backoffLimitPerIndex", "maxFailedIndexes")
    if spec.get("maxFailedIndexes") is not None and spec.get("backoffLimitPerIndex") is None:
        out.append(required(f"{path}.backoffLimitPerIndex", "when maxFailedIndexes is specified"))
    if (manager := spec.get("managedBy")) is not None:
        domain_prefixed_path(out, manager, f"{path}.managedBy")
        if len(manager) > _LONGEST_MANAGER:
            out.append(too_long(f"{path}.managedBy", _LONGEST_MANAGER))
    mode = spec.get("completionMode")
    if mode not in (None, "NonIndexed", "Indexed"):
        out.append(not_supported(f"{path}.completionMode", mode, ("NonIndexed", "Indexed")))
    if mode == "Indexed":
        _indexed(out, spec, path)
    elif mode in (None, "NonIndexed"):
        for field in ("backoffLimitPerIndex", "maxFailedIndexes"):
            if spec.get(field) is not None:
                out.append(invalid(f"{path}.{field}", spec[field], _INDEXED_ONLY))
    if (failure := spec.get("podFailurePolicy")) is not None:
        _failure_policy(out, failure, spec, f"{path}.podFailurePolicy")
    if (success := spec.get("successPolicy")) is not None:
        if mode != "Indexed":
            out.append(invalid(f"{path}.successPolicy", success, _INDEXED_ONLY))
        else:
            _success_policy(out, success, spec.get("completions") or 0, f"{path}.successPolicy")
    _replacement(out, spec, f"{path}.podReplacementPolicy")
    pod_template_errors(out, spec.get("template") or {}, f"{path}.template")
    _restart_policy(out, spec, f"{path}.template.spec.restartPolicy")


def job_update_errors(new: Json, old: Json) -> Errors:
    out: Errors = []
    now, before = new.get("spec") or {}, old.get("spec") or {}
    completions, previous = now.get("completions"), before.get("completions")
    if now.get("completionMode") != "Indexed":
        immutable(out, completions, previous, "spec.completions")
    elif completions is not None and completions != previous and completions != now.get("parallelism"):
        out.append(invalid("spec.completions", completions, "can only be modified in tandem with spec.parallelism"))
    immutable(out, now.get("selector"), before.get("selector"), "spec.selector")
    template, old_template = now.get("template") or {}, before.get("template") or {}
    if template != old_template and (not _may_reschedule(old) or _scheduled_alike(template) != _scheduled_alike(old_template)):
        out.append(invalid("spec.template", template, "field is immutable"))
    for field in ("completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy"):
        immutable(out, now.get(field), before.get(field), f"spec.{field}")
    return out


def indexes_total(text: str, completions: int) -> int:
    """How many indexes `1,3-5` names; ValueError in Kubernetes' words."""
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


def _indexed(out: Errors, spec: Json, path: str) -> None:
    completions, parallelism, failed = spec.get("completions"), spec.get("parallelism") or 0, spec.get("maxFailedIndexes")
    if completions is None:
        out.append(required(f"{path}.completions", "when completion mode is Indexed"))
    if parallelism > _MOST_PARALLEL:
        detail = f"must be less than or equal to {_MOST_PARALLEL} when completion mode is Indexed"
        out.append(invalid(f"{path}.parallelism", parallelism, detail))
    if completions is not None and failed is not None and failed > completions:
        out.append(invalid(f"{path}.maxFailedIndexes", failed, "must be less than or equal to completions"))
    if failed is not None and failed > _MOST_FAILED:
        out.append(invalid(f"{path}.maxFailedIndexes", failed, f"must be less than or equal to {_MOST_FAILED}"))
    if (completions or 0) > _MANY_COMPLETIONS and spec.get("backoffLimitPerIndex") is not None:
        many = f"completions are above {_MANY_COMPLETIONS} and used with backoff limit per index"
        words = f"must be less than or equal to {_MANY_LIMIT} when {many}"
        if failed is None:
            out.append(required(f"{path}.maxFailedIndexes", f"must be specified when completions is above {_MANY_COMPLETIONS}"))
        if parallelism > _MANY_LIMIT:
            out.append(invalid(f"{path}.parallelism", parallelism, words))
        if failed is not None and failed > _MANY_LIMIT:
            out.append(invalid(f"{path}.maxFailedIndexes", failed, words))


def _failure_policy(out: Errors, policy: Json, spec: Json, path: str) -> None:
    rules = policy.get("rules") or []
    if len(rules) > _MOST_RULES:
        out.append(too_many(f"{path}.rules", len(rules), _MOST_RULES))
    pod = (spec.get("template") or {}).get("spec") or {}
    containers = {container.get("name") for field in ("containers", "initContainers") for container in pod.get(field) or ()}
    for index, rule in enumerate(rules):
        place = f"{path}.rules[{index}]"
        action, codes, conditions = rule.get("action") or "", rule.get("onExitCodes"), rule.get("onPodConditions") or []
        if not action:
            out.append(required(f"{place}.action", f"valid values: {_listed(_ACTIONS)}"))
        elif action == "FailIndex" and spec.get("backoffLimitPerIndex") is None:
            out.append(invalid(f"{place}.action", action, "requires the backoffLimitPerIndex to be set"))
        elif action not in _ACTIONS:
            out.append(not_supported(f"{place}.action", action, _ACTIONS))
        if codes is not None:
            _exit_codes(out, codes, containers, f"{place}.onExitCodes")
        _conditions(out, conditions, f"{place}.onPodConditions")
        if codes is not None and conditions:
            out.append(invalid(place, OMITTED, "specifying both OnExitCodes and OnPodConditions is not supported"))
        if codes is None and not conditions:
            out.append(invalid(place, OMITTED, "specifying one of OnExitCodes and OnPodConditions is required"))


def _exit_codes(out: Errors, codes: Json, containers: set[str | None], path: str) -> None:
    operator, name, values = codes.get("operator") or "", codes.get("containerName"), codes.get("values") or []
    if not operator:
        out.append(required(f"{path}.operator", f"valid values: {_listed(('In', 'NotIn'))}"))
    elif operator not in ("In", "NotIn"):
        out.append(not_supported(f"{path}.operator", operator, ("In", "NotIn")))
    if name is not None and name not in containers:
        detail = "must be one of the container or initContainer names in the pod template"
        out.append(invalid(f"{path}.containerName", name, detail))
    if not values:
        out.append(invalid(f"{path}.values", codes.get("values"), "at least one value is required"))
    elif len(values) > _MOST_CODES:
        out.append(too_many(f"{path}.values", len(values), _MOST_CODES))
    seen: set[int] = set()
    for index, value in enumerate(values):
        if operator == "In" and value == 0:
            out.append(invalid(f"{path}.values[{index}]", value, "must not be 0 for the In operator"))
        if value in seen:
            out.append(duplicate(f"{path}.values[{index}]", value))
        seen.add(value)
    if values != sorted(values):
        out.append(invalid(f"{path}.values", values, "must be ordered"))


def _conditions(out: Errors, conditions: list[Json], path: str) -> None:
    if len(conditions) > _MOST_RULES:
        out.append(too_many(path, len(conditions), _MOST_RULES))
    for index, condition in enumerate(conditions):
        qualified(out, condition.get("type") or "", f"{path}[{index}].type")
        status = condition.get("status") or ""
        if not status:
            out.append(required(f"{path}[{index}].status", f"valid values: {_listed(_STATUSES)}"))
        elif status not in _STATUSES:
            out.append(not_supported(f"{path}[{index}].status", status, _STATUSES))


def _success_policy(out: Errors, policy: Json, completions: int, path: str) -> None:
    rules = policy.get("rules") or []
    if not rules:
        out.append(required(f"{path}.rules", "at least one rules must be specified when the successPolicy is specified"))
    if len(rules) > _MOST_RULES:
        out.append(too_many(f"{path}.rules", len(rules), _MOST_RULES))
    for index, rule in enumerate(rules):
        _success_rule(out, rule, completions, f"{path}.rules[{index}]")


def _success_rule(out: Errors, rule: Json, completions: int, path: str) -> None:
    count, indexes, total = rule.get("succeededCount"), rule.get("succeededIndexes"), 0
    if count is None and indexes is None:
        out.append(required(path, "at least one of succeededCount or succeededIndexes must be specified"))
    if indexes is not None:
        if len(indexes) > _LONGEST_INDEXES:
            out.append(too_long(f"{path}.succeededIndexes", _LONGEST_INDEXES))
        try:
            total = indexes_total(indexes, completions)
        except ValueError as error:
            out.append(invalid(f"{path}.succeededIndexes", indexes, f"error parsing succeededIndexes: {error}"))
    if count is None:
        return
    none_negative(out, rule, path, "succeededCount")
    if count > completions:
        detail = f"must be less than or equal to {completions} (the number of specified completions)"
        out.append(invalid(f"{path}.succeededCount", count, detail))
    if indexes is not None and count > total:
        detail = f"must be less than or equal to {total} (the number of indexes in the specified succeededIndexes field)"
        out.append(invalid(f"{path}.succeededCount", count, detail))


def _replacement(out: Errors, spec: Json, path: str) -> None:
    policy = spec.get("podReplacementPolicy")
    allowed = ("Failed", "TerminatingOrFailed") if spec.get("podFailurePolicy") is None else ("Failed",)
    if policy is not None and policy not in allowed:
        out.append(not_supported(path, policy, allowed))


def _restart_policy(out: Errors, spec: Json, path: str) -> None:
    policy = ((spec.get("template") or {}).get("spec") or {}).get("restartPolicy") or ""
    if policy in ("Always", ""):
        out.append(required(path, 'valid values: "OnFailure", "Never"'))
    elif policy not in ("OnFailure", "Never"):
        out.append(not_supported(path, policy, ("OnFailure", "Never")))
    elif spec.get("podFailurePolicy") is not None and policy != "Never":
        out.append(invalid(path, policy, 'only "Never" is supported when podFailurePolicy is specified'))


def _may_reschedule(old: Json) -> bool:
    """A suspended job that has not started may still be told where to run."""
    return bool((old.get("spec") or {}).get("suspend")) and not (old.get("status") or {}).get("startTime")


def _scheduled_alike(template: Json) -> Json:
    """The template without what says where its pods run."""
    spec = {name: found for name, found in (template.get("spec") or {}).items() if name not in _MUTABLE_WHEN_SUSPENDED}
    affinity = {
        name: found for name, found in ((template.get("spec") or {}).get("affinity") or {}).items() if name != "nodeAffinity"
    }
    return {"spec": spec, "affinity": affinity}


def _listed(values: tuple[str, ...]) -> str:
    return "[" + " ".join(f'"{value}"' for value in values) + "]"
