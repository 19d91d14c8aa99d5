"""Prompts and responses of a run as a table, only for tests with `results.texts`: they may contain personal data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np

from sliceworks.loadtest import request_log, request_table
from sliceworks.loadtest.prompts import CONTINUE_PROMPT
from sliceworks.loadtest.token_count import batches

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from sliceworks.loadtest.prompts import Prompts

TEXTS_FILE = "texts.parquet"
# A later turn of a conversation repeats the earlier messages, which are in their own rows.
_QUERY = """
SELECT number, turn, CASE WHEN turn = 0 THEN prompts.content ELSE $1 END AS request, responses.content AS response
FROM read_parquet($2) AS requests
LEFT JOIN responses USING (number, turn)
LEFT JOIN prompts ON prompts.prompt = requests.prompt
"""


def write_texts(folder: Path, prompts: Prompts) -> None:
    """Write the texts of all requests, from the logs of the workers; failed requests have no response."""
    with duckdb.connect() as connection:
        connection.execute("SET memory_limit = '1GB'; CREATE TABLE prompts (prompt BIGINT, content VARCHAR)")
        connection.execute("CREATE TABLE responses (number BIGINT, turn BIGINT, content VARCHAR)")
        for numbered in batches(enumerate(prompt.content for prompt in prompts.all)):
            indices, contents = zip(*numbered, strict=True)
            _insert(connection, "prompts", contents, prompt=indices)
        for responses in batches(request_log.read_all_texts(folder)):
            numbers, turns, contents = zip(*responses, strict=True)
            _insert(connection, "responses", contents, number=numbers, turn=turns)
        requests = request_table.quote_sql(folder / request_table.REQUESTS_FILE)
        query = _QUERY.replace("$1", request_table.quote_sql(CONTINUE_PROMPT)).replace("$2", requests)
        request_table.write_table(connection, query, folder / TEXTS_FILE)


def _insert(connection: duckdb.DuckDBPyConnection, table: str, contents: Sequence[str], **keys: Sequence[int]) -> None:
    columns: dict[str, Any] = {name: np.asarray(values, dtype=np.int64) for name, values in keys.items()}
    request_table.insert(connection, table, {**columns, "content": np.asarray(contents, dtype=object)})
