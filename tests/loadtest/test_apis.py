"""Every API against the echo server: requests are understood, and responses are parsed, streamed or not."""

from __future__ import annotations

from time import time_ns
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.echo_server import run_echo_server
from tests.support.load_tests import spec

from sliceworks.loadtest import load_plan
from sliceworks.loadtest.generator.pacer import RunClock
from sliceworks.loadtest.generator.worker import Worker
from sliceworks.loadtest.request_log import NEVER, Failure, RecordWriter

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from sliceworks.loadtest.generator.response_reader import ResponseReader
    from sliceworks.loadtest.request_log import RequestRecord

pytestmark = pytest.mark.long(20)
TENSORS = {"inputs": [{"name": "x", "shape": [2], "datatype": "FP32"}]}


@pytest.fixture(scope="module")
def echo() -> Iterator[str]:
    """An echo server, one token per word."""
    with run_echo_server("--ttft", "20ms", "--token-time", "5ms") as url:
        yield url


def send_requests(url: str, folder: Path, **fields: Any) -> list[tuple[RequestRecord, str]]:
    """Send four requests; returns their records."""
    given = {"prompts": {"texts": ["one two three"]}, "options": {"maxTokens": 3}, "stages": [{"constant": 20, "for": "200ms"}]}
    plan = load_plan.create(spec(target={"url": url}, **{**given, **fields}), folder)
    result: list[tuple[RequestRecord, str]] = []

    def record_response(record: RequestRecord, answer: ResponseReader) -> None:
        result.append((record, answer.text))

    with RecordWriter(folder, "worker-0", 0) as writer:
        Worker(plan, writer, RunClock(time_ns() + 50_000_000), on_finished=record_response).run()
    return result


@pytest.mark.parametrize(
    ("api", "stream", "chunks"),
    [
        ("openai-chat", True, 3),
        ("openai-chat", False, 1),
        ("openai-completions", True, 3),
        ("openai-completions", False, 1),
        ("oip-generate", True, 3),
        ("oip-generate", False, 1),
        ("jetstream", True, 3),
        ("sax", False, 1),
    ],
)
def test_text_apis(echo: str, tmp_path: Path, api: str, stream: bool, chunks: int) -> None:
    result = send_requests(echo, tmp_path, api=api, stream=stream)
    assert len(result) == 4
    for record, text in result:
        assert (record.failure, record.status, " ".join(text.split())) == (Failure.NONE, 200, "one two three")
        assert len(record.chunks or ()) == chunks
        # Twenty milliseconds, by a timer with a resolution of one.
        assert 19_000_000 <= record.first_token - record.sent <= record.ended - record.sent
        if api.startswith("openai"):
            assert (record.tokens_in > 0, record.tokens_out) == (True, 3)


def test_tensor_apis(echo: str, tmp_path: Path) -> None:
    result = send_requests(echo, tmp_path, api="oip-infer", infer=TENSORS)
    assert [(record.failure, record.status) for record, _ in result] == [(Failure.NONE, 200)] * 4
    assert all(record.first_token != NEVER for record, _ in result)


def test_plain_requests(echo: str, tmp_path: Path) -> None:
    chat = '{"model": "m", "max_tokens": 2, "messages": [{"role": "user", "content": "{prompt}"}]}'
    prompts = {"texts": ['say "hello"\n']}  # characters that end a JSON string are escaped
    post = send_requests(echo, tmp_path, api="http", http={"path": "/v1/chat/completions", "body": chat}, prompts=prompts)
    get = send_requests(echo, tmp_path, api="http", http={"method": "GET", "path": "/v1/models"}, prompts=None)
    missing = send_requests(echo, tmp_path, api="http", http={"method": "GET", "path": "/nowhere"}, prompts=None)
    assert [record.status for record, _ in post] == [200] * 4
    assert [record.status for record, _ in get] == [200] * 4
    assert {(record.failure, record.status) for record, _ in missing} == {(Failure.STATUS, 404)}
