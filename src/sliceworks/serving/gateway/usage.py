"""How many tokens an answer used, found in its bytes as they pass."""

from __future__ import annotations

import re

_PROMPT = re.compile(rb'"(?:prompt_tokens|input_tokens)"\s*:\s*([0-9]+)')
_ANSWER = re.compile(rb'"(?:completion_tokens|output_tokens)"\s*:\s*([0-9]+)')
_BYTES_PER_TOKEN = 4
_AROUND = {"chat": 2, "text_completion": 1}
"""Events of a stream that are no tokens: `[DONE]`, and in a chat one that says whose words follow, or why they end."""


def guess(body: bytes) -> int:
    """About how many tokens a prompt has, before anybody counted."""
    return len(body) // _BYTES_PER_TOKEN


def whole(body: bytes) -> tuple[int, int] | None:
    """Tokens in and out, as a whole answer says; None where it does not. What an answer says of its usage comes last."""
    at = body.rfind(b'"usage"')
    if at < 0:
        return None
    prompt, answer = _PROMPT.search(body, at), _ANSWER.search(body, at)
    return (int(prompt[1]), int(answer[1]) if answer else 0) if prompt else None


class Meter:
    """Counts the events of a stream, or the pieces of one without events, and keeps what is said of the usage."""

    __slots__ = ("_told", "events", "first", "last")

    def __init__(self) -> None:
        self.events = 0
        self.first = self.last = 0.0
        self._told: tuple[int, int] | None = None

    def see(self, piece: bytes, now: float) -> None:
        """A piece with events passes."""
        if not self.events:
            self.first = now
        self.last = now
        self.events += piece.count(b"data:")
        self.hear(piece)

    def hear(self, piece: bytes) -> None:
        """Keep what a piece says of the usage."""
        self._told = whole(piece) or self._told

    def tokens(self, prompt: int, operation: str) -> tuple[int, int]:
        """Tokens in and out: as the stream says, else the guess for the prompt and one for each event that may be a token."""
        return self._told or (prompt, max(0, self.events - _AROUND.get(operation, 0)))
