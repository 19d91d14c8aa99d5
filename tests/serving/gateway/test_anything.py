"""Clients, servers and documents that do anything in any order: in the end nothing is under way, held or left over.

Clients leave at every stage, servers break off at every stage, documents change models, servers, keys and limits all the while.
"""

from __future__ import annotations

import asyncio
import gc
import random
import ssl
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
import pytest
from tests.support.certificates import renew
from tests.support.gateways import LIMITS, Client, chat, document, raw_upstream, read_request, until, upstream

from sliceworks.base import clock
from sliceworks.serving.gateway.calls import Call
from sliceworks.serving.gateway.program import Program
from sliceworks.serving.gateway.state import State

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.support.gateways import Upstream

EVENTS = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
JSON = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
WELL = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"
EVENT = b"%x\r\n%b\r\n" % (206 + 2, b"data: " + b"x" * 200 + b"\n\n")
ANSWERS: list[tuple[bytes, bool]] = [
    (b"", True),
    (JSON % 10 + b"{}", True),
    (JSON % 2 + b"{}" + JSON % 9, False),
    (JSON % 2_000_000 + b"{" + b" " * 1_999_998 + b"}", False),
    (EVENTS + EVENT, True),
    (EVENTS + 300 * EVENT + b"0\r\n\r\n", False),
    (EVENTS + EVENT + b"zz\r\n", False),
    (b"HTTP/1.1 503 Unavailable\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}", False),
    (b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n{}", True),
    (b'HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\ndata: {"error": "no memory"}\n\n', False),
    (b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 4\r\n\r\npage", False),
]
"""What a server says, and whether it hangs up then."""


class World:
    """A gateway and all that happens to it."""

    def __init__(self, seed: int, folder: Path, *, secure: bool) -> None:
        self.chance, self.ends = random.Random(seed), 0.0
        self.listen: dict[str, Any] = {"port": 0}
        self.trusted: ssl.SSLContext | None = None
        if secure:
            self.trusted = ssl.create_default_context(cadata=renew(folder).decode())
            self.listen["tls"] = {"certificate": str(folder / "tls.crt"), "key": str(folder / "tls.key")}
        self.answered: list[int] = []

    async def moment(self, most: float) -> None:
        await asyncio.sleep(self.chance.uniform(0, most))

    async def odd(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """A server that answers anything, or nothing."""
        while True:
            head, _ = await read_request(reader)
            answer, last = (WELL, self.chance.random() < 0.1) if head.startswith(b"GET") else self.chance.choice(ANSWERS)
            if self.chance.random() < 0.1:
                await self.moment(1.0)
            for piece in (answer[:100], answer[100:]):
                if writer.is_closing():
                    return
                writer.write(piece)
                await self.moment(0.01)
            if last:
                return

    def spec(self, good: str, odd: str) -> Any:
        """Some document: models, servers, keys and limits come and go."""
        some = self.chance
        urls = {"m": ("openai", [good, odd]), "n": ("openai", [odd]), "j": ("jetstream", [odd, good]), "t": ("triton", [good, odd])}
        models = [
            {
                "name": name,
                "backends": [{"kind": kind, "url": url, "weight": some.choice((1, 2))} for url in places],
                "rate": some.choice(({}, {"concurrent": 4}, {"tokensPerMinute": 10_000_000})),
            }
            for name, (kind, places) in urls.items()
            if name == "m" or some.random() < 0.8
        ]
        keys = [
            {"name": name, "sha256": digit * 64, "rate": some.choice(({}, {"concurrent": 8}))}
            for name, digit in (("a", "1"), ("b", "2"))
        ]
        return document(
            models=models,
            listen=self.listen,
            keys=some.sample(keys, some.choice((1, 2))),
            anonymous=True,
            timeouts={"connect": "300ms", "firstToken": "600ms", "idle": "500ms", "total": some.choice(("1s", "1h"))},
            health={"every": "50ms", "timeout": "200ms", "open": "50ms", "failures": some.choice((2, 5))},
            retries={"attempts": some.choice((0, 2)), "budget": 0.5, "minimum": 50},
            balancing={"hedgeAfter": some.choice((None, "1ms", "20ms")), "slowStart": "500ms"},
        )

    async def visit(self, port: int) -> None:
        """One client, which may leave at any stage."""
        some = self.chance
        stream = some.random() < 0.5
        path, body = some.choice(
            [
                ("/v1/chat/completions", chat("word " * some.choice((1, 1000, 50_000)), some.choice("mnjt"), stream=stream)),
                ("/v1/completions", {"model": some.choice("jt"), "prompt": "a b c", "stop": "b", "stream": stream}),
                ("/v2/models/t/generate_stream", {"text_input": "a b"}),
                ("/v1/generate", {"model": "j", "text_content": {"text": "a b"}}),
            ]
        )
        data = orjson.dumps(body)
        sent = f"POST {path} HTTP/1.1\r\nhost: x\r\ncontent-length: {len(data)}\r\n\r\n".encode() + data
        way = some.randrange(8)
        async with await Client.open(port, **({"ssl": self.trusted} if self.trusted else {})) as client, asyncio.timeout(20):
            client.writer.write({0: sent[: some.randrange(len(sent))], 1: sent * 10}.get(way, sent))
            if way == 2 and self.trusted is None:
                client.writer.write_eof()
            if way <= 3:
                await self.moment(0.1)
            elif way == 4:
                await client.head()
            else:
                self.answered.append((await client.get()).status)

    async def visits(self, port: int) -> None:
        while clock.loop_time() < self.ends:
            with suppress(ConnectionError, asyncio.IncompleteReadError, ssl.SSLError, ValueError):  # dropped amid an answer
                await self.visit(port)
            await self.moment(0.01)

    async def deaths(self, good: Upstream) -> None:
        while clock.loop_time() < self.ends:
            await self.moment(0.3)
            for connection in list(good.server.connections):
                connection.end()
            if self.chance.random() < 0.3:
                await good.kill()
                await self.moment(0.2)
                await good.revive()

    async def changes(self, program: Program, good: str, odd: str) -> list[State]:
        """New documents; returns all that there were."""
        states = [program.application.state]
        while clock.loop_time() < self.ends:
            await self.moment(0.2)
            program._take_over(State(self.spec(good, odd), program.application.state))
            states.append(program.application.state)
        return states


def held(states: list[State]) -> list[str]:
    """What any document that there was still counts."""
    found = []
    for state in states:
        for served in state.models.values():
            found += [f"{served.name} is waited for"] * served.group.waiting + [f"{served.name}'s quota"] * served.quota.under_way
            found += [f"a request at {each.name}" for each in served.group.servers if each.outstanding or each._trial]
        found += [f"{name}'s quota" for name in "ab" if (caller := state.keys.named(name)) and caller.quota.under_way]
    return found


def calls() -> int:
    """How many calls there are, under way or not."""
    return sum(isinstance(each, Call) for each in gc.get_objects())


@asynccontextmanager
async def nothing_left() -> AsyncIterator[None]:
    """No task and no open file more than before; and whatever is let go is let go without Python's collector, which rests here."""

    def files() -> int:
        return sum(1 for _ in open_files.iterdir()) if open_files.is_dir() else 0

    open_files = Path("/proc/self/fd")
    tasks, before = asyncio.all_tasks(), files()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
    await until(lambda: asyncio.all_tasks() <= tasks, 10)
    await until(lambda: files() <= before + 1, 10)  # uvloop keeps one of its own


@pytest.mark.parametrize("secure", [False, True])
def test_in_the_end_nothing_is_under_way(
    tmp_path: Path, soak_seconds: float, caplog: pytest.LogCaptureFixture, *, secure: bool
) -> None:
    async def main() -> None:
        world, before = World(11, tmp_path, secure=secure), calls()
        async with nothing_left(), upstream(models=("*",), token_time=0.001) as good, raw_upstream(world.odd) as odd:
            program = Program(world.spec(good.url, odd), limits=LIMITS)
            port = (await program.start()).main
            world.ends = clock.loop_time() + soak_seconds
            try:
                async with asyncio.TaskGroup() as group:
                    for _ in range(12):
                        group.create_task(world.visits(port))
                    group.create_task(world.deaths(good))
                    changing = group.create_task(world.changes(program, good.url, odd))
                states = changing.result()
                await until(lambda: not program.server.connections, 10)
                await until(lambda: not program.application.relay.under_way, 10)
                assert held(states) == []
                await until(lambda: calls() <= before, 10)
                assert 200 in world.answered
                assert 500 not in world.answered
            finally:
                await program.stop(0.2)
            await until(lambda: not any(server.pool.open for state in states for server in state.servers), 10)

    clock.run(main())
    assert [record.getMessage() for record in caplog.records if record.levelname == "ERROR"] == []
