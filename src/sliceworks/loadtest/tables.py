"""The raw rows of a run, column by column: ten million of them must not be in memory whole.

Rows lie in the order in which requests were to leave. Columns are numbers with NaN for what did not happen.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import duckdb
import numpy as np

from sliceworks.loadtest.merging import PIECES, REQUESTS
from sliceworks.loadtest.rows import USERS_FROM
from sliceworks.loadtest.samples import Counted

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from sliceworks.specs.objectives import Objective

    Floats = NDArray[np.float64]

TOKENS = "coalesce(tokens_out, CASE WHEN pieces > 1 THEN pieces END)"
"""As the server reports them, or else the pieces of a stream: an answer in one piece says nothing about its tokens."""
MEASURES = {
    "e2e": "ended - intended",
    "service": "ended - sent",
    "ttft": "first_token - intended",
    "ttft service": "first_token - sent",
    "tpot": f"CASE WHEN {TOKENS} > 1 AND pieces > 1 THEN (ended - first_token) / ({TOKENS} - 1) END",
}
_EACH = {**MEASURES, "itl": "CASE WHEN pieces > 1 THEN (ended - first_token) / (pieces - 1) END"}
"""One value for each request: the mean time between its own pieces."""
_NOT_ALWAYS = frozenset(("tpot", "itl"))
"""What an answer in one piece has no value for cannot be too slow."""


def number(value: float) -> str:
    """In SQL, to the last digit, also where it is infinite."""
    return f"'{float(value)!r}'::DOUBLE"


class Table:
    """The requests that were to leave from one moment on and before another."""

    def __init__(self, folder: Path, begins: float = 0.0, ends: float = float("inf")) -> None:
        self._begins, self._ends = begins, ends
        self._connection = connection = duckdb.connect()
        # Columns are asked for one by one, and must agree about which row is which.
        connection.execute("SET memory_limit = '600MB'; SET preserve_insertion_order = true")
        connection.read_parquet(str(folder / REQUESTS)).create_view("everything")
        counted = f"intended >= {number(begins)} AND intended < {number(ends)}"
        connection.execute(f"CREATE VIEW requests AS SELECT * FROM everything WHERE {counted}")
        connection.read_parquet(str(folder / PIECES)).create_view("pieces")
        self.intended = self.column("intended")
        self.count = len(self.intended)
        self.good = self.column("failure IS NULL") > 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def column(self, what: str) -> Floats:
        """An expression over all rows, in their order."""
        found: Floats = self.ask(f"SELECT coalesce(({what})::DOUBLE, 'NaN'::DOUBLE) AS it FROM requests")["it"]
        return found

    def ask(self, query: str) -> dict[str, Any]:
        return self._connection.execute(query).fetchnumpy()

    def one(self, what: str, table: str = "requests") -> tuple[Any, ...]:
        """One row of sums."""
        found = self._connection.execute(f"SELECT {what} FROM {table}").fetchone()
        assert found is not None
        return found

    def measure(self, name: str) -> tuple[Floats, Floats]:
        """Moments and values. Only requests that succeeded have latencies; all that were sent have a delay."""
        if name == "delay":
            moments, values = self.intended, self.column("sent - intended")
        else:
            moments, values = self.intended[self.good], self.column(MEASURES[name])[self.good]
        there = ~np.isnan(values)
        return (moments, values) if there.all() else (moments[there], values[there])

    def gaps(self, windows: int) -> list[Counted]:
        """From one piece to the next, of all answers that succeeded, by windows of the time at which they were asked for.

        They are whole microseconds: how often there was each is all there is to know of them, however many there are.
        """
        width = max(self._ends - self._begins, 1e-9) / windows
        place = f"least(floor((intended - {number(self._begins)}) / {number(width)}), {windows - 1})::INT"
        found = self.ask(
            f"SELECT {place} AS place, gap, count(*) AS many FROM pieces JOIN requests USING (request) "
            "WHERE failure IS NULL AND gap IS NOT NULL GROUP BY ALL ORDER BY gap"
        )
        parts = (found["place"] == index for index in range(windows))
        return [Counted(found["gap"][each], found["many"][each]) for each in parts]

    def failures(self) -> dict[str, int]:
        """How many failed, by what went wrong; a status by its number."""
        word = "CASE failure WHEN 'status' THEN 'status ' || status ELSE failure END"
        found = self.ask(
            f"SELECT {word} AS word, count(*) AS many FROM requests WHERE failure IS NOT NULL GROUP BY ALL ORDER BY many DESC, word"
        )
        return {str(word): int(many) for word, many in zip(found["word"], found["many"], strict=True)}

    def users(self) -> int:
        """How many were sent by users, who have no schedule: what they sent is what they were to send."""
        return int(self.one(f"count(*) FILTER (number >= {USERS_FROM})")[0])

    def within(self, objectives: tuple[Objective, ...]) -> NDArray[np.bool_]:
        """Which requests succeeded within the limits of all objectives."""
        good: NDArray[np.bool_] = self.column(kept(objectives)) > 0
        return good


def kept(objectives: tuple[Objective, ...]) -> str:
    """In SQL: whether a request succeeded within the limits of all objectives. What it has no value for, it has not kept."""
    said = ["failure IS NULL"]
    for each in objectives:
        if each.measure in _EACH:
            fine = "true" if each.measure in _NOT_ALWAYS else "false"
            said.append(f"coalesce(({_EACH[each.measure]}) < {number(each.limit)}, {fine})")
    return f"({' AND '.join(said)})"
