"""From the workers' files to two tables: `requests.parquet`, and `pieces.parquet` with the pieces in which answers came.

Times are seconds. What did not happen is NULL. Both can be read by anything that reads Parquet.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np

from sliceworks.loadtest import rows

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

REQUESTS, PIECES = "requests.parquet", "pieces.parquet"
_BLOCK = 500_000
_MOMENTS = ("intended", "sent", "first_byte", "first_token", "ended")
_COUNTS = ("bytes_out", "bytes_in", "prompt", "status", "phase", "worker", "turn", "pieces")


@dataclass(frozen=True, slots=True)
class Merged:
    """How much there was."""

    requests: int
    pieces: int
    workers: int


def merge(folder: Path) -> Merged:
    """Write both tables from all that the workers left, however they ended; their own files go then."""
    files = sorted(folder.glob("worker-*.rows"))
    requests = pieces = 0
    with tempfile.TemporaryDirectory(dir=folder, prefix=".merge-") as space, duckdb.connect(f"{space}/all.duckdb") as connection:
        connection.execute("SET memory_limit = '700MB'")
        _take(connection, np.empty(0, rows.DTYPE), np.empty(0, np.uint32), 0)
        for file in files:
            # A block at a time: a table of ten million must not be in memory whole.
            for found, at in rows.blocks(file, _BLOCK):
                _take(connection, found, at, requests)
                requests, pieces = requests + len(found), pieces + len(at)
        store(connection, "SELECT * FROM requests ORDER BY intended, number, turn", folder / REQUESTS)
        store(connection, "SELECT * FROM pieces ORDER BY request, piece", folder / PIECES)
    for file in files:
        file.unlink()
        file.with_suffix(".pieces").unlink()
    return Merged(requests, pieces, len(files))


def _take(connection: duckdb.DuckDBPyConnection, block: NDArray[Any], at: NDArray[np.uint32], first: int) -> None:
    """Add rows and their pieces."""
    requests: dict[str, NDArray[Any]] = {"request": np.arange(first, first + len(block), dtype=np.int64)}
    requests |= {"number": block["number"].copy()}
    requests |= {name: _seconds(block[name]) for name in _MOMENTS}
    requests |= {name: block[name].astype(np.int64) for name in (*_COUNTS, "tokens_in", "tokens_out", "failure")}
    for table, columns in (("requests", requests), ("pieces", _pieces(requests["request"], requests["pieces"], at))):
        _append(connection, table, columns)


def _append(connection: duckdb.DuckDBPyConnection, table: str, columns: dict[str, NDArray[Any]]) -> None:
    connection.register("block", columns)
    wanted = _REQUEST if table == "requests" else _PIECE
    try:
        connection.execute(f"CREATE TABLE IF NOT EXISTS {table} AS SELECT {wanted} FROM block LIMIT 0")
        connection.execute(f"INSERT INTO {table} SELECT {wanted} FROM block")
    finally:
        connection.unregister("block")


def _words() -> str:
    """The number of a failure as a word, in SQL."""
    cases = " ".join(f"WHEN {int(each)} THEN '{each.name.lower().replace('_', '-')}'" for each in rows.Failure if each)
    return f"CASE failure {cases} END AS failure"


_PIECE = "request, piece, came / 1e6 AS came, CASE WHEN isnan(gap) THEN NULL ELSE gap / 1e6 END AS gap"
_REQUEST = ", ".join(
    (
        "request, number",
        *(f"CASE WHEN isnan({name}) THEN NULL ELSE {name} END AS {name}" for name in _MOMENTS),
        *_COUNTS,
        *(f"CASE WHEN {name} < 0 THEN NULL ELSE {name} END AS {name}" for name in ("tokens_in", "tokens_out")),
        _words(),
    )
)


def _seconds(moments: NDArray[np.int64]) -> NDArray[np.float64]:
    return np.where(moments == rows.NEVER, np.nan, moments / 1e9)


def _pieces(requests: NDArray[np.int64], counts: NDArray[np.int64], at: NDArray[np.uint32]) -> dict[str, NDArray[Any]]:
    """Which request a piece is of, which of its pieces it is, and microseconds since the request left, and since the last one."""
    owners = np.repeat(requests, counts)
    first = np.cumsum(counts) - counts
    within = np.arange(len(owners), dtype=np.int64) - np.repeat(first, counts)
    came = at.astype(np.float64)
    gap = np.diff(came, prepend=0.0)
    gap[within == 0] = np.nan
    return {"request": owners, "piece": within, "came": came, "gap": gap}


def store(connection: duckdb.DuckDBPyConnection, query: str, file: Path) -> None:
    """What a query finds as a table, put in its place in one step: a file that is there is whole."""
    half = file.with_suffix(".half")
    connection.execute(f"COPY ({query}) TO {quoted(half)} (FORMAT parquet, COMPRESSION zstd)")
    half.replace(file)


def quoted(value: object) -> str:
    """A text, or the name of a file, in SQL."""
    return "'" + str(value).replace("'", "''") + "'"
