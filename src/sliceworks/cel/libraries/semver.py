"""Kubernetes' semantic version functions."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, NamedTuple

from sliceworks.cel.libraries.functions import Function, accepts, unwrap, wrap
from sliceworks.schemas.field_errors import quoted

KIND = "kubernetes.Semver"
_PART = re.compile(r"[0-9A-Za-z-]+\Z")


class Version(NamedTuple):
    """A comparable version: a release sorts after its pre-releases."""

    numbers: tuple[int, int, int]
    released: bool
    pre: tuple[tuple[int, int, str], ...]


@lru_cache(maxsize=1024)
def parse(text: str) -> Version:
    """The parsed version; ValueError with the message of Kubernetes' parser."""
    if not text:
        raise ValueError("Version string empty")
    parts = text.split(".", 2)
    if len(parts) != 3:
        raise ValueError("No Major.Minor.Patch elements found")
    major, minor = _number(parts[0], "major"), _number(parts[1], "minor")
    rest, plus, build = parts[2].partition("+")
    patch, dash, pre = rest.partition("-")
    numbers = (major, minor, _number(patch, "patch"))
    identifiers = tuple(_pre_release(identifier) for identifier in pre.split(".")) if dash else ()
    if plus:
        for identifier in build.split("."):
            _check_build(identifier)
    return Version(numbers, not identifiers, identifiers)


def normalized(text: str) -> str:
    """The version without a leading v and leading zeros, with missing parts added."""
    parts = [_without_zeros(part) for part in text.removeprefix("v").split(".", 2)]
    if len(parts) < 3:
        if any(letter in parts[-1] for letter in "+-"):
            raise ValueError("short version cannot contain PreRelease/Build meta data")
        parts += ["0"] * (3 - len(parts))
    return ".".join(parts)


def _without_zeros(part: str) -> str:
    if len(part) < 2:
        return part
    stripped = part.lstrip("0")
    return stripped if stripped and stripped[0].isdigit() else "0" + stripped


def _number(text: str, what: str) -> int:
    if not text.isdecimal() or not text.isascii():
        raise ValueError(f"Invalid character(s) found in {what} number {quoted(text)}")
    if len(text) > 1 and text.startswith("0"):
        raise ValueError(f"{what.capitalize()} number must not contain leading zeroes {quoted(text)}")
    if int(text) >= 2**64:
        raise ValueError(f"strconv.ParseUint: parsing {quoted(text)}: value out of range")
    return int(text)


def _pre_release(text: str) -> tuple[int, int, str]:
    if not text:
        raise ValueError("Prerelease is empty")
    if text.isdecimal():
        if len(text) > 1 and text.startswith("0"):
            raise ValueError(f"Numeric PreRelease version must not contain leading zeroes {quoted(text)}")
        return (0, int(text), "")
    if not _PART.match(text):
        raise ValueError(f"Invalid character(s) found in prerelease {quoted(text)}")
    return (1, 0, text)


def _check_build(text: str) -> None:
    if not text:
        raise ValueError("Build meta data is empty")
    if not _PART.match(text):
        raise ValueError(f"Invalid character(s) found in build meta data {quoted(text)}")


def semver(text: str, normalize: bool = False) -> dict[str, str]:
    version = normalized(text) if normalize else text
    parse(version)
    # Comparisons ignore build metadata: drop it, so that equal versions are equal.
    return wrap(KIND, version.partition("+")[0])


def compare(value: dict[str, Any], other: dict[str, Any]) -> int:
    left, right = parse(unwrap(KIND, value)), parse(unwrap(KIND, other))
    return (left > right) - (left < right)


def part(index: int) -> Any:
    return lambda value: parse(unwrap(KIND, value)).numbers[index]


FUNCTIONS = [
    Function("semver", "semver(string)", KIND, semver),
    Function("semver", "semver(string, bool)", KIND, semver),
    Function("isSemver", "isSemver(string)", "bool", accepts(semver)),
    Function("isSemver", "isSemver(string, bool)", "bool", accepts(semver)),
    *(Function(name, f"{KIND}.{name}()", "int", part(index)) for index, name in enumerate(("major", "minor", "patch"))),
]
