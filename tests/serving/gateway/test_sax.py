"""Sax behind the gateway, with a fake client, because Sax's own cannot be installed everywhere."""

from __future__ import annotations

import asyncio
import hashlib
import re
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any

import orjson
import pytest
from tests.support.gateways import Client, chat, document, gateway, send_request, until

from sliceworks.base import clock
from sliceworks.base.http.messages import HttpError
from sliceworks.serving.gateway.sax_client import RevisableText, SaxExecutor

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from sliceworks.serving.gateway.sax_cell import StreamCallback


class FakeSax:
    """Answers as Sax does: blocking, with revisions in streams."""

    def __init__(self) -> None:
        self.asked: list[tuple[Any, ...]] = []
        self.published: dict[str, tuple[str, str, int]] = {}
        self.gate = threading.Event()
        self.gate.set()
        self.patience: list[float] = []

    def generate(self, model: str, prompt: str, options: Mapping[str, float], timeout: float) -> list[tuple[str, float]]:
        self.asked.append((model, prompt, dict(options)))
        self.patience.append(timeout)
        self.gate.wait(100)
        if prompt == "fail":
            raise RuntimeError("no model server is ready")
        return [(prompt.upper(), -0.5), ("second", -2.0)]

    def generate_stream(self, model: str, prompt: str, options: Mapping[str, float], timeout: float, heard: StreamCallback) -> None:
        self.asked.append((model, prompt, dict(options)))
        if prompt == "fail":
            raise RuntimeError("no model server is ready")
        wrong = [(" wrold", 5), ("orld", 7)] if prompt == "stumble" else [(" world", 5)]
        for text, stands in [("Hel", 0), ("lo", 3), *wrong, ("!", 11)]:
            heard(False, [(text, stands, [0.0])])
            self.gate.wait(100)
        heard(True, [])

    def score(self, model: str, prefix: str, suffixes: list[str], timeout: float) -> list[float]:
        self.patience.append(timeout)
        self.gate.wait(100)
        return [-float(len(item)) for item in suffixes]

    def details(self, model: str) -> dict[str, Any]:
        self.gate.wait(100)
        return {"model": model, "model_path": "p", "checkpoint": "c", "max_replicas": 1, "active_replicas": 1}

    def publish(self, model: str, path: str, checkpoint: str, replicas: int) -> None:
        self.published[model] = (path, checkpoint, replicas)

    def update(self, model: str, path: str, checkpoint: str, replicas: int) -> None:
        self.published[model] = (path, checkpoint, replicas)

    def unpublish(self, model: str) -> None:
        del self.published[model]


PATH = "/sax/test/llama7b"
KEY = {"name": "a", "sha256": hashlib.sha256(b"ka").hexdigest()}


def spec(**more: Any) -> Any:
    return document(PATH, kind="sax", **more)


def test_sax_routes() -> None:
    fake = FakeSax()

    async def main() -> None:
        async with gateway(spec()) as gate:
            gate.program.router.sax_executor = SaxExecutor(lambda: fake)
            options = {"temperature": 0.5, "top_k": 40, "top_p": None, "per_example_max_decode_steps": 32}
            for model in (PATH, "m"):
                response = await gate.request("POST", "/generate", {"prompt": "hello", "model_id": model, "model_options": options})
                assert response.json == {"completions": [["HELLO", -0.5], ["second", -2.0]]}
            expected = {"temperature": 0.5, "per_example_top_k": 40.0, "per_example_max_decode_steps": 32.0}
            assert fake.asked[0] == (PATH, "hello", expected)
            assert (await gate.request("GET", f"/listcell?model_id={PATH}")).json["checkpoint"] == "c"
            scored = await gate.request("POST", "/score", {"model_id": "m", "prefix": "a", "suffix": ["b", "cc"]})
            assert scored.json == {"scores": [-1.0, -2.0]}
            failed = await gate.request("POST", "/generate", {"prompt": "fail", "model_id": "m"})
            assert (failed.status, failed.json) == (500, {"detail": "Exception in Saxml client: no model server is ready"})
            for body in ({"prompt": "x"}, {"prompt": 1, "model_id": "m"}, b"{"):
                wrong = await gate.request("POST", "/generate", body)
                assert (wrong.status, list(wrong.json)) == (400, ["detail"])
            unknown = await gate.request("POST", "/generate", {"prompt": "x", "model_id": "/sax/test/other"})
            assert unknown.status == 404
            assert (await gate.request("POST", "/publish", {})).status == 404
            assert gate.idle()

    clock.run(main())


def test_token_limit_per_minute_counts_sax_completions() -> None:
    """Decode steps are reserved, and completions are counted by their size: Sax does not report tokens."""
    fake, prompt = FakeSax(), "p" * 400

    async def statuses(limits: dict[str, int], count: int, options: dict[str, int]) -> list[int]:
        async with gateway(spec(keys=[{**KEY, "rateLimit": limits}])) as gate:
            gate.program.router.sax_executor = SaxExecutor(lambda: fake)
            body = {"prompt": prompt, "model_id": "m", "model_options": options}
            return [(await gate.request("POST", "/generate", body, key="ka")).status for _ in range(count)]

    async def main() -> None:
        # A request and its prompt are 600 bytes at most, so 150 tokens; its completions 400 bytes, so 100.
        assert await statuses({"tokensPerMinute": 400}, 3, {}) == [200, 200, 429]
        fake.gate.clear()
        async with gateway(spec(keys=[{**KEY, "rateLimit": {"tokensPerMinute": 2000}}])) as gate:
            gate.program.router.sax_executor = SaxExecutor(lambda: fake)
            body = {"prompt": "p", "model_id": "m", "model_options": {"per_example_max_decode_steps": 900}}
            clients = [await Client.open(gate.port) for _ in range(5)]
            for client in clients:
                client.send("POST", "/generate", body, key="ka")
            rejected = asyncio.as_completed([client.get() for client in clients])
            assert [(await next(rejected)).status for _ in range(3)] == [429] * 3
            fake.gate.set()
            assert [(await next(rejected)).status for _ in range(2)] == [200] * 2
            for client in clients:
                client.writer.transport.abort()

    clock.run(main())


@pytest.mark.parametrize("stream", [False, True])
def test_tokens_of_sax_are_estimated_by_the_size_of_the_text(stream: bool) -> None:
    fake = FakeSax()

    async def main() -> None:
        async with gateway(spec()) as gate:
            gate.program.router.sax_executor = SaxExecutor(lambda: fake)
            body = chat("p" * 400, stream=stream, stream_options={"include_usage": True})
            response = await gate.request("POST", "/v1/chat/completions", body)
            found = re.search(rb'"completion_tokens":(\d+)', response.body)
            assert found is not None
            # The whole text repeats the prompt; the stream has four short texts.
            assert int(found[1]) == 4 if stream else 100 <= int(found[1]) < 150

    clock.run(main())


def test_openai_protocol_on_sax() -> None:
    fake = FakeSax()

    async def main() -> None:
        async with gateway(spec()) as gate:
            gate.program.router.sax_executor = SaxExecutor(lambda: fake)
            whole = await gate.request("POST", "/v1/chat/completions", chat("say", max_tokens=9, temperature=1))
            assert whole.json["choices"][0]["message"]["content"] == "SAY"
            assert fake.asked[0] == (PATH, "say", {"temperature": 1.0, "per_example_max_decode_steps": 9.0})
            fake.gate.clear()
            async with await Client.open(gate.port) as client:
                client.send("POST", "/v1/chat/completions", chat("say", stream=True))
                await client.head()
                assert orjson.loads((await client.chunk())[6:])["choices"][0]["delta"]["content"] == "Hel"
                fake.gate.set()
                rest = [piece async for piece in _rest(client)]
                assert rest[-1].endswith(b"[DONE]\n\n")
            stumbled = await gate.request("POST", "/v1/chat/completions", chat("stumble", stream=True))
            assert b"the model revised text that was already sent" in stumbled.chunks[-1]
            conversation = {"model": "m", "messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}
            await gate.request("POST", "/v1/chat/completions", conversation)
            assert fake.asked[-1][1] == "user: a\nassistant: b\nassistant:"
            failed = await gate.request("POST", "/v1/chat/completions", chat("fail", stream=True))
            assert (failed.status, failed.json["error"]["code"]) == (500, "backend_failed")
            assert (await gate.request("POST", "/v1/embeddings", {"model": "m", "input": "x"})).status == 400
            await until(gate.idle)

    clock.run(main())


async def _rest(client: Client) -> Any:
    while piece := await client.chunk():
        yield piece


ASKED: dict[str, Any] = {
    "/generate": {"prompt": "hello", "model_id": "m"},
    "/score": {"model_id": "m", "prefix": "a", "suffix": "b"},
    "/v1/chat/completions": chat("hello"),
}


@pytest.mark.parametrize("path", ASKED)
def test_sax_gets_the_remaining_timeout(path: str) -> None:
    fake = FakeSax()

    async def main() -> None:
        async with gateway(spec(timeouts={"connect": "10s", "total": "20s"})) as gate, await Client.open(gate.port) as client:
            gate.program.router.sax_executor = SaxExecutor(lambda: fake)
            group = gate.program.router.state.models["m"].balancer
            group.upstreams[0].healthy = False
            client.send("POST", path, ASKED[path])
            await until(lambda: group.waiting == 1)
            await clock.sleep(0.5)
            group.upstreams[0].healthy = True
            assert (await client.get()).status == 200

    clock.run(main())
    [patience] = fake.patience
    assert 0 < patience <= 19.5


@pytest.mark.parametrize("path", [*ASKED, "/listcell?model_id=m", "a stream"])
def test_unresponsive_sax_times_out(path: str) -> None:
    fake = FakeSax()
    fake.gate.clear()

    async def main() -> None:
        # The first token of a stream must arrive before the timeout, on a busy machine too.
        total = "3s" if path == "a stream" else "300ms"
        async with gateway(spec(timeouts={"total": total}, retries={"attempts": 0})) as gate:
            gate.program.router.sax_executor = SaxExecutor(lambda: fake)
            if path == "a stream":
                response = await gate.request("POST", "/v1/chat/completions", chat("hello", stream=True))
                assert b'"content":"Hel"' in response.body
                assert b'"code":"backend_timeout"' in response.body
            else:
                response = await gate.request("POST" if path in ASKED else "GET", path, ASKED.get(path, b""))
                assert response.status == 504
            assert not fake.gate.is_set()  # Sax is still blocked
            await until(gate.idle)
            fake.gate.set()

    clock.run(main())


def test_threads_are_bounded() -> None:
    fake = FakeSax()
    fake.gate.clear()

    async def main() -> None:
        async with gateway(spec(retries={"attempts": 0})) as gate:
            gate.program.router.sax_executor = SaxExecutor(lambda: fake, threads=2)
            async with await Client.open(gate.port) as one, await Client.open(gate.port) as two:
                for client in (one, two):
                    client.send("POST", "/generate", {"prompt": "x", "model_id": "m"})
                await until(lambda: len(fake.asked) == 2)
                full = await gate.request("POST", "/generate", {"prompt": "x", "model_id": "m"})
                assert (full.status, full.headers["retry-after"]) == (503, "1")
                fake.gate.set()
                assert (await one.get()).status == 200
                assert (await two.get()).status == 200
            assert (await gate.request("POST", "/generate", {"prompt": "x", "model_id": "m"})).status == 200

    clock.run(main())


_ENDS = """
import asyncio, threading
from sliceworks.base import clock
from sliceworks.serving.gateway.sax_client import SaxExecutor

async def main():
    asking = asyncio.ensure_future(SaxExecutor(threading.Event).call(lambda never: never.wait(600)))
    await asyncio.sleep(0.05)
    asking.cancel()

clock.run(main())
"""


def test_shutdown_does_not_wait_for_sax() -> None:
    subprocess.run([sys.executable, "-c", _ENDS], check=True, timeout=120)


def test_models_are_published_on_the_admin_port(tmp_path: Path) -> None:
    fake = FakeSax()
    (tmp_path / "key").write_text("boss")

    async def main() -> None:
        async with gateway(spec(admin={"port": 0, "key": {"file": str(tmp_path / "key")}})) as gate:
            gate.program.router.sax_executor = SaxExecutor(lambda: fake)
            assert gate.admin is not None
            model = {"model_id": PATH, "model_path": "a.B", "checkpoint": "gs://x/y", "replicas": 1}
            assert (await send_request(gate.admin, "POST", "/publish", model)).status == 401
            response = await send_request(gate.admin, "POST", "/publish", model, key="boss")
            assert response.json == {"model": PATH, "path": "a.B", "checkpoint": "gs://x/y", "replicas": 1}
            assert (await send_request(gate.admin, "PUT", "/update", {**model, "replicas": 2}, key="boss")).status == 200
            assert fake.published == {PATH: ("a.B", "gs://x/y", 2)}
            wrong = await send_request(gate.admin, "POST", "/publish", {**model, "replicas": "2"}, key="boss")
            assert (wrong.status, wrong.json) == (400, {"detail": "replicas: required, must be an integer"})
            assert (await send_request(gate.admin, "POST", f"/unpublish?model_id={PATH}", key="boss")).json == {"model": PATH}
            assert fake.published == {}

    clock.run(main())


@pytest.mark.parametrize(
    ("grpc", "status", "words"),
    [
        (False, 501, "Sax backends require Sax's Python client or grpcio, and neither is installed"),
        (True, 500, "Exception in Saxml client: SAX_ROOT is not set to the root of the cells"),
    ],
)
def test_missing_sax_client_is_an_error(monkeypatch: pytest.MonkeyPatch, grpc: bool, status: int, words: str) -> None:
    monkeypatch.delenv("SAX_ROOT", raising=False)
    if not grpc:
        monkeypatch.setitem(sys.modules, "sliceworks.serving.gateway.sax_cell", None)

    async def main() -> None:
        async with gateway(spec(retries={"attempts": 0})) as gate:
            response = await gate.request("POST", "/generate", {"prompt": "x", "model_id": "m"})
            assert (response.status, response.json) == (status, {"detail": words})

    clock.run(main())


@pytest.mark.parametrize(
    ("pieces", "expected"),
    [
        ([("Hel", 0), ("lo", 3)], ["Hel", "lo"]),
        ([("Hel", 0), ("y", 2), ("lo", 3)], ["Hel", ""]),
        ([("a", 0), ("é"[:1], 1)], ["a", "é"]),
        ([("ab", 0), ("cX", 2), ("cd", 2), ("cXe", 2)], ["ab", "cX", "", "e"]),
    ],
)
def test_final_text_is_forwarded(pieces: list[tuple[str, int]], expected: list[str]) -> None:
    standing = RevisableText()
    assert [standing.add(*piece) for piece in pieces][: len(expected)] == expected


def test_revised_text_is_an_error() -> None:
    standing = RevisableText()
    assert standing.add("Hello", 0) == "Hello"
    assert standing.add("y", 2) == ""
    with pytest.raises(HttpError, match="revised text"):
        standing.end()
