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
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from sliceworks.loadtest.prompts import Prompts

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
    """Load a `tokenizer.json`; raise InvalidDocument if it cannot be read."""
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
    """Write counted tokens into the request table where the server reported none; idempotent."""
    file = folder / request_table.REQUESTS_FILE
    with duckdb.connect() as connection:
        if _is_counted(connection, str(file)):
            return
        connection.execute(f"SET memory_limit = '1GB'; {_CREATE_COUNTS}; {_CREATE_PROMPTS}")
        for numbered in batches(enumerate(prompt.content for prompt in prompts.all)):
            indices, contents = zip(*numbered, strict=True)
            _insert(connection, "prompts", prompt=indices, tokens=_lengths(contents, tokenizer))
        for responses in batches(request_log.read_all_texts(folder)):
            numbers, turns, texts = zip(*responses, strict=True)
            _insert(connection, "counts", number=numbers, turn=turns, tokens=_lengths(texts, tokenizer))
        [continue_tokens] = _lengths([CONTINUE_PROMPT], tokenizer)
        query = _COUNT_QUERY.replace("$1", str(continue_tokens)).replace("$2", request_table.quote_sql(file))
        request_table.write_table(connection, query, file)


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


def _lengths(texts: Iterable[str], tokenizer: Any) -> list[int]:
    return [len(item.ids) for item in tokenizer.encode_batch(list(texts), add_special_tokens=False)]


def batches(items: Iterable[T]) -> Iterator[list[T]]:
    """The items in lists of limited length."""
    iterator = iter(items)
    while part := list(islice(iterator, _BATCH)):
        yield part


def _insert(connection: duckdb.DuckDBPyConnection, table: str, **columns: Sequence[int]) -> None:
    request_table.insert(connection, table, {name: np.asarray(values, dtype=np.int64) for name, values in columns.items()})
