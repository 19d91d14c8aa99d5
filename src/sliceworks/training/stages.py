"""One line about where a job has come to: from its JobSet, its Workload and its pods. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.base.conditions import condition
from sliceworks.training.hosts import hosts, slices_of
from sliceworks.training.states import ending, state
from sliceworks.training.words import QUEUE

if TYPE_CHECKING:
    from collections.abc import Iterable

Object = dict[str, Any]


def line(jobset: Object, workload: Object | None, pods: Iterable[Object]) -> str:
    """The state, and what there is to say about it."""
    word = state(jobset)
    if word in ("completed", "failed"):
        return f"{word}: {ending(jobset).get('message', '')}".rstrip(": ")
    if word == "queued":
        return _queued(jobset, workload)
    found = slices_of(hosts(jobset, pods))
    ready = sum(each.ready for each in found)
    ended = sum(each.state == "succeeded" for each in found)
    restarts = (jobset.get("status") or {}).get("restarts", 0)
    told = f"{word}: {ready} of {len(found)} hosts are ready"
    told += f", {ended} have ended" if ended else ""
    return told + (f", after {restarts} restart{'s' if restarts > 1 else ''}" if restarts else "")


def _queued(jobset: Object, workload: Object | None) -> str:
    queue = jobset["metadata"]["labels"][QUEUE]
    waits = condition(workload, "QuotaReserved")
    if waits.get("status") == "True":
        return f"queued: {queue} has room for it, and it is checked"
    why = str(waits.get("message") or condition(workload, "Evicted").get("message") or "")
    return f"queued in {queue}: {why}" if why else f"queued in {queue}"
