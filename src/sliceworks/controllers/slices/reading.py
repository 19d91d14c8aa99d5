"""Objects of the cluster read into views. What cannot be used is a Problem in the view, never an error here."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import orjson

from sliceworks.base import clock, duration
from sliceworks.base.conditions import condition, is_true
from sliceworks.base.errors import SliceworksError
from sliceworks.controllers.slices import asks, words
from sliceworks.controllers.slices.views import (
    Attempt,
    JobSetView,
    Leader,
    Problem,
    Ref,
    Subject,
    Template,
    Told,
    WorkloadView,
)
from sliceworks.kube.resources import controller_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sliceworks.controllers.slices.asks import Ask
    from sliceworks.controllers.slices.settings import Settings

Object = dict[str, Any]
_LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)


def read_leader(pod: Mapping[str, Any], settings: Settings) -> Leader | None:
    """The view of a leader that waits and is to have a pool; None for every other pod."""
    metadata, spec, status = pod["metadata"], pod.get("spec") or {}, pod.get("status") or {}
    annotations, labels = metadata.get("annotations") or {}, metadata.get("labels") or {}
    jobset = annotations.get(words.JOBSET_NAME) or labels.get(words.JOBSET_NAME)
    index = annotations.get(words.COMPLETION_INDEX) or labels.get(words.COMPLETION_INDEX)
    if not jobset or index != "0" or metadata.get("deletionTimestamp") or status.get("phase") != "Pending":
        return None
    waiting = condition(pod, "PodScheduled")
    if waiting.get("status") != "False" or waiting.get("reason") != "Unschedulable":
        return None
    kind = asks.wanted(metadata, spec)
    owner = controller_of(pod)
    if kind is None or owner is None:
        return None
    namespace = metadata["namespace"]
    job = Ref(namespace, owner["name"])
    return Leader(
        subject=subject("v1", "Pod", metadata),
        job=job,
        job_kind=owner["kind"],
        job_key=labels.get(words.JOB_KEY, ""),
        jobset=Ref(namespace, jobset),
        template=labels.get(words.REPLICATED_JOB, ""),
        ask=_ask(kind, metadata, spec, settings),
        since=clock.parse(metadata.get("creationTimestamp")) or _LONG_AGO,
        told=told(pod, words.POD_CONDITION),
        version=version(metadata),
    )


def read_jobset(obj: Mapping[str, Any]) -> JobSetView:
    """The view of a JobSet."""
    metadata, spec = obj["metadata"], obj.get("spec") or {}
    annotations = metadata.get("annotations") or {}
    ended = next((name for name in ("Completed", "Failed") if is_true(obj, name)), "")
    suspended = bool(spec.get("suspend"))
    stopped = condition(obj, "Suspended")
    queued = words.QUEUE_NAME in (metadata.get("labels") or {})
    templates = {each["name"]: _template(each, queued) for each in spec.get("replicatedJobs") or ()}
    return JobSetView(
        subject=subject(obj.get("apiVersion", "jobset.x-k8s.io/v1alpha2"), "JobSet", metadata),
        ref=Ref(metadata.get("namespace", ""), metadata["name"]),
        ended=ended.lower(),
        ended_at=clock.parse(condition(obj, ended).get("lastTransitionTime")) if ended else None,
        deleting="deletionTimestamp" in metadata,
        suspended=suspended,
        suspended_since=_suspended_since(stopped, metadata) if suspended else None,
        queued=queued,
        drained=is_drained(obj),
        held_until=clock.parse(annotations.get(words.HELD_UNTIL)),
        time_limit=_time_limit(annotations.get(words.TIME_LIMIT)),
        jobs=frozenset(f"{metadata['name']}-{each.name}-{index}" for each in templates.values() for index in range(each.replicas)),
        templates=templates,
        attempts=_attempts(annotations.get(words.ATTEMPTS)),
        told=told(obj, words.JOBSET_CONDITION),
        version=version(metadata),
    )


def read_workload(obj: Mapping[str, Any]) -> WorkloadView | None:
    """The view of a JobSet's Workload that has admission checks; None for others."""
    metadata, status = obj["metadata"], obj.get("status") or {}
    owner = next((each for each in metadata.get("ownerReferences") or () if each["kind"] == "JobSet"), None)
    checks = {
        each["name"]: (each.get("state", "Pending"), each.get("message") or "") for each in status.get("admissionChecks") or ()
    }
    if not checks:
        return None
    reserved = condition(obj, "QuotaReserved")
    over = any(is_true(obj, name) for name in ("Finished", "Evicted"))
    assigned = (status.get("admission") or {}).get("podSetAssignments") or ()
    return WorkloadView(
        subject=subject(obj.get("apiVersion", "kueue.x-k8s.io/v1beta2"), "Workload", metadata),
        jobset=Ref(metadata.get("namespace", ""), owner["name"] if owner else ""),
        checks=checks,
        reserved_since=clock.parse(reserved.get("lastTransitionTime")),
        active=reserved.get("status") == "True" and not over and (obj.get("spec") or {}).get("active") is not False,
        flavors={each["name"]: tuple(dict.fromkeys((each.get("flavors") or {}).values())) for each in assigned},
        version=version(metadata),
    )


def planned_ask(
    template: Template, flavor: Mapping[str, Any], labels: Mapping[str, str], settings: Settings
) -> Ask | Problem | None:
    """What the pods of a template will ask for, once Kueue has put a flavor's labels and tolerations into it."""
    pod = template.pod or {}
    metadata, spec = pod.get("metadata") or {}, pod.get("spec") or {}
    selector = {**(spec.get("nodeSelector") or {}), **(flavor.get("nodeLabels") or {})}
    tolerations = [*(spec.get("tolerations") or ()), *(flavor.get("tolerations") or ())]
    whole = {**spec, "nodeSelector": selector, "tolerations": tolerations}
    kind = asks.wanted(metadata, whole)
    if kind is None:
        return None
    return _ask(kind, {**metadata, "labels": {**(metadata.get("labels") or {}), **labels}}, whole, settings)


def _ask(kind: asks.Kind, metadata: Mapping[str, Any], spec: Mapping[str, Any], settings: Settings) -> Ask | Problem:
    try:
        return asks.read(kind, metadata, spec, settings.pod_to_node_labels)
    except SliceworksError as error:
        return problem(error)


def problem(error: SliceworksError) -> Problem:
    """An error as a Problem: its kind is the reason, its line and its hint the message."""
    name = type(error).__name__.removeprefix("Cloud")
    reason = {"SliceworksError": "BadRequest", "Invalid": "InvalidRequest"}.get(name, name)
    return Problem(reason, f"{error.message} ({error.hint})" if error.hint else error.message)


def is_drained(obj: Mapping[str, Any]) -> bool:
    """Whether a JobSet or a Namespace is marked to give its pools back."""
    return (obj["metadata"].get("annotations") or {}).get(words.DRAIN) == "true"


def _template(replicated: Mapping[str, Any], whole: bool) -> Template:
    job = (replicated.get("template") or {}).get("spec") or {}
    parallelism, completions = job.get("parallelism", 1), job.get("completions")
    pods = min(parallelism, completions) if isinstance(completions, int) else parallelism
    replicas = replicated.get("replicas", 1)
    return Template(replicated["name"], replicas, max(int(pods or 0), 1), _slim(job.get("template") or {}) if whole else None)


def _slim(template: Mapping[str, Any]) -> Object:
    spec = template.get("spec") or {}
    containers = [{"resources": each.get("resources")} for each in spec.get("containers") or ()]
    kept = {name: spec[name] for name in ("nodeSelector", "tolerations") if spec.get(name)}
    metadata = template.get("metadata") or {}
    return {
        "metadata": {name: metadata[name] for name in ("labels", "annotations") if metadata.get(name)},
        "spec": {**kept, "containers": containers},
    }


def _suspended_since(stopped: Mapping[str, Any], metadata: Mapping[str, Any]) -> datetime:
    if stopped.get("status") == "True" and (since := clock.parse(stopped.get("lastTransitionTime"))):
        return since
    return clock.parse(metadata.get("creationTimestamp")) or _LONG_AGO


def _attempts(text: str | None) -> dict[str, Attempt]:
    """What an annotation remembers; one that somebody has spoilt counts as none."""
    try:
        found = orjson.loads(text) if text else {}
        return {str(job): Attempt(int(tries), float(after), str(why)) for job, (tries, after, why) in found.items()}
    except (orjson.JSONDecodeError, AttributeError, TypeError, ValueError):
        return {}


def _time_limit(text: str | None) -> float | Problem | None:
    try:
        return duration.parse(text) if text else None
    except ValueError:
        return Problem(
            "BadRequest", f"the annotation {words.TIME_LIMIT}: {text!r} is no time (such as 90s or 1h30m, 0s for no limit)"
        )


def told(obj: Mapping[str, Any], kind: str) -> Told:
    """A condition of ours as it stands."""
    found = condition(obj, kind)
    if not found:
        return Told()
    return Told(
        found.get("status", ""), found.get("reason", ""), found.get("message", ""), clock.parse(found.get("lastTransitionTime"))
    )


def subject(api_version: str, kind: str, metadata: Mapping[str, Any]) -> Subject:
    """Whom events and conditions are about."""
    return Subject(api_version, kind, metadata.get("namespace", ""), metadata["name"], metadata.get("uid", ""))


def version(metadata: Mapping[str, Any]) -> int:
    """A resource version as a number: later ones are larger."""
    text = metadata.get("resourceVersion", "")
    return int(text) if text.isdigit() else 0
