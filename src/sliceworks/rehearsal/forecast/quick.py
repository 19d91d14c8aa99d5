"""A forecast of one job in a moment's time, for those who ask in passing: a few runs, and no answer where that takes too long."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from sliceworks.base import clock
from sliceworks.base.errors import SliceworksError
from sliceworks.base.yamls import Document
from sliceworks.rehearsal.forecast import newcomers, snapshot
from sliceworks.rehearsal.forecast.outlook import Expectation, Outlook

if TYPE_CHECKING:
    from sliceworks.kube.client import Client

_RUNS, _FEWEST = 20, 5


async def expectation(client: Client, obj: dict[str, Any], *, limit: float = 2.0) -> Expectation | None:
    """What a JobSet or Job can expect, sent already or not; None where that cannot be told within so many seconds."""
    began = clock.effort()
    metadata = obj["metadata"]
    try:
        taken = await snapshot.take(client)
        outlook = Outlook(taken)
        known = [job for job in outlook.jobs.values() if (job.key[0], job.name) == (metadata["namespace"], metadata["name"])]
        job = known[0] if known else newcomers.job(Document(obj, "the job", 1, {}), Path(), taken)
    except SliceworksError:
        return None
    more, ready = [] if known else [job], clock.effort()
    if ready - began > limit / 2:
        return None
    [found] = outlook.forecast([job], more=more, runs=1).expectations
    runs = min(_RUNS, int((limit - (clock.effort() - began)) / max(clock.effort() - ready, 1e-3)))
    if runs < _FEWEST:
        return None
    [found] = outlook.forecast([job], more=more, runs=runs).expectations
    return found
