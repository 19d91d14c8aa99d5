"""Every problem of a folder: unreadable files, invalid documents and dangling references, sorted by file and line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.base import yaml_documents
from sliceworks.base.errors import InvalidDocument, SliceworksError
from sliceworks.platform import loader, references
from sliceworks.platform.capacity import check_capacity
from sliceworks.platform.loader import substitute_document_index
from sliceworks.platform.references import ReferenceIndex
from sliceworks.specs import documents as specs
from sliceworks.specs.environment import Environment
from sliceworks.specs.model_service import ModelService
from sliceworks.specs.scenario import Apply, Scenario, Submit, Trace

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from sliceworks.base.yaml_documents import Document
    from sliceworks.specs.common import Spec

_NO_OBJECTS = ("LoadTest", "Gateway", "Scenario", "ImageMap")


def validate_document(document: Document, folder: Path) -> tuple[list[Document], list[InvalidDocument]]:
    """Cluster objects of a document, and its errors."""
    try:
        loader.identity(document)
    except InvalidDocument as error:
        return [], [error]
    if not specs.is_sliceworks_document(document):
        return [document], []
    spec, errors = specs.check(document)
    if spec is not None:
        errors = [finding.to_error(document) for finding in _findings(spec)]
    return ([], errors) if errors else _compile(document, folder)


def _findings(spec: Any) -> Iterable[Any]:
    """Findings of the package that owns the kind."""
    kind = type(spec).__name__
    if kind == "TrainingJob":
        from sliceworks.training.submission import validate as validate_job

        return validate_job(spec)
    if kind == "ModelService":
        from sliceworks.serving.validation import validate as validate_service

        return validate_service(spec)
    if kind == "Environment":
        from sliceworks.infra.preflight import check

        return check(spec)
    return ()


def _compile(document: Document, folder: Path) -> tuple[list[Document], list[InvalidDocument]]:
    if document.data["kind"] in _NO_OBJECTS:
        return [], []
    try:
        objects = loader.expand(document, folder)
        return [*objects, *_published_graphs(document, folder)], []
    except InvalidDocument as error:
        return [], [error]
    except SliceworksError as error:
        return [], [InvalidDocument(error.message, place=document.place("spec"), hint=error.hint)]


def _published_graphs(document: Document, folder: Path) -> list[Document]:
    """Graphs that an environment publishes; they define kinds."""
    from sliceworks.platform.cluster_contents import load_published_graphs

    environment = specs.read(document)
    return load_published_graphs(environment, folder) if isinstance(environment, Environment) else []


def validate_folder(path: Path) -> list[InvalidDocument]:
    """All errors by file and line. References of an invalid document are not checked, but the files that it names are."""
    folder = yaml_documents.base_directory(path)
    written, errors = _read(path)
    if not written and not errors:
        return [loader.no_documents(path)]
    scenarios = [document for document in written if loader.is_scenario(document)]
    errors += loader.check_single(scenarios)
    scenario = specs.check(scenarios[0])[0] if scenarios else None
    known = ReferenceIndex(with_terraform=isinstance(scenario, Scenario) and scenario.spec.environment == "terraform")
    # Names in unreadable documents are unknown, so missing references are not reported then.
    known.complete = not errors and (scenario is not None or not scenarios)
    for document in written:
        objects, invalid = validate_document(document, folder)
        if invalid:
            known.add_invalid(document)
        errors += invalid or known.add(document, objects)
    errors += _check_capacity(written, errors)
    if isinstance(scenario, Scenario):
        actions: Iterable[tuple[int, str, Spec]] = [(number, *event.action) for number, event in enumerate(scenario.spec.events)]
        errors += _validate_event_files(scenarios[0], actions, folder, known)
        return _sort_errors([*errors, *references.check_references(known, scenarios[0], scenario)])
    errors += _validate_event_files(scenarios[0], _named_files(scenarios[0]), folder, known) if scenarios else []
    return _sort_errors([*errors, *references.check_references(known, None, None)])


def _check_capacity(written: list[Document], errors: list[InvalidDocument]) -> list[InvalidDocument]:
    """Errors of services that do not fit the pools of the environment; none while documents are invalid."""
    if errors:
        return []
    documents = [(document, specs.check(document)[0]) for document in written if specs.is_sliceworks_document(document)]
    environments = [spec for _, spec in documents if isinstance(spec, Environment)]
    services = [(document, spec) for document, spec in documents if isinstance(spec, ModelService)]
    return list(check_capacity(environments[0], services)) if len(environments) == 1 else []


def _read(path: Path) -> tuple[list[Document], list[InvalidDocument]]:
    """Documents of files, and errors of unreadable files."""
    written: list[Document] = []
    errors: list[InvalidDocument] = []
    for file in yaml_documents.list_files(path):
        try:
            written += yaml_documents.load_path(file)
        except InvalidDocument as error:
            errors.append(error)
    return written, errors


def _named_files(scenario: Document) -> Iterator[tuple[int, str, Spec]]:
    """Files that an invalid scenario names."""
    spec = scenario.data.get("spec")
    events = spec.get("events") if isinstance(spec, dict) else None
    for number, event in enumerate(events if isinstance(events, list) else ()):
        for name, kind in (("apply", Apply), ("submit", Apply), ("trace", Trace)):
            action = event.get(name) if isinstance(event, dict) else None
            file = action.get("file") if isinstance(action, dict) else None
            if isinstance(file, str):
                yield number, name, kind(file=file)


def _validate_event_files(
    scenario: Document, actions: Iterable[tuple[int, str, Spec]], folder: Path, known: ReferenceIndex
) -> list[InvalidDocument]:
    """Errors in the documents of a scenario's events; adds the names of valid ones to the index."""
    errors: list[InvalidDocument] = []
    for number, name, action in actions:
        known.all_jobs = known.all_jobs and not isinstance(action, Trace)
        if not isinstance(action, Apply | Submit | Trace):
            continue
        if not (folder / action.file).exists():
            place = scenario.place("spec", "events", number, name, "file")
            errors.append(InvalidDocument(f"{action.file} not found", place=place, hint=f"paths are relative to {folder}"))
        elif not isinstance(action, Trace):
            documents, unreadable = _read(folder / action.file)
            known.complete = known.complete and not unreadable
            errors += unreadable
            for document in documents:
                errors += _validate_event_document(document, action, folder, known)
    return errors


def _validate_event_document(
    document: Document, action: Apply | Submit, folder: Path, known: ReferenceIndex
) -> list[InvalidDocument]:
    first = substitute_document_index(document, 1)
    objects, errors = validate_document(first, folder)
    if errors:
        known.add_invalid(first)
    if known.complete:
        namespace, count = (action.namespace, action.count) if isinstance(action, Submit) else ("", 1)
        known.record(first, objects, namespace)
        for number in range(2, count + 1):
            known.record(substitute_document_index(document, number), (), namespace)
    return errors


def _sort_errors(errors: Iterable[InvalidDocument]) -> list[InvalidDocument]:
    """Errors without duplicates, sorted by file and line."""
    unique = {error.message: error for error in errors}

    def position(error: InvalidDocument) -> tuple[str, int]:
        file, _, line = error.place.rpartition(":")
        return (file, int(line)) if line.isdigit() else (error.place, 0)

    return sorted(unique.values(), key=position)
