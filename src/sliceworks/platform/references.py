"""Names that documents define and names that they refer to: kinds, queues, jobs, services."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.base.errors import InvalidDocument
from sliceworks.base.names import suggest_name
from sliceworks.platform import loader
from sliceworks.specs.scenario import Patch, SetPriority, SetQuota, Target
from sliceworks.training.status import QUEUE_LABEL

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from sliceworks.base.yaml_documents import Document
    from sliceworks.specs.scenario import Scenario

Object = dict[str, Any]
Name = tuple[str, str]
"""Namespace and name."""

_JOBS = ("JobSet", "Job", "TrainingJob")


class ReferenceIndex:
    """Collects names. Objects of an environment that Terraform creates are known too, but do not count as duplicates."""

    def __init__(self, *, with_terraform: bool = False) -> None:
        self._with_terraform = with_terraform
        self._seen: dict[tuple[str, str, str, str], Document] = {}
        self.kinds: list[tuple[str, str, Document]] = []
        """Group and kind of every Kubernetes object in the documents."""
        self.definitions: list[Object] = []
        """CustomResourceDefinitions and ResourceGraphDefinitions."""
        self.queues: set[Name] = set()
        self.cluster_queues: set[str] = set()
        self.jobs: set[Name] = set()
        self.services: set[Name] = set()
        self.load_tests: set[str] = set()
        self.requested_queues: list[tuple[Name, str]] = []
        """Queues that jobs refer to, each with its place in a file."""
        self.all_jobs = self.all_queues = self.complete = True
        """Whether all names are known (jobs, queues, everything): only then is an unknown name an error."""

    def add(self, document: Document, objects: Iterable[Document]) -> list[InvalidDocument]:
        """Add a document and its objects; returns an error for each duplicate."""
        self.record(document, objects := list(objects))
        kind = document.data["kind"]
        shared = kind == "ModelService" or (kind == "Environment" and self._with_terraform)
        duplicates = [self._find_duplicate(item, document) for item in ([document] if shared else [document, *objects])]
        return list({duplicate.message: duplicate for duplicate in duplicates if duplicate is not None}.values())

    def _find_duplicate(self, item: Document, document: Document) -> InvalidDocument | None:
        first = self._seen.setdefault(loader.identity(item), document)
        if first is document:
            return None
        place, hint = document.place("metadata", "name"), f"first defined in {first.place()}"
        return InvalidDocument(f"{item.name} is defined twice", place=place, hint=hint)

    def add_invalid(self, document: Document) -> None:
        """Add an invalid document: its own name is known, its objects are not."""
        data = document.data
        if not isinstance(data.get("kind"), str) or not isinstance(data.get("metadata"), dict):
            self.complete = False
            return
        self.all_queues = self.all_queues and data["kind"] not in {"Environment", "LocalQueue", "ClusterQueue"}
        self.record(document, ())

    def record(self, document: Document, objects: Iterable[Document], namespace: str = "") -> None:
        """Record names that a document defines and refers to, in its own namespace or in `namespace`."""
        data = document.data
        kind, key = data["kind"], _name(data, namespace)
        if kind in _JOBS:
            self.jobs.add(key)
            self._record_queue(document, key[0])
        elif kind == "ModelService":
            self.services.add(key)
        elif kind == "LoadTest":
            self.load_tests.add(key[1])
        for item in objects:
            self._record_object(item, document)

    def _record_object(self, item: Document, document: Document) -> None:
        kind, name = item.data["kind"], _name(item.data)
        if item is document:
            self.kinds.append((item.data["apiVersion"].rpartition("/")[0], kind, item))
        if kind in {"CustomResourceDefinition", "ResourceGraphDefinition"}:
            self.definitions.append(item.data)
        elif kind == "LocalQueue":
            self.queues.add(name)
        elif kind == "ClusterQueue":
            self.cluster_queues.add(name[1])

    def _record_queue(self, document: Document, namespace: str) -> None:
        data, is_training_job = document.data, document.data["kind"] == "TrainingJob"
        labels = (data.get("metadata") or {}).get("labels") or {}
        queue = (data.get("spec") or {}).get("queue") if is_training_job else labels.get(QUEUE_LABEL)
        if queue:
            place = document.place("spec", "queue") if is_training_job else document.place("metadata", "labels", QUEUE_LABEL)
            self.requested_queues.append(((namespace, str(queue)), place))


def _name(data: Object, namespace: str = "") -> Name:
    metadata = data.get("metadata") or {}
    return namespace or str(metadata.get("namespace") or "default"), str(metadata.get("name") or metadata.get("generateName") or "")


def check_references(
    known: ReferenceIndex, scenario_document: Document | None, scenario: Scenario | None
) -> Iterator[InvalidDocument]:
    """An error for each name that is not defined; none while the index is incomplete."""
    if not known.complete:
        return
    yield from _kinds(known)
    yield from _queues(known)
    if scenario_document is not None and scenario is not None:
        yield from _events(known, scenario_document, scenario)
        yield from _expectations(known, scenario_document, scenario)


def _kinds(known: ReferenceIndex) -> Iterator[InvalidDocument]:
    offered = _builtin_kinds() | {item for definition in known.definitions for item in _defined_kind(definition)}
    for group, kind, document in known.kinds:
        if (group, kind) not in offered:
            near = [name for of, name in offered if of == group] or [name for _, name in offered]
            hint = suggest_name(kind, near) or "add its CustomResourceDefinition to the folder"
            yield InvalidDocument(f"unknown kind {kind} in {document.data['apiVersion']}", place=document.place("kind"), hint=hint)


def _builtin_kinds() -> set[tuple[str, str]]:
    """Group and kind of every kind that a twin serves by default."""
    from sliceworks.schemas import builtins, config_connector
    from sliceworks.twin.controllers import jobset, kueue

    installed = [
        jobset.definition(),
        *kueue.definitions(),
        *config_connector.operator_definitions(),
        *config_connector.definitions(),
    ]
    kinds = {(resource.group, resource.kind) for resource in builtins.builtin_scheme().resources}
    kinds |= {
        (item["spec"]["group"], item["spec"]["names"]["kind"]) for item in installed if item["kind"] == "CustomResourceDefinition"
    }
    return kinds | {("kro.run", "ResourceGraphDefinition"), ("kro.run", "GraphRevision")}


def _defined_kind(definition: Object) -> Iterator[tuple[str, str]]:
    spec = definition.get("spec") or {}
    if definition["kind"] == "ResourceGraphDefinition":
        schema = spec.get("schema") or {}
        yield str(schema.get("group") or "kro.run"), str(schema.get("kind"))
    else:
        yield str(spec.get("group")), str((spec.get("names") or {}).get("kind"))


def _queues(known: ReferenceIndex) -> Iterator[InvalidDocument]:
    for name, place in known.requested_queues if known.all_queues else ():
        if name not in known.queues:
            yield InvalidDocument(
                f"queue {name[1]} not found in namespace {name[0]}", place=place, hint=_suggest(name, known.queues, "queues")
            )


def _events(known: ReferenceIndex, document: Document, scenario: Scenario) -> Iterator[InvalidDocument]:
    for number, event in enumerate(scenario.spec.events):
        which, action = event.action
        path = ("spec", "events", number, _alias(event, which))
        if isinstance(action, SetPriority):
            yield from _job(known, (action.namespace or "default", action.job), document.place(*path, "job"))
        elif isinstance(action, SetQuota) and known.all_queues and action.cluster_queue not in known.cluster_queues:
            hint = _suggest(("", action.cluster_queue), {("", queue) for queue in known.cluster_queues}, "ClusterQueues")
            yield InvalidDocument(
                f"ClusterQueue {action.cluster_queue} not found", place=document.place(*path, "clusterQueue"), hint=hint
            )
        elif isinstance(action, Patch | Target) and action.kind == "JobSet":
            yield from _job(known, (action.namespace or "default", action.name), document.place(*path, "name"))


def _expectations(known: ReferenceIndex, document: Document, scenario: Scenario) -> Iterator[InvalidDocument]:
    for number, expectation in enumerate(scenario.spec.expect):
        path = ("spec", "expect", number)
        if expectation.job is not None:
            yield from _job(known, (expectation.job.namespace, expectation.job.name), document.place(*path, "job", "name"))
        if expectation.slice is not None:
            namespace, _, name = expectation.slice.job.rpartition("/")
            yield from _job(known, (namespace or "default", name), document.place(*path, "slice", "job"))
        if expectation.load_test is not None and expectation.load_test.name not in known.load_tests:
            hint = _suggest(("", expectation.load_test.name), {("", name) for name in known.load_tests}, "load tests")
            yield InvalidDocument(
                f"LoadTest {expectation.load_test.name} not found", place=document.place(*path, "loadTest", "name"), hint=hint
            )
        if expectation.state is not None and expectation.state.kind == "ModelService":
            service = (expectation.state.namespace, expectation.state.name)
            if service not in known.services:
                message = f"ModelService {service[1]} not found in namespace {service[0]}"
                hint = _suggest(service, known.services, "services")
                yield InvalidDocument(message, place=document.place(*path, "state", "name"), hint=hint)


def _job(known: ReferenceIndex, name: Name, place: str) -> Iterator[InvalidDocument]:
    if known.all_jobs and name not in known.jobs:
        yield InvalidDocument(
            f"job {name[1]} not found in namespace {name[0]}", place=place, hint=_suggest(name, known.jobs, "jobs")
        )


def _suggest(name: Name, known: Iterable[Name], what: str) -> str:
    """The closest name, else the known names."""
    shown = {"/".join(item).lstrip("/") for item in known}
    listed = f"{what}: {', '.join(sorted(shown)[:5])}" if shown else f"the documents define no {what}"
    return suggest_name("/".join(name).lstrip("/"), shown, cutoff=0.5) or listed


def _alias(event: Any, field: str) -> str:
    return str(type(event).model_fields[field].alias or field)
