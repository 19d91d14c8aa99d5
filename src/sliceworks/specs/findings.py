"""What is wrong with a document beyond its form."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sliceworks.base.errors import InvalidDocument

if TYPE_CHECKING:
    from sliceworks.base.yamls import Document


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing: where in the document, what, and what to do."""

    path: tuple[str | int, ...]
    problem: str
    remedy: str = ""

    def told(self, document: Document) -> InvalidDocument:
        """The error that tells of it at its place."""
        return InvalidDocument(self.problem, place=document.place(*self.path), hint=self.remedy)
