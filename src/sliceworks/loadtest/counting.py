"""Tokens that a server does not report, counted after the run with the tokenizer of its model; and who counted what.

The texts alone are counted: what a server puts around them, such as a chat's template, is not known here.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

import duckdb
import numpy as np

from sliceworks.base import extras
from sliceworks.base.errors import InvalidDocument, SliceworksError
from sliceworks.loadtest import merging, texts
from sliceworks.loadtest.prompts import NUDGE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from sliceworks.loadtest.prompts import Prompt, Prompts

T = TypeVar("T")
_BATCH = 2_000
_OUT = "CREATE TABLE counts (number BIGINT, turn BIGINT, tokens BIGINT)"
_IN = "CREATE TABLE prompts (prompt BIGINT, tokens BIGINT)"
# A conversation's next question has everything in it that was said before.
_COUNTED = """
SELECT requests.* REPLACE (
    coalesce(tokens_in, prompts.tokens + coalesce(sum(coalesce(tokens_out, counts.tokens) + $1) OVER before, 0)) AS tokens_in,
    coalesce(tokens_out, counts.tokens) AS tokens_out
  ), tokens_out IS NULL AND counts.tokens IS NOT NULL AS counted
FROM read_parquet($2) AS requests
LEFT JOIN counts USING (number, turn)
LEFT JOIN prompts ON prompts.prompt = requests.prompt
WINDOW before AS (PARTITION BY number ORDER BY turn ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
ORDER BY intended, number, turn
"""


def tokenizer(file: Path) -> Any:
    """The tokenizer of a `tokenizer.json`; what cannot be read is one line."""
    try:
        from tokenizers import Tokenizer
    except ImportError as error:
        raise SliceworksError("counting tokens needs tokenizers", hint=extras.remedy("tokens")) from error
    try:
        return Tokenizer.from_str(file.read_text())
    except OSError as error:
        raise InvalidDocument(f"cannot read the tokenizer: {error.strerror}", place=str(file)) from error
    except Exception as error:  # the library raises nothing more special
        raise InvalidDocument(f"not a tokenizer: {error}", place=str(file)) from error


def count(folder: Path, prompts: Prompts, with_: Any) -> None:
    """Put the counts into the table of requests, where the server reported none. Once is enough."""
    file = folder / merging.REQUESTS
    with duckdb.connect() as connection:
        if _is_counted(connection, str(file)):
            return
        connection.execute(f"SET memory_limit = '1GB'; {_OUT}; {_IN}")
        _insert(connection, "prompts", _inputs(prompts.all, with_))
        for part in _batches(said for kept in sorted(folder.glob("worker-*.texts")) for said in texts.read(kept)):
            lengths = _lengths([each.text for each in part], with_)
            _insert(connection, "counts", ([each.number for each in part], [each.turn for each in part], lengths))
        nudge = _lengths([NUDGE], with_)[0]
        merging.store(connection, _COUNTED.replace("$1", str(nudge)).replace("$2", merging.quoted(file)), file)


def who_counted(folder: Path) -> dict[str, int]:
    """Of how many answers the server reported tokens, of how many they were counted here, and of how many nobody knows them."""
    file = str(folder / merging.REQUESTS)
    with duckdb.connect() as connection:
        here = "counted" if _is_counted(connection, file) else "false"
        query = f"""
            SELECT count(*) FILTER (tokens_out IS NOT NULL AND NOT {here}), count(*) FILTER ({here}),
                   count(*) FILTER (tokens_out IS NULL)
            FROM read_parquet($1) WHERE failure IS NULL"""
        row = connection.execute(query, [file]).fetchone()
    return dict(zip(("server", "tokenizer", "nobody"), row or (0, 0, 0), strict=True))


def _is_counted(connection: duckdb.DuckDBPyConnection, file: str) -> bool:
    return "counted" in connection.read_parquet(file).columns


def _inputs(prompts: tuple[Prompt, ...], with_: Any) -> tuple[list[int], list[int]]:
    found: list[int] = []
    for part in _batches(prompts):
        found += _lengths([_text(each) for each in part], with_)
    return list(range(len(found))), found


def _text(prompt: Prompt) -> str:
    """What of a prompt is text."""
    if not prompt.messages:
        return prompt.text
    return "\n".join(each["content"] for each in prompt.messages if isinstance(each.get("content"), str))


def _lengths(parts: list[str], with_: Any) -> list[int]:
    return [len(each.ids) for each in with_.encode_batch(parts, add_special_tokens=False)]


def _batches(all_of: Iterable[T]) -> Iterator[list[T]]:
    iterator = iter(all_of)
    while part := list(islice(iterator, _BATCH)):
        yield part


def _insert(connection: duckdb.DuckDBPyConnection, table: str, columns: tuple[list[int], ...]) -> None:
    names = ("number", "turn", "tokens") if table == "counts" else ("prompt", "tokens")
    block = {name: np.asarray(values, dtype=np.int64) for name, values in zip(names, columns, strict=True)}
    connection.register("block", block)
    try:
        connection.execute(f"INSERT INTO {table} SELECT {', '.join(names)} FROM block")
    finally:
        connection.unregister("block")
