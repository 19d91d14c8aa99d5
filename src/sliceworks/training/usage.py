"""Chips in use: by team, by queue and by type, against what there is. Pure: from objects as they were read."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sliceworks.base import quantity
from sliceworks.base.conditions import is_true
from sliceworks.training.queues import TEAM
from sliceworks.training.standing import standings

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sliceworks.training.standing import Standing

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Use:
    """Chips that somebody has. `quota` is None where nothing says how many could be had; `jobs` have them, `waiting` want them."""

    name: str
    used: int
    quota: int | None
    jobs: int = 0
    waiting: int = 0


@dataclass(frozen=True, slots=True)
class Usage:
    """The same chips, counted three ways."""

    teams: tuple[Use, ...]
    queues: tuple[Use, ...]
    types: tuple[Use, ...]


def usage(
    cluster_queues: Iterable[Object], local_queues: Iterable[Object], workloads: Iterable[Object], namespaces: Iterable[Object]
) -> Usage:
    """Who has which chips now."""
    held = list(workloads)
    found = standings(cluster_queues, local_queues, held)
    return Usage(_teams(held, found, namespaces), tuple(map(_queue, found)), _types(found))


def _teams(workloads: list[Object], found: list[Standing], namespaces: Iterable[Object]) -> tuple[Use, ...]:
    team_of = {each["metadata"]["name"]: (each["metadata"].get("labels") or {}).get(TEAM) for each in namespaces}
    used: dict[str, int] = defaultdict(int)
    jobs: dict[str, int] = defaultdict(int)
    waiting: dict[str, int] = defaultdict(int)
    for team in filter(None, team_of.values()):
        used[team] += 0
    for workload in workloads:
        chips = _chips(workload)
        if chips:
            name = _team(team_of, workload["metadata"]["namespace"])
            used[name] += chips
            jobs[name] += 1
    for each in (one for queue in found for one in queue.waiting):
        name = _team(team_of, each.namespace)
        waiting[name] += 1
        used[name] += 0
    return tuple(
        Use(name, used[name], None, jobs[name], waiting[name]) for name in sorted(used, key=lambda each: (-used[each], each))
    )


def _team(team_of: dict[str, str | None], namespace: str) -> str:
    return team_of.get(namespace) or namespace


def _queue(found: Standing) -> Use:
    chips = [each for each in found.holdings if "/" in each.resource]
    used, quota = (int(sum(getattr(each, key) for each in chips)) for key in ("used", "quota"))
    return Use(found.name, used, quota, found.admitted, len(found.waiting))


def _types(found: list[Standing]) -> tuple[Use, ...]:
    """Each flavor over all queues: what is lent is one queue's quota and another's use."""
    used: dict[str, int] = defaultdict(int)
    quota: dict[str, int] = defaultdict(int)
    for each in (one for queue in found for one in queue.holdings if "/" in one.resource):
        used[each.flavor] += int(each.used)
        quota[each.flavor] += int(each.quota)
    return tuple(Use(name, used[name], quota[name]) for name in sorted(quota))


def _chips(workload: Object) -> int:
    """What a Workload has been given; nothing when it waits or has finished."""
    if is_true(workload, "Finished"):
        return 0
    total = 0
    for pods in ((workload.get("status") or {}).get("admission") or {}).get("podSetAssignments") or ():
        total += sum(int(quantity.parse(amount)) for name, amount in (pods.get("resourceUsage") or {}).items() if "/" in name)
    return total
