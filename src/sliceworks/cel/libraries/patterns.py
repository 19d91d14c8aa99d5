"""Kubernetes' regular expression functions: find and findAll.

Patterns are matched by the engine's own RE2, which cannot be made to run for ever. It finds what a group matched, and these
functions want the whole match, so every group is made a non-capturing one first.
"""

from __future__ import annotations

from functools import cache, lru_cache
from typing import Any

from sliceworks.cel.engine import engine
from sliceworks.cel.libraries.functions import Function


@lru_cache(maxsize=512)
def without_groups(pattern: str) -> str:
    """The pattern with its capturing groups made non-capturing."""
    found, position, in_class = [], 0, False
    while position < len(pattern):
        letter = pattern[position]
        if letter == "\\":
            if pattern.startswith("\\Q", position):
                end = pattern.find("\\E", position)
                end = len(pattern) if end < 0 else end + 2
            else:
                end = position + 2
            found.append(pattern[position:end])
            position = end
            continue
        if in_class:
            in_class = letter != "]" or pattern[position - 1] == "[" or pattern[position - 2 : position] == "[^"
        elif letter == "[":
            in_class = True
        elif letter == "(":
            letter, position = _group(pattern, position)
        found.append(letter)
        position += 1
    return "".join(found)


def _group(pattern: str, position: int) -> tuple[str, int]:
    """What opens a group, and the place of the last letter it replaces."""
    for opening in ("(?P<", "(?<"):
        if pattern.startswith(opening, position):
            end = pattern.find(">", position)
            return ("(?:", end) if end > 0 else ("(", position)
    return ("(", position) if pattern.startswith("(?", position) else ("(?:", position)


@cache
def _program(text: str) -> Any:
    cel = engine()
    config = cel.NewEnvConfigFromYaml('extensions:\n  - name: "optional"\n  - name: "regex"\n')
    environment = cel.NewEnv(config=config, variables={"text": cel.Type.STRING, "pattern": cel.Type.STRING})
    return environment.compile(text)


def _run(program: str, text: str, pattern: str) -> Any:
    result = _program(program).eval(data={"text": text, "pattern": without_groups(pattern)})
    value = result.plain_value()
    if result.type().name() == "ERROR":
        raise ValueError(f"Illegal regex: {value}")
    return value


def find(text: str, pattern: str) -> str:
    return str(_run("regex.extract(text, pattern).orValue('')", text, pattern))


def find_all(text: str, pattern: str, limit: int = -1) -> list[str]:
    found: list[str] = _run("regex.extractAll(text, pattern)", text, pattern)
    return found if limit < 0 else found[:limit]


FUNCTIONS = [
    Function("find", "string.find(string)", "string", find),
    Function("findAll", "string.findAll(string)", "list<string>", find_all),
    Function("findAll", "string.findAll(string, int)", "list<string>", find_all),
]
