"""What a keeper answers when it is asked for news: a line of JSON, and the new bytes of each file of rows behind it. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import orjson

KINDS = ("rows", "pieces", "texts")
"""The files of a sender, in the order in which they stand in an answer. Whoever reads a row finds its pieces there or later."""
TOKEN = "x-load-token"
"""The header that says who asks: the API server keeps Authorization to itself."""


@dataclass(frozen=True, slots=True)
class News:
    """`lines` are what the sender said since; `parts` what it wrote since; `whole` the digests of all, when it has ended."""

    lines: list[dict[str, Any]]
    parts: dict[str, bytes]
    name: str = ""
    ended: bool = False
    problem: str = ""
    whole: dict[str, str] = field(default_factory=dict)

    def packed(self) -> bytes:
        sizes = {kind: len(self.parts.get(kind, b"")) for kind in KINDS}
        head = {
            "lines": self.lines,
            "sizes": sizes,
            "name": self.name,
            "ended": self.ended,
            "problem": self.problem,
            "whole": self.whole,
        }
        return orjson.dumps(head) + b"\n" + b"".join(self.parts.get(kind, b"") for kind in KINDS)


def unpacked(answer: bytes) -> News:
    """Raises ValueError where an answer was cut off."""
    line, newline, rest = answer.partition(b"\n")
    if not newline:
        raise ValueError("an answer without its end")
    head = orjson.loads(line)
    parts, place = {}, 0
    for kind in KINDS:
        size = head["sizes"][kind]
        parts[kind] = rest[place : place + size]
        place += size
    if place != len(rest):
        raise ValueError(f"an answer of {len(rest)} bytes that should have {place}")
    return News(head["lines"], parts, head["name"], head["ended"], head["problem"], head["whole"])
