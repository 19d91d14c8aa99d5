"""What a run measured, from its raw rows: every percentile is exact, and latency counts from when a request should have left.

A server that stalls holds requests back; a client that waits for it would not even send those. Times from the intended moment show
the stall, times from the moment of sending beside them show what the server made of what it got.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from sliceworks.loadtest.samples import Counted, Values
from sliceworks.loadtest.tables import MEASURES, TOKENS, Table, kept, number

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from sliceworks.loadtest.samples import Sample
    from sliceworks.specs.objectives import Objective

    Floats = NDArray[np.float64]

PERCENTILES = (50.0, 90.0, 95.0, 99.0, 99.9)
_WINDOWS = 10
_STUDENT = {10: 2.262, 5: 2.776}
"""Two-sided 95 % of Student's t with one degree of freedom less than there are windows."""
_BEYOND = 10
"""So many values of a window lie beyond a percentile on average, or the window says nothing about it."""
_LATENCIES = frozenset(("e2e", "ttft"))
"""Every answer has them: a request without an answer never came to it."""


@dataclass(frozen=True, slots=True)
class Spread:
    """How the values of one measure lie, in seconds. `within` is the 95 % interval of each percentile, from windows of the run."""

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
    """A run, or a part of it: what became of the requests that were to leave then, and what was answered meanwhile."""

    seconds: float
    requests: int
    succeeded: int
    failures: dict[str, int]
    spreads: dict[str, Spread]
    of_all: dict[str, float]
    """By objective: the percentile over all requests, those that failed among the slowest; infinite when it is one of those."""
    tokens_in: int
    tokens_out: int
    bytes_in: int
    answered: int
    """Answers that ended in this time, whenever they were asked for."""
    good: int
    """Those of them that kept all objectives."""
    tokens_meanwhile: float
    """Tokens that came in this time."""
    coalesced: float
    """The share of pieces that came together with the one before."""
    delivery: Delivery

    @property
    def error_rate(self) -> float:
        return 1 - self.succeeded / self.requests if self.requests else 0.0

    def per_second(self, amount: float) -> float:
        return amount / self.seconds if self.seconds else 0.0


@dataclass(frozen=True, slots=True)
class Window:
    """A part of a run that counts, in seconds from its beginning, and the moments of the whole schedule. `steady` says that the
    load was the same all the time: only then do parts of it tell how far its figures can be trusted."""

    begins: float
    ends: float
    moments: Floats
    steady: bool = True


def summarise(folder: Path, window: Window, objectives: tuple[Objective, ...] = ()) -> Summary:
    """Everything about the requests that were to leave within the window."""
    with Table(folder, window.begins, window.ends) as table:
        extra = tuple(each.quantile for each in objectives if isinstance(each.quantile, float))
        wanted = tuple(sorted({*PERCENTILES, *extra}))
        spreads, of_all = dict[str, Spread](), dict[str, float]()
        for name in (*MEASURES, "delay"):
            moments, values = table.measure(name)
            if len(values):
                spreads[name] = spread(moments, values, window, wanted)
            if name in _LATENCIES:
                of_all |= {each.text: at for each in objectives if each.measure == name and (at := _of_all(each, values, table))}
        gaps = table.gaps(_WINDOWS)
        whole = Counted.together(gaps)
        if whole.count:
            spreads["itl"] = _spread(whole, gaps, _fives(gaps), wanted, steady=window.steady)
        tokens_in, tokens_out, bytes_in = table.one(f"sum(tokens_in), sum({TOKENS}), sum(bytes_in)")
        answered, good, tokens, sent = table.one(_meanwhile(window, objectives), "everything")
        return Summary(
            seconds=max(window.ends - window.begins, 0.0),
            requests=table.count,
            succeeded=int(table.good.sum()),
            failures=table.failures(),
            spreads=spreads,
            of_all=of_all,
            tokens_in=int(tokens_in or 0),
            tokens_out=int(tokens_out or 0),
            bytes_in=int(bytes_in or 0),
            answered=answered,
            good=good,
            tokens_meanwhile=float(tokens or 0),
            coalesced=float(whole.counts[whole.values <= 0].sum() / whole.count) if whole.count else 0.0,
            delivery=_delivery(table, window, spreads.get("delay"), sent),
        )


def _of_all(objective: Objective, values: Floats, table: Table) -> float | None:
    """A percentile in which those that failed count as never answered: they must not make a server look fast."""
    if not isinstance(objective.quantile, float):
        return None
    place = int(np.ceil(objective.quantile / 100 * table.count - 1e-9))
    return Values(values).at([100 * place / len(values)])[0] if 0 < place <= len(values) else float("inf")


def _meanwhile(window: Window, objectives: tuple[Objective, ...]) -> str:
    """What ended, what came and what left between two moments: a server that is behind answers less than it is asked.

    Tokens of an answer are taken to have come evenly between its first and its end.
    """
    begins, ends = number(window.begins), number(window.ends)
    inside = f"greatest(least(ended, {ends}) - greatest(first_token, {begins}), 0) / (ended - first_token)"
    at_once = f"(ended >= {begins} AND ended < {ends})::INT"
    share = f"CASE WHEN ended > first_token THEN {inside} ELSE {at_once} END"
    return (
        f"count(*) FILTER (failure IS NULL AND ended >= {begins} AND ended < {ends}), "
        f"count(*) FILTER ({kept(objectives)} AND ended >= {begins} AND ended < {ends}), "
        f"sum({TOKENS} * ({share})) FILTER (failure IS NULL), "
        f"count(*) FILTER (sent >= {begins} AND sent < {ends})"
    )


def spread(moments: Floats, values: Floats, window: Window, percentiles: Sequence[float] = PERCENTILES) -> Spread:
    """How values lie that belong to moments, which are in order."""
    edges = np.linspace(window.begins, window.ends, _WINDOWS + 1)
    cuts = [0, *np.searchsorted(moments, edges[1:-1]).tolist(), len(values)]

    def parts(step: int) -> Iterator[Sample]:
        places = cuts[::step]
        return (Values(values[begin:end]) for begin, end in pairwise(places))

    return _spread(Values(values), list(parts(1)), list(parts(2)), percentiles, steady=window.steady)


def _fives(tens: list[Counted]) -> list[Counted]:
    return [Counted.together(tens[place : place + 2]) for place in range(0, len(tens), 2)]


def _spread(
    whole: Sample, tens: Sequence[Sample], fives: Sequence[Sample], percentiles: Sequence[float], *, steady: bool
) -> Spread:
    found = dict(zip(percentiles, whole.at(percentiles), strict=True))
    within: dict[float, tuple[float, float]] = {}
    for parts in (tens, fives) if steady else ():
        least = min(part.count for part in parts)
        enough = [each for each in percentiles if each not in within and least * (100 - each) / 100 >= _BEYOND]
        if enough:
            rows = np.asarray([part.at(enough) for part in parts])
            within |= {each: _interval(found[each], rows[:, place]) for place, each in enumerate(enough)}
    return Spread(whole.count, whole.mean, whole.least, whole.most, found, within)


def _interval(figure: float, parts: Floats) -> tuple[float, float]:
    """By sectioning: parts of a run, each long enough to forget the one before, tell how far the whole may be off."""
    count = len(parts)
    half = _STUDENT[count] * float(np.sqrt(((parts - figure) ** 2).sum() / (count - 1) / count))
    return max(figure - half, 0.0), figure + half


def _delivery(table: Table, window: Window, delay: Spread | None, left: int) -> Delivery:
    asked = int(np.searchsorted(window.moments, window.ends) - np.searchsorted(window.moments, window.begins)) + table.users()
    seconds = max(window.ends - window.begins, 1e-9)
    return Delivery(asked, delay.count if delay else 0, asked / seconds, left / seconds, delay)
