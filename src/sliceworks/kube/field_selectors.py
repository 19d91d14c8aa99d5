"""Field selectors: `metadata.name=x,status.phase!=Running`; `\\,`, `\\=` and `\\\\` escape characters in a value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sliceworks.base.errors import BadRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_SPECIAL = ("\\", ",", "=")


@dataclass(frozen=True, slots=True)
class Term:
    """A requirement on one field: equal to a value, or not."""

    field: str
    value: str
    equal: bool = True

    def __str__(self) -> str:
        return f"{self.field}{'=' if self.equal else '!='}{escape(self.value)}"


class FieldSelector:
    """Matches objects that meet all terms; without terms it matches everything."""

    __slots__ = ("_equal", "_unequal", "terms")

    def __init__(self, terms: tuple[Term, ...] = ()) -> None:
        self.terms = terms
        self._equal: dict[str, set[str]] = {}
        self._unequal: dict[str, set[str]] = {}
        for term in terms:
            values = self._equal if term.equal else self._unequal
            values.setdefault(term.field, set()).add(term.value)

    def matches(self, fields: Mapping[str, str]) -> bool:
        """Whether the selector matches these fields; a missing field is empty. Takes time per field, not per term."""
        for field, values in self._equal.items():
            if len(values) > 1 or fields.get(field, "") not in values:
                return False
        return all(fields.get(field, "") not in values for field, values in self._unequal.items())

    @property
    def matches_nothing(self) -> bool:
        """Whether a field would have to have two values."""
        return any(len(values) > 1 for values in self._equal.values())

    def check(self, is_supported: Callable[[str], bool]) -> None:
        """Raise BadRequest if the resource does not support one of the fields."""
        for term in self.terms:
            if not is_supported(term.field):
                raise BadRequest(f"field label not supported: {term.field}")

    @property
    def matches_everything(self) -> bool:
        """Whether all objects match."""
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
    """Parse a field selector; BadRequest with kube-apiserver's message if it is invalid.

    A term without field and value is ignored.
    """
    if not text:
        return ALL_FIELDS
    terms = (_term(part, text) for part in sorted(_split(text)) if part)
    return FieldSelector(tuple(term for term in terms if term.field or term.value))


def escape(value: str) -> str:
    """Escape a value for a field selector."""
    return value.replace("\\", "\\\\").replace(",", "\\,").replace("=", "\\=")


def unescape(text: str) -> str:
    """The value of an escaped string in a field selector."""
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


def _term(part: str, selector: str) -> Term:
    name, sign, value = part.partition("=")
    if not sign:
        raise BadRequest(f"invalid selector: '{selector}'; can't understand '{part}'")
    equal = not name.endswith("!")
    if not equal:
        name = name[:-1]
    elif value.startswith("="):
        value = value[1:]
    return Term(name, unescape(value), equal)
