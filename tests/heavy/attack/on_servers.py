"""Attacks on a gateway, its admin port, a console and the probe port of controllers."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from tests.heavy.attack.on_twin import BOMB, DEEP
from tests.serving.gateway.test_evasions import EVASIONS

if TYPE_CHECKING:
    from tests.heavy.attack.requests import Http
    from tests.heavy.attack.targets import Targets

CHAT = "/v1/chat/completions"
BROKEN_DOCUMENTS = (DEEP, BOMB, "{", "", "kind: Gateway", "\x00", "- " * 50_000, "spec:\n" + "  a: 1\n" * 100_000, "a: &a [*a]")


def chat(words: int, **more: object) -> dict[str, object]:
    return {"model": "m", "messages": [{"role": "user", "content": "a " * words}], **more}


async def evasions(http: Http, _: Targets) -> None:
    for data in EVASIONS.values():
        await http.send_raw(data, seconds=1.0)


async def completions(http: Http, _: Targets) -> None:
    bodies = [chat(50, stream=number % 2 == 0, max_tokens=10) for number in range(200)]
    await asyncio.gather(*(http.ask("POST", CHAT, body) for body in bodies))


async def broken_reloads(http: Http, targets: Targets) -> None:
    """S2: each broken document is rejected."""
    for text in BROKEN_DOCUMENTS:
        targets.write_gateway(text)
        status, body = await http.ask("POST", "/admin/reload")
        if status and status < 400:
            http.figures.problems.append(f"gateway: {text[:20]!r}: reloaded: {body[:100]!r}")
    targets.write_gateway()
    status, body = await http.ask("POST", "/admin/reload")
    if status != 200:
        http.figures.problems.append(f"gateway: a valid document is rejected: {status} {body[:200]!r}")


async def bodies(http: Http, _: Targets) -> None:
    for body in (
        DEEP.encode(),
        b"{" * 100_000,
        b'{"a":' * 500_000,
        b"x" * 20_000_000,
        b'{"model":"m","messages":[' + b"1," * 1_000_000 + b"1]}",
    ):
        await http.ask("POST", CHAT, body)
    await http.ask("POST", CHAT, chat(1_000_000))


async def connections(http: Http, _: Targets) -> None:
    """Silent, incomplete and unread connections."""
    parts = (
        b"",
        b"POST ",
        b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 1000000\r\n\r\n",
        b"GET / HTTP/1.1\r\nhost: x\r\n\r\n" * 50,
    )
    opened = await asyncio.gather(*(http.open(parts[number % len(parts)]) for number in range(300)))
    await asyncio.sleep(1)
    for writer in opened:
        if writer is not None:
            writer.transport.abort()


async def anonymous_requests(http: Http, _: Targets) -> None:
    """Requests without a session or key, with foreign origins and malformed cookies."""
    evil = ({"origin": "http://evil.example"}, {"host": "evil.example"})
    given: tuple[dict[str, str], ...] = ({}, {"cookie": "session=" + "a" * 4000}, *evil)
    paths = ("/", "/login", "/admin/status", "/metrics", "/_nicegui_ws/socket.io/", "/" + "a" * 8000, "/%00", "/../../etc/passwd")
    await asyncio.gather(
        *(
            http.ask(method, path, DEEP.encode() if method == "POST" else None, **headers)
            for method in ("GET", "POST")
            for path in paths
            for headers in given
        )
    )
