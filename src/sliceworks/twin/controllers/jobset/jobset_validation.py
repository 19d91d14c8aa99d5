"""JobSet's validating webhook."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, TypeVar

from sliceworks.base import names
from sliceworks.base.errors import ApiError
from sliceworks.schemas import field_errors
from sliceworks.schemas.field_errors import FieldError, invalid, too_long
from sliceworks.twin.apiserver.validation.error_list import ErrorList
from sliceworks.twin.controllers.jobset import jobset_api
from sliceworks.twin.controllers.jobset.jobset_api import (
    COORDINATOR,
    GROUP,
    KIND,
    Obj,
    coordinator_endpoint,
    job_name,
    replicas,
    replicated_jobs,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from sliceworks.twin.apiserver.admission.chain import Admission


_FAILURE_REASONS = ("BackoffLimitExceeded", "DeadlineExceeded", "FailedIndexes", "MaxFailedIndexesExceeded", "PodFailurePolicy")
_RESTART_JOB_ACTIONS = ("RestartJob", "RestartJobAndIgnoreMaxRestarts")
_RULE_NAME = re.compile(r"[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?\Z", re.ASCII)
_MAX_REPLICAS = 1024


def general_error(message: str) -> FieldError:
    """An error without a field."""
    return FieldError("InternalError", "", None, message)


def failure_policy_errors(policy: Obj, jobs: list[Obj], job_names: list[str], *, restart_job: bool) -> Iterator[FieldError]:
    rules = policy.get("rules") or []
    if any(rule.get("action") in _RESTART_JOB_ACTIONS for rule in rules):
        if not restart_job:
            yield general_error(
                "RestartJob and RestartJobAndIgnoreMaxRestarts failure policy actions are not allowed "
                "when RestartJob feature gate is disabled"
            )
            return
        if any(replicas(job) > _MAX_REPLICAS for job in jobs):
            yield general_error(
                "JobSet cannot have a failure policy rule with RestartJob or RestartJobAndIgnoreMaxRestarts action "
                f"and a replicated job with replicas > {_MAX_REPLICAS}"
            )
    for rule in rules:
        yield from _rule_errors(rule, job_names)
    indexes_by_name: dict[str, list[int]] = {}
    for index, rule in enumerate(rules):
        indexes_by_name.setdefault(rule["name"], []).append(index)
    for name, indexes in indexes_by_name.items():
        if len(indexes) > 1:
            shown = " ".join(map(str, indexes))
            yield general_error(f"rule names are not unique, rules with indices [{shown}] all have the same name '{name}'")


def _rule_errors(rule: Obj, job_names: list[str]) -> Iterator[FieldError]:
    name = rule["name"]
    length = len(name.encode())
    if not 1 <= length <= 128:
        yield general_error(
            f"invalid failure policy rule name of length {length}, "
            "the rule name must be at least 1 characters long and at most 128 characters long"
        )
    if not _RULE_NAME.match(name):
        yield general_error(
            f"invalid failure policy rule name '{name}', a failure policy rule name must start with an alphabetic character, "
            "optionally followed by a string of alphanumeric characters or '_,:', "
            "and must end with an alphanumeric character or '_'"
        )
    for target in rule.get("targetReplicatedJobs") or ():
        if target not in job_names:
            yield general_error(f"invalid replicatedJob name '{target}' in failure policy does not appear in .spec.ReplicatedJobs")
    for reason in rule.get("onJobFailureReasons") or ():
        if reason not in _FAILURE_REASONS:
            yield general_error(f"invalid job failure reason '{reason}' in failure policy is not a recognized job failure reason")


E = TypeVar("E", bound=ApiError)

_MAX_INT32 = 2**31 - 1
_MAX_MANAGED_BY = 63
_TOO_LONG = names.max_length_error(63)
_IMMUTABLE = "field is immutable"
_MUTABLE_METADATA = ("annotations", "labels")
_MUTABLE_SPEC = ("nodeSelector", "tolerations", "schedulingGates")


def denied(webhook: str, error: E) -> E:
    """A webhook's error as the API server returns it."""
    message = f'admission webhook "{webhook}" denied the request: {error.message}'
    return type(error)(message, code=error.code, reason=error.reason, details=error.details)


def validate_create(ctx: Admission, obj: Obj, old: Mapping[str, Any] | None) -> None:
    _deny_if_invalid(obj, _create_errors(obj, restart_job=jobset_api.is_restart_job_enabled(ctx.get)))
    if obj["spec"].get("volumeClaimPolicies"):
        ctx.warn("spec.volumeClaimPolicies: ignored; the twin does not create PersistentVolumeClaims for JobSets")


def validate_update(ctx: Admission, obj: Obj, old: Mapping[str, Any] | None) -> None:
    assert old is not None
    _deny_if_invalid(obj, _update_errors(obj, old))


def _deny_if_invalid(obj: Obj, errors: Iterator[FieldError]) -> None:
    if problems := list(errors):
        raise denied("vjobset.kb.io", field_errors.new_invalid(GROUP, KIND, obj["metadata"].get("name", ""), problems))


def _create_errors(obj: Obj, *, restart_job: bool) -> Iterator[FieldError]:
    spec, jobs = obj["spec"], replicated_jobs(obj)
    policy = spec.get("failurePolicy")
    if policy is not None and policy.get("restartStrategy") == "InPlaceRestart":
        yield general_error("InPlaceRestart restart strategy cannot be set when InPlaceRestart feature gate is disabled")
    if jobs and jobs[0].get("dependsOn") is not None:
        yield general_error("DependsOn can't be set for the first ReplicatedJob")
    yield from _subdomain_errors((spec.get("network") or {}).get("subdomain") or "")
    if spec.get("managedBy") is not None:
        yield from _managed_by_errors(spec["managedBy"])
    job_names: list[str] = []
    for number, job in enumerate(jobs):
        job_names.append(job["name"])
        yield from _job_errors(obj, job, f"spec.replicatedJobs[{number}]", job_names)
    for name in spec["successPolicy"].get("targetReplicatedJobs") or ():
        if name not in job_names:
            yield general_error(f"invalid replicatedJob name '{name}' does not appear in .spec.ReplicatedJobs")
    if policy is not None:
        yield from failure_policy_errors(policy, jobs, job_names, restart_job=restart_job)
    if spec.get("coordinator") is not None:
        yield from _coordinator_errors(obj)


def _managed_by_errors(managed_by: str) -> ErrorList:
    errors = ErrorList()
    errors.check_domain_prefixed_path(managed_by, "spec.managedBy")
    if len(managed_by.encode()) > _MAX_MANAGED_BY:
        errors.append(too_long("spec.managedBy", _MAX_MANAGED_BY))
    return errors


def _subdomain_errors(subdomain: str) -> Iterator[FieldError]:
    if not subdomain:
        return
    path = "spec.network.subdomain"
    for message in names.dns1123_subdomain_errors(subdomain):
        yield invalid(path, subdomain, message)
    yield from _label_errors(path, subdomain, ".spec.network.subdomain is too long, must be less than 63 characters")


def _label_errors(path: str, value: str, too_long_message: str, *, shown: str = "") -> Iterator[FieldError]:
    for message in names.dns1035_label_errors(value):
        yield invalid(path, shown or value, too_long_message if message == _TOO_LONG else message)


def _job_errors(obj: Obj, job: Obj, path: str, job_names: list[str]) -> Iterator[FieldError]:
    spec, count = job["template"]["spec"], replicas(job)
    if spec.get("parallelism", 1) * count > _MAX_INT32:
        yield general_error(
            f"the product of replicas and parallelism must not exceed {_MAX_INT32} for replicatedJob '{job['name']}'"
        )
    group = job.get("groupName", "")
    yield from _label_errors(
        f"{path}.groupName", group, ".spec.replicatedJob[].groupName is too long, must be less than 63 characters"
    )
    longest = job_name(obj["metadata"].get("name", ""), job["name"], count - 1)
    message = "JobSet name is too long, {} names generated for this JobSet will exceed 63 characters"
    yield from _label_errors(f"{path}.name", longest, message.format("job"))
    if spec.get("completionMode") == "Indexed" and spec.get("completions") is not None:
        pod = f"{longest}-{spec['completions'] - 1}-abcde"
        yield from _label_errors(f"{path}.name", pod, message.format("pod"), shown=longest)
    for dependency in job.get("dependsOn") or ():
        if dependency["name"] not in job_names:
            yield general_error(f"replicatedJob: {job['name']} cannot depend on replicatedJob: {dependency['name']}")


def _coordinator_errors(obj: Obj) -> Iterator[FieldError]:
    message = _coordinator_error(obj)
    if message:
        yield general_error(message)
    value = coordinator_endpoint(obj)
    errors = names.label_value_errors(value)
    if errors:
        yield general_error(
            f'spec will lead to invalid label value "{value}" for coordinator label "{COORDINATOR}" '
            f"(long JobSet / ReplicatedJob / SubDomain name?): {', '.join(errors)}"
        )


def _coordinator_error(obj: Obj) -> str:
    coordinator = obj["spec"]["coordinator"]
    name, index, pod = coordinator["replicatedJob"], coordinator.get("jobIndex", 0), coordinator.get("podIndex", 0)
    job = next((job for job in replicated_jobs(obj) if job["name"] == name), None)
    if job is None:
        return f"coordinator replicatedJob {name} does not exist"
    if not 0 <= index < replicas(job):
        return f"coordinator job index {index} is invalid for replicatedJob {name}"
    spec = job["template"]["spec"]
    if spec.get("completionMode") != "Indexed" or spec.get("completions") is None:
        return "job for coordinator pod must be indexed completion mode, and completions number must be set"
    if not 0 <= pod < spec["completions"]:
        return f"coordinator pod index {pod} is invalid for replicatedJob {name} job index {index}"
    return ""


def _update_errors(new: Obj, old: Mapping[str, Any]) -> Iterator[FieldError]:
    old_jobs = {job["name"]: job for job in old["spec"].get("replicatedJobs") or ()}
    jobs = replicated_jobs(new)
    if old["spec"].get("suspend") or new["spec"].get("suspend"):
        jobs = [_munge(job, old_jobs[job["name"]]) if job["name"] in old_jobs else job for job in jobs]
    if list(map(_normalize, jobs)) != list(map(_normalize, old_jobs.values())):
        yield invalid("spec.replicatedJobs", jobs, _IMMUTABLE)
    if new["spec"].get("managedBy") != old["spec"].get("managedBy"):
        yield invalid("spec.managedBy", new["spec"].get("managedBy"), _IMMUTABLE)


def _munge(job: Obj, old_job: Obj) -> Obj:
    """A replicated Job with the fields that are mutable while it is suspended copied from the old one."""
    template, old_template = job["template"]["spec"]["template"], old_job["template"]["spec"]["template"]
    metadata = _copy_fields(template.get("metadata") or {}, old_template.get("metadata") or {}, _MUTABLE_METADATA)
    return _with_pod_template(
        job, metadata, _copy_fields(template.get("spec") or {}, old_template.get("spec") or {}, _MUTABLE_SPEC)
    )


def _normalize(job: Obj) -> Obj:
    """A replicated Job for comparison: to Go, a missing and an empty field of these are equal."""
    template = job["template"]["spec"]["template"]
    metadata = {key: value for key, value in (template.get("metadata") or {}).items() if value}
    spec = {key: value for key, value in (template.get("spec") or {}).items() if value or key not in _MUTABLE_SPEC}
    return _with_pod_template(job, metadata, spec)


def _with_pod_template(job: Obj, metadata: Obj, spec: Obj) -> Obj:
    template = {**job["template"]["spec"]["template"], "metadata": metadata, "spec": spec}
    return {**job, "template": {**job["template"], "spec": {**job["template"]["spec"], "template": template}}}


def _copy_fields(new: Obj, old: Obj, fields: tuple[str, ...]) -> Obj:
    kept = {key: value for key, value in new.items() if key not in fields}
    return kept | {key: old[key] for key in fields if key in old}
