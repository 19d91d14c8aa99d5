"""Random clients, backends and configuration changes: at the end no request is active and nothing is leaked.

Clients disconnect at every stage, backends fail at every stage, and configurations change models, backends, keys and limits.
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
from sliceworks.serving.gateway.call import Call
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
"""What a backend sends, and whether it then closes the connection."""


class RandomGateway:
    """A gateway with everything that happens to it."""

    def __init__(self, seed: int, folder: Path, *, secure: bool) -> None:
        self.chance, self.ends = random.Random(seed), 0.0
        self.listen: dict[str, Any] = {"port": 0}
        self.trusted: ssl.SSLContext | None = None
        if secure:
            self.trusted = ssl.create_default_context(cadata=renew(folder).decode())
            self.listen["tls"] = {"certFile": str(folder / "tls.crt"), "keyFile": str(folder / "tls.key")}
        self.answered: list[int] = []

    async def moment(self, most: float) -> None:
        await asyncio.sleep(self.chance.uniform(0, most))

    async def odd(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """A backend that sends a random response, or none."""
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
        """A random configuration of models, backends, keys and limits."""
        some = self.chance
        urls = {"m": ("openai", [good, odd]), "n": ("openai", [odd]), "j": ("jetstream", [odd, good]), "t": ("triton", [good, odd])}
        models = [
            {
                "name": name,
                "backends": [{"kind": kind, "url": url, "weight": some.choice((1, 2))} for url in places],
                "rateLimit": some.choice(({}, {"maxParallelRequests": 4}, {"tokensPerMinute": 10_000_000})),
            }
            for name, (kind, places) in urls.items()
            if name == "m" or some.random() < 0.8
        ]
        keys = [
            {"name": name, "sha256": digit * 64, "rateLimit": some.choice(({}, {"maxParallelRequests": 8}))}
            for name, digit in (("a", "1"), ("b", "2"))
        ]
        return document(
            models=models,
            listen=self.listen,
            keys=some.sample(keys, some.choice((1, 2))),
            anonymous=True,
            timeouts={"connect": "300ms", "firstToken": "600ms", "idle": "500ms", "total": some.choice(("1s", "1h"))},
            health_check={
                "interval": "50ms",
                "timeout": "200ms",
                "ejectionTime": "50ms",
                "consecutiveFailures": some.choice((2, 5)),
            },
            retries={"attempts": some.choice((0, 2)), "retryRatio": 0.5, "minRetriesPerSecond": 50},
            load_balancing={"hedgingDelay": some.choice((None, "1ms", "20ms")), "slowStart": "500ms"},
        )

    async def visit(self, port: int) -> None:
        """A client that may disconnect at any stage."""
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
        async with await Client.open(port, **({"ssl": self.trusted} if self.trusted else {})) as client, asyncio.timeout(120):
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
        while clock.loop_time() < self.ends or 200 not in self.answered:
            with suppress(ConnectionError, asyncio.IncompleteReadError, ssl.SSLError, ValueError):  # disconnected during a response
                await self.visit(port)
            await self.moment(0.01)

    async def deaths(self, good: Upstream) -> None:
        while clock.loop_time() < self.ends:
            await self.moment(0.3)
            for connection in list(good.server.connections):
                connection.abort()
            if self.chance.random() < 0.3:
                await good.kill()
                await self.moment(0.2)
                await good.revive()

    async def changes(self, program: Program, good: str, odd: str) -> list[State]:
        """Apply new configurations; returns all of them."""
        states = [program.router.state]
        while clock.loop_time() < self.ends:
            await self.moment(0.2)
            program._apply(State(self.spec(good, odd), program.router.state))
            states.append(program.router.state)
        return states


def held(states: list[State]) -> list[str]:
    """What any of the configurations still counts as active."""
    result = []
    for state in states:
        for served in state.models.values():
            result += [f"{served.name} is waited for"] * served.balancer.waiting + [
                f"{served.name}'s quota"
            ] * served.rate_limit.in_flight
            result += [
                f"a request at {upstream.name}"
                for upstream in served.balancer.upstreams
                if upstream.outstanding or upstream._probe_request
            ]
        result += [f"{name}'s quota" for name in "ab" if (caller := state.keys.get(name)) and caller.rate_limit.in_flight]
    return result


def calls() -> int:
    """The number of existing Call objects."""
    return sum(isinstance(obj, Call) for obj in gc.get_objects())


@asynccontextmanager
async def assert_no_leaks() -> AsyncIterator[None]:
    """Fail on leaked tasks and files; objects must be freed without Python's garbage collector, which is disabled."""

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
    await until(lambda: asyncio.all_tasks() <= tasks)
    await until(lambda: files() <= before + 1, 10)  # uvloop keeps one of its own


@pytest.mark.parametrize("secure", [False, True])
def test_no_request_is_active_at_the_end(
    tmp_path: Path, soak_seconds: float, caplog: pytest.LogCaptureFixture, *, secure: bool
) -> None:
    async def main() -> None:
        random_gateway, before = RandomGateway(11, tmp_path, secure=secure), calls()
        async with assert_no_leaks(), upstream(models=("*",), token_time=0.001) as good, raw_upstream(random_gateway.odd) as odd:
            program = Program(random_gateway.spec(good.url, odd), limits=LIMITS)
            port = (await program.start()).main
            random_gateway.ends = clock.loop_time() + soak_seconds
            try:
                async with asyncio.TaskGroup() as group:
                    for _ in range(12):
                        group.create_task(random_gateway.visits(port))
                    group.create_task(random_gateway.deaths(good))
                    changing = group.create_task(random_gateway.changes(program, good.url, odd))
                states = changing.result()
                await until(lambda: not program.server.connections)
                await until(lambda: not program.router.in_flight)
                assert held(states) == []
                await until(lambda: calls() <= before)
                assert 200 in random_gateway.answered
                assert 500 not in random_gateway.answered
            finally:
                await program.stop(0.2)
            await until(lambda: not any(server.pool.open_connections for state in states for server in state.upstreams))

    clock.run(main())
    assert [record.getMessage() for record in caplog.records if record.levelname == "ERROR"] == []
