"""A forecast of one job in a moment's time, for those who ask in passing: a few runs, and no answer where that takes too long."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.base import clock
from sliceworks.base.errors import SliceworksError
from sliceworks.base.yamls import Document
from sliceworks.rehearsal.forecast import newcomers, snapshot
from sliceworks.rehearsal.forecast.outlook import Expectation, Outlook

if TYPE_CHECKING:
    from pathlib import Path

    from sliceworks.kube.client import Client

_RUNS = 20
_MANY = 3_000
"""More work than this is not run forward in passing."""


async def expectation(client: Client, obj: dict[str, Any], folder: Path, *, limit: float = 2.0) -> Expectation | None:
    """What a JobSet or Job that is about to be sent can expect; None where it cannot be told within so many seconds, or at all."""
    began = clock.effort()
    try:
        taken = await snapshot.take(client)
        outlook = Outlook(taken)
        job = newcomers.job(Document(obj, "the job", 1, {}), folder, taken)
    except SliceworksError:
        return None
    count = len(outlook.jobs) + sum(map(len, outlook.arrivals.days))
    if count > _MANY or clock.effort() - began > limit / 2:
        return None
    [found] = outlook.forecast([job], more=[job], runs=1).expectations
    left, each = limit - (clock.effort() - began), clock.effort() - began
    runs = min(_RUNS, int(left / max(each, 1e-3)))
    if runs < _RUNS // 4:
        return None
    [found] = outlook.forecast([job], more=[job], runs=runs).expectations
    return found
