"""A ModelService from its file: checked whole, and ready to be deployed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sliceworks.base.errors import InvalidDocument

if TYPE_CHECKING:
    from pathlib import Path

    from sliceworks.base.yamls import Document
    from sliceworks.specs.serving import ModelService


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a file asks for."""

    service: ModelService
    document: Document


def read(file: Path) -> Wanted:
    """The one ModelService of a file."""
    from sliceworks.base import yamls

    loaded = yamls.load_path(file)
    if len(loaded) != 1:
        raise InvalidDocument(f"has {len(loaded)} documents, one ModelService is wanted", place=str(file))
    return checked(loaded[0])


def checked(document: Document) -> Wanted:
    """A document with which nothing is wrong; the first finding is raised."""
    from sliceworks.serving.checks import check
    from sliceworks.specs import documents
    from sliceworks.specs.serving import ModelService

    service = documents.read(document)
    if not isinstance(service, ModelService):
        raise InvalidDocument(f"a ModelService is wanted, found {document.data['kind']}", place=document.place("kind"))
    for finding in check(service):
        raise InvalidDocument(finding.problem, place=document.place(*finding.path), hint=finding.remedy)
    return Wanted(service, document)
