"""The tables of a run, `requests.parquet` and `chunks.parquet`: merged from the workers' logs, and queried column by column."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import duckdb
import numpy as np

from sliceworks.loadtest import request_log
from sliceworks.loadtest.percentiles import CountedSample
from sliceworks.loadtest.request_log import USER_REQUESTS_FROM

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from sliceworks.loadtest.percentiles import Floats
    from sliceworks.specs.objectives import Objective

REQUESTS_FILE, CHUNKS_FILE = "requests.parquet", "chunks.parquet"
_BLOCK = 500_000
_TIMESTAMPS = ("intended", "sent", "first_byte", "first_token", "ended")
_COUNTS = ("bytes_out", "bytes_in", "prompt", "status", "phase", "worker", "turn", "chunks")


@dataclass(frozen=True, slots=True)
class MergeResult:
    """Row counts of the tables."""

    requests: int
    chunks: int
    workers: int


def merge_records(folder: Path) -> MergeResult:
    """Write both tables from the workers' logs and delete the logs."""
    files = sorted(folder.glob("worker-*.rows"))
    requests = chunks = 0
    with tempfile.TemporaryDirectory(dir=folder, prefix=".merge-") as space, duckdb.connect(f"{space}/all.duckdb") as connection:
        connection.execute("SET memory_limit = '700MB'")
        _insert_block(connection, np.empty(0, request_log.DTYPE), np.empty(0, np.uint32), 0)
        for file in files:
            # In blocks: a table of ten million rows must not be in memory at once.
            for rows, at in request_log.read_blocks(file, _BLOCK):
                _insert_block(connection, rows, at, requests)
                requests, chunks = requests + len(rows), chunks + len(at)
        write_table(connection, "SELECT * FROM requests ORDER BY intended, number, turn", folder / REQUESTS_FILE)
        write_table(connection, "SELECT * FROM chunks ORDER BY request, chunk", folder / CHUNKS_FILE)
    for file in files:
        file.unlink()
        file.with_suffix(".chunks").unlink()
    return MergeResult(requests, chunks, len(files))


def _insert_block(connection: duckdb.DuckDBPyConnection, block: NDArray[Any], at: NDArray[np.uint32], first: int) -> None:
    """Add rows and their chunks."""
    requests: dict[str, NDArray[Any]] = {"request": np.arange(first, first + len(block), dtype=np.int64)}
    requests |= {"number": block["number"].copy()}
    requests |= {name: _seconds(block[name]) for name in _TIMESTAMPS}
    requests |= {name: block[name].astype(np.int64) for name in (*_COUNTS, "tokens_in", "tokens_out", "failure")}
    insert(connection, "requests", requests, _REQUEST)
    insert(connection, "chunks", _chunks(requests["request"], requests["chunks"], at), _CHUNK)


def insert(connection: duckdb.DuckDBPyConnection, table: str, columns: Mapping[str, NDArray[Any]], select: str = "*") -> None:
    """Append columns to a table, which is created if it does not exist; `select` converts them."""
    connection.register("block", dict(columns))
    try:
        connection.execute(f"CREATE TABLE IF NOT EXISTS {table} AS SELECT {select} FROM block LIMIT 0")
        connection.execute(f"INSERT INTO {table} SELECT {select} FROM block")
    finally:
        connection.unregister("block")


def _failure_sql() -> str:
    """SQL that maps failure numbers to names."""
    cases = " ".join(f"WHEN {int(item)} THEN '{item.name.lower().replace('_', '-')}'" for item in request_log.Failure if item)
    return f"CASE failure {cases} END AS failure"


_CHUNK = "request, chunk, received / 1e6 AS received, CASE WHEN isnan(gap) THEN NULL ELSE gap / 1e6 END AS gap"

_REQUEST = ", ".join(
    (
        "request, number",
        *(f"CASE WHEN isnan({name}) THEN NULL ELSE {name} END AS {name}" for name in _TIMESTAMPS),
        *_COUNTS,
        *(f"CASE WHEN {name} < 0 THEN NULL ELSE {name} END AS {name}" for name in ("tokens_in", "tokens_out")),
        _failure_sql(),
    )
)


def _seconds(due_times: NDArray[np.int64]) -> NDArray[np.float64]:
    return np.where(due_times == request_log.NEVER, np.nan, due_times / 1e9)


def _chunks(requests: NDArray[np.int64], counts: NDArray[np.int64], at: NDArray[np.uint32]) -> dict[str, NDArray[Any]]:
    """Request, index, microseconds since sending and since the previous chunk, for each chunk."""
    owners = np.repeat(requests, counts)
    first = np.cumsum(counts) - counts
    within = np.arange(len(owners), dtype=np.int64) - np.repeat(first, counts)
    received = at.astype(np.float64)
    gap = np.diff(received, prepend=0.0)
    gap[within == 0] = np.nan
    return {"request": owners, "chunk": within, "received": received, "gap": gap}


def write_table(connection: duckdb.DuckDBPyConnection, query: str, file: Path) -> None:
    """Write a query result to a Parquet file atomically."""
    partial = file.with_suffix(".half")
    connection.execute(f"COPY ({query}) TO {quote_sql(partial)} (FORMAT parquet, COMPRESSION zstd)")
    partial.replace(file)


def quote_sql(value: object) -> str:
    """A quoted SQL string."""
    return "'" + str(value).replace("'", "''") + "'"


TOKENS = "coalesce(tokens_out, CASE WHEN chunks > 1 THEN chunks END)"
"""Reported tokens, or else the chunks of a stream; a single chunk says nothing about tokens."""

METRICS = {
    "e2e": "ended - intended",
    "service": "ended - sent",
    "ttft": "first_token - intended",
    "ttft service": "first_token - sent",
    "tpot": f"CASE WHEN {TOKENS} > 1 AND chunks > 1 THEN (ended - first_token) / ({TOKENS} - 1) END",
}

_REQUEST_METRICS = {**METRICS, "itl": "CASE WHEN chunks > 1 THEN (ended - first_token) / (chunks - 1) END"}
"""Mean time between chunks of each request."""

_OPTIONAL_METRICS = frozenset(("tpot", "itl"))
"""Metrics that a response in one chunk has no value for, and so cannot miss."""


def number_sql(value: float) -> str:
    """An exact SQL literal, also of infinity."""
    return f"'{float(value)!r}'::DOUBLE"


class RequestTable:
    """The requests scheduled in a time window."""

    def __init__(self, folder: Path, begins: float = 0.0, ends: float = float("inf")) -> None:
        self._begins, self._ends = begins, ends
        self._connection = connection = duckdb.connect()
        # Columns are queried one by one and must keep the same row order.
        connection.execute("SET memory_limit = '600MB'; SET preserve_insertion_order = true")
        connection.read_parquet(str(folder / REQUESTS_FILE)).create_view("everything")
        counted = f"intended >= {number_sql(begins)} AND intended < {number_sql(ends)}"
        connection.execute(f"CREATE VIEW requests AS SELECT * FROM everything WHERE {counted}")
        connection.read_parquet(str(folder / CHUNKS_FILE)).create_view("chunks")
        self.intended = self.column("intended")
        self.count = len(self.intended)
        self.good = self.column("failure IS NULL") > 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def column(self, what: str) -> Floats:
        """An expression over all rows, in order."""
        floats: Floats = self.query(f"SELECT coalesce(({what})::DOUBLE, 'NaN'::DOUBLE) AS it FROM requests")["it"]
        return floats

    def query(self, query: str) -> dict[str, Any]:
        return self._connection.execute(query).fetchnumpy()

    def aggregate(self, what: str, table: str = "requests") -> tuple[Any, ...]:
        """One row of aggregates."""
        result = self._connection.execute(f"SELECT {what} FROM {table}").fetchone()
        assert result is not None
        return result

    def measure(self, name: str) -> tuple[Floats, Floats]:
        """Times and values of a metric. Only successful requests have latencies; all sent ones have a delay."""
        if name == "delay":
            times, values = self.intended, self.column("sent - intended")
        else:
            times, values = self.intended[self.good], self.column(METRICS[name])[self.good]
        present = ~np.isnan(values)
        return (times, values) if present.all() else (times[present], values[present])

    def gaps(self, windows: int) -> list[CountedSample]:
        """Times between chunks of all successful responses, by time window of the request.

        They are whole microseconds, so a count of each distinct value is exact and small.
        """
        width = max(self._ends - self._begins, 1e-9) / windows
        window = f"least(floor((intended - {number_sql(self._begins)}) / {number_sql(width)}), {windows - 1})::INT"
        result = self.query(
            f"SELECT {window} AS place, gap, count(*) AS many FROM chunks JOIN requests USING (request) "
            "WHERE failure IS NULL AND gap IS NOT NULL GROUP BY ALL ORDER BY gap"
        )
        parts = (result["place"] == index for index in range(windows))
        return [CountedSample(result["gap"][part], result["many"][part]) for part in parts]

    def failures(self) -> dict[str, int]:
        """Failures by type, statuses by code."""
        word = "CASE failure WHEN 'status' THEN 'status ' || status ELSE failure END"
        result = self.query(
            f"SELECT {word} AS word, count(*) AS many FROM requests WHERE failure IS NOT NULL GROUP BY ALL ORDER BY many DESC, word"
        )
        return {str(word): int(count) for word, count in zip(result["word"], result["many"], strict=True)}

    def users(self) -> int:
        """The number of closed-loop requests, which have no schedule."""
        return int(self.aggregate(f"count(*) FILTER (number >= {USER_REQUESTS_FROM})")[0])

    def meets(self, objectives: tuple[Objective, ...]) -> NDArray[np.bool_]:
        """Which requests met all objectives."""
        good: NDArray[np.bool_] = self.column(objectives_sql(objectives)) > 0
        return good


def objectives_sql(objectives: tuple[Objective, ...]) -> str:
    """SQL for whether a request succeeded and met all objectives; a missing value misses."""
    conditions = ["failure IS NULL"]
    for objective in objectives:
        if objective.measure in _REQUEST_METRICS:
            if_missing = "true" if objective.measure in _OPTIONAL_METRICS else "false"
            conditions.append(f"coalesce(({_REQUEST_METRICS[objective.measure]}) < {number_sql(objective.limit)}, {if_missing})")
    return f"({' AND '.join(conditions)})"
