"""Tokens that no server reported: counted with a tokenizer after the run, and said to be."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import duckdb
import pytest
from tests.support.golden_server import Golden
from tests.support.load_tests import failed, record, spec
from tokenizers import Tokenizer, models, pre_tokenizers

from sliceworks.base import clock
from sliceworks.base.errors import InvalidDocument
from sliceworks.loadtest import counting, ending, merging, plans
from sliceworks.loadtest.prompts import Prompt, Prompts
from sliceworks.loadtest.report import words
from sliceworks.loadtest.rows import Failure, Writer
from sliceworks.loadtest.running import Run
from sliceworks.loadtest.texts import Said, TextWriter, read

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def tokenizer(tmp_path: Path) -> Path:
    """Each word is a token, and so is each mark between words."""
    made = Tokenizer(models.WordLevel({"[unknown]": 0}, unk_token="[unknown]"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    file = tmp_path / "tokenizer.json"
    made.save(str(file))
    return file


def counted(folder: Path, columns: str) -> list[tuple[Any, ...]]:
    with duckdb.connect() as connection:
        query = f"SELECT {columns} FROM read_parquet($1) ORDER BY number, turn"
        return connection.execute(query, [str(folder / merging.REQUESTS)]).fetchall()


def test_what_the_server_reports_stays(tmp_path: Path, tokenizer: Path) -> None:
    with Writer(tmp_path, "worker-0", 0) as writer, TextWriter(tmp_path, "worker-0") as said:
        writer.add(record(0, 0.0, tokens_in=7, tokens_out=9))
        writer.add(record(1, 0.1, prompt=1))
        said.add(Said(1, 0, "three little words"))
        writer.add(failed(2, 0.2, Failure.CONNECT))
        writer.add(record(3, 0.3))
    merging.merge(tmp_path)
    prompts = Prompts(
        (Prompt("one two"), Prompt(messages=({"role": "system", "content": "be kind"}, {"role": "user", "content": "hi"})))
    )
    for _ in range(2):  # counting again changes nothing
        counting.count(tmp_path, prompts, counting.tokenizer(tokenizer))
        assert counted(tmp_path, "number, tokens_in, tokens_out") == [(0, 7, 9), (1, 3, 3), (2, 2, None), (3, 2, None)]
    assert counting.who_counted(tmp_path) == {"server": 1, "tokenizer": 1, "nobody": 1}


def test_a_conversation_has_in_it_what_was_said_before(tmp_path: Path, tokenizer: Path) -> None:
    with Writer(tmp_path, "worker-0", 0) as writer, TextWriter(tmp_path, "worker-0") as said:
        for turn in range(3):
            writer.add(record(5, float(turn), turn=turn))
            said.add(Said(5, turn, "a b c"))
    merging.merge(tmp_path)
    counting.count(tmp_path, Prompts((Prompt("one two"),)), counting.tokenizer(tokenizer))
    nudge = 3  # "Go", "on" and the dot
    assert counted(tmp_path, "tokens_in") == [(2,), (2 + 3 + nudge,), (2 + 2 * (3 + nudge),)]
    assert counting.who_counted(tmp_path) == {"server": 0, "tokenizer": 3, "nobody": 0}


def test_an_answer_that_was_cut_off_is_left_out(tmp_path: Path) -> None:
    with TextWriter(tmp_path, "worker-0") as writer:
        for number in range(3):
            writer.add(Said(number, 0, "äöü"))
    file = tmp_path / "worker-0.texts"
    file.write_bytes(file.read_bytes()[:-2])
    assert list(read(file)) == [Said(0, 0, "äöü"), Said(1, 0, "äöü")]


@pytest.mark.parametrize(("content", "problem"), [(None, "cannot read the tokenizer: No such file"), ("{}", "not a tokenizer: ")])
def test_what_is_no_tokenizer_is_told(tmp_path: Path, content: str | None, problem: str) -> None:
    file = tmp_path / "tokenizer.json"
    if content is not None:
        file.write_text(content)
    with pytest.raises(InvalidDocument, match=problem):
        counting.tokenizer(file)


@pytest.mark.parametrize(
    ("who", "text"),
    [
        ({}, ""),
        ({"server": 1_000, "tokenizer": 0, "nobody": 0}, "1,000 answers as the server reports"),
        ({"server": 1, "tokenizer": 2, "nobody": 0}, "1 answers as the server reports; 2 answers counted with the tokenizer"),
        ({"server": 0, "tokenizer": 0, "nobody": 3}, "3 answers in chunks, not tokens: the server reports none"),
    ],
)
def test_who_counted_is_said(who: dict[str, int], text: str) -> None:
    assert words.tokens(who) == text


@pytest.mark.timeout(120)
def test_a_run_whose_server_reports_nothing(tmp_path: Path, tokenizer: Path) -> None:
    folder, golden = tmp_path / "run", Golden(tokens=4, text="two words ", reports=False)

    async def main() -> dict[str, Any]:
        async with golden:
            free = {"delivery": {"share": 0.0, "delay": "1h"}, "tokens": {"tokenizer": tokenizer.name}}
            wanted = spec(target={"url": golden.url}, **free)
            plan = plans.make(wanted, tmp_path)
            what = ending.Note("test", {}, str(tmp_path), golden.url, wanted.model_dump(by_alias=True))
            with ending.noted(folder, what):
                return ending.conclude(folder, plan, await Run(plan, folder, tmp_path).run())

    found = clock.run(main())
    assert set(counted(folder, "pieces, tokens_out")) == {(4, 8)}
    assert found["summary"]["tokensOut"] == 80
    assert dict(words.facts(found))["tokens"] == "10 answers counted with the tokenizer"
    assert not list(folder.glob("*.texts"))
    left = b"".join(each.read_bytes() for each in folder.iterdir())
    assert b"two words" not in left
