"""Label and field selectors: parsed once, matched often.

The words of a refusal are those of kube-apiserver, because the twin's server answers with them. Nothing here does any I/O.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sliceworks.base.errors import BadRequest
from sliceworks.kube.field_selectors import FieldSelector, parse_fields

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = [
    "EVERYTHING",
    "NOTHING",
    "FieldSelector",
    "LabelSelector",
    "Requirement",
    "from_label_selector",
    "from_labels",
    "parse_fields",
    "parse_labels",
]

_EXPRESSION_OPERATORS = {"In": "in", "NotIn": "notin", "Exists": "exists", "DoesNotExist": "!"}
_INFIX = {"in": " in ", "notin": " notin ", "gt": ">", "lt": "<"}
_NO_LABELS: Mapping[str, str] = {}


@dataclass(frozen=True, slots=True)
class Requirement:
    """One condition on one label. `operator` is one of `=`, `==`, `!=`, `in`, `notin`, `exists`, `!`, `gt`, `lt`."""

    key: str
    operator: str
    values: tuple[str, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether these labels meet the condition."""
        found = labels.get(self.key)
        match self.operator:
            case "=" | "==" | "in":
                return found is not None and found in self.values
            case "!=" | "notin":
                return found is None or found not in self.values
            case "exists":
                return found is not None
            case "!":
                return found is None
            case "gt":
                return (number := whole_number(found)) is not None and number > int(self.values[0])
            case _:
                return (number := whole_number(found)) is not None and number < int(self.values[0])

    def __str__(self) -> str:
        if self.operator == "exists":
            return self.key
        if self.operator == "!":
            return "!" + self.key
        listed = ",".join(sorted(self.values))
        if self.operator in ("in", "notin"):
            listed = f"({listed})"
        return self.key + _INFIX.get(self.operator, self.operator) + listed


class LabelSelector:
    """All of its requirements must hold; one without any matches everything."""

    __slots__ = ("_equal", "_others", "nothing", "requirements")

    def __init__(self, requirements: Iterable[Requirement] = (), *, nothing: bool = False) -> None:
        self.requirements = tuple(sorted(requirements, key=lambda requirement: requirement.key))
        self.nothing = nothing
        self._equal = tuple((item.key, item.values[0]) for item in self.requirements if _is_exact(item))
        self._others = tuple(item for item in self.requirements if not _is_exact(item))

    def matches(self, labels: Mapping[str, str] | None) -> bool:
        """Whether an object with these labels is selected."""
        if labels is None:
            labels = _NO_LABELS
        for key, value in self._equal:
            if labels.get(key) != value:
                return False
        for requirement in self._others:
            if not requirement.matches(labels):
                return False
        return not self.nothing

    @property
    def everything(self) -> bool:
        """Whether nothing is left out, so that matching can be skipped."""
        return not self.requirements and not self.nothing

    def exact(self, key: str) -> str | None:
        """The one value that a label must have, where there is one: what an index can use."""
        return next((value for found, value in self._equal if found == key), None)

    def __str__(self) -> str:
        return ",".join(map(str, self.requirements))

    def __repr__(self) -> str:
        return "LabelSelector(nothing)" if self.nothing else f"LabelSelector({str(self)!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LabelSelector) and (self.requirements, self.nothing) == (other.requirements, other.nothing)

    def __hash__(self) -> int:
        return hash((self.requirements, self.nothing))


EVERYTHING = LabelSelector()
NOTHING = LabelSelector(nothing=True)


def parse_labels(text: str) -> LabelSelector:
    """The selector that `a=b,c!=d,e in (x,y),f notin (z),g,!h,i>1` writes."""
    if not text:
        return EVERYTHING
    from sliceworks.kube.label_grammar import parse

    return LabelSelector(parse(text))


def from_label_selector(selector: Mapping[str, Any] | None) -> LabelSelector:
    """The selector that a `metav1.LabelSelector` writes: none selects nothing, an empty one selects everything."""
    if selector is None:
        return NOTHING
    from sliceworks.kube.label_grammar import requirement

    found = [requirement(key, "=", (value,)) for key, value in (selector.get("matchLabels") or {}).items()]
    for expression in selector.get("matchExpressions") or ():
        operator = _EXPRESSION_OPERATORS.get(expression.get("operator", ""))
        if operator is None:
            raise BadRequest(f'"{expression.get("operator", "")}" is not a valid label selector operator')
        found.append(requirement(expression.get("key", ""), operator, tuple(expression.get("values") or ())))
    return LabelSelector(found) if found else EVERYTHING


def from_labels(labels: Mapping[str, str]) -> LabelSelector:
    """The selector for objects that carry all of these labels, taken as they are."""
    return LabelSelector(Requirement(key, "=", (value,)) for key, value in labels.items())


def whole_number(text: str | None) -> int | None:
    """A label's value as Go's ParseInt reads it."""
    if text is None:
        return None
    digits = text[1:] if text[:1] in ("+", "-") else text
    if not (digits.isascii() and digits.isdigit()):
        return None
    number = int(text)
    return number if -(1 << 63) <= number < 1 << 63 else None


def _is_exact(requirement: Requirement) -> bool:
    return requirement.operator in ("=", "==", "in") and len(requirement.values) == 1
