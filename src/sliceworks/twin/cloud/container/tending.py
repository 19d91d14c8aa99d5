"""Looks after the machines of pools: one that is gone is made anew, one that is unwell is repaired.

An instance group keeps its size: a spot machine that was taken away comes back under its own name. Of a slice of several hosts all
machines begin anew when one is lost.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sliceworks.twin.cloud.container.yard import places

if TYPE_CHECKING:
    from sliceworks.twin.cloud.container.jobs import Jobs
    from sliceworks.twin.cloud.container.steps import Steps
    from sliceworks.twin.cloud.container.yard import Yard
    from sliceworks.twin.cloud.state import Document

_TENDED = ("RUNNING", "RUNNING_WITH_ERROR")


class Tending:
    """Hears of nodes that come, fail and go."""

    def __init__(self, yard: Yard, jobs: Jobs, steps: Steps) -> None:
        self._yard = yard
        self._jobs = jobs
        self._steps = steps

    def start(self) -> None:
        """Listen from now on."""
        fleet = self._yard.fleet
        fleet.came_up, fleet.failed, fleet.went, fleet.listed = self._steps.came_up, self._failed, self._went, self._listed
        self._steps.ended = self._miss

    def _went(self, node: str) -> None:
        pool = self._pool(node)
        if pool is not None:
            self._mend(pool, "repair", self._yard.settings.seconds("repair"))

    def _failed(self, node: str) -> None:
        pool = self._pool(node)
        if pool is not None and (pool.body.get("management") or {}).get("autoRepair"):
            self._mend(pool, "unhealthy", self._yard.settings.seconds("unhealthy"), node=node)

    def _listed(self) -> None:
        """After a start: whoever went meanwhile is missed now, and those who are awaited may have come."""
        for pool in list(self._yard.pools.all()):
            self._miss(pool)
        for operation in list(self._jobs.work.running()):
            if operation.inner["step"] == "register":
                self._jobs.work.wake(operation.name)

    def _miss(self, pool: Document) -> None:
        """Have the machines made anew that a pool should have and that are not there: they went while others worked on it."""
        tended = pool.body["status"] in _TENDED and self._yard.has_nodes(pool.parent)
        if tended and any(not self._yard.fleet.is_there(place.name) for place in places(pool)):
            self._mend(pool, "repair", self._yard.settings.seconds("repair"))

    def _pool(self, node: str) -> Document | None:
        """The pool that looks after a node, unless it has other work on it."""
        owner = self._yard.owners.get(node)
        pool = self._yard.pools.get(*owner) if owner else None
        return pool if pool is not None and pool.body["status"] in _TENDED else None

    def _mend(self, pool: Document, step: str, seconds: float, **more: str) -> None:
        under_way = self._jobs.hidden(pool.parent, pool.name)
        if step == "repair":
            for operation in under_way:
                if operation.inner["step"] == "unhealthy":
                    self._jobs.finish(operation)
            under_way = [each for each in under_way if each.inner["step"] != "unhealthy"]
        if not under_way:
            facts = self._yard.facts(pool.parent, pool.body)
            kind = "AUTO_REPAIR_NODES"
            self._jobs.begin(kind, pool.parent, pool.name, step=step, seconds=seconds, facts=facts, hidden=True, **more)
