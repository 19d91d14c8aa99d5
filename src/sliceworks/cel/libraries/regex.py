"""Kubernetes' regular expression functions: find and findAll."""

from __future__ import annotations

from itertools import islice

from sliceworks.cel.libraries.functions import Function
from sliceworks.schemas.patterns import Pattern, PatternError, compile_pattern


def _compile(pattern: str) -> Pattern:
    try:
        return compile_pattern(pattern)
    except PatternError as error:
        raise ValueError(f"Illegal regex: {error}") from error


def find(text: str, pattern: str) -> str:
    match = _compile(pattern).search(text)
    return match.group() if match else ""


def find_all(text: str, pattern: str, limit: int = -1) -> list[str]:
    return [match.group() for match in islice(_compile(pattern).finditer(text), limit if limit >= 0 else None)]


FUNCTIONS = [
    Function("find", "string.find(string)", "string", find),
    Function("findAll", "string.findAll(string)", "list<string>", find_all),
    Function("findAll", "string.findAll(string, int)", "list<string>", find_all),
]
