"""Every API asked of a server that speaks them all: what is sent is understood, and answers are read, whole or in pieces."""

from __future__ import annotations

from time import time_ns
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.echoing import echoing
from tests.support.load_tests import spec

from sliceworks.loadtest import plans
from sliceworks.loadtest.generator.pacing import Watch
from sliceworks.loadtest.generator.worker import Worker
from sliceworks.loadtest.rows import NEVER, Failure, Writer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from sliceworks.loadtest.generator.answers import Answer
    from sliceworks.loadtest.rows import Record

pytestmark = pytest.mark.timeout(60)
TENSORS = {"inputs": [{"name": "x", "shape": [2], "datatype": "FP32"}]}


@pytest.fixture(scope="module")
def echo() -> Iterator[str]:
    """Answers with what it is asked, a word for a token."""
    with echoing("--ttft", "20ms", "--token-time", "5ms") as url:
        yield url


def asked(url: str, folder: Path, **fields: Any) -> list[tuple[Record, str]]:
    """Four requests and their answers."""
    given = {"prompts": {"texts": ["one two three"]}, "options": {"maxTokens": 3}, "stages": [{"constant": 20, "for": "200ms"}]}
    plan = plans.make(spec(target={"url": url}, **{**given, **fields}), folder)
    found: list[tuple[Record, str]] = []

    def heard(record: Record, answer: Answer) -> None:
        found.append((record, answer.text))

    with Writer(folder, "worker-0", 0) as writer:
        Worker(plan, writer, Watch(time_ns() + 50_000_000), heard=heard).run()
    return found


@pytest.mark.parametrize(
    ("api", "stream", "pieces"),
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
def test_texts(echo: str, tmp_path: Path, api: str, stream: bool, pieces: int) -> None:
    found = asked(echo, tmp_path, api=api, stream=stream)
    assert len(found) == 4
    for record, text in found:
        assert (record.failure, record.status, " ".join(text.split())) == (Failure.NONE, 200, "one two three")
        assert len(record.pieces or ()) == pieces
        # Twenty milliseconds, by a timer that counts whole ones.
        assert 19_000_000 <= record.first_token - record.sent <= record.ended - record.sent
        if api.startswith("openai"):
            assert (record.tokens_in > 0, record.tokens_out) == (True, 3)


def test_tensors(echo: str, tmp_path: Path) -> None:
    found = asked(echo, tmp_path, api="oip-infer", infer=TENSORS)
    assert [(record.failure, record.status) for record, _ in found] == [(Failure.NONE, 200)] * 4
    assert all(record.first_token != NEVER for record, _ in found)


def test_plain_requests(echo: str, tmp_path: Path) -> None:
    chat = '{"model": "m", "max_tokens": 2, "messages": [{"role": "user", "content": "{prompt}"}]}'
    prompts = {"texts": ['say "hello"\n']}  # what would end a string of JSON is written as it must be
    post = asked(echo, tmp_path, api="http", http={"path": "/v1/chat/completions", "body": chat}, prompts=prompts)
    get = asked(echo, tmp_path, api="http", http={"method": "GET", "path": "/v1/models"}, prompts=None)
    missing = asked(echo, tmp_path, api="http", http={"method": "GET", "path": "/nowhere"}, prompts=None)
    assert [record.status for record, _ in post] == [200] * 4
    assert [record.status for record, _ in get] == [200] * 4
    assert {(record.failure, record.status) for record, _ in missing} == {(Failure.STATUS, 404)}
