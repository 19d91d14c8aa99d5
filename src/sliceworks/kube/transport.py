"""The seam: a request and a response as plain data, and what carries one to the other.

Everything that touches a cluster goes through a Transport. One speaks HTTPS to any Kubernetes, one calls the twin in the same
process; nothing above this file can tell which.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping


@dataclass(frozen=True, slots=True)
class Request:
    """One HTTP request. `path` is percent-encoded and has no query; header names are lower case."""

    method: str
    path: str
    query: tuple[tuple[str, str], ...] = ()
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""


@dataclass(slots=True)
class Response:
    """One HTTP response: a whole `body`, or a `stream` of chunks that ends when the server ends it. Header names are lower case."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    stream: AsyncIterator[bytes] | None = None


class Transport(Protocol):
    """Carries a request to a cluster. Raises Unreachable when no answer came; an answer of any status is a Response."""

    async def send(self, request: Request, *, stream: bool = False) -> Response:
        """Send one request; with `stream` a successful answer's body is left to its `stream`."""
        ...

    async def close(self) -> None:
        """Let go of connections."""
        ...
