"""One request on its way through the gateway: who asks, for which model, where to send it, and what to send."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sliceworks.serving.gateway import shapes
from sliceworks.serving.gateway.refusals import slow_backend
from sliceworks.serving.gateway.usage import Meter

if TYPE_CHECKING:
    from sliceworks.base.http.messages import Request
    from sliceworks.base.http.refusals import Refusal
    from sliceworks.base.http.reply import Reply
    from sliceworks.serving.gateway.keys import Caller
    from sliceworks.serving.gateway.quotas import Quota
    from sliceworks.serving.gateway.servers import Group, Server
    from sliceworks.specs.gateway import Model, Timeouts

_STREAM = re.compile(rb'"stream"[ \t\r\n]*:[ \t\r\n]*true')
_STREAMING = ("/generate_stream", "/v1/generate")


@dataclass(slots=True)
class Served:
    """A model as the gateway serves it."""

    model: Model
    group: Group
    quota: Quota
    timeouts: Timeouts
    max_tokens: int | None

    @property
    def name(self) -> str:
        return self.model.name


@dataclass(slots=True)
class Call:
    """What is passed on. `path` and `body` may still depend on the server, which can know the model by another name."""

    request: Request
    reply: Reply
    caller: Caller
    served: Served
    operation: str
    path: str
    body: bytes
    began: float = 0.0
    """When it came: its time runs from here, however many servers are asked."""
    guess: int = 0
    id: bytes = b""
    strict: bool = True
    """Whether an answer must be JSON or events; what is not may hold tensors, compressed as the client likes."""
    counted: bool = True
    """Whether it is text, of which tokens are counted."""
    spent: float = 0.0
    """Seconds that the gateway itself took."""
    told: tuple[int, int] | None = None
    """Tokens in and out, where the answer says so."""
    meter: Meter = field(default_factory=Meter)
    outcome: int = 0
    """The status of a refusal, which is written later."""

    @property
    def is_stream(self) -> bool:
        """Whether the answer is to come piece by piece. Asked seldom, of calls that take long: the body is searched."""
        return self.path.endswith(_STREAMING) or _STREAM.search(self.body) is not None

    @property
    def left(self) -> float:
        """Seconds that it still has."""
        return self.began + self.served.timeouts.total - asyncio.get_running_loop().time()

    async def another(self, tried: list[Server]) -> Server:
        """The next server to ask; raises the Refusal where there is none, or no time."""
        times = self.served.timeouts
        if tried and self.left <= 0:
            raise slow_backend(f"more than {times.total:g} s in all")
        return await self.served.group.another(tried, min(times.connect, self.left))

    def last_words(self, refusal: Refusal) -> bytes:
        """What is written where a stream breaks off: an event that says why, apart from one that may have been cut."""
        return b"\n\ndata: %b\n\n" % shapes.of(self.request.path, refusal)

    def told_back(self) -> list[tuple[bytes, bytes]]:
        """Headers of any answer to it: what it is called, and what its caller has left."""
        return [(b"x-request-id", self.id), *self.caller.quota.told]

    def path_for(self, server: Server) -> str:
        """Where it goes there."""
        return server.prefix + self.path

    def body_for(self, server: Server) -> bytes:
        """What is sent there."""
        return self.body


PLAIN = b"accept-encoding: identity\r\n"
"""Asks for no coding: who does not say so may be sent any."""
_BETWEEN_TWO = {"connection", "keep-alive", "proxy-authenticate", "te", "trailer", "transfer-encoding", "upgrade"}
"""Headers that concern two machines and nobody beyond them."""
_SECRET = {"authorization", "x-api-key", "api-key", "cookie", "proxy-authorization"}
_LEFT_OUT = _BETWEEN_TWO | _SECRET | {"content-length", "expect", "host", "http2-settings", "proxy-connection", "x-request-id"}
_NOT_BACK = {name.encode() for name in (*_BETWEEN_TWO, "content-length", "date", "server", "set-cookie", "x-request-id")}


def request_head(call: Call, server: Server, length: int, *, plain: bool) -> bytes:
    """The head of the request to a server: the client's headers, without those that are between two machines or secret."""
    request = call.request
    path = call.path_for(server)
    target = f"{path}?{request.query}" if request.query else path
    parts = [f"{request.method} {target} HTTP/1.1\r\n".encode("latin-1"), server.host_line, server.authorization]
    for name, value in request.headers.items():
        if name not in _LEFT_OUT and not (plain and name == "accept-encoding"):
            parts.append(f"{name}: {value}\r\n".encode("latin-1"))
    if plain:
        parts.append(PLAIN)
    parts.append(b"x-request-id: %b\r\n" % call.id)
    parts.append(b"content-length: %d\r\n\r\n" % length if length or request.method == "POST" else b"\r\n")
    return b"".join(parts)


def passed_back(headers: list[tuple[bytes, bytes]], call: Call) -> list[tuple[bytes, bytes]]:
    """The headers of an answer that go to the client."""
    found = [pair for pair in headers if pair[0] not in _NOT_BACK]
    found += call.told_back()
    return found
