"""Counts tokens that the server did not report, with the model's tokenizer.

Only the texts are counted: what a server adds, such as a chat template, is unknown.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

import duckdb
import numpy as np

from sliceworks.base import imports
from sliceworks.base.errors import InvalidDocument, SliceworksError
from sliceworks.loadtest import request_log, request_table
from sliceworks.loadtest.prompts import CONTINUE_PROMPT

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from sliceworks.loadtest.prompts import Prompt, Prompts

T = TypeVar("T")
_BATCH = 2_000
_CREATE_COUNTS = "CREATE TABLE counts (number BIGINT, turn BIGINT, tokens BIGINT)"
_CREATE_PROMPTS = "CREATE TABLE prompts (prompt BIGINT, tokens BIGINT)"
# The next turn of a conversation contains all messages before it.
_COUNT_QUERY = """
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


def load_tokenizer(file: Path) -> Any:
    """Loads a `tokenizer.json`; raises InvalidDocument if it cannot be read."""
    try:
        from tokenizers import Tokenizer
    except ImportError as error:
        raise SliceworksError("counting tokens needs tokenizers", hint=imports.install_command("tokens")) from error
    try:
        return Tokenizer.from_str(file.read_text())
    except OSError as error:
        raise InvalidDocument(f"cannot read the tokenizer: {error.strerror}", place=str(file)) from error
    except Exception as error:  # the library raises only Exception
        raise InvalidDocument(f"not a tokenizer: {error}", place=str(file)) from error


def count_tokens(folder: Path, prompts: Prompts, tokenizer: Any) -> None:
    """Writes counted tokens into the request table where the server reported none; idempotent."""
    file = folder / request_table.REQUESTS_FILE
    with duckdb.connect() as connection:
        if _is_counted(connection, str(file)):
            return
        connection.execute(f"SET memory_limit = '1GB'; {_CREATE_COUNTS}; {_CREATE_PROMPTS}")
        _insert(connection, "prompts", _inputs(prompts.all, tokenizer))
        for part in batches(
            response for texts_file in sorted(folder.glob("worker-*.texts")) for response in request_log.read_texts(texts_file)
        ):
            lengths = _lengths([item.text for item in part], tokenizer)
            _insert(connection, "counts", ([response.number for response in part], [response.turn for response in part], lengths))
        continue_tokens = _lengths([CONTINUE_PROMPT], tokenizer)[0]
        request_table.write_table(
            connection, _COUNT_QUERY.replace("$1", str(continue_tokens)).replace("$2", request_table.quote_sql(file)), file
        )


def token_sources(folder: Path) -> dict[str, int]:
    """Numbers of responses with reported, counted and unknown tokens."""
    file = str(folder / request_table.REQUESTS_FILE)
    with duckdb.connect() as connection:
        counted = "counted" if _is_counted(connection, file) else "false"
        query = f"""
            SELECT count(*) FILTER (tokens_out IS NOT NULL AND NOT {counted}), count(*) FILTER ({counted}),
                   count(*) FILTER (tokens_out IS NULL)
            FROM read_parquet($1) WHERE failure IS NULL"""
        row = connection.execute(query, [file]).fetchone()
    return dict(zip(("server", "tokenizer", "unknown"), row or (0, 0, 0), strict=True))


def _is_counted(connection: duckdb.DuckDBPyConnection, file: str) -> bool:
    return "counted" in connection.read_parquet(file).columns


def _inputs(prompts: tuple[Prompt, ...], tokenizer: Any) -> tuple[list[int], list[int]]:
    lengths: list[int] = []
    for part in batches(prompts):
        lengths += _lengths([item.content for item in part], tokenizer)
    return list(range(len(lengths))), lengths


def _lengths(parts: list[str], tokenizer: Any) -> list[int]:
    return [len(item.ids) for item in tokenizer.encode_batch(parts, add_special_tokens=False)]


def batches(items: Iterable[T]) -> Iterator[list[T]]:
    """The items in lists of limited length."""
    iterator = iter(items)
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
