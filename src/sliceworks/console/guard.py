"""Who may look: everything behind this door asks for a session, and a session asks for the token that the console printed.

    GET /#token=…       the fragment never leaves the browser; a small script sends it once
    POST /login         the token, for a cookie that scripts cannot read and other sites cannot send
    everything else     pages, files and the websocket: only with that cookie

A page of another site cannot reach in: its Origin gives it away, and a name that it has pointed at this machine is not in the Host
header that we answer to.
"""

from __future__ import annotations

import hmac
import ipaddress
import secrets
from http.cookies import CookieError, SimpleCookie
from importlib.resources import files
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

from sliceworks.base import clock

if TYPE_CHECKING:
    from collections.abc import Iterable

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

_LONGEST_BODY = 4096
_MOST_SESSIONS = 64
_AFTER_A_GUESS = 0.5  # seconds
_POLICY = "; ".join(
    (
        "default-src 'self'",
        "script-src 'self' 'unsafe-inline' 'unsafe-eval'",  # Vue compiles templates in the browser
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
    (b"content-security-policy", _POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
)


class Guard:
    """Stands before the whole application."""

    def __init__(self, app: ASGIApp, *, token: str, cookie: str, hosts: Iterable[str] = ()) -> None:
        self.app = app
        self._token = token
        self._cookie = cookie
        self._hosts = {"localhost", *hosts}
        self._sessions: dict[str, None] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let in, or turn away."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        refusal = self._foreign(headers)
        if refusal:
            await _refuse(scope, send, 403, refusal)
        elif scope["path"] == "/login" and scope["type"] == "http" and scope["method"] == "POST":
            await self._login(headers, receive, send)
        elif self._session(headers) in self._sessions:
            await self.app(scope, receive, _with_headers(send))
        elif scope["type"] == "http" and scope["method"] == "GET" and "text/html" in headers.get("accept", ""):
            await _answer(send, 401, files(__package__).joinpath("assets/login.html").read_bytes(), "text/html; charset=utf-8")
        else:
            await _refuse(scope, send, 401, "log in first")

    def _foreign(self, headers: dict[str, str]) -> str:
        """Why a request is not from our own pages; empty where it may be."""
        host = headers.get("host", "")
        if not self._is_ours(host):
            return "this console does not answer to that name"
        origin = headers.get("origin")
        return "another site may not ask" if origin is not None and urlsplit(origin).netloc != host else ""

    def _is_ours(self, host: str) -> bool:
        """Names that were given to us, and addresses: only a name can be pointed elsewhere behind a browser's back."""
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
            found = SimpleCookie(headers.get("cookie", "")).get(self._cookie)
        except CookieError:
            return ""
        return found.value if found else ""

    async def _login(self, headers: dict[str, str], receive: Receive, send: Send) -> None:
        """The token for a session. Without a token it only tells whether there is a session already."""
        given = parse_qs((await _body(receive)).decode("latin-1")).get("token", [""])[0]
        if not given and self._session(headers) in self._sessions:
            await _answer(send, 204)
            return
        if not hmac.compare_digest(given.strip().encode(), self._token.encode()):
            await clock.sleep(_AFTER_A_GUESS if given else 0)
            await _answer(send, 401, b"this is not the token\n")
            return
        session = secrets.token_urlsafe(32)
        self._sessions[session] = None
        while len(self._sessions) > _MOST_SESSIONS:
            del self._sessions[next(iter(self._sessions))]
        # Before a proxy that speaks TLS the browser shall send it over TLS alone.
        secure = "; Secure" if headers.get("origin", "").startswith("https://") else ""
        cookie = f"{self._cookie}={session}; Path=/; HttpOnly; SameSite=Strict{secure}"
        await _answer(send, 303, b"", more=((b"set-cookie", cookie.encode()), (b"location", b"/")))


async def _body(receive: Receive) -> bytes:
    body = b""
    while len(body) < _LONGEST_BODY:
        message = await receive()
        body += message.get("body", b"")
        if message["type"] != "http.request" or not message.get("more_body"):
            break
    return body[:_LONGEST_BODY]


async def _refuse(scope: Scope, send: Send, status: int, why: str) -> None:
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 1008, "reason": why})
    else:
        await _answer(send, status, f"{why}\n".encode())


async def _answer(
    send: Send, status: int, body: bytes = b"", kind: str = "text/plain; charset=utf-8", more: tuple[tuple[bytes, bytes], ...] = ()
) -> None:
    fixed = ((b"content-type", kind.encode()), (b"content-length", str(len(body)).encode()), (b"cache-control", b"no-store"))
    await send({"type": "http.response.start", "status": status, "headers": [*fixed, *_HEADERS, *more]})
    await send({"type": "http.response.body", "body": body})


def _with_headers(send: Send) -> Any:
    """Every answer carries what browsers should hold our pages to."""

    async def wrapped(message: Message) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [*message.get("headers", ()), *_HEADERS]
        await send(message)

    return wrapped
