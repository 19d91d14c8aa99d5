"""What a plain word of YAML stands for, by the rules of Kubernetes' own YAML: a little of 1.1, and nothing of base 60.

Numbers come out as JSON would give them back: what fits 64 bits and has no fraction is an int, anything else a float.
"""

from __future__ import annotations

import math
import re

Scalar = str | int | float | bool | None

_WORDS: dict[str, Scalar] = {"": None, "~": None, ".nan": math.nan, ".NaN": math.nan, ".NAN": math.nan}
for _value, _names in ((None, "null"), (True, "y yes true on"), (False, "n no false off")):
    for _name in _names.split():
        _WORDS |= {_name: _value, _name.capitalize(): _value, _name.upper(): _value}
for _name in (".inf", ".Inf", ".INF"):
    _WORDS |= {_name: math.inf, f"+{_name}": math.inf, f"-{_name}": -math.inf}

_INT = re.compile(r"[-+]?(0[bB][01]+|0[oO][0-7]+|0[xX][0-9a-fA-F]+|0[0-7]*|[1-9][0-9]*)", re.ASCII)
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", re.ASCII)
_BASES = {"0b": 2, "0o": 8, "0x": 16}
_SMALLEST, _LARGEST = -(2**63), 2**63 - 1


def plain(text: str) -> Scalar:
    """The value of a word without quotes."""
    if text in _WORDS:
        return _WORDS[text]
    if text[0] in "0123456789+-.":
        return _number(text)
    return text


def _number(text: str) -> Scalar:
    digits = text.replace("_", "") if text[0] != "." else text
    if _INT.fullmatch(digits):
        return narrowed(_int(digits))
    if _FLOAT.fullmatch(digits):
        value = float(digits)
        return text if math.isinf(value) else narrowed(value)
    return text


def _int(digits: str) -> int:
    sign, magnitude = (-1 if digits[0] == "-" else 1), digits.lstrip("+-")
    base = _BASES.get(magnitude[:2].lower()) or (8 if magnitude[0] == "0" else 10)
    return sign * int(magnitude, base)


def narrowed(value: float) -> int | float:
    """A number as it is after a way through JSON and 64 bits."""
    if isinstance(value, int):
        return value if _SMALLEST <= value <= _LARGEST else _as_float(value)
    return int(value) if value.is_integer() and _SMALLEST <= value <= _LARGEST else value


def _as_float(value: int) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.copysign(math.inf, value)


def key(value: Scalar) -> str | None:
    """A value as the name of a field; None when it cannot be one."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return {math.inf: ".inf", -math.inf: "-.inf"}.get(value, ".nan" if math.isnan(value) else f"{value:g}")
    return str(value) if isinstance(value, int | str) else None
