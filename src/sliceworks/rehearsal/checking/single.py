"""What one document becomes, or all that is wrong with it, taken by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.base.errors import InvalidDocument, SliceworksError
from sliceworks.rehearsal import documents
from sliceworks.specs import documents as specs

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from sliceworks.base.yamls import Document

_NO_OBJECTS = ("LoadTest", "Gateway", "Scenario")


def check(document: Document, folder: Path) -> tuple[list[Document], list[InvalidDocument]]:
    """The objects of a cluster that it stands for, and what is wrong."""
    try:
        documents.identity(document)
    except InvalidDocument as error:
        return [], [error]
    if not specs.is_ours(document):
        return [document], []
    found, wrong = specs.check(document)
    if found is not None:
        wrong = [InvalidDocument(each.problem, place=document.place(*each.path), hint=each.remedy) for each in _findings(found)]
    return ([], wrong) if wrong else _compiled(document, folder)


def _findings(found: Any) -> Iterable[Any]:
    """What the room that a document belongs to has to say."""
    kind = type(found).__name__
    if kind == "TrainingJob":
        from sliceworks.training.checks import check as of_job

        return of_job(found)
    if kind == "ModelService":
        from sliceworks.serving.checks import check as of_service

        return of_service(found)
    return ()


def _compiled(document: Document, folder: Path) -> tuple[list[Document], list[InvalidDocument]]:
    if document.data["kind"] in _NO_OBJECTS:
        return [], []
    try:
        found = documents.objects(document, folder)
        return [*found, *_published(document, folder)], []
    except InvalidDocument as error:
        return [], [error]
    except SliceworksError as error:
        return [], [InvalidDocument(error.message, place=document.place("spec"), hint=error.hint)]


def _published(document: Document, folder: Path) -> list[Document]:
    """The graphs that an environment publishes: their kinds are known from then on."""
    from sliceworks.rehearsal.contents import published
    from sliceworks.specs.environment import Environment

    found = specs.read(document)
    return published(found, folder) if isinstance(found, Environment) else []
