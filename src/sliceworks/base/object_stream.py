"""JSON objects one after the other with nothing between them, as JetStream streams its answers: cut apart as their bytes come."""

from __future__ import annotations

import re

_MARKS = re.compile(rb'["{}\\]')
_QUOTE, _ESCAPE, _OPEN = 0x22, 0x5C, 0x7B


class Objects:
    """Takes bytes in any pieces, and gives back the text of each object that is whole."""

    def __init__(self) -> None:
        self._rest = b""
        self._seen = self._depth = self._escaped = 0
        self._quoted = False

    def unfinished(self) -> bool:
        """Whether there is more than whole objects."""
        return bool(self._rest.strip())

    def feed(self, data: bytes) -> list[bytes]:
        """The objects that these bytes complete. What stands before one and is no space is a part of its text."""
        rest = self._rest + data
        found: list[bytes] = []
        begin = 0
        for match in _MARKS.finditer(rest, self._seen):
            if self._ends(rest[match.start()], match.start()):
                found.append(rest[begin : match.end()])
                begin = match.end()
        self._rest = rest[begin:]
        self._seen = len(self._rest)
        self._escaped -= begin
        return found

    def _ends(self, byte: int, place: int) -> bool:
        """Whether an object ends with this mark. What follows a backslash in a text is no mark."""
        if self._quoted:
            if place < self._escaped:
                return False
            if byte == _ESCAPE:
                self._escaped = place + 2
            elif byte == _QUOTE:
                self._quoted = False
            return False
        if byte == _QUOTE:
            self._quoted = True
        elif byte == _OPEN:
            self._depth += 1
        elif byte != _ESCAPE:
            self._depth -= 1
            return self._depth == 0
        return False
