"""What a day costs: each pool's machines for as long as they stood, shared among the teams by the chip hours they had."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sliceworks.rehearsal.day.record import Cost

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sliceworks.rehearsal.course.machines import Pool
    from sliceworks.rehearsal.course.watch import Watch

_LITTLE = 1e-6


def costs(watch: Watch, now: float) -> tuple[Cost, ...]:
    """By team and pool; what nobody used of a pool is a cost too, of no team."""
    return tuple(cost for name in sorted(watch.pools) for cost in _of_pool(watch, watch.pools[name], now))


def _of_pool(watch: Watch, pool: Pool, now: float) -> Iterator[Cost]:
    life, chips = pool.life, watch.chips
    machine_hours = chips.machines[life.name].hours(now)
    if machine_hours < _LITTLE:
        return
    usd = None if pool.hourly is None else pool.hourly * machine_hours
    whole = chips.of_pool[life.name].hours(now)
    if whole < _LITTLE:
        yield Cost("", life.name, pool.machine, life.capacity, 0.0, _cents(usd))
        return
    left = whole
    for (team, of), level in sorted(chips.used_of_pool.items()):
        hours = level.hours(now) if of == life.name else 0.0
        if hours > _LITTLE:
            left -= hours
            yield Cost(team, life.name, life.chip, life.capacity, round(hours, 4), _cents(usd, hours / whole))
    if left > _LITTLE:
        yield Cost("", life.name, life.chip, life.capacity, round(left, 4), _cents(usd, left / whole))


def _cents(usd: float | None, share: float = 1.0) -> float | None:
    return None if usd is None else round(usd * share, 2)
