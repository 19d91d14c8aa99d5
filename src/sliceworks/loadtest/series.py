"""How a run went over time, and how its times are distributed: what a picture of it is drawn from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np

from sliceworks.loadtest.merging import PIECES, REQUESTS

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

_POINTS = 200
_SHARES = np.concatenate([np.linspace(0, 0.9, 91), 1 - np.geomspace(0.1, 1e-5, 60)])


def over_time(folder: Path, lasts: float, moments: NDArray[np.float64]) -> dict[str, list[Any]]:
    """By moments of the run: requests asked, sent and failed per second, and percentiles of those that were to leave then."""
    step = max(round(lasts / _POINTS, 3), 0.25)
    query = f"""
        SELECT floor(intended / {step!r}) * {step!r} AS at, count(sent) / {step!r} AS sent,
            count(*) FILTER (failure IS NOT NULL) / {step!r} AS failed,
            quantile_disc(ended - intended, [0.5, 0.9, 0.99]) FILTER (failure IS NULL) AS e2e,
            quantile_disc(first_token - intended, [0.5, 0.99]) FILTER (failure IS NULL) AS ttft,
            coalesce(sum(tokens_out), 0) / {step!r} AS tokens, max(sent - intended) AS delay
        FROM requests GROUP BY 1 ORDER BY 1"""
    found = _ask(folder, query)
    asked = np.bincount((moments / step).astype(np.int64), minlength=1) / step if len(moments) else np.zeros(1)
    return {
        "at": [row[0] for row in found],
        "asked": [float(asked[index]) if (index := round(row[0] / step)) < len(asked) else 0.0 for row in found],
        "sent": [row[1] for row in found],
        "failed": [row[2] for row in found],
        "p50": [row[3][0] if row[3] else None for row in found],
        "p90": [row[3][1] if row[3] else None for row in found],
        "p99": [row[3][2] if row[3] else None for row in found],
        "ttft p50": [row[4][0] if row[4] else None for row in found],
        "ttft p99": [row[4][1] if row[4] else None for row in found],
        "tokens": [row[5] for row in found],
        "delay": [row[6] for row in found],
    }


def distributions(folder: Path, begins: float) -> dict[str, dict[str, list[float]]]:
    """By measure: shares of requests, and the times that so many do not exceed. Shares lie closer together towards the slowest."""
    wanted = {
        "end to end": f"SELECT ended - intended AS it FROM requests WHERE failure IS NULL AND intended >= {begins!r}",
        "from sending": f"SELECT ended - sent AS it FROM requests WHERE failure IS NULL AND intended >= {begins!r}",
        "first token": f"SELECT first_token - intended AS it FROM requests WHERE failure IS NULL AND intended >= {begins!r}",
        "between pieces": f"""
            SELECT came - lag(came) OVER (PARTITION BY request ORDER BY piece) AS it FROM pieces JOIN requests USING (request)
            WHERE failure IS NULL AND pieces > 1 AND intended >= {begins!r} QUALIFY it IS NOT NULL""",
    }
    found = {}
    for name, query in wanted.items():
        shares = ", ".join(f"{share:.6f}" for share in _SHARES)
        ((count, times),) = _ask(folder, f"SELECT count(it), quantile_disc(it, [{shares}]) FROM ({query})")
        if count:
            found[name] = {"share": [round(float(share), 6) for share in _SHARES], "time": list(times)}
    return found


def _ask(folder: Path, query: str) -> list[tuple[Any, ...]]:
    with duckdb.connect() as connection:
        connection.execute("SET memory_limit = '1GB'")
        connection.read_parquet(str(folder / REQUESTS)).create_view("requests")
        connection.read_parquet(str(folder / PIECES)).create_view("pieces")
        return connection.execute(query).fetchall()
