"""Answers of webhooks that are large: read in a thread, whatever they contain."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, cast

import orjson
import pytest

from sliceworks.base import clock
from sliceworks.base.loops import VirtualLoop
from sliceworks.twin.apiserver.webhook_client import CallError, WebhookClient

if TYPE_CHECKING:
    from collections.abc import Callable

LARGE = orjson.dumps({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "filler": [[]] * 100_000})


@pytest.fixture
def in_thread(monkeypatch: pytest.MonkeyPatch) -> list[Callable[[], Any]]:
    """What is computed in a thread."""
    called: list[Callable[[], Any]] = []
    run_in_executor = cast("Any", VirtualLoop.run_in_executor)

    def run(loop: VirtualLoop, executor: Any, function: Any, *arguments: Any) -> Any:
        called.append(function)
        return run_in_executor(loop, executor, function, *arguments)

    monkeypatch.setattr(VirtualLoop, "run_in_executor", run)
    return called


@pytest.mark.parametrize(("body", "threads"), [(LARGE, 1), (LARGE[:-1], 1), (b"- a\n" * 100_000, 1), (b"{}", 0), (b"[", 0)])
def test_large_answer_is_read_in_a_thread(body: bytes, threads: int, in_thread: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    async def exchange(*_: Any) -> tuple[int, dict[str, str], bytes]:
        return 200, {"content-type": "application/json"}, body

    async def main() -> None:
        client = WebhookClient(lambda namespace, name, port: (name, port))
        monkeypatch.setattr(client, "_exchange", exchange)
        with suppress(CallError):  # it may not be JSON
            assert await client.post({"url": "https://127.0.0.1:1/"}, {}, 10) == orjson.loads(body)
        assert len(in_thread) == threads

    clock.run(main(), virtual=True)
