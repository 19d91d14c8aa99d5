"""The seam: a request to a Google API and its answer as plain data, and what carries one to the other.

One transport speaks HTTPS, one calls a handler in the same process; nothing above this file can tell which.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class Request:
    """One HTTP request. `target` is the percent-encoded path with its query; header names are lower case."""

    method: str
    target: str
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class Response:
    """One HTTP answer. Header names are lower case."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""


class Transport(Protocol):
    """Carries a request to a Google API. Raises Unreachable when no answer came; an answer of any status is a Response."""

    async def send(self, request: Request) -> Response:
        """Send one request."""
        ...

    async def close(self) -> None:
        """Let go of connections."""
        ...
