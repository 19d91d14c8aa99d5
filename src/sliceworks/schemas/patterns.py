"""Go's regular expressions in Python's engine: read as Go reads them, refused in Go's words, written as Python writes them."""

from __future__ import annotations

import re
from functools import lru_cache

_POSIX = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "ascii": "\\x00-\\x7F",
    "blank": "\\t ",
    "cntrl": "\\x00-\\x1F\\x7F",
    "digit": "0-9",
    "graph": "!-~",
    "lower": "a-z",
    "print": " -~",
    "punct": "!-/:-@\\[-`{-~",
    "space": "\\t\\n\\v\\f\\r ",
    "upper": "A-Z",
    "word": "0-9A-Za-z_",
    "xdigit": "0-9A-Fa-f",
}
# Classes of Unicode that Python's engine cannot name, as ranges. Letters beyond Latin are taken together.
_UNICODE = {
    "L": "A-Za-z\u00aa-\uffdc",
    "Lu": "A-Z\u00c0-\u00de",
    "Ll": "a-z\u00df-\u00ff",
    "Lo": "\u00aa-\uffdc",
    "M": "\u0300-\u036f",
    "N": "0-9",
    "Nd": "0-9",
    "P": "!-#%-*,-/:;?@\\[-\\]_{}",
    "S": "$+<=>^`|~\u00a2-\u00b4",
    "Z": " \u00a0\u2000-\u200a\u2028\u2029",
    "Latin": "A-Za-z\u00aa-\u024f",
    "Greek": "\u0370-\u03ff",
    "Cyrillic": "\u0400-\u04ff",
    "Han": "\u4e00-\u9fff",
}
_REPEAT = re.compile(r"\{(\d+)(,(\d*))?\}", re.ASCII)
_FLAGS = re.compile(r"\(\?([imsU]*)(-[imsU]+)?([:)])")
_NAMED = re.compile(r"\(\?P?<(\w+)>")
_PROPERTY = re.compile(r"\\([pP])(?:\{(\^?)(\w+)\}|(\w))")


class PatternError(ValueError):
    """Not a regular expression; the text is Go's."""

    def __init__(self, problem: str, where: str) -> None:
        super().__init__(f"error parsing regexp: {problem}: `{where}`")


@lru_cache(maxsize=2048)
def compiled(pattern: str) -> re.Pattern[str]:
    """The pattern, ready to `search` with. PatternError when it is not a regular expression."""
    try:
        return re.compile(_Reader(pattern).translated(), re.ASCII)
    except re.error as error:
        raise PatternError(str(error), pattern) from error


class _Reader:
    """One walk over a pattern."""

    def __init__(self, pattern: str) -> None:
        self.pattern, self.at = pattern, 0
        self.parts: list[str] = []
        # For each open group, how many groups were opened in it to hold what follows a change of flags.
        self.opened = [0]
        self.multiline = False
        # Where the last repetition began, and whether there is something to repeat.
        self.repeated: int | None = None
        self.operand = False

    def translated(self) -> str:
        while self.at < len(self.pattern):
            self._next()
        if len(self.opened) > 1:
            raise PatternError("missing closing )", self.pattern)
        return "".join(self.parts) + ")" * self.opened[0]

    def _next(self) -> None:
        character = self.pattern[self.at]
        repeat = _REPEAT.match(self.pattern, self.at) if character == "{" else None
        if character in "*+?" or repeat:
            self._repeat(repeat)
            return
        self.repeated, self.operand = None, True
        if character == "(":
            self._open()
        elif character == ")":
            self._close()
        elif character == "[":
            self._take(self._class_end(), self._class())
        elif character == "\\":
            self._take(*self._escape(in_class=False))
        else:
            special = {"$": "$" if self.multiline else "\\Z", "{": "\\{"}
            self.operand = character != "|"
            self._take(self.at + 1, special.get(character, character))

    def _take(self, end: int, text: str) -> None:
        self.parts.append(text)
        self.at = end

    def _repeat(self, counted: re.Match[str] | None) -> None:
        start, end = self.at, counted.end() if counted else self.at + 1
        lazy = self.pattern.startswith("?", end)
        text = self.pattern[start : end + lazy]
        if not self.operand:
            raise PatternError("missing argument to repetition operator", text)
        if self.repeated is not None:
            raise PatternError("invalid nested repetition operator", self.pattern[self.repeated : end + lazy])
        if counted:
            low, high = int(counted[1]), int(counted[3] or counted[1])
            if max(low, high) > 1000 or high < low:
                raise PatternError("invalid repeat count", counted[0])
        self.repeated = start
        self._take(end + lazy, text)

    def _open(self) -> None:
        named, flags = _NAMED.match(self.pattern, self.at), _FLAGS.match(self.pattern, self.at)
        self.operand = False
        if named:
            self.opened.append(0)
            self._take(named.end(), "(")
        elif flags and (flags[1] or flags[2] or flags[3] == ":"):
            self._flags(flags)
        elif self.pattern.startswith(("(?P<", "(?<"), self.at):
            end = self.pattern.find(">", self.at)
            raise PatternError("invalid named capture", self.pattern[self.at : end + 1] if end > 0 else self.pattern[self.at :])
        elif self.pattern.startswith("(?", self.at):
            raise PatternError("invalid or unsupported Perl syntax", self.pattern[self.at : self.at + 3])
        else:
            self.opened.append(0)
            self._take(self.at + 1, "(")

    def _flags(self, found: re.Match[str]) -> None:
        on, off = found[1].replace("U", ""), (found[2] or "").replace("U", "").rstrip("-")
        self.multiline = ("m" in on or self.multiline) and "m" not in off
        if found[3] == ":":
            self.opened.append(0)
        else:
            self.opened[-1] += 1
        self._take(found.end(), f"(?{on}{off}:")

    def _close(self) -> None:
        if len(self.opened) == 1:
            raise PatternError("unexpected )", self.pattern)
        self._take(self.at + 1, ")" * (self.opened.pop() + 1))

    def _escape(self, *, in_class: bool) -> tuple[int, str]:
        rest = self.pattern[self.at :]
        if len(rest) < 2:
            raise PatternError("trailing backslash at end of expression", "")
        if rest[1] in "pP":
            return self._property(in_class)
        if rest[1] == "Q" and not in_class:
            literal, _, _ = rest[2:].partition("\\E")
            return min(self.at + len(literal) + 4, len(self.pattern)), re.escape(literal)
        if rest[1] == "x" and (braced := re.match(r"\\x\{([0-9A-Fa-f]{1,6})\}", rest)):
            return self.at + braced.end(), re.escape(chr(int(braced[1], 16)))
        if rest[1] == "z" and not in_class:
            return self.at + 2, "\\Z"
        allowed = "dDsSwWafnrtvx" + ("" if in_class else "AbB")
        if rest[1].isalnum() and rest[1].isascii() and rest[1] not in allowed:
            raise PatternError("invalid escape sequence", rest[:2])
        return self.at + 2, rest[:2]

    def _property(self, in_class: bool) -> tuple[int, str]:
        found = _PROPERTY.match(self.pattern, self.at)
        ranges = _UNICODE.get(found[3] or found[4]) if found else None
        if found is None or ranges is None:
            raise PatternError("invalid character class range", found[0] if found else self.pattern[self.at : self.at + 2])
        negated = (found[1] == "P") != bool(found[2])
        return found.end(), ranges if in_class and not negated else f"[{'^' if negated else ''}{ranges}]"

    def _class_end(self) -> int:
        """Where the class that begins here ends: `]` in the first place stands for itself."""
        place = self.at + 1 + self.pattern.startswith("^", self.at + 1)
        place += self.pattern.startswith("]", place)
        while place < len(self.pattern) and self.pattern[place] != "]":
            named = re.compile(r"\[:\^?\w+:\]").match(self.pattern, place)
            place = named.end() if named else place + (2 if self.pattern[place] == "\\" else 1)
        if place >= len(self.pattern):
            raise PatternError("missing closing ]", self.pattern[self.at :])
        return place + 1

    def _class(self) -> str:
        end, start = self._class_end() - 1, self.at
        self.at += 1
        parts = ["["]
        if self.pattern[self.at] == "^":
            parts.append("^")
            self.at += 1
        while self.at < end:
            parts.append(self._class_piece(end))
        self.at = start
        return "".join(parts) + "]"

    def _class_piece(self, end: int) -> str:
        named = re.compile(r"\[:(\^?)(\w+):\]").match(self.pattern, self.at)
        if named:
            if named[2] not in _POSIX or named[1]:
                raise PatternError("invalid character class range", named[0])
            self.at = named.end()
            return _POSIX[named[2]]
        start = self.at
        if self.pattern[self.at] == "\\":
            self.at, text = self._escape(in_class=True)
            return text
        character = self.pattern[self.at]
        self.at += 1
        high = self.pattern[self.at + 1] if self.pattern[self.at] == "-" and self.at + 1 < end else None
        if high is not None and high != "\\" and high < character:
            raise PatternError("invalid character class range", self.pattern[start : self.at + 2])
        return "\\" + character if character in "[]&~|" else character
