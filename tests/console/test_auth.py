"""Authentication of the console: sessions, tokens, hosts and origins."""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import pytest
import uvicorn

from sliceworks.base import clock
from sliceworks.base.http.flow_control import FlowControl
from sliceworks.console import auth
from sliceworks.console.app import _limit_connections, _without_signals
from sliceworks.console.auth import AuthMiddleware

if TYPE_CHECKING:
    from collections.abc import MutableMapping

TOKEN = "the-token"
HTML = "text/html,*/*"


class GuardedApp:
    """The auth middleware in front of an application that records requested paths."""

    def __init__(self) -> None:
        self.reached: list[str] = []
        self.now = 0.0
        self.flow_control = FlowControl(lambda: self.now, queue_length=2)
        self.guard = AuthMiddleware(
            self._app,
            token=TOKEN,
            cookie="sliceworks-1",
            hosts=("console.example",),
            now=lambda: self.now,
            flow_control=self.flow_control,
        )

    async def _app(self, scope: Any, _receive: Any, send: Any) -> None:
        self.reached.append(scope["path"])
        if scope["type"] == "websocket":
            await send({"type": "websocket.accept"})
            return
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/plain")]})
        await send({"type": "http.response.body", "body": b"a page"})

    def request(self, path: str = "/", *, method: str = "GET", kind: str = "http", body: bytes = b"", **headers: str) -> Answer:
        given = {"host": "127.0.0.1:8710", **{name.replace("_", "-"): value for name, value in headers.items()}}
        scope = {"type": kind, "method": method, "path": path, "headers": [(k.encode(), v.encode()) for k, v in given.items()]}
        sent: list[MutableMapping[str, Any]] = []

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message: MutableMapping[str, Any]) -> None:
            sent.append(message)

        clock.run(self.guard(scope, receive, send), virtual=True)
        return Answer(sent)

    def login(self, token: str = TOKEN, **headers: str) -> Answer:
        return self.request("/login", method="POST", body=urlencode({"token": token}).encode(), **headers)


class Answer:
    """A response."""

    def __init__(self, sent: list[MutableMapping[str, Any]]) -> None:
        self.kind = sent[0]["type"]
        self.status, self.code = sent[0].get("status"), sent[0].get("code")
        self.headers = {name.decode(): value.decode() for name, value in sent[0].get("headers", ())}
        self.body = b"".join(message.get("body", b"") for message in sent[1:])

    @property
    def cookie(self) -> str:
        return str(self.headers["set-cookie"]).partition(";")[0]


def test_request_without_session_is_rejected() -> None:
    app = GuardedApp()
    for path in ("/", "/jobs", "/assets/console.css", "/_nicegui/3/static/vue.js", "/_nicegui_ws/socket.io/", "/login"):
        assert app.request(path).status == 401
    assert app.request("/", method="POST").status == 401
    assert app.request("/_nicegui_ws/socket.io/", kind="websocket").kind == "websocket.close"
    assert app.reached == []


def test_browser_gets_login_page_without_secrets() -> None:
    result = GuardedApp().request("/jobs/a/b", accept=HTML)
    assert result.status == 401
    assert b"sliceworks console" in result.body
    assert TOKEN.encode() not in result.body


def test_token_sets_an_http_only_strict_cookie() -> None:
    app = GuardedApp()
    result = app.login()
    assert (result.status, result.headers["location"]) == (303, "/")
    assert result.headers["set-cookie"].endswith("; Path=/; Max-Age=86400; HttpOnly; SameSite=Strict")
    assert TOKEN not in result.headers["set-cookie"]
    assert app.request("/jobs", cookie=result.cookie).body == b"a page"
    assert app.request("/_nicegui_ws/socket.io/", kind="websocket", cookie=result.cookie).kind == "websocket.accept"
    assert app.reached == ["/jobs", "/_nicegui_ws/socket.io/"]


@pytest.mark.parametrize("token", ["", "the-toke", "the-token2", "THE-TOKEN", "\N{SNOWMAN}"])
def test_wrong_token_is_rejected(token: str) -> None:
    result = GuardedApp().login(token)
    assert (result.status, "set-cookie" in result.headers) == (401, False)


def test_session_check_needs_no_token() -> None:
    app = GuardedApp()
    cookie = app.login().cookie
    assert app.login("", cookie=cookie).status == 204
    assert app.login("", cookie="sliceworks-1=made-up").status == 401
    assert app.request("/", cookie="sliceworks-1=made-up").status == 401
    assert app.request("/", cookie='sliceworks-1="; broken').status == 401


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example:8710", "localhost.evil.example", "", "[::1", "evil.example@x"]
)
def test_foreign_host_header_is_rejected(host: str) -> None:
    app = GuardedApp()
    cookie = app.login().cookie
    assert app.request("/", host=host, cookie=cookie).status == 403
    assert app.login(host=host).status == 403


@pytest.mark.parametrize("host", ["localhost:1", "127.0.0.1", "[::1]:8710", "10.1.2.3:8710", "console.example:80"])
def test_addresses_and_own_names_are_accepted(host: str) -> None:
    app = GuardedApp()
    assert app.login(host=host).status == 303


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://127.0.0.1:9999", "https://127.0.0.1:8710.evil.example"])
def test_cross_origin_request_is_rejected(origin: str) -> None:
    app = GuardedApp()
    cookie = app.login().cookie
    assert app.request("/", origin=origin, cookie=cookie).status == 403
    assert app.request("/ws", kind="websocket", origin=origin, cookie=cookie).kind == "websocket.close"
    assert app.login(origin=origin).status == 403
    assert app.request("/", origin="http://127.0.0.1:8710", cookie=cookie).status == 200


def test_responses_have_security_headers() -> None:
    app = GuardedApp()
    cookie = app.login().cookie
    for result in (app.request("/", cookie=cookie), app.request("/", accept=HTML), app.request("/", host="evil.example")):
        assert result.headers["x-content-type-options"] == "nosniff"
        assert "default-src 'self'" in result.headers["content-security-policy"]
        assert "frame-ancestors 'none'" in result.headers["content-security-policy"]
        assert "script-src 'self' 'nonce-" in result.headers["content-security-policy"]


def test_script_of_the_login_page_has_the_nonce_of_its_policy() -> None:
    app = GuardedApp()
    nonces = set()
    for _ in range(2):
        page = app.request("/", accept=HTML)
        nonce = page.headers["content-security-policy"].partition("'nonce-")[2].partition("'")[0]
        assert page.body.count(b"<script") == page.body.count(f'<script nonce="{nonce}">'.encode()) == 1
        nonces.add(nonce)
    assert len(nonces) == 2


def test_oldest_sessions_are_dropped() -> None:
    app = GuardedApp()
    first = app.login().cookie
    for _ in range(64):
        last = app.login().cookie
    assert app.request("/", cookie=first).status == 401
    assert app.request("/", cookie=last).status == 200


def test_wrong_token_is_delayed_and_long_body_is_not_read() -> None:
    app = GuardedApp()
    read = []

    async def receive() -> dict[str, Any]:
        read.append(1)
        return {"type": "http.request", "body": b"token=" + b"x" * 4096, "more_body": True}

    async def main() -> float:
        started = asyncio.get_running_loop().time()
        scope = {"type": "http", "method": "POST", "path": "/login", "headers": [(b"host", b"localhost")]}
        await app.guard(scope, receive, _ignored)
        return asyncio.get_running_loop().time() - started

    assert clock.run(main(), virtual=True) == pytest.approx(0.5)
    assert len(read) == 1


async def _nothing() -> dict[str, Any]:
    return {}


async def _ignored(_message: Any) -> None:
    return


def test_session_expires_without_requests_and_after_a_day() -> None:
    app = GuardedApp()
    cookie = app.login().cookie
    app.now += 8 * 3600 - 1
    assert app.request("/", cookie=cookie).status == 200
    app.now += 8 * 3600
    assert app.request("/", cookie=cookie).status == 401
    assert app.request("/_nicegui_ws/socket.io/", kind="websocket", cookie=cookie).kind == "websocket.close"
    cookie = app.login().cookie
    for _ in range(23):
        app.now += 3600
        assert app.request("/", cookie=cookie).status == 200
    app.now += 3600
    assert app.request("/", cookie=cookie).status == 401
    assert "Max-Age=86400" in app.login().headers["set-cookie"]


def test_open_page_ends_with_its_session() -> None:
    app = GuardedApp()
    cookie, received = app.login().cookie, []
    sent: list[Any] = []

    async def page(scope: Any, receive: Any, send: Any) -> None:
        while (message := await receive())["type"] != "websocket.disconnect":
            received.append(message["text"])

    async def receive() -> dict[str, Any]:
        app.now += 7 * 3600
        return {"type": "websocket.receive", "text": f"{app.now / 3600:g} h"}

    async def send(message: Any) -> None:
        sent.append(message)

    app.guard.app = page
    headers = [(b"host", b"127.0.0.1"), (b"cookie", cookie.encode())]
    clock.run(app.guard({"type": "websocket", "path": "/ws", "headers": headers}, receive, send), virtual=True)
    assert received == ["7 h", "14 h", "21 h"]
    assert sent == [{"type": "websocket.close", "code": 1008, "reason": "session expired"}]


def test_flood_of_one_session_gets_429_and_others_are_served(monkeypatch: pytest.MonkeyPatch) -> None:
    app = GuardedApp()
    flooder, other = app.login().cookie, app.login().cookie

    async def slow(scope: Any, receive: Any, send: Any) -> None:
        app.now += 1
        await app._app(scope, receive, send)

    app.guard.app = slow

    async def ask(cookie: str, kind: str = "http") -> Answer:
        sent: list[MutableMapping[str, Any]] = []

        async def send(message: MutableMapping[str, Any]) -> None:
            sent.append(message)

        headers = [(b"host", b"127.0.0.1"), (b"cookie", cookie.encode())]
        await app.guard({"type": kind, "method": "GET", "path": "/", "headers": headers}, _nothing, send)
        return Answer(sent)

    async def main() -> None:
        flood = await asyncio.gather(*(ask(flooder) for _ in range(10)), ask(other), ask(flooder, "websocket"))
        statuses = [answer.status for answer in flood]
        assert (statuses.count(429), statuses[10]) == (7, 200)
        rejected = next(answer for answer in flood if answer.status == 429)
        assert (rejected.headers["retry-after"], rejected.body) == ("1", b"too many requests, please try again later\n")
        assert (flood[11].kind, flood[11].code) == ("websocket.close", 1013)
        monkeypatch.setattr(auth, "_MAX_ACTIVE", 0)
        assert (await ask(other)).status == 429

    clock.run(main(), virtual=True)


def test_login_that_never_ends_times_out() -> None:
    async def main() -> Answer:
        sent: list[MutableMapping[str, Any]] = []

        async def receive() -> dict[str, Any]:
            await clock.sleep(3)
            return {"type": "http.request", "body": b"t", "more_body": True}

        async def send(message: MutableMapping[str, Any]) -> None:
            sent.append(message)

        scope = {"type": "http", "method": "POST", "path": "/login", "headers": [(b"host", b"localhost")]}
        await GuardedApp().guard(scope, receive, send)
        return Answer(sent)

    assert clock.run(main(), virtual=True).status == 408


def test_connections_are_limited() -> None:
    """A further connection replaces the oldest one that waits for nothing, not one whose request is running."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            started.set()
            await release.wait()
            await send({"type": "http.response.start", "status": 204, "headers": []})
            await send({"type": "http.response.body"})

    async def main() -> None:
        listening = socket.create_server(("127.0.0.1", 0))
        config = uvicorn.Config(app, http=_limit_connections(3), lifespan="off", log_config=None)
        server = _without_signals(uvicorn.Server(config))
        serving = asyncio.create_task(server.serve([listening]))
        address = listening.getsockname()[:2]
        busy, busy_writer = await asyncio.open_connection(*address)
        busy_writer.write(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
        await started.wait()
        idle = [await asyncio.open_connection(*address) for _ in range(2)]
        newest = await asyncio.open_connection(*address)
        assert await _read_end(idle[0][0])
        release.set()
        for reader, writer in ((busy, None), newest):
            if writer is not None:
                writer.write(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
            assert (await reader.readline()).startswith(b"HTTP/1.1 204")
        for _, writer in (*idle, newest, (busy, busy_writer)):
            writer.close()
        server.should_exit = True
        await serving

    started, release = asyncio.Event(), asyncio.Event()
    asyncio.run(main())


async def _read_end(reader: asyncio.StreamReader) -> bool:
    try:
        return await reader.read(1) == b""
    except ConnectionError:
        return True
