"""Token counts that the server did not report: computed with a tokenizer after the run, and marked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import duckdb
import pytest
from tests.support.golden_server import RecordingServer
from tests.support.load_tests import failed, record, spec
from tokenizers import Tokenizer, models, pre_tokenizers

from sliceworks.base import clock
from sliceworks.base.errors import InvalidDocument
from sliceworks.loadtest import bigquery_export, load_plan, request_table, request_texts, run_folder, token_count
from sliceworks.loadtest.prompts import CONTINUE_PROMPT, Prompt, Prompts
from sliceworks.loadtest.report import formatter
from sliceworks.loadtest.request_log import Failure, RecordWriter, ResponseText, ResponseTextWriter, read_texts
from sliceworks.loadtest.runner import LocalRunner

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def tokenizer(tmp_path: Path) -> Path:
    """A tokenizer whose tokens are words and punctuation marks."""
    created = Tokenizer(models.WordLevel({"[unknown]": 0}, unk_token="[unknown]"))
    created.pre_tokenizer = pre_tokenizers.Whitespace()
    file = tmp_path / "tokenizer.json"
    created.save(str(file))
    return file


def counted(folder: Path, columns: str) -> list[tuple[Any, ...]]:
    with duckdb.connect() as connection:
        query = f"SELECT {columns} FROM read_parquet($1) ORDER BY number, turn"
        return connection.execute(query, [str(folder / request_table.REQUESTS_FILE)]).fetchall()


def test_reported_counts_are_kept(tmp_path: Path, tokenizer: Path) -> None:
    with RecordWriter(tmp_path, "worker-0", 0) as writer, ResponseTextWriter(tmp_path, "worker-0") as output:
        writer.add(record(0, 0.0, tokens_in=7, tokens_out=9))
        writer.add(record(1, 0.1, prompt=1))
        output.add(ResponseText(1, 0, "three little words"))
        writer.add(failed(2, 0.2, Failure.CONNECT))
        writer.add(record(3, 0.3))
    request_table.merge_records(tmp_path)
    prompts = Prompts(
        (Prompt("one two"), Prompt(messages=({"role": "system", "content": "be kind"}, {"role": "user", "content": "hi"})))
    )
    for _ in range(2):  # counting again changes nothing
        token_count.count_tokens(tmp_path, prompts, token_count.load_tokenizer(tokenizer))
        assert counted(tmp_path, "number, tokens_in, tokens_out") == [(0, 7, 9), (1, 3, 3), (2, 2, None), (3, 2, None)]
    assert token_count.token_sources(tmp_path) == {"server": 1, "tokenizer": 1, "unknown": 1}


def test_conversation_counts_earlier_messages(tmp_path: Path, tokenizer: Path) -> None:
    with RecordWriter(tmp_path, "worker-0", 0) as writer, ResponseTextWriter(tmp_path, "worker-0") as output:
        for turn in range(3):
            writer.add(record(5, float(turn), turn=turn))
            output.add(ResponseText(5, turn, "a b c"))
    request_table.merge_records(tmp_path)
    token_count.count_tokens(tmp_path, Prompts((Prompt("one two"),)), token_count.load_tokenizer(tokenizer))
    nudge = 3  # "Go", "on" and the dot
    assert counted(tmp_path, "tokens_in") == [(2,), (2 + 3 + nudge,), (2 + 2 * (3 + nudge),)]
    assert token_count.token_sources(tmp_path) == {"server": 0, "tokenizer": 3, "unknown": 0}


def test_truncated_response_is_not_counted(tmp_path: Path) -> None:
    with ResponseTextWriter(tmp_path, "worker-0") as writer:
        for number in range(3):
            writer.add(ResponseText(number, 0, "äöü"))
    file = tmp_path / "worker-0.texts"
    file.write_bytes(file.read_bytes()[:-2])
    assert list(read_texts(file)) == [ResponseText(0, 0, "äöü"), ResponseText(1, 0, "äöü")]


@pytest.mark.parametrize(("content", "problem"), [(None, "cannot read the tokenizer: No such file"), ("{}", "not a tokenizer: ")])
def test_invalid_tokenizer_is_an_error(tmp_path: Path, content: str | None, problem: str) -> None:
    file = tmp_path / "tokenizer.json"
    if content is not None:
        file.write_text(content)
    with pytest.raises(InvalidDocument, match=problem):
        token_count.load_tokenizer(file)


@pytest.mark.parametrize(
    ("who", "text"),
    [
        ({}, ""),
        ({"server": 1_000, "tokenizer": 0, "unknown": 0}, "1,000 responses as reported by the server"),
        (
            {"server": 1, "tokenizer": 2, "unknown": 0},
            "1 responses as reported by the server; 2 responses counted with the tokenizer",
        ),
        ({"server": 0, "tokenizer": 0, "unknown": 3}, "3 responses in chunks, because the server reports no token counts"),
    ],
)
def test_source_of_counts_is_reported(who: dict[str, int], text: str) -> None:
    assert formatter.format_token_sources(who) == text


def test_run_without_reported_tokens(tmp_path: Path, tokenizer: Path) -> None:
    folder, golden = tmp_path / "run", RecordingServer(tokens=4, text="two words ", reports=False)

    async def main() -> dict[str, Any]:
        async with golden:
            free = {"delivery": {"share": 0.0, "delay": "1h"}, "tokens": {"tokenizer": tokenizer.name}}
            expected = spec(target={"url": golden.url}, **free)
            plan = load_plan.create(expected, tmp_path)
            what = run_folder.RunManifest("test", {}, str(tmp_path), golden.url, expected.model_dump(by_alias=True))
            with run_folder.open_run(folder, what):
                return run_folder.finalize(folder, plan, await LocalRunner(plan, folder, tmp_path).run())

    result = clock.run(main())
    assert set(counted(folder, "chunks, tokens_out")) == {(4, 8)}
    assert result["summary"]["tokensOut"] == 80
    assert dict(formatter.facts(result))["tokens"] == "10 responses counted with the tokenizer"
    assert "tokens/s out" in dict(formatter.facts(result))["throughput"]
    summary = {**result["summary"], "tokensOutPerSecond": 0.0}
    uncounted = {**result, "summary": summary, "tokens": {"unknown": 10}}
    assert "tokens/s" not in dict(formatter.facts(uncounted))["throughput"]
    assert not list(folder.glob("*.texts"))
    left = b"".join(path.read_bytes() for path in folder.iterdir())
    assert b"two words" not in left


def test_texts_are_kept_and_published_on_request(tmp_path: Path) -> None:
    golden = RecordingServer(tokens=4, text="two words ", reports=True)

    folder = tmp_path / "run"

    async def main() -> list[dict[str, Any]]:
        async with golden:
            expected = spec(target={"url": golden.url}, delivery={"share": 0.0, "delay": "1h"}, results={"texts": True})
            plan = load_plan.create(expected, tmp_path)
            what = run_folder.RunManifest("test", {}, str(tmp_path), golden.url, expected.model_dump(by_alias=True))
            with run_folder.open_run(folder, what):
                result = run_folder.finalize(folder, plan, await LocalRunner(plan, folder, tmp_path).run())
        assert folder / request_texts.TEXTS_FILE in run_folder.result_files(folder)
        return list(bigquery_export.records(folder, {**result, "started": 0.0}))

    kept = clock.run(main())
    assert {item["response"] for item in kept} == {"two words " * 4}
    assert all(item["request"] for item in kept)
    assert [item["request_name"] for item in kept] == [str(number) for number in range(len(kept))]


def test_conversation_keeps_the_text_of_each_turn(tmp_path: Path) -> None:
    with RecordWriter(tmp_path, "worker-0", 0) as writer, ResponseTextWriter(tmp_path, "worker-0") as output:
        for turn in range(2):
            writer.add(record(5, float(turn), turn=turn))
            output.add(ResponseText(5, turn, f"answer {turn}"))
        writer.add(failed(6, 2.0, Failure.CONNECT))
    request_table.merge_records(tmp_path)
    run = {"started": 0.0, "spec": {}}
    assert not [record for record in bigquery_export.records(tmp_path, run) if "request" in record or "response" in record]
    request_texts.write_texts(tmp_path, Prompts((Prompt("one two"),)))
    result = [(record["request"], record.get("response")) for record in bigquery_export.records(tmp_path, run)]
    assert result == [("one two", "answer 0"), (CONTINUE_PROMPT, "answer 1"), ("one two", None)]
    assert len(list(bigquery_export.records(tmp_path, run, 2))) == 1
