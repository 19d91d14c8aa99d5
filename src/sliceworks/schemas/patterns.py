"""Go's regular expressions in Python's engine: the few places where the two notations differ are rewritten."""

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
# Classes of Unicode that Python's engine can name. Letters beyond the Latin ranges are taken together.
_UNICODE = {
    "L": "A-Za-z\u00aa-\uffdc",
    "Lu": "A-Z\u00c0-\u00de",
    "Ll": "a-z\u00df-\u00ff",
    "N": "0-9",
    "Nd": "0-9",
    "S": "$+<=>^`|~\u00a2-\u00b4",
}
_PIECE = re.compile(
    r"""\\Q(?P<literal>.*?)(?:\\E|$)
      | \\(?P<unicode>[pP](?:\{\^?\w+\}|\w))
      | \\(?P<escaped>.)
      | \[:(?P<negated>\^?)(?P<posix>\w+):\]
      | \(\?(?P<flags>[imsU]+)\)
      | (?P<other>.)""",
    re.VERBOSE | re.DOTALL,
)


@lru_cache(maxsize=2048)
def compiled(pattern: str) -> re.Pattern[str]:
    """The pattern, ready to `search` with. `re.error` when it is not a regular expression."""
    return re.compile(_translated(pattern), re.ASCII)


def _translated(pattern: str) -> str:
    parts: list[str] = []
    in_class = False
    # For each open group, how many groups were opened in it to hold what follows a change of flags.
    opened = [0]
    for piece in _PIECE.finditer(pattern):
        kind, text = piece.lastgroup, piece.group()
        if kind == "literal":
            text = re.escape(piece["literal"])
        elif kind == "unicode":
            text = _unicode(piece["unicode"], in_class)
        elif kind == "escaped":
            text = "\\Z" if piece["escaped"] == "z" else text
        elif kind == "posix":
            text = _POSIX.get(piece["posix"], text) if in_class else text
        elif in_class:
            in_class = text != "]" or _opens_class(parts)
            text = "\\[" if text == "[" else text
        elif kind == "flags":
            opened[-1] += 1
            text = f"(?{piece['flags'].replace('U', '')}:"
        elif text == "$":
            text = "\\Z"
        elif text == "[":
            in_class = True
        elif text == "(":
            opened.append(0)
        elif text == ")" and len(opened) > 1:
            text = ")" * (opened.pop() + 1)
        parts.append(text)
    return "".join(parts) + ")" * opened[0]


def _opens_class(parts: list[str]) -> bool:
    """Whether a `]` here stands for itself: it is the first thing in its class."""
    return parts[-1] == "[" or parts[-2:] == ["[", "^"]


def _unicode(name: str, in_class: bool) -> str:
    negated = name[0] == "P" or "^" in name
    ranges = _UNICODE.get(name.strip("pP{}^"), "\u0080-\uffff")
    return ranges if in_class and not negated else f"[{'^' if negated else ''}{ranges}]"
