"""Field selectors: `metadata.name=x,status.phase!=Running`, with `\\,`, `\\=` and `\\\\` for those characters in a value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sliceworks.base.errors import BadRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_SPECIAL = ("\\", ",", "=")


@dataclass(frozen=True, slots=True)
class Term:
    """One condition on one field: equal to a value, or not."""

    field: str
    value: str
    equal: bool = True

    def __str__(self) -> str:
        return f"{self.field}{'=' if self.equal else '!='}{escape(self.value)}"


class FieldSelector:
    """All of its terms must hold; one without any matches everything."""

    __slots__ = ("terms",)

    def __init__(self, terms: tuple[Term, ...] = ()) -> None:
        self.terms = terms

    def matches(self, fields: Mapping[str, str]) -> bool:
        """Whether an object with these fields is selected. A field that is not there is empty."""
        return all((fields.get(term.field, "") == term.value) is term.equal for term in self.terms)

    def check(self, supported: Callable[[str], bool]) -> None:
        """Refuse a field that this kind cannot be selected by."""
        for term in self.terms:
            if not supported(term.field):
                raise BadRequest(f"field label not supported: {term.field}")

    def exact(self, field: str) -> str | None:
        """The one value that a field must have, where there is one."""
        return next((term.value for term in self.terms if term.equal and term.field == field), None)

    @property
    def everything(self) -> bool:
        """Whether nothing is left out."""
        return not self.terms

    def __str__(self) -> str:
        return ",".join(map(str, self.terms))

    def __repr__(self) -> str:
        return f"FieldSelector({str(self)!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FieldSelector) and self.terms == other.terms

    def __hash__(self) -> int:
        return hash(self.terms)


ALL_FIELDS = FieldSelector()


def parse_fields(text: str) -> FieldSelector:
    """The selector that a text writes; BadRequest names the part that cannot be read."""
    if not text:
        return ALL_FIELDS
    return FieldSelector(tuple(_term(part, text) for part in sorted(_split(text)) if part))


def escape(value: str) -> str:
    """A value as it is written in a field selector."""
    return value.replace("\\", "\\\\").replace(",", "\\,").replace("=", "\\=")


def unescape(text: str) -> str:
    """The value that is meant by what is written in a field selector."""
    if not any(special in text for special in _SPECIAL):
        return text
    value: list[str] = []
    characters = iter(text)
    for character in characters:
        if character == "\\":
            escaped = next(characters, "")
            if escaped not in _SPECIAL:
                raise BadRequest(f"invalid field selector: invalid escape sequence: \\{escaped}")
            value.append(escaped)
        elif character in _SPECIAL:
            raise BadRequest(f"invalid field selector: unescaped character in value: {ord(character)}")
        else:
            value.append(character)
    return "".join(value)


def _split(text: str) -> list[str]:
    if "\\" not in text:
        return text.split(",")
    parts: list[str] = []
    start, escaped = 0, False
    for index, character in enumerate(text):
        if escaped:
            escaped = False
        elif character == "\\":
            escaped = True
        elif character == ",":
            parts.append(text[start:index])
            start = index + 1
    parts.append(text[start:])
    return parts


def _term(part: str, whole: str) -> Term:
    name, sign, value = part.partition("=")
    if not sign:
        raise BadRequest(f"invalid selector: '{whole}'; can't understand '{part}'")
    equal = not name.endswith("!")
    if not equal:
        name = name[:-1]
    elif value.startswith("="):
        value = value[1:]
    return Term(name, unescape(value), equal)
