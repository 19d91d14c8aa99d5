"""Texts at which an answer ends, for servers that know of none: what may be the beginning of one is held back until it is clear."""

from __future__ import annotations

from typing import Any

from sliceworks.base.http.refusals import malformed


class Stops:
    """Passes on what comes before the first of some texts."""

    def __init__(self, texts: list[str]) -> None:
        self._texts = texts
        self.held = ""
        """What is not passed on yet."""
        self.met = False
        """Whether one of the texts has come."""

    def add(self, piece: str) -> str:
        """A piece has come; returns what is passed on."""
        if not self._texts:
            return piece
        text = self.held + piece
        found = [at for each in self._texts if (at := text.find(each)) >= 0]
        if found:
            self.held, self.met = "", True
            return text[: min(found)]
        kept = max((_begun(text, each) for each in self._texts), default=0)
        self.held = text[len(text) - kept :]
        return text[: len(text) - kept]


def _begun(text: str, stop: str) -> int:
    """How much of a stop stands at the end of a text."""
    return next((size for size in range(min(len(stop) - 1, len(text)), 0, -1) if text.endswith(stop[:size])), 0)


def stops_of(data: dict[str, Any]) -> list[str]:
    """The stops that a request of OpenAI's names."""
    given = data.get("stop")
    texts = [given] if isinstance(given, str) else given or []
    if not isinstance(texts, list) or not all(isinstance(each, str) for each in texts):
        raise malformed("stop must be a text or a list of texts", param="stop")
    return [each for each in texts if each]
