"""How a run went over time, and how its times are distributed: what a picture of it is drawn from."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from sliceworks.loadtest.samples import Values
from sliceworks.loadtest.tables import TOKENS, Table

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from sliceworks.loadtest.samples import Sample
    from sliceworks.specs.objectives import Objective

    Floats = NDArray[np.float64]

_POINTS = 200
_SHARES = np.concatenate([np.linspace(0, 0.9, 91), 1 - np.geomspace(0.1, 1e-5, 60)])
_SHOWN = {"e2e": ("p50", "p90", "p99"), "ttft": ("ttft p50", "ttft p99"), "tpot": ("tpot p50", "tpot p99")}
_DRAWN = {"end to end": "e2e", "from sending": "service", "first token": "ttft"}


def over_time(folder: Path, lasts: float, moments: Floats, objectives: tuple[Objective, ...] = ()) -> dict[str, list[Any]]:
    """By moments of the run: requests asked, sent, answered, failed and good enough per second, tokens of those that ended then,
    and percentiles of those that were to leave then."""
    step = max(round(lasts / _POINTS, 3), 0.25)
    with Table(folder) as table:
        edges = np.arange(np.floor(table.intended[-1] / step) + 2) * step if table.count else np.zeros(1)

        def rate(at: Floats, weights: Floats | None = None) -> list[float]:
            return (np.histogram(at, edges, weights=weights)[0] / step).tolist() if table.count else []

        ended = table.column("ended")
        rates = {"asked": moments, "sent": table.column("sent"), "answered": ended[table.good], "failed": ended[~table.good]}
        rates["good"] = ended[table.within(objectives)]
        found: dict[str, list[Any]] = {"at": edges[:-1].tolist()}
        found |= {name: rate(values) for name, values in rates.items()}
        found["tokens"] = rate(ended, table.column(f"coalesce({TOKENS}, 0)"))
        for measure, shown in _SHOWN.items():
            found |= _percentiles(*table.measure(measure), edges, shown)
    return found


def _percentiles(moments: Floats, values: Floats, edges: Floats, names: Sequence[str]) -> dict[str, list[float | None]]:
    """By name, such as `ttft p99`: the percentile in each step of time; None where there was nothing."""
    wanted = [float(name.rpartition("p")[2]) for name in names]
    cuts = np.searchsorted(moments, edges).tolist()
    parts = [Values(values[begin:end]) for begin, end in pairwise(cuts)]
    rows = [part.at(wanted) if part.count else [None] * len(wanted) for part in parts]
    return {name: [row[place] for row in rows] for place, name in enumerate(names)}


def distributions(folder: Path, begins: float) -> dict[str, dict[str, list[float]]]:
    """By measure: shares of requests, and the times that so many do not exceed. Shares lie closer together towards the slowest."""
    found = {}
    with Table(folder, begins) as table:
        for name, measure in _DRAWN.items():
            found[name] = _distribution(Values(table.measure(measure)[1]))
        (gaps,) = table.gaps(1)
        found["between pieces"] = _distribution(gaps)
    return {name: each for name, each in found.items() if each}


def _distribution(sample: Sample) -> dict[str, list[float]]:
    if not sample.count:
        return {}
    return {"share": [round(float(share), 6) for share in _SHARES], "time": sample.at([100 * float(share) for share in _SHARES])}
