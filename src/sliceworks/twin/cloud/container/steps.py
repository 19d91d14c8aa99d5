"""The steps of operations: what is done to machines, pools and clusters, one after another, each when its time has come.

    machines    the machines appear as nodes, or are not to be had
    give_up     machines that are not to be had are no longer asked for
    register    their kubelets come up; then the pool is as it was asked for
    drain       pods are asked to leave
    remove      the nodes go, and the pool or the cluster with them
    change      a pool or a cluster reads otherwise
    unhealthy   a node that has not been ready for long is repaired
    repair      nodes are made anew

A step may be done twice, should the twin end in the middle of it.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from sliceworks.base import clock
from sliceworks.twin.cloud.container import outcomes
from sliceworks.twin.cloud.container.machines import formation
from sliceworks.twin.cloud.container.nodes import Place
from sliceworks.twin.cloud.container.outcomes import Failure
from sliceworks.twin.cloud.container.yard import places, set_places

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from sliceworks.twin.cloud.container.jobs import Jobs
    from sliceworks.twin.cloud.container.yard import Yard
    from sliceworks.twin.cloud.state import Document

Obj = dict[str, Any]
_LONGEST_DRAIN = 3600.0
_DRAIN_AGAIN = 10.0
_ASK_AGAIN = 60.0


class Steps:
    """Carries operations on."""

    def __init__(self, yard: Yard) -> None:
        self._yard = yard
        self.jobs: Jobs
        self.ended: Callable[[Document], None] = lambda _: None
        """Called with a pool that nobody works on any more."""
        self.not_grown: Callable[[Document], None] = lambda _: None
        """Called with a pool that could not become larger by itself."""
        self._awaited: dict[str, str] = {}
        """Nodes that operations wait for."""
        self._left: Counter[str] = Counter()
        """How many nodes each of them waits for."""
        self._steps: dict[str, Callable[[Document], Awaitable[None]]] = {
            "machines": self._machines,
            "give_up": self._give_up,
            "register": self._register,
            "drain": self._drain,
            "remove": self._remove,
            "change": self._change,
            "unhealthy": self._unhealthy,
            "repair": self._repair,
        }

    async def advance(self, operation: Document) -> None:
        """Do the next step of an operation."""
        failure = self.jobs.fails(operation)
        if failure is not None:
            await self._fail(operation, failure)
        else:
            await self._steps[operation.inner["step"]](operation)

    def came_up(self, node: str) -> None:
        """A node is ready: whoever waited for it looks again once it was the last."""
        operation = self._awaited.pop(node, "")
        if operation:
            self._left[operation] -= 1
            if self._left[operation] <= 0:
                del self._left[operation]
                self.jobs.work.wake(operation)

    def _pools(self, operation: Document) -> list[Document]:
        """The pools that an operation is about."""
        cluster, name = operation.inner["cluster"], operation.inner["pool"]
        if not name:
            return list(self._yard.pools.all(cluster))
        found = self._yard.pools.get(cluster, name)
        return [found] if found is not None else []

    # Machines come.

    async def _machines(self, operation: Document) -> None:
        yard, pools = self._yard, self._pools(operation)
        boot = yard.settings.seconds("boot")
        for pool in pools:
            trouble = outcomes.trouble(yard, pool)
            if trouble is None:
                continue
            if trouble.failure is None:
                boot += trouble.seconds
            elif operation.inner["hidden"]:
                self._not_to_be_had(operation, pool)
                return
            else:
                await self._some(operation, pool, trouble.missing, boot)
                operation.inner |= {"step": "give_up", "failure": list(trouble.failure)}
                self.jobs.work.later(operation, trouble.seconds or yard.settings.seconds("giveUp"))
                return
        dropped = [place[0] for place in operation.inner.get("drop") or ()]
        for pool in pools:
            if yard.has_nodes(pool.parent):
                await yard.fleet.cordon(dropped)
                await yard.fleet.create(yard.nodes(pool, [each for each in places(pool) if each.name not in dropped], boot))
        patience = boot + yard.settings.seconds("register")
        operation.inner |= {"step": "register", "until": clock.now().timestamp() + patience, "patience": patience}
        await self._register(operation)

    def _not_to_be_had(self, operation: Document, pool: Document) -> None:
        """A machine that is missed is asked for again and again; one that the autoscaler wants is not."""
        added = [Place(*place) for place in operation.inner.get("add") or ()]
        if not added:
            self.jobs.work.later(operation, _ASK_AGAIN)
            return
        set_places(pool, [place for place in places(pool) if place not in added])
        self._yard.fleet.free(place.number for place in added)
        self._yard.put(pool)
        self.not_grown(pool)
        self.jobs.finish(operation)

    async def _some(self, operation: Document, pool: Document, missing: int, boot: float) -> None:
        """Of machines that are not to be had in full those that are; of a slice none."""
        there = [] if formation(pool.body).gang else places(pool)[: max(0, len(places(pool)) - missing)]
        if operation.inner.get("drop") is None and there and self._yard.has_nodes(pool.parent):
            await self._yard.fleet.create(self._yard.nodes(pool, there, boot))

    async def _give_up(self, operation: Document) -> None:
        self._end_badly(operation, Failure(*operation.inner["failure"]))

    async def _register(self, operation: Document) -> None:
        yard, pools = self._yard, self._pools(operation)
        dropped = [Place(*place) for place in operation.inner.get("drop") or ()]
        wanted = [each for pool in pools if yard.has_nodes(pool.parent) for each in places(pool) if each not in dropped]
        missing = [place.name for place in wanted if not yard.fleet.is_ready(place.name)]
        left = min(operation.inner["until"] - clock.now().timestamp(), operation.inner["patience"])
        if missing and left > 0:
            self._awaited |= dict.fromkeys(missing, operation.name)
            self._left[operation.name] = len(missing)
            if not all(yard.fleet.is_there(name) for name in missing):
                # A machine that went before it was up is made anew, as any other.
                operation.inner["step"] = "machines"
                left = min(left, yard.settings.seconds("repair"))
            self.jobs.work.later(operation, left)
            return
        if dropped:
            await self._take_away([place.name for place in dropped])
        if missing:
            self._end_badly(operation, outcomes.unregistered(len(wanted) - len(missing), len(wanted)))
        else:
            self._end_well(operation, dropped)

    def _end_well(self, operation: Document, dropped: list[Place]) -> None:
        for pool in self._pools(operation):
            set_places(pool, [place for place in places(pool) if place not in dropped])
            self._yard.fleet.free(place.number for place in dropped)
            outcomes.settled(pool)
            self._yard.put(pool)
        if not operation.inner["pool"]:
            cluster = self._yard.cluster(operation.inner["cluster"])
            cluster.body["status"] = "RUNNING"
            self._yard.clusters.put(cluster)
        self._finish(operation)

    def _finish(self, operation: Document, failure: Failure | None = None) -> None:
        self.jobs.finish(operation, failure)
        for pool in self._pools(operation):
            self.ended(pool)

    # Machines go.

    async def _take_away(self, names: list[str]) -> None:
        await self._yard.fleet.drain(names)
        await self._yard.fleet.delete(names)

    async def _drain(self, operation: Document) -> None:
        yard, inner = self._yard, operation.inner
        names = [place.name for pool in self._pools(operation) for place in places(pool)] if self._has_nodes(operation) else []
        names = [name for name in names if yard.fleet.is_there(name)]
        await yard.fleet.cordon(names)
        left = await yard.fleet.drain(names) if names else 0
        spent = inner.get("drained", 0.0)
        if left and spent < _LONGEST_DRAIN:
            inner["drained"] = spent + _DRAIN_AGAIN
            self.jobs.work.later(operation, _DRAIN_AGAIN)
            return
        inner["step"] = "remove"
        self.jobs.work.later(operation, inner["rest"])

    def _has_nodes(self, operation: Document) -> bool:
        return self._yard.has_nodes(operation.inner["cluster"])

    async def _remove(self, operation: Document) -> None:
        pools = self._pools(operation)
        if self._has_nodes(operation):
            await self._yard.fleet.delete([place.name for pool in pools for place in places(pool)])
        for pool in pools:
            self._yard.remove(pool)
        if not operation.inner["pool"]:
            self._yard.clusters.remove(self._yard.cluster(operation.inner["cluster"]))
        self.jobs.finish(operation)

    # Words change.

    async def _change(self, operation: Document) -> None:
        inner = operation.inner
        if inner["pool"]:
            for pool in self._pools(operation):
                before = pool.body.get("config")
                pool.body |= inner["change"]
                self._yard.put(pool)
                if pool.body.get("config") != before and self._has_nodes(operation):
                    await self._repaint(pool, before or {})
        else:
            cluster = self._yard.cluster(inner["cluster"])
            cluster.body |= inner["change"]
            cluster.body["status"] = "RUNNING"
            self._yard.clusters.put(cluster)
            for name, change in (inner.get("pools") or {}).items():
                found = self._yard.pools.get(inner["cluster"], name)
                if found is not None:
                    found.body |= change
                    self._yard.put(found)
        self.jobs.finish(operation)

    async def _repaint(self, pool: Document, before: Obj) -> None:
        """Give the nodes of a pool the labels and taints that it has now."""
        for node in self._yard.nodes(pool, places(pool), 0.0):
            labels = {**dict.fromkeys(before.get("labels") or ()), **node["metadata"]["labels"]}
            await self._yard.fleet.repaint(node["metadata"]["name"], labels, node["spec"].get("taints") or [])

    # Machines fail.

    async def _unhealthy(self, operation: Document) -> None:
        state = await self._yard.fleet.state(operation.inner["node"])
        if state == "maintenance":
            self.jobs.work.later(operation, _ASK_AGAIN)
        elif state == "ready":
            self.jobs.finish(operation)
        else:
            operation.inner["step"] = "repair"
            await self._repair(operation)

    async def _repair(self, operation: Document) -> None:
        fleet = self._yard.fleet
        for pool in self._pools(operation):
            names = [place.name for place in places(pool)]
            # One machine of a slice is nothing without the others: all of them begin anew.
            whole = bool(formation(pool.body).gang)
            await fleet.delete([name for name in names if fleet.is_there(name) and (whole or not fleet.is_ready(name))])
        operation.inner["step"] = "machines"
        await self._machines(operation)

    # Operations fail.

    async def _fail(self, operation: Document, failure: Failure) -> None:
        if operation.body["operationType"] in ("CREATE_NODE_POOL", "CREATE_CLUSTER"):
            await self._yard.fleet.delete([place.name for pool in self._pools(operation) for place in places(pool)])
        self._end_badly(operation, failure)

    def _end_badly(self, operation: Document, failure: Failure) -> None:
        yard, kind = self._yard, operation.body["operationType"]
        for pool in self._pools(operation):
            if not operation.inner["hidden"]:
                dropped = outcomes.failed(pool, kind, failure, yard.fleet.is_there)
                yard.fleet.free(place.number for place in dropped)
                yard.put(pool)
        if not operation.inner["pool"]:
            cluster = yard.cluster(operation.inner["cluster"])
            cluster.body |= outcomes.cluster_failed(kind, failure)
            yard.clusters.put(cluster)
        self._finish(operation, failure)
