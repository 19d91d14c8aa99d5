"""Reading a document field by field: each wrong or unknown one is noted with its place, and reading goes on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.base.words import closest
from sliceworks.graph.model import Issue, Note
from sliceworks.graph.templates import shown_path

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sliceworks.graph.model import Object, Path

_WORDS = {dict: "a mapping of fields", list: "a list", str: "a text", type(None): "nothing", bool: "a boolean"}


class Form:
    """A document being read, and what was found on the way."""

    def __init__(self, document: Object, places: Callable[..., str] | None) -> None:
        self._document, self._places = document, places
        self.issues: list[Issue] = []
        self.notes: list[Note] = []

    def wrong(self, path: Path, message: str, remedy: str = "") -> None:
        self.issues.append(Issue(path, message, remedy=remedy, place=self._place(path)))

    def note(self, path: Path, message: str, remedy: str = "") -> None:
        self.notes.append(Note(path, message, remedy, self._place(path)))

    def mapping(self, path: Path, fields: Sequence[str] = (), *, required: bool = False) -> Object | None:
        """A mapping. Where `fields` are given, others are refused."""
        found: Object | None = self._typed(path, dict, required=required)
        for name in found or () if fields else ():
            if name not in fields:
                self.wrong((*path, name), f"unknown field {name}", closest(name, fields) or f"known are {', '.join(fields)}")
        return found

    def mappings(self, path: Path) -> list[Object]:
        """A list of mappings, or nothing."""
        return [self.mapping((*path, index), required=True) or {} for index in range(self.length(path))]

    def text(self, path: Path, *, required: bool = False) -> str:
        """A text, or an empty one where it is absent or wrong."""
        found = self._typed(path, str, required=required)
        if required and found == "":
            self.wrong(path, f"{path[-1]} must not be empty")
        return found or ""

    def texts(self, path: Path) -> tuple[str, ...]:
        """A list of texts, or nothing."""
        return tuple(self.text((*path, index), required=True) for index in range(self.length(path)))

    def choice(self, path: Path, choices: Sequence[str]) -> str:
        """One of a few words, or an empty one where it is absent or wrong."""
        found = self.text(path)
        if found and found not in choices:
            self.wrong(path, f"{path[-1]} is {found}, and must be one of {', '.join(choices)}", closest(found, choices))
            return ""
        return found

    def entry(self, path: Path) -> tuple[str, str]:
        """A mapping with one entry, whose value is a text."""
        found = self.mapping(path, required=True) or {}
        if len(found) != 1:
            self.wrong(path, f"each entry of {path[-2]} must have exactly one name", "such as - region: ${schema.spec.regions}")
            return "", ""
        name = next(iter(found))
        return str(name), self.text((*path, name), required=True)

    def length(self, path: Path) -> int:
        """How many items a list has; none where it is absent or wrong."""
        return len(self._typed(path, list, required=False) or ())

    def _typed(self, path: Path, kind: type, *, required: bool) -> Any:
        above: Any = self._document
        for step in path[:-1]:
            above = self._below(above, step)
        found = self._below(above, path[-1])
        if found is None:
            if required and above is not None:
                self.wrong(path, f"{shown_path(path)} is required")
            return None
        if not isinstance(found, kind):
            self.wrong(path, f"{shown_path(path)} must be {_WORDS[kind]}, not {_WORDS.get(type(found), 'a number')}")
            return None
        return found

    @staticmethod
    def _below(value: Any, step: str | int) -> Any:
        if isinstance(step, int):
            return value[step] if isinstance(value, list) and step < len(value) else None
        return value.get(step) if isinstance(value, dict) else None

    def _place(self, path: Path) -> str:
        return self._places(*path) if self._places else ""
