"""The chips that pods occupy now: those of jobs, model services and other workloads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sliceworks.base.conditions import find_condition
from sliceworks.console.kinds import JOBSETS, NAMESPACES, NODES, PODS
from sliceworks.console.slice_cache import get_slice_cache
from sliceworks.console.views.job_view import job_row
from sliceworks.console.views.queue_view import teams_by_namespace

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sliceworks.console.cluster_cache import ClusterCache
    from sliceworks.console.views.slice_view import SliceView


@dataclass(frozen=True, slots=True)
class ChipUse:
    """Chips of a slice that one workload occupies since a time; `usd` is their cost per hour, None if unknown."""

    owner: str
    place: str
    team: str
    type_name: str
    chips: int
    usd: float | None
    since: str


def current_uses(cache: ClusterCache) -> list[ChipUse]:
    """What occupies chips now. If nodes or pods cannot be read, the slices of admitted jobs."""
    return cache.compute(_find_uses, JOBSETS, NAMESPACES, NODES, PODS)


def _find_uses(cache: ClusterCache) -> list[ChipUse]:
    if cache.knows(NODES, PODS):
        return [use for view in get_slice_cache(cache).all() for use in _uses_of_slice(cache, view)]
    teams, rows = teams_by_namespace(cache), cache.row_cache(JOBSETS, job_row).rows().values()
    held = ((teams.get(row.namespace, row.namespace), row) for row in rows if row.holds and row.chips)
    return [ChipUse(f"{row.namespace}/{row.name}", "", team, row.type, row.chips, row.usd, row.started) for team, row in held]


def _uses_of_slice(cache: ClusterCache, view: SliceView) -> Iterator[ChipUse]:
    working = [host.work for host in view.hosts if host.work]
    if working:
        share = len(working) / len(view.hosts)
        usd = None if view.usd is None else view.usd * share
        pod = cache.table(PODS).get(working[0].pod, working[0].namespace)
        since = find_condition(pod, "PodScheduled").get("lastTransitionTime", "") if pod else ""
        yield ChipUse(view.owner, view.name, view.team, view.type_name, round(view.chips * share), usd, since)
