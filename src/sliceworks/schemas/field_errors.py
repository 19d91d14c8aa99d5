"""Field errors, worded as Kubernetes' `field.Error`, and the 422 Status that carries them."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from sliceworks.base.errors import Invalid
from sliceworks.schemas.golang import encode_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_TITLES = {
    "FieldValueRequired": "Required value",
    "FieldValueInvalid": "Invalid value",
    "FieldValueNotSupported": "Unsupported value",
    "FieldValueDuplicate": "Duplicate value",
    "FieldValueForbidden": "Forbidden",
    "FieldValueNotFound": "Not found",
    "FieldValueTooLong": "Too long",
    "FieldValueTooMany": "Too many",
    "FieldValueTypeInvalid": "Invalid value",
    "InternalError": "Internal error",
}
_ESCAPES = {"\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v"}
_WITHOUT_VALUE = {
    "FieldValueRequired",
    "FieldValueForbidden",
    "FieldValueTooLong",
    "FieldValueTooMany",
    "InternalError",
}


class Rendered(str):
    """A value already rendered for a message."""

    __slots__ = ()


OMITTED = Rendered("")
"""The value of an error that does not show what was found: rules of whole objects and lists."""


@dataclass(frozen=True, slots=True)
class FieldError:
    """An error of one field. `value` is the invalid value."""

    reason: str
    path: str
    value: Any = None
    detail: str = ""

    @property
    def body(self) -> str:
        """The message without the path."""
        text = _TITLES[self.reason]
        if self.reason not in _WITHOUT_VALUE and self.value is not OMITTED:
            text += ": " + _shown(self.value)
        return f"{text}: {self.detail}" if self.detail else text

    def __str__(self) -> str:
        return f"{self.path or '<nil>'}: {self.body}"

    def cause(self) -> dict[str, str]:
        """The entry in a Status' `details.causes`."""
        return {"reason": self.reason, "message": self.body, "field": self.path or "<nil>"}


class RulesNotChecked(FieldError):
    """CEL rules were skipped because the value has other errors."""

    __slots__ = ()


def required(path: str, detail: str = "") -> FieldError:
    return FieldError("FieldValueRequired", path, None, detail)


def invalid(path: str, value: Any, detail: str) -> FieldError:
    return FieldError("FieldValueInvalid", path, value, detail)


def type_invalid(path: str, value: Any, detail: str) -> FieldError:
    return FieldError("FieldValueTypeInvalid", path, value, detail)


def not_supported(path: str, value: Any, allowed: Sequence[str]) -> FieldError:
    return FieldError("FieldValueNotSupported", path, value, "supported values: " + ", ".join(quoted(name) for name in allowed))


def duplicate(path: str, value: Any) -> FieldError:
    return FieldError("FieldValueDuplicate", path, value)


def forbidden(path: str, detail: str) -> FieldError:
    return FieldError("FieldValueForbidden", path, None, detail)


def not_found(path: str, value: Any) -> FieldError:
    return FieldError("FieldValueNotFound", path, value)


def too_long(path: str, limit: int) -> FieldError:
    return FieldError("FieldValueTooLong", path, None, f"may not be more than {limit} bytes")


def too_many(path: str, count: int, limit: int) -> FieldError:
    return FieldError("FieldValueTooMany", path, None, f"{count}: must have at most {limit} item{'' if limit == 1 else 's'}")


def new_invalid(group: str, kind: str, name: str, errors: Iterable[FieldError]) -> Invalid:
    """The 422 error of an invalid object: `Pod "x" is invalid: [a, b]`."""
    listed_errors = list(errors)
    texts = list(dict.fromkeys(str(error) for error in listed_errors))
    listed = texts[0] if len(texts) == 1 else "[" + ", ".join(texts) + "]"
    qualified = f"{kind}.{group}" if group else kind
    named = {field: text for field, text in (("name", name), ("group", group), ("kind", kind)) if text}
    return Invalid(
        f"{qualified} {quoted(name)} is invalid: {listed}", details={**named, "causes": [error.cause() for error in listed_errors]}
    )


def quoted(text: str) -> str:
    """A string as Go's %q prints it."""
    plain = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{plain}"' if plain.isprintable() else '"' + "".join(map(_escaped, plain)) + '"'


def _escaped(character: str) -> str:
    if character.isprintable():
        return character
    code = ord(character)
    return _ESCAPES.get(character) or (
        f"\\x{code:02x}" if code < 0x80 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
    )


def go_number(value: float) -> str:
    """A number as Go's %v prints it: very large and very small numbers with an exponent."""
    if isinstance(value, int):
        return str(value)
    _, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    power = len(digits) + int(exponent) - 1
    if -4 <= power < 6:
        return f"{value:.{max(0, -int(exponent))}f}"
    rest = "".join(map(str, digits[1:]))
    return f"{'-' if value < 0 else ''}{digits[0]}{'.' + rest if rest else ''}e{'-' if power < 0 else '+'}{abs(power):02d}"


def _shown(value: Any) -> str:
    if isinstance(value, Rendered):
        return str(value)
    if isinstance(value, str):
        return quoted(value)
    if value is None:
        return "null"
    if isinstance(value, float):
        return go_number(value)
    return encode_json(value)
