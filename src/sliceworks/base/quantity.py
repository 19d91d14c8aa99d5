"""Kubernetes' quantities (`500m`, `1.5Gi`, `2e3`): exact values, and the form in which the API server prints them back.

A quantity is held as `mantissa × 10^exponent` with the style it was written in, so that `1e400` costs no more than `1`. Nothing is
finer than a billionth: what is, is rounded up, away from zero. Texts repeat, so what was read is remembered.
"""

from __future__ import annotations

import re
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

Text = str | int | float

DECIMAL = "decimal"  # 12M
BINARY = "binary"  # 12Mi
EXPONENT = "exponent"  # 12e6

_WRONG_FORMAT = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
_WRONG_NUMBER = "unable to parse numeric part of quantity"
_WRONG_SUFFIX = "unable to parse quantity's suffix"

_split = re.compile(r"([+-]?)([0-9]*)(?:\.([0-9]*))?([eEinumkKMGTP]*[-+]?[0-9]*)").fullmatch
_DECIMAL_SUFFIXES = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY_SUFFIXES = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_SUFFIX_OF_DECIMAL = {exponent: suffix for suffix, exponent in _DECIMAL_SUFFIXES.items()}
_SUFFIX_OF_BINARY = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_exponent = re.compile(r"[eE]([-+]?[0-9]+)").fullmatch

_FINEST = -9
_NANO = 10**9
_MOST = 2**63 - 1
_MOST_DIGITS = 18
# A text may name an exponent of nine digits; beyond this one all values count as equally large.
_LARGEST_EXPONENT = 400


class _Parsed(NamedTuple):
    mantissa: int
    exponent: int
    style: str
    kept: str | None = None  # the text itself, where the API server prints it back unchanged


def parse(text: Text) -> Fraction:
    """The exact value; ValueError in Kubernetes' words when it is none."""
    return _fraction(_text(text))


def nanos(text: Text) -> int:
    """The value in billionths: exact, and the fastest to add up and compare."""
    return _nanos(_text(text))


def canonical(text: Text) -> str:
    """The text as the API server prints it back: `1.5` is `1500m`, `1024Mi` is `1Gi`."""
    return _canonical(_text(text))


def compare(one: Text, other: Text) -> int:
    """-1, 0 or 1: whether one is less than, equal to or more than the other."""
    left, right = nanos(one), nanos(other)
    return (left > right) - (left < right)


def add(one: Text, other: Text) -> str:
    """The sum, in the style of the first unless that is zero."""
    return _sum(one, other, 1)


def subtract(one: Text, other: Text) -> str:
    """The difference, in the style of the first unless that is zero."""
    return _sum(one, other, -1)


def render(value: Fraction | int, style: str = DECIMAL) -> str:
    """A value as a quantity in canonical form."""
    exact = Fraction(value) * _NANO
    whole = -(-exact.numerator // exact.denominator) if value > 0 else exact.numerator // exact.denominator
    return _printed(whole, _FINEST, style)


def whole(text: Text) -> int:
    """The value rounded away from zero to an integer: bytes, pods, devices."""
    return _divided(nanos(text), _NANO)


def milli(text: Text) -> int:
    """The value in thousandths, rounded away from zero: CPUs."""
    return _divided(nanos(text), 10**6)


def _text(value: Text) -> str:
    return value if type(value) is str else str(value)


@lru_cache(maxsize=8192)
def _fraction(text: str) -> Fraction:
    return Fraction(_nanos(text), _NANO)


@lru_cache(maxsize=8192)
def _nanos(text: str) -> int:
    parsed = _parse(text)
    return parsed.mantissa * int(10 ** min(parsed.exponent - _FINEST, _LARGEST_EXPONENT))


@lru_cache(maxsize=8192)
def _canonical(text: str) -> str:
    parsed = _parse(text)
    return parsed.kept if parsed.kept is not None else _printed(parsed.mantissa, parsed.exponent, parsed.style)


def _parse(text: str) -> _Parsed:
    text = text.strip()
    found = _split(text) if text else None
    if found is None:
        raise ValueError(_WRONG_FORMAT)
    sign, number, decimals, suffix = found.groups()
    number, decimals = number.lstrip("0") or "0", decimals or ""
    style, shift = _suffix(suffix)
    factor = -1 if sign == "-" else 1
    if style is BINARY:
        return _parse_binary(text, factor, number, decimals, shift)
    digits, exponent = number + decimals, shift - len(decimals)
    if len(digits) <= _MOST_DIGITS and exponent >= _FINEST:
        # The server keeps what looks canonical to it, even a plus sign or decimals in threes.
        looks_canonical = exponent % 3 == 0 and not digits.endswith("000") and digits[0] != "0"
        return _Parsed(factor * int(digits), exponent, style, text if looks_canonical else None)
    if not (decimals or _has_digit(found)):
        raise ValueError(_WRONG_NUMBER)
    return _Parsed(factor * _finest(int(digits), exponent), max(exponent, _FINEST), style)


def _parse_binary(text: str, factor: int, number: str, decimals: str, shift: int) -> _Parsed:
    if not decimals and 14 - len(number) - shift * 3 // 10 >= 0:
        value = int(number)
        return _Parsed(factor * (value << shift), 0, BINARY, text if value & 7 else None)
    if not decimals and not any(map(str.isdigit, text)):
        raise ValueError(_WRONG_NUMBER)
    digits, exponent = int(number + decimals) << shift, -len(decimals)
    mantissa, exponent = _finest(digits, exponent), max(exponent, _FINEST)
    scale = int(10**-exponent)
    if mantissa > _MOST * scale:
        mantissa, exponent, scale = _MOST, 0, 1
    return _Parsed(factor * mantissa, exponent, DECIMAL if 0 < mantissa < scale else BINARY)


def _suffix(suffix: str) -> tuple[str, int]:
    """The style a suffix names, and its power of ten or of two."""
    if suffix in _DECIMAL_SUFFIXES:
        return DECIMAL, _DECIMAL_SUFFIXES[suffix]
    if suffix in _BINARY_SUFFIXES:
        return BINARY, _BINARY_SUFFIXES[suffix]
    found = _exponent(suffix)
    if found is None or len(found[1]) > 20 or not -(2**63) <= int(found[1]) < 2**63:
        raise ValueError(_WRONG_SUFFIX)
    # The server narrows the exponent to 32 bits.
    return EXPONENT, (int(found[1]) + 2**31) % 2**32 - 2**31


def _finest(mantissa: int, exponent: int) -> int:
    """The mantissa once nothing is finer than a billionth."""
    surplus = _FINEST - exponent
    if surplus <= 0:
        return mantissa
    if surplus > len(str(mantissa)):
        return 1 if mantissa else 0
    return -(-mantissa // int(10**surplus))


def _printed(mantissa: int, exponent: int, style: str) -> str:
    if mantissa == 0:
        return "0"
    if style is BINARY:
        unit = int(10**-exponent) if exponent < 0 else 1
        if abs(mantissa) >= 1024 * unit and mantissa % unit == 0:
            return _printed_binary(mantissa // unit * int(10 ** max(exponent, 0)))
        style = DECIMAL
    digits = str(mantissa)
    kept = digits.rstrip("0")
    exponent += len(digits) - len(kept)
    spare = exponent % 3
    exponent -= spare
    if style is EXPONENT:
        return f"{kept}{'0' * spare}e{exponent}" if exponent else kept + "0" * spare
    return kept + "0" * spare + _SUFFIX_OF_DECIMAL.get(exponent, "")


def _printed_binary(value: int) -> str:
    steps = 0
    while value % 1024 == 0:
        value //= 1024
        steps += 1
    return f"{value}{_SUFFIX_OF_BINARY[steps]}"


def _sum(one: Text, other: Text, sign: int) -> str:
    left, right = _parse(_text(one)), _parse(_text(other))
    style = left.style if left.mantissa else right.style
    return _printed(nanos(one) + sign * nanos(other), _FINEST, style)


def _divided(value: int, unit: int) -> int:
    return -(-value // unit) if value > 0 else value // unit


def _has_digit(found: re.Match[str]) -> bool:
    return bool(found[2])
