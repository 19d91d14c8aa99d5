"""Go regular expressions, matched by RE2 in linear time."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator

# Go refuses expressions whose syntax tree is deeper.
_MAX_DEPTH = 1000
# RE2's time is at most proportional to the instructions of the pattern and the length of the text: about 0.1 s.
_MAX_STEPS = 20_000_000
_TOKENS = re.compile(
    r"\\Q.*?(?:\\E|\Z)|\\x\{|\\.|\[\^?\]?(?:\[:\w+:\]|\\.|[^\]\\])*\]|\(\?P?<\w+>|\{[0-9]{4,}(?:,[0-9]*)?\}|\{[0-9]*,[0-9]{4,}\}|[()]",
    re.DOTALL,
)
# RE2 words a few problems differently from Go.
_GO_MESSAGES = {
    "missing )": "missing closing )",
    "missing ]": "missing closing ]",
    "no argument for repetition operator": "missing argument to repetition operator",
    "bad repetition operator": "invalid nested repetition operator",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "invalid named capture group": "invalid named capture",
    "invalid repetition size": "invalid repeat count",
    "trailing \\": "trailing backslash at end of expression",
    "pattern too large - compile failed": "expression too large",
}


class PatternError(ValueError):
    """An invalid regular expression, with Go's message."""

    def __init__(self, problem: str, where: str) -> None:
        super().__init__(f"error parsing regexp: {problem}: `{where}`")


class Match(Protocol):
    def group(self) -> str: ...


class Pattern(Protocol):
    """The methods of a compiled pattern that callers use."""

    programsize: int

    def search(self, text: str) -> Match | None: ...
    def finditer(self, text: str) -> Iterator[Match]: ...


@lru_cache(maxsize=2048)
def compile_pattern(pattern: str) -> Pattern:
    """Compile a Go pattern. Raises PatternError if it is invalid."""
    import re2  # type: ignore[import-untyped]  # 10 ms that commands without patterns do not spend

    options = re2.Options()
    options.log_errors = False
    options.never_capture = True  # groups would need RE2's slowest algorithm
    _refuse_what_only_re2_accepts(pattern)
    try:
        compiled: Pattern = re2.compile(pattern, options)
    except re2.error as error:
        raise go_error(error.args[0].decode(errors="replace"), pattern) from error
    except UnicodeEncodeError as error:
        raise PatternError("invalid UTF-8", ascii(pattern)[1:-1]) from error
    return compiled


def matches(pattern: str, text: str) -> bool | None:
    """Whether a Go pattern matches; None if a match could take too long."""
    compiled = compile_pattern(pattern)
    if compiled.programsize * len(text) > _MAX_STEPS:
        return None
    return compiled.search(text) is not None


def go_error(message: str, pattern: str = "") -> PatternError:
    """Go's error for a message of RE2."""
    problem, _, where = message.partition(": ")
    if problem == "invalid perl operator" and where.startswith("(?<") and where != "(?<":
        # RE2 reads a lookbehind where Go reads a name.
        start = pattern.find(where)
        end = pattern.find(">", start) + 1
        problem, where = "invalid named capture group", pattern[start : end or None]
    elif problem == "invalid UTF-8":
        problem, where = "invalid escape sequence", "\\x{"
    return PatternError(_GO_MESSAGES.get(problem, problem), where)


def _refuse_what_only_re2_accepts(pattern: str) -> None:
    depth = 0
    for token in _TOKENS.findall(pattern):
        if token == "\\C":
            raise PatternError("invalid escape sequence", token)
        if token.startswith("(?") and not token.isascii():
            raise PatternError("invalid named capture", token)
        if token.startswith("{") and token.strip("{,}0") and max(int(part or 0) for part in token[1:-1].split(",")) > 1000:
            raise PatternError("invalid repeat count", token)
        depth += token.startswith("(") - (token == ")")
        if depth >= _MAX_DEPTH:
            raise PatternError("expression nests too deeply", pattern)
