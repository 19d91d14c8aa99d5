"""Server-sent events as they come, in whatever pieces: each is a JSON object here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

if TYPE_CHECKING:
    from collections.abc import Iterator

Object = dict[str, Any]


class Events:
    """Reads events. A line ends with CR, LF or both; an event may have several lines, and is told as soon as it is whole."""

    def __init__(self) -> None:
        self._rest: list[bytes] = []
        self._lines: list[bytes] = []
        self._after_return = False

    def feed(self, piece: bytes) -> Iterator[Object]:
        """What is whole with this piece."""
        if self._after_return and piece.startswith(b"\n"):
            piece = piece[1:]
        self._after_return = piece.endswith(b"\r")
        *lines, rest = piece.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        if lines:
            lines[0] = b"".join((*self._rest, lines[0]))
            self._rest.clear()
        self._rest.append(rest)
        for line in lines:
            yield from self._line(line)

    def end(self) -> Iterator[Object]:
        """What is left when no more comes."""
        yield from self._line(b"".join(self._rest))
        yield from self._line(b"")

    def _line(self, line: bytes) -> Iterator[Object]:
        content = line.strip()
        if not content:
            yield from self._broken()
        elif content.startswith((b"data:", b"{")):  # An answer that came whole is no event.
            content = content.removeprefix(b"data:").strip()
            if self._lines or content.startswith(b"{"):
                self._lines.append(content)
                if content.endswith(b"}") and (told := _object(b"\n".join(self._lines))) is not None:
                    self._lines.clear()
                    yield told

    def _broken(self) -> Iterator[Object]:
        """An event that was cut, and those that came after it with no empty line between: what can be read of them."""
        lines, self._lines = self._lines, []
        yield from (told for line in lines if (told := _object(line)) is not None)


def _object(content: bytes) -> Object | None:
    try:
        told = orjson.loads(content)
    except orjson.JSONDecodeError:
        return None
    return told if isinstance(told, dict) else None
