"""Kubernetes quantities (`500m`, `1.5Gi`, `2e3`): exact values, and the canonical form that kube-apiserver returns.

A quantity is `mantissa × 10^exponent` with the format of its suffix, so that `1e400` costs no more than `1`. The finest unit is
10^-9: smaller parts are rounded up, away from zero. Parsed strings are cached, since the same ones recur.
"""

from __future__ import annotations

import re
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

Quantity = str | int | float

DECIMAL = "decimal"  # 12M
BINARY = "binary"  # 12Mi
EXPONENT = "exponent"  # 12e6

_FORMAT_ERROR = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
_NUMBER_ERROR = "unable to parse numeric part of quantity"
_SUFFIX_ERROR = "unable to parse quantity's suffix"

_split = re.compile(r"([+-]?)([0-9]*)(?:\.([0-9]*))?([eEinumkKMGTP]*[-+]?[0-9]*)").fullmatch
_DECIMAL_SUFFIXES = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY_SUFFIXES = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_SUFFIX_OF_DECIMAL = {exponent: suffix for suffix, exponent in _DECIMAL_SUFFIXES.items()}
_SUFFIX_OF_BINARY = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_exponent = re.compile(r"[eE]([-+]?[0-9]+)").fullmatch

_MIN_EXPONENT = -9
_NANO = 10**9
_MAX_INT64 = 2**63 - 1
_FAST_DIGITS = 18
# Exponents may have nine digits; values beyond this one compare as equal.
_MAX_EXPONENT = 400


class _Parsed(NamedTuple):
    mantissa: int
    exponent: int
    style: str
    unchanged: str | None = None  # the string itself, if kube-apiserver returns it unchanged


def parse(text: Quantity) -> Fraction:
    """The exact value; ValueError with Kubernetes' message if it is invalid."""
    return _fraction(_string(text))


def nanos(text: Quantity) -> int:
    """The value in units of 10^-9: exact, and the fastest form to add and compare."""
    return _nanos(_string(text))


def canonical(text: Quantity) -> str:
    """The canonical form that kube-apiserver returns: `1.5` is `1500m`, `1024Mi` is `1Gi`."""
    return _canonical(_string(text))


def compare(left: Quantity, right: Quantity) -> int:
    """-1, 0 or 1 if the left value is less than, equal to or greater than the right one."""
    return (nanos(left) > nanos(right)) - (nanos(left) < nanos(right))


def add(left: Quantity, right: Quantity) -> str:
    """The sum, in the format of the left value unless that is zero."""
    return _sum(left, right, 1)


def subtract(left: Quantity, right: Quantity) -> str:
    """The difference, in the format of the left value unless that is zero."""
    return _sum(left, right, -1)


def render(value: Fraction | int, style: str = DECIMAL) -> str:
    """A value as a quantity in canonical form."""
    exact = Fraction(value) * _NANO
    whole = -(-exact.numerator // exact.denominator) if value > 0 else exact.numerator // exact.denominator
    return _format(whole, _MIN_EXPONENT, style)


def round_up(text: Quantity) -> int:
    """The value as an integer, rounded away from zero: bytes, pods, devices."""
    return _divide_away_from_zero(nanos(text), _NANO)


def milli(text: Quantity) -> int:
    """The value in thousandths, rounded away from zero: millicores."""
    return _divide_away_from_zero(nanos(text), 10**6)


def _string(value: Quantity) -> str:
    return value if type(value) is str else str(value)


@lru_cache(maxsize=8192)
def _fraction(text: str) -> Fraction:
    return Fraction(_nanos(text), _NANO)


@lru_cache(maxsize=8192)
def _nanos(text: str) -> int:
    parsed = _parse(text)
    return parsed.mantissa * int(10 ** min(parsed.exponent - _MIN_EXPONENT, _MAX_EXPONENT))


@lru_cache(maxsize=8192)
def _canonical(text: str) -> str:
    parsed = _parse(text)
    return parsed.unchanged if parsed.unchanged is not None else _format(parsed.mantissa, parsed.exponent, parsed.style)


def _parse(text: str) -> _Parsed:
    text = text.strip()
    match = _split(text) if text else None
    if match is None:
        raise ValueError(_FORMAT_ERROR)
    sign, number, decimals, suffix = match.groups()
    number, decimals = number.lstrip("0") or "0", decimals or ""
    style, shift = _suffix(suffix)
    factor = -1 if sign == "-" else 1
    if style is BINARY:
        return _parse_binary(text, factor, number, decimals, shift)
    digits, exponent = number + decimals, shift - len(decimals)
    if len(digits) <= _FAST_DIGITS and exponent >= _MIN_EXPONENT:
        # kube-apiserver keeps strings that look canonical to it, even with a plus sign or three decimals.
        looks_canonical = exponent % 3 == 0 and not digits.endswith("000") and digits[0] != "0"
        return _Parsed(factor * int(digits), exponent, style, text if looks_canonical else None)
    if not (decimals or match[2]):
        raise ValueError(_NUMBER_ERROR)
    return _Parsed(factor * _round_to_nanos(int(digits), exponent), max(exponent, _MIN_EXPONENT), style)


def _parse_binary(text: str, factor: int, number: str, decimals: str, shift: int) -> _Parsed:
    if not decimals and 14 - len(number) - shift * 3 // 10 >= 0:
        value = int(number)
        return _Parsed(factor * (value << shift), 0, BINARY, text if value & 7 else None)
    if not decimals and not any(map(str.isdigit, text)):
        raise ValueError(_NUMBER_ERROR)
    digits, exponent = int(number + decimals) << shift, -len(decimals)
    mantissa, exponent = _round_to_nanos(digits, exponent), max(exponent, _MIN_EXPONENT)
    scale = int(10**-exponent)
    if mantissa > _MAX_INT64 * scale:
        mantissa, exponent, scale = _MAX_INT64, 0, 1
    return _Parsed(factor * mantissa, exponent, DECIMAL if 0 < mantissa < scale else BINARY)


def _suffix(suffix: str) -> tuple[str, int]:
    """The format of a suffix, and its power of ten or of two."""
    if suffix in _DECIMAL_SUFFIXES:
        return DECIMAL, _DECIMAL_SUFFIXES[suffix]
    if suffix in _BINARY_SUFFIXES:
        return BINARY, _BINARY_SUFFIXES[suffix]
    match = _exponent(suffix)
    if match is None or len(match[1]) > 20 or not -(2**63) <= int(match[1]) < 2**63:
        raise ValueError(_SUFFIX_ERROR)
    # kube-apiserver truncates the exponent to 32 bits.
    return EXPONENT, (int(match[1]) + 2**31) % 2**32 - 2**31


def _round_to_nanos(mantissa: int, exponent: int) -> int:
    """The mantissa after rounding up to units of 10^-9."""
    surplus = _MIN_EXPONENT - exponent
    if surplus <= 0:
        return mantissa
    if surplus > len(str(mantissa)):
        return 1 if mantissa else 0
    return -(-mantissa // int(10**surplus))


def _format(mantissa: int, exponent: int, style: str) -> str:
    if mantissa == 0:
        return "0"
    if style is BINARY:
        unit = int(10**-exponent) if exponent < 0 else 1
        if abs(mantissa) >= 1024 * unit and mantissa % unit == 0:
            return _format_binary(mantissa // unit * int(10 ** max(exponent, 0)))
        style = DECIMAL
    digits = str(mantissa)
    significant = digits.rstrip("0")
    exponent += len(digits) - len(significant)
    spare = exponent % 3
    exponent -= spare
    if style is EXPONENT:
        return f"{significant}{'0' * spare}e{exponent}" if exponent else significant + "0" * spare
    return significant + "0" * spare + _SUFFIX_OF_DECIMAL.get(exponent, "")


def _format_binary(value: int) -> str:
    power = 0
    while value % 1024 == 0:
        value //= 1024
        power += 1
    return f"{value}{_SUFFIX_OF_BINARY[power]}"


def _sum(left: Quantity, right: Quantity, sign: int) -> str:
    first, second = _parse(_string(left)), _parse(_string(right))
    style = first.style if first.mantissa else second.style
    return _format(nanos(left) + sign * nanos(right), _MIN_EXPONENT, style)


def _divide_away_from_zero(value: int, unit: int) -> int:
    return -(-value // unit) if value > 0 else value // unit
