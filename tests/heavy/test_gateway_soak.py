"""The gateway with backends that are processes, which are killed, paused and restarted continuously.

No request is lost that another backend could answer, every response belongs to its request, and a truncated stream ends with an
error. Runs for a minute, or SLICEWORKS_SOAK seconds.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import socket
import sys
from collections import Counter
from typing import TYPE_CHECKING, Any

import aiohttp
import orjson
import pytest
from tests.real.processes import Process, free_port

from sliceworks.base import yaml_documents

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SECONDS = float(os.environ.get("SLICEWORKS_SOAK", "60"))
SLICEWORKS = (sys.executable, "-m", "sliceworks", "gateway")
WORKERS, SERVERS = 12, 4


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[dict[int, Process]]:
    created = {}
    for port in (free_port() for _ in range(SERVERS)):
        command = [*SLICEWORKS, "echo", "--port", str(port), "--model", "m", "--ttft", "20ms", "--token-time", "5ms", "-q"]
        created[port] = Process(f"server {port}", command, tmp_path / f"{port}.log")
    try:
        for port, process in created.items():
            process.wait_until(lambda port=port: listens(port))  # type: ignore[misc]
        yield created
    finally:
        for process in created.values():
            process.kill()


@pytest.fixture
def gate(servers: dict[int, Process], tmp_path: Path) -> Iterator[str]:
    port = free_port()
    backends = [{"kind": "echo", "url": f"http://127.0.0.1:{server}"} for server in servers]
    spec = {"listen": {"port": port}, "anonymous": True, "models": [{"name": "m", "backends": backends}]}
    head = {"apiVersion": "sliceworks.dev/v1alpha1", "kind": "Gateway", "metadata": {"name": "soak"}}
    (tmp_path / "gateway.yaml").write_text(yaml_documents.dump({**head, "spec": spec}))
    process = Process("gateway", [*SLICEWORKS, "run", "-f", str(tmp_path / "gateway.yaml")], tmp_path / "gateway.log")
    try:
        process.wait_until(lambda: listens(port))
        yield f"http://127.0.0.1:{port}"
        assert process.alive()
    finally:
        process.kill()


async def disturb_backends(servers: dict[int, Process], ending: float) -> Counter[str]:
    """Kill one backend after the other and restart it, or pause it for a while."""
    chance, done = random.Random(3), Counter[str]()
    while asyncio.get_running_loop().time() < ending:
        await asyncio.sleep(chance.uniform(0.1, 1.0))
        process = chance.choice(list(servers.values()))
        if chance.random() < 0.4:
            os.kill(process.pid, signal.SIGSTOP)
            await asyncio.sleep(chance.uniform(0.2, 2.0))
            os.kill(process.pid, signal.SIGCONT)
            done["stopped"] += 1
            continue
        process.kill()
        await asyncio.sleep(chance.uniform(0.0, 1.0))
        process.start()
        done["killed"] += 1
    return done


async def send_requests(url: str, number: int, ending: float) -> Counter[str]:
    seen = Counter[str]()
    async with aiohttp.ClientSession() as session:
        while asyncio.get_running_loop().time() < ending:
            text, stream = f"worker {number} asks {sum(seen.values())} of it", seen["whole"] > seen["streamed"]
            request: Any = {"model": "m", "stream": stream, "messages": [{"role": "user", "content": text}]}
            async with session.post(f"{url}/v1/chat/completions", json=request) as response:
                body = await response.read()
                assert response.status == 200, body
            seen[classify(body, text, stream=stream)] += 1
    return seen


def classify(body: bytes, text: str, *, stream: bool) -> str:
    """Classify a response; it must belong to its request, or report truncation after it began."""
    if not stream:
        assert orjson.loads(body)["choices"][0]["message"]["content"] == text
        return "whole"
    events = [orjson.loads(line[6:]) for line in body.split(b"\n\n") if line.startswith(b"data: {")]
    if not body.endswith(b"data: [DONE]\n\n"):
        assert len(events) > 1
        assert "the backend failed" in events[-1]["error"]["message"]
        return "cut"
    assert "".join(event["choices"][0]["delta"].get("content") or "" for event in events) == text
    return "streamed"


@pytest.mark.timeout(60 + 2 * SECONDS)
def test_no_answerable_request_is_lost(gate: str, servers: dict[int, Process]) -> None:
    async def main() -> tuple[Counter[str], Counter[str]]:
        ending = asyncio.get_running_loop().time() + SECONDS
        making = asyncio.ensure_future(disturb_backends(servers, ending))
        seen = await asyncio.gather(*(send_requests(gate, number, ending) for number in range(WORKERS)))
        return sum(seen, Counter[str]()), await making

    seen, troubles = asyncio.run(main())
    print(dict(seen), dict(troubles))
    assert troubles["killed"] > SECONDS / 10
    assert troubles["stopped"] > SECONDS / 20
    assert seen["whole"] + seen["streamed"] > 10 * SECONDS
    assert seen["cut"] < seen["streamed"]
