"""The door of the console: who is let in, and who is not."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import pytest

from sliceworks.base import clock
from sliceworks.console.guard import Guard

if TYPE_CHECKING:
    from collections.abc import MutableMapping

TOKEN = "the-token"
HTML = "text/html,*/*"


class Asked:
    """One guard before an application that says which paths it was asked for."""

    def __init__(self) -> None:
        self.reached: list[str] = []
        self.guard = Guard(self._app, token=TOKEN, cookie="sliceworks-1", hosts=("console.example",))

    async def _app(self, scope: Any, _receive: Any, send: Any) -> None:
        self.reached.append(scope["path"])
        if scope["type"] == "websocket":
            await send({"type": "websocket.accept"})
            return
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/plain")]})
        await send({"type": "http.response.body", "body": b"a page"})

    def ask(self, path: str = "/", *, method: str = "GET", kind: str = "http", body: bytes = b"", **headers: str) -> Answer:
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
        return self.ask("/login", method="POST", body=urlencode({"token": token}).encode(), **headers)


class Answer:
    """What came back."""

    def __init__(self, sent: list[MutableMapping[str, Any]]) -> None:
        self.kind = sent[0]["type"]
        self.status = sent[0].get("status")
        self.headers = {name.decode(): value.decode() for name, value in sent[0].get("headers", ())}
        self.body = b"".join(message.get("body", b"") for message in sent[1:])

    @property
    def cookie(self) -> str:
        return str(self.headers["set-cookie"]).partition(";")[0]


def test_without_a_session_nothing_is_reached() -> None:
    asked = Asked()
    for path in ("/", "/jobs", "/assets/console.css", "/_nicegui/3/static/vue.js", "/_nicegui_ws/socket.io/", "/login"):
        assert asked.ask(path).status == 401
    assert asked.ask("/", method="POST").status == 401
    assert asked.ask("/_nicegui_ws/socket.io/", kind="websocket").kind == "websocket.close"
    assert asked.reached == []


def test_a_browser_gets_a_page_to_log_in_with_and_no_secret() -> None:
    found = Asked().ask("/jobs/a/b", accept=HTML)
    assert found.status == 401
    assert b"sliceworks console" in found.body
    assert TOKEN.encode() not in found.body


def test_the_token_buys_a_cookie_that_scripts_and_other_sites_cannot_use() -> None:
    asked = Asked()
    found = asked.login()
    assert (found.status, found.headers["location"]) == (303, "/")
    assert found.headers["set-cookie"].endswith("; Path=/; HttpOnly; SameSite=Strict")
    assert TOKEN not in found.headers["set-cookie"]
    assert asked.ask("/jobs", cookie=found.cookie).body == b"a page"
    assert asked.ask("/_nicegui_ws/socket.io/", kind="websocket", cookie=found.cookie).kind == "websocket.accept"
    assert asked.reached == ["/jobs", "/_nicegui_ws/socket.io/"]


@pytest.mark.parametrize("token", ["", "the-toke", "the-token2", "THE-TOKEN", "\N{SNOWMAN}"])
def test_another_token_buys_nothing(token: str) -> None:
    found = Asked().login(token)
    assert (found.status, "set-cookie" in found.headers) == (401, False)


def test_whoever_has_a_session_is_told_so_without_the_token() -> None:
    asked = Asked()
    cookie = asked.login().cookie
    assert asked.login("", cookie=cookie).status == 204
    assert asked.login("", cookie="sliceworks-1=made-up").status == 401
    assert asked.ask("/", cookie="sliceworks-1=made-up").status == 401
    assert asked.ask("/", cookie='sliceworks-1="; broken').status == 401


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example:8710", "localhost.evil.example", "", "[::1", "evil.example@x"]
)
def test_a_name_that_was_pointed_at_us_is_refused(host: str) -> None:
    asked = Asked()
    cookie = asked.login().cookie
    assert asked.ask("/", host=host, cookie=cookie).status == 403
    assert asked.login(host=host).status == 403


@pytest.mark.parametrize("host", ["localhost:1", "127.0.0.1", "[::1]:8710", "10.1.2.3:8710", "console.example:80"])
def test_addresses_and_our_own_names_are_answered(host: str) -> None:
    asked = Asked()
    assert asked.login(host=host).status == 303


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://127.0.0.1:9999", "https://127.0.0.1:8710.evil.example"])
def test_another_site_may_not_ask_even_with_the_cookie(origin: str) -> None:
    asked = Asked()
    cookie = asked.login().cookie
    assert asked.ask("/", origin=origin, cookie=cookie).status == 403
    assert asked.ask("/ws", kind="websocket", origin=origin, cookie=cookie).kind == "websocket.close"
    assert asked.login(origin=origin).status == 403
    assert asked.ask("/", origin="http://127.0.0.1:8710", cookie=cookie).status == 200


def test_every_answer_tells_browsers_what_to_hold_us_to() -> None:
    asked = Asked()
    cookie = asked.login().cookie
    for found in (asked.ask("/", cookie=cookie), asked.ask("/", accept=HTML), asked.ask("/", host="evil.example")):
        assert found.headers["x-content-type-options"] == "nosniff"
        assert "default-src 'self'" in found.headers["content-security-policy"]
        assert "frame-ancestors 'none'" in found.headers["content-security-policy"]


def test_old_sessions_make_room_for_new_ones() -> None:
    asked = Asked()
    first = asked.login().cookie
    for _ in range(64):
        last = asked.login().cookie
    assert asked.ask("/", cookie=first).status == 401
    assert asked.ask("/", cookie=last).status == 200


def test_a_guess_costs_time_and_a_long_body_is_not_read_to_its_end() -> None:
    asked = Asked()
    read = []

    async def receive() -> dict[str, Any]:
        read.append(1)
        return {"type": "http.request", "body": b"token=" + b"x" * 4096, "more_body": True}

    async def main() -> float:
        began = asyncio.get_running_loop().time()
        scope = {"type": "http", "method": "POST", "path": "/login", "headers": [(b"host", b"localhost")]}
        await asked.guard(scope, receive, _ignored)
        return asyncio.get_running_loop().time() - began

    assert clock.run(main(), virtual=True) == pytest.approx(0.5)
    assert len(read) == 1


async def _ignored(_message: Any) -> None:
    return
