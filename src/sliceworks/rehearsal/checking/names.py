"""Names that lead nowhere: kinds that nobody knows, queues that are not there, jobs that a scenario expects and nobody submits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.base.errors import InvalidDocument
from sliceworks.base.words import closest
from sliceworks.specs.scenario import Patch, SetPriority, SetQuota, Target

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from sliceworks.base.yamls import Document
    from sliceworks.rehearsal.checking.known import Known, Name
    from sliceworks.specs.scenario import Scenario

Object = dict[str, Any]


def check(known: Known, told: Document | None, scenario: Scenario | None) -> Iterator[InvalidDocument]:
    """All of them."""
    if not known.everything:
        return
    yield from _kinds(known)
    yield from _queues(known)
    if told is not None and scenario is not None:
        yield from _events(known, told, scenario)
        yield from _expectations(known, told, scenario)


def _kinds(known: Known) -> Iterator[InvalidDocument]:
    offered = _builtin() | {each for definition in known.definitions for each in _defined(definition)}
    for group, kind, document in known.kinds:
        if (group, kind) not in offered:
            near = [each for of, each in offered if of == group] or [each for _, each in offered]
            hint = closest(kind, near) or "write its CustomResourceDefinition beside it"
            yield InvalidDocument(
                f"nobody knows kind {kind} of {document.data['apiVersion']}", place=document.place("kind"), hint=hint
            )


def _builtin() -> set[tuple[str, str]]:
    """Group and kind of all that a twin has by itself."""
    from sliceworks.schemas import builtins, config_connector
    from sliceworks.twin.workloads import jobset, kueue

    installed = [jobset.definition(), *kueue.definitions(), *config_connector.installation(), *config_connector.definitions()]
    found = {(each.group, each.kind) for each in builtins.catalogue().resources}
    found |= {
        (each["spec"]["group"], each["spec"]["names"]["kind"]) for each in installed if each["kind"] == "CustomResourceDefinition"
    }
    return found | {("kro.run", "ResourceGraphDefinition"), ("kro.run", "GraphRevision")}


def _defined(definition: Object) -> Iterator[tuple[str, str]]:
    spec = definition.get("spec") or {}
    if definition["kind"] == "ResourceGraphDefinition":
        schema = spec.get("schema") or {}
        yield str(schema.get("group") or "kro.run"), str(schema.get("kind"))
    else:
        yield str(spec.get("group")), str((spec.get("names") or {}).get("kind"))


def _queues(known: Known) -> Iterator[InvalidDocument]:
    for name, place in known.asked if known.all_queues else ():
        if name not in known.queues:
            yield InvalidDocument(
                f"there is no queue {name[1]} in {name[0]}", place=place, hint=_meant(name, known.queues, "queues")
            )


def _events(known: Known, told: Document, scenario: Scenario) -> Iterator[InvalidDocument]:
    for number, event in enumerate(scenario.spec.events):
        which, action = event.action
        path = ("spec", "events", number, _alias(event, which))
        if isinstance(action, SetPriority):
            yield from _job(known, (action.namespace or "default", action.job), told.place(*path, "job"))
        elif isinstance(action, SetQuota) and known.all_queues and action.cluster_queue not in known.cluster_queues:
            hint = _meant(("", action.cluster_queue), {("", each) for each in known.cluster_queues}, "ClusterQueues")
            yield InvalidDocument(
                f"there is no ClusterQueue {action.cluster_queue}", place=told.place(*path, "clusterQueue"), hint=hint
            )
        elif isinstance(action, Patch | Target) and action.kind == "JobSet":
            yield from _job(known, (action.namespace or "default", action.name), told.place(*path, "name"))


def _expectations(known: Known, told: Document, scenario: Scenario) -> Iterator[InvalidDocument]:
    for number, each in enumerate(scenario.spec.expect):
        path = ("spec", "expect", number)
        if each.job is not None:
            yield from _job(known, (each.job.namespace, each.job.name), told.place(*path, "job", "name"))
        if each.slice is not None:
            namespace, _, name = each.slice.job.rpartition("/")
            yield from _job(known, (namespace or "default", name), told.place(*path, "slice", "job"))
        if each.load_test is not None and each.load_test.name not in known.load_tests:
            hint = _meant(("", each.load_test.name), {("", name) for name in known.load_tests}, "load tests")
            yield InvalidDocument(
                f"there is no LoadTest {each.load_test.name}", place=told.place(*path, "loadTest", "name"), hint=hint
            )
        if each.state is not None and each.state.kind == "ModelService":
            wanted = (each.state.namespace, each.state.name)
            if wanted not in known.services:
                text, hint = f"there is no ModelService {wanted[1]} in {wanted[0]}", _meant(wanted, known.services, "services")
                yield InvalidDocument(text, place=told.place(*path, "state", "name"), hint=hint)


def _job(known: Known, name: Name, place: str) -> Iterator[InvalidDocument]:
    if known.all_jobs and name not in known.jobs:
        yield InvalidDocument(f"nobody submits a job {name[1]} in {name[0]}", place=place, hint=_meant(name, known.jobs, "jobs"))


def _meant(name: Name, known: Iterable[Name], what: str) -> str:
    """Which one is meant, perhaps."""
    shown = {"/".join(each).lstrip("/") for each in known}
    listed = f"{what}: {', '.join(sorted(shown)[:5])}" if shown else f"there are no {what} at all"
    return closest("/".join(name).lstrip("/"), shown, cutoff=0.5) or listed


def _alias(event: Any, field: str) -> str:
    return str(type(event).model_fields[field].alias or field)
