"""Access control: session middleware for browsers, and a read-only transport to the cluster."""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import re
import secrets
import time
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie
from importlib.resources import files
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

from sliceworks.base import clock
from sliceworks.base.errors import SliceworksError, TooManyRequests
from sliceworks.base.http.flow_control import FlowControl
from sliceworks.kube.client import Client

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from sliceworks.base.transport import Request, Response, Transport

_MAX_BODY = 4096
_MAX_SESSIONS = 64
_FAILED_LOGIN_DELAY = 0.5  # seconds
_LOGIN_TIMEOUT = 10.0
_MAX_ACTIVE = 256
"""Requests and websockets at the same time; further ones get 429."""
_IDLE_LIFETIME, _MAX_LIFETIME = 8 * 3600.0, 24 * 3600.0
"""Seconds after which a session ends: without a request or an open page, and at the latest."""
_TRY_AGAIN_LATER = 1013  # of websockets

_POLICY = "; ".join(
    (
        "default-src 'self'",
        "script-src 'self' 'nonce-{0}' 'unsafe-eval'",  # Vue compiles templates in the browser
        "style-src 'self' 'unsafe-inline'",
        "img-src 'self' data: blob:",
        "font-src 'self' data:",
        "object-src 'none'",
        "base-uri 'none'",
        "form-action 'self'",
        "frame-ancestors 'none'",
    )
)

_HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
)


@dataclass(slots=True)
class _Session:
    """When a session was created, and when its last request came."""

    created: float
    used: float


class AuthMiddleware:
    """Requires a session for every request; rejects foreign hosts and origins."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        token: str,
        cookie: str,
        hosts: Iterable[str] = (),
        now: Callable[[], float] = time.monotonic,
        flow_control: FlowControl | None = None,
    ) -> None:
        self.app = app
        self._flow_control, self._active = flow_control or FlowControl(), 0
        self._token = token
        self._cookie = cookie
        self._hosts = {"localhost", *hosts}
        self._now = now
        self._sessions: dict[str, _Session] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or reject it."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        scope["nonce"] = nonce = secrets.token_urlsafe(16)
        send = _with_headers(send, nonce)
        rejection = self._rejection(headers)
        if rejection:
            await _reject(scope, send, 403, rejection)
        elif scope["path"] == "/login" and scope["type"] == "http" and scope["method"] == "POST":
            await self._login(headers, receive, send)
        elif self._is_valid(session := self._session(headers)):
            await self._handle(session, scope, receive, send)
        elif scope["type"] == "http" and scope["method"] == "GET" and "text/html" in headers.get("accept", ""):
            page = (
                files(__package__)
                .joinpath("assets/login.html")
                .read_bytes()
                .replace(b"<script", b'<script nonce="%b"' % nonce.encode())
            )
            await _respond(send, 401, page, "text/html; charset=utf-8")
        else:
            await _reject(scope, send, 401, "not logged in")

    async def _handle(self, session: str, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request of a session on in its turn."""

        async def receive_in_turn() -> Message:
            message = await receive()
            if message["type"] != "websocket.receive":
                return message
            if not self._is_valid(session):
                await _reject(scope, send, 401, "session expired")
                return {"type": "websocket.disconnect", "code": 1008}
            return message if await self._has_turn(session) else {"type": "websocket.disconnect", "code": _TRY_AGAIN_LATER}

        self._active += 1
        try:
            if self._active > _MAX_ACTIVE or not await self._has_turn(session):
                await _reject(scope, send, 429, "too many requests, please try again later")
                return
            await self.app(scope, receive_in_turn if scope["type"] == "websocket" else receive, send)
        finally:
            self._active -= 1

    async def _has_turn(self, session: str) -> bool:
        """Wait for the session's turn; False if too many of its requests wait."""
        try:
            await self._flow_control.wait(session)
        except TooManyRequests:
            return False
        return True

    def _rejection(self, headers: dict[str, str]) -> str:
        """Why a request with these headers is rejected; empty if it is allowed."""
        host = headers.get("host", "")
        if not self._is_allowed_host(host):
            return "host not allowed"
        origin = headers.get("origin")
        return "cross-origin request rejected" if origin is not None and urlsplit(origin).netloc != host else ""

    def _is_allowed_host(self, host: str) -> bool:
        """Allow configured names and all IP addresses: DNS rebinding needs a name."""
        try:
            name = urlsplit(f"//{host}").hostname or ""
        except ValueError:
            return False
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return name in self._hosts
        return True

    def _session(self, headers: dict[str, str]) -> str:
        try:
            morsel = SimpleCookie(headers.get("cookie", "")).get(self._cookie)
        except CookieError:
            return ""
        return morsel.value if morsel else ""

    def _is_valid(self, name: str) -> bool:
        """Whether a session has not expired; extends it."""
        now, session = self._now(), self._sessions.get(name)
        if session is None:
            return False
        if now - session.used >= _IDLE_LIFETIME or now - session.created >= _MAX_LIFETIME:
            del self._sessions[name]
            return False
        session.used = now
        return True

    async def _login(self, headers: dict[str, str], receive: Receive, send: Send) -> None:
        """Exchange the token for a session cookie. Without a token, report whether there is a session."""
        try:
            async with asyncio.timeout(_LOGIN_TIMEOUT):
                body = await _body(receive)
        except TimeoutError:
            await _respond(send, 408, b"timed out while reading the request\n")
            return
        token = parse_qs(body.decode("latin-1")).get("token", [""])[0]
        if not token and self._is_valid(self._session(headers)):
            await _respond(send, 204)
            return
        if not hmac.compare_digest(token.strip().encode(), self._token.encode()):
            await clock.sleep(_FAILED_LOGIN_DELAY if token else 0)
            await _respond(send, 401, b"invalid token\n")
            return
        session = secrets.token_urlsafe(32)
        self._sessions[session] = _Session(self._now(), self._now())
        while len(self._sessions) > _MAX_SESSIONS:
            del self._sessions[next(iter(self._sessions))]
        # Behind a TLS proxy, the cookie is sent over TLS only.
        secure = "; Secure" if headers.get("origin", "").startswith("https://") else ""
        cookie = f"{self._cookie}={session}; Path=/; Max-Age={int(_MAX_LIFETIME)}; HttpOnly; SameSite=Strict{secure}"
        await _respond(send, 303, b"", more=((b"set-cookie", cookie.encode()), (b"location", b"/")))


async def _body(receive: Receive) -> bytes:
    body = b""
    while len(body) < _MAX_BODY:
        message = await receive()
        body += message.get("body", b"")
        if message["type"] != "http.request" or not message.get("more_body"):
            break
    return body[:_MAX_BODY]


async def _reject(scope: Scope, send: Send, status: int, why: str) -> None:
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": _TRY_AGAIN_LATER if status == 429 else 1008, "reason": why})
    else:
        await _respond(send, status, f"{why}\n".encode(), more=((b"retry-after", b"1"),) if status == 429 else ())


async def _respond(
    send: Send, status: int, body: bytes = b"", kind: str = "text/plain; charset=utf-8", more: tuple[tuple[bytes, bytes], ...] = ()
) -> None:
    fixed = ((b"content-type", kind.encode()), (b"content-length", str(len(body)).encode()), (b"cache-control", b"no-store"))
    await send({"type": "http.response.start", "status": status, "headers": [*fixed, *more]})
    await send({"type": "http.response.body", "body": body})


def _with_headers(send: Send, nonce: str) -> Send:
    """Add the security headers to every response. Inline scripts run only with the nonce."""

    async def wrapped(message: Message) -> None:
        if message["type"] == "http.response.start":
            policy = (b"content-security-policy", _POLICY.format(nonce).encode())
            message["headers"] = [*message.get("headers", ()), policy, *_HEADERS]
        await send(message)

    return wrapped


_READS = ("GET", "HEAD")

# POST requests that change nothing: access reviews, and prompts through the API server's proxy.
_read_only_posts = re.compile(
    r"/apis/authorization\.k8s\.io/.*"
    r"|/api/v1/namespaces/[^/]+/services/[^/]+/proxy/(v1/chat/completions|v1/generate|generate|v2/models/[^/]+/generate_stream)"
).fullmatch


class ReadOnlyTransport:
    """Sends reads only, and rejects other requests."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def send(self, request: Request, *, stream: bool = False) -> Response:
        """Send a request that changes nothing."""
        if request.method not in _READS and not _read_only_posts(request.path):
            raise SliceworksError("this console is read-only", hint="start it with --allow-changes")
        return await self._transport.send(request, stream=stream)

    async def close(self) -> None:
        """Close the connections."""
        await self._transport.close()


def read_only(client: Client) -> Client:
    """A client of the same cluster that sends reads only."""
    return Client(
        ReadOnlyTransport(client.transport),
        namespace=client.namespace,
        field_manager=client.field_manager,
        retry=client.retry,
        on_warning=client.on_warning,
    )
