"""What a run measured, from its raw rows: every percentile is exact, and latency counts from when a request should have left.

A server that stalls holds requests back; a client that waits for it would not even send those. Times from the intended moment show
the stall, times from the moment of sending beside them show what the server made of what it got.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np

from sliceworks.loadtest.merging import PIECES, REQUESTS
from sliceworks.loadtest.rows import USERS_FROM

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from sliceworks.specs.objectives import Objective

PERCENTILES = (50.0, 90.0, 95.0, 99.0, 99.9)
_WINDOWS = 10
# Two-sided 95 % of Student's t with one degree of freedom less than there are windows, from two windows to ten.
_STUDENT = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262)


@dataclass(frozen=True, slots=True)
class Spread:
    """How the values of one measure lie, in seconds. `within` is the 95 % interval of each percentile over windows of the run."""

    count: int
    mean: float
    least: float
    most: float
    percentiles: dict[float, float]
    within: dict[float, tuple[float, float]]

    def at(self, quantile: float | str) -> float:
        """p99 is 99.0; also mean and max."""
        if quantile == "mean":
            return self.mean
        return self.most if quantile == "max" else self.percentiles[float(quantile)]


@dataclass(frozen=True, slots=True)
class Delivery:
    """What was to be sent against what was, in the part that counts."""

    asked: int
    sent: int
    rate_asked: float
    rate_sent: float
    delay: Spread | None

    @property
    def share(self) -> float:
        return self.sent / self.asked if self.asked else 1.0


@dataclass(frozen=True, slots=True)
class Summary:
    """A run, or a part of it."""

    seconds: float
    requests: int
    succeeded: int
    failures: dict[str, int]
    spreads: dict[str, Spread]
    tokens_in: int
    tokens_out: int
    bytes_in: int
    good: int
    delivery: Delivery

    @property
    def error_rate(self) -> float:
        return 1 - self.succeeded / self.requests if self.requests else 0.0

    def per_second(self, amount: float) -> float:
        return amount / self.seconds if self.seconds else 0.0


@dataclass(frozen=True, slots=True)
class Window:
    """A part of a run that counts, in seconds from its beginning, and the moments of the whole schedule."""

    begins: float
    ends: float
    moments: NDArray[np.float64]


def summarise(folder: Path, window: Window, objectives: tuple[Objective, ...] = ()) -> Summary:
    """Everything about the requests that were to leave within the window."""
    table = Table(folder, window)
    extra = tuple(each.quantile for each in objectives if isinstance(each.quantile, float))
    wanted = tuple(sorted({*PERCENTILES, *extra}))
    measures = table.measures()
    spreads = {name: found for name, values in measures.items() if (found := spread(*values, window, wanted)) is not None}
    return Summary(
        seconds=max(window.ends - window.begins, 0.0),
        requests=table.count,
        succeeded=int(table.good.sum()),
        failures=table.failures(),
        spreads=spreads,
        tokens_in=table.total("tokens_in"),
        tokens_out=table.total("tokens_out"),
        bytes_in=table.total("bytes_in"),
        good=table.within(objectives),
        delivery=_delivery(table, window, spreads.get("delay")),
    )


class Table:
    """The rows that count, column by column: ten million rows must not be in memory whole."""

    def __init__(self, folder: Path, window: Window) -> None:
        self._connection = connection = duckdb.connect()
        # Columns are asked for one by one, and must agree about which row is which.
        connection.execute("SET memory_limit = '1GB'; SET preserve_insertion_order = true")
        counted = f"intended >= {window.begins!r} AND intended < {window.ends!r}"
        connection.read_parquet(str(folder / REQUESTS)).filter(counted).create_view("requests")
        connection.read_parquet(str(folder / PIECES)).create_view("pieces")
        self.intended = self._column("intended")
        self.count = len(self.intended)
        self.good = self._column("(failure IS NULL)::DOUBLE") > 0

    def _column(self, what: str) -> NDArray[np.float64]:
        found = self._ask(f"SELECT ({what})::DOUBLE AS it FROM requests")["it"]
        return np.ma.filled(found, np.nan) if isinstance(found, np.ma.MaskedArray) else found

    def _ask(self, query: str) -> dict[str, Any]:
        return self._connection.execute(query).fetchnumpy()

    def users(self) -> int:
        """How many were sent by users, who have no schedule: what they sent is what they were to send."""
        return int((self._column("number") >= USERS_FROM).sum())

    def total(self, column: str) -> int:
        return int(np.nansum(self._column(f"coalesce({column}, 0)")))

    def failures(self) -> dict[str, int]:
        """How many failed, by what went wrong; a status by its number."""
        word = "CASE failure WHEN 'status' THEN 'status ' || status ELSE failure END"
        found = self._ask(
            f"SELECT {word} AS word, count(*) AS many FROM requests WHERE failure IS NOT NULL GROUP BY ALL ORDER BY many DESC, word"
        )
        return {str(word): int(many) for word, many in zip(found["word"], found["many"], strict=True)}

    def measures(self) -> dict[str, tuple[NDArray[np.float64], NDArray[np.float64]]]:
        """By name: values, and the moments they belong to. Only requests that succeeded have latencies."""
        found = {name: _known(self.intended[self.good], self._column(what)[self.good]) for name, what in _MEASURES.items()}
        sent = self._column("sent - intended")
        return {**found, "itl": self._gaps(), "delay": _known(self.intended, sent)}

    def _gaps(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """From one piece to the next, of all answers that succeeded."""
        query = (
            "SELECT requests.intended AS at, pieces.came - lag(pieces.came) OVER (PARTITION BY request ORDER BY piece) AS gap "
            "FROM pieces JOIN requests USING (request) WHERE failure IS NULL AND requests.pieces > 1 QUALIFY gap IS NOT NULL"
        )
        found = self._ask(query)
        return np.asarray(found["at"], dtype=np.float64), np.asarray(found["gap"], dtype=np.float64)

    def within(self, objectives: tuple[Objective, ...]) -> int:
        """How many requests succeeded within the limits of all objectives."""
        good = self.good.copy()
        for each in objectives:
            if each.measure in _MEASURES:
                values = self._column(_MEASURES[each.measure])
                good &= ~(values >= each.limit)  # what an answer of one token has no value for cannot be too slow
        return int(good.sum())


_TOKENS = "coalesce(tokens_out, pieces)"
_MEASURES = {
    "e2e": "ended - intended",
    "service": "ended - sent",
    "ttft": "first_token - intended",
    "ttft service": "first_token - sent",
    "tpot": f"CASE WHEN {_TOKENS} > 1 AND pieces > 1 THEN (ended - first_token) / ({_TOKENS} - 1) END",
}


def _known(moments: NDArray[np.float64], values: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    there = ~np.isnan(values)
    return moments[there], values[there]


def spread(
    moments: NDArray[np.float64], values: NDArray[np.float64], window: Window, percentiles: tuple[float, ...] = PERCENTILES
) -> Spread | None:
    """How values lie; None when there are none."""
    if not len(values):
        return None
    ordered = np.sort(values)
    parts = [part for part in _split(moments, values, window) if len(part) >= 20]
    within = {}
    if len(parts) >= 2:
        for each in percentiles:
            found = np.asarray([exact(np.sort(part), each) for part in parts])
            half = _STUDENT[len(found) - 2] * float(found.std(ddof=1)) / len(found) ** 0.5
            within[each] = (float(found.mean()) - half, float(found.mean()) + half)
    return Spread(
        len(ordered),
        float(ordered.mean()),
        float(ordered[0]),
        float(ordered[-1]),
        {each: exact(ordered, each) for each in percentiles},
        within,
    )


def exact(ordered: NDArray[np.float64], percentile: float) -> float:
    """The value that so many of the values do not exceed: one of them, never something between two."""
    place = int(np.ceil(percentile / 100 * len(ordered) - 1e-9)) - 1
    return float(ordered[min(max(place, 0), len(ordered) - 1)])


def _split(moments: NDArray[np.float64], values: NDArray[np.float64], window: Window) -> list[NDArray[np.float64]]:
    edges = np.linspace(window.begins, window.ends, _WINDOWS + 1)
    number = np.clip(np.searchsorted(edges, moments, side="right") - 1, 0, _WINDOWS - 1)
    return [values[number == index] for index in range(_WINDOWS)]


def _delivery(table: Table, window: Window, delay: Spread | None) -> Delivery:
    asked = int(((window.moments >= window.begins) & (window.moments < window.ends)).sum()) + table.users()
    sent = delay.count if delay else 0
    seconds = max(window.ends - window.begins, 1e-9)
    return Delivery(asked, sent, asked / seconds, sent / seconds, delay)
