"""What JobSet's webhook refuses: JobSets that cannot work, and changes to those that run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from sliceworks.base import names
from sliceworks.base.errors import ApiError
from sliceworks.schemas import field_errors
from sliceworks.schemas.field_errors import FieldError, invalid, too_long
from sliceworks.schemas.rules.texts import Errors, domain_prefixed_path
from sliceworks.twin.workloads.jobset import gates
from sliceworks.twin.workloads.jobset.keys import COORDINATOR, GROUP, KIND, Obj, coordinator, job_name, replicas, replicated_jobs
from sliceworks.twin.workloads.jobset.policies import failure_policy_errors, problem

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from sliceworks.twin.admission.context import Admission

E = TypeVar("E", bound=ApiError)
_MOST = 2**31 - 1
_LONGEST_MANAGER = 63
_LENGTH = names.too_long(63)
_IMMUTABLE = "field is immutable"
_MUTABLE_METADATA = ("annotations", "labels")
_MUTABLE_SPEC = ("nodeSelector", "tolerations", "schedulingGates")


def denied(webhook: str, error: E) -> E:
    """The refusal as it comes out of the API when a webhook has spoken it."""
    text = f'admission webhook "{webhook}" denied the request: {error.message}'
    return type(error)(text, code=error.code, reason=error.reason, details=error.details)


def check_new(ctx: Admission, obj: Obj, old: Mapping[str, Any] | None) -> None:
    errors = list(_errors(obj, restart_job=gates.restart_job(ctx.get)))
    if errors:
        raise denied("vjobset.kb.io", field_errors.refusal(GROUP, KIND, obj["metadata"].get("name", ""), errors))
    if obj["spec"].get("volumeClaimPolicies"):
        ctx.warn("spec.volumeClaimPolicies: the twin makes no claims for JobSets")


def check_change(ctx: Admission, obj: Obj, old: Mapping[str, Any] | None) -> None:
    assert old is not None
    errors = list(_change_errors(obj, old))
    if errors:
        raise denied("vjobset.kb.io", field_errors.refusal(GROUP, KIND, obj["metadata"].get("name", ""), errors))


def _errors(obj: Obj, *, restart_job: bool) -> Iterator[FieldError]:
    spec, jobs = obj["spec"], replicated_jobs(obj)
    policy = spec.get("failurePolicy")
    if policy is not None and policy.get("restartStrategy") == "InPlaceRestart":
        yield problem("InPlaceRestart restart strategy cannot be set when InPlaceRestart feature gate is disabled")
    if jobs and jobs[0].get("dependsOn") is not None:
        yield problem("DependsOn can't be set for the first ReplicatedJob")
    yield from _subdomain_errors((spec.get("network") or {}).get("subdomain") or "")
    if spec.get("managedBy") is not None:
        yield from _manager_errors(spec["managedBy"])
    known: list[str] = []
    for number, job in enumerate(jobs):
        known.append(job["name"])
        yield from _job_errors(obj, job, f"spec.replicatedJobs[{number}]", known)
    for name in spec["successPolicy"].get("targetReplicatedJobs") or ():
        if name not in known:
            yield problem(f"invalid replicatedJob name '{name}' does not appear in .spec.ReplicatedJobs")
    if policy is not None:
        yield from failure_policy_errors(policy, jobs, known, restart_job=restart_job)
    if spec.get("coordinator") is not None:
        yield from _coordinator_errors(obj)


def _manager_errors(manager: str) -> Errors:
    errors: Errors = []
    domain_prefixed_path(errors, manager, "spec.managedBy")
    if len(manager.encode()) > _LONGEST_MANAGER:
        errors.append(too_long("spec.managedBy", _LONGEST_MANAGER))
    return errors


def _subdomain_errors(subdomain: str) -> Iterator[FieldError]:
    if not subdomain:
        return
    path = "spec.network.subdomain"
    for text in names.dns1123_subdomain_errors(subdomain):
        yield invalid(path, subdomain, text)
    yield from _label_errors(path, subdomain, ".spec.network.subdomain is too long, must be less than 63 characters")


def _label_errors(path: str, value: str, when_long: str, *, shown: str = "") -> Iterator[FieldError]:
    for text in names.dns1035_label_errors(value):
        yield invalid(path, shown or value, when_long if _LENGTH in text else text)


def _job_errors(obj: Obj, job: Obj, path: str, known: list[str]) -> Iterator[FieldError]:
    spec, count = job["template"]["spec"], replicas(job)
    if spec.get("parallelism", 1) * count > _MOST:
        yield problem(f"the product of replicas and parallelism must not exceed {_MOST} for replicatedJob '{job['name']}'")
    group = job.get("groupName", "")
    yield from _label_errors(
        f"{path}.groupName", group, ".spec.replicatedJob[].groupName is too long, must be less than 63 characters"
    )
    longest = job_name(obj["metadata"].get("name", ""), job["name"], count - 1)
    text = "JobSet name is too long, {} names generated for this JobSet will exceed 63 characters"
    yield from _label_errors(f"{path}.name", longest, text.format("job"))
    if spec.get("completionMode") == "Indexed" and spec.get("completions") is not None:
        pod = f"{longest}-{spec['completions'] - 1}-abcde"
        yield from _label_errors(f"{path}.name", pod, text.format("pod"), shown=longest)
    for dependency in job.get("dependsOn") or ():
        if dependency["name"] not in known:
            yield problem(f"replicatedJob: {job['name']} cannot depend on replicatedJob: {dependency['name']}")


def _coordinator_errors(obj: Obj) -> Iterator[FieldError]:
    text = _coordinator_problem(obj)
    if text:
        yield problem(text)
    value = coordinator(obj)
    errors = names.label_value_errors(value)
    if errors:
        yield problem(
            f'spec will lead to invalid label value "{value}" for coordinator label "{COORDINATOR}" '
            f"(long JobSet / ReplicatedJob / SubDomain name?): {', '.join(errors)}"
        )


def _coordinator_problem(obj: Obj) -> str:
    chosen = obj["spec"]["coordinator"]
    name, index, pod = chosen["replicatedJob"], chosen.get("jobIndex", 0), chosen.get("podIndex", 0)
    job = next((each for each in replicated_jobs(obj) if each["name"] == name), None)
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


def _change_errors(new: Obj, old: Mapping[str, Any]) -> Iterator[FieldError]:
    before = {job["name"]: job for job in old["spec"].get("replicatedJobs") or ()}
    jobs = replicated_jobs(new)
    if old["spec"].get("suspend") or new["spec"].get("suspend"):
        jobs = [_munged(job, before[job["name"]]) if job["name"] in before else job for job in jobs]
    if jobs != (old["spec"].get("replicatedJobs") or []):
        yield invalid("spec.replicatedJobs", jobs, _IMMUTABLE)
    if new["spec"].get("managedBy") != old["spec"].get("managedBy"):
        yield invalid("spec.managedBy", new["spec"].get("managedBy"), _IMMUTABLE)


def _munged(job: Obj, old: Obj) -> Obj:
    """The new replicated Job with what may change while it is suspended taken from the old one."""
    template, before = job["template"]["spec"]["template"], old["template"]["spec"]["template"]
    metadata = _taken(template.get("metadata") or {}, before.get("metadata") or {}, _MUTABLE_METADATA)
    pods = {**template, "metadata": metadata, "spec": _taken(template["spec"], before["spec"], _MUTABLE_SPEC)}
    return {**job, "template": {**job["template"], "spec": {**job["template"]["spec"], "template": pods}}}


def _taken(new: Obj, old: Obj, fields: tuple[str, ...]) -> Obj:
    kept = {key: value for key, value in new.items() if key not in fields}
    return kept | {key: old[key] for key in fields if key in old}
