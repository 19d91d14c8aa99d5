"""The slices controller: watches, decides, performs. One look at everything whenever something changes."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Self

from sliceworks.base import clock
from sliceworks.base.metrics import Registry
from sliceworks.controllers.slices import words
from sliceworks.controllers.slices.cloudside import Cloud
from sliceworks.controllers.slices.clusterside import Cluster
from sliceworks.controllers.slices.decide import decide
from sliceworks.controllers.slices.metrics import Metrics
from sliceworks.controllers.slices.watching import Watching
from sliceworks.controllers.slices.world import Create, Decision, Delete, World
from sliceworks.kube.events import EventRecorder

if TYPE_CHECKING:
    from sliceworks.cloud.container import Container
    from sliceworks.controllers.slices.settings import Settings
    from sliceworks.controllers.slices.views import Ref
    from sliceworks.kube.client import Client

log = logging.getLogger(__name__)
_GATHER = 0.005  # seconds in which changes that come together become one look
_AFTER_A_BUG = 10.0
_EVENTS = 10_000  # that may wait to be written: a thousand slices at once tell several thousand
_AGAIN = 60.0  # seconds after which everything is looked at though nothing changed


class SlicesController:
    """Makes and gives back node pools for one cluster. `run` works until cancelled, and can be run again."""

    def __init__(self, client: Client, container: Container, settings: Settings, numbers: Registry | Metrics | None = None) -> None:
        # Whoever runs it again gives the numbers that it has: one registry names each of them once.
        self.metrics = numbers if isinstance(numbers, Metrics) else Metrics(numbers or Registry())
        self.ready = False
        self.settings = settings
        self._client, self._container = client, container
        self._dirty = asyncio.Event()

    async def run(self) -> None:
        """Watch, decide and perform."""
        async with _Hands(self) as hands:
            self.ready = True
            try:
                async with asyncio.TaskGroup() as group:
                    group.create_task(hands.cloud.follow(), name="node pools")
                    group.create_task(self._look(hands), name="slices")
            finally:
                self.ready = False

    def changed(self) -> None:
        """Something is new: look at everything soon."""
        self._dirty.set()

    async def _look(self, hands: _Hands) -> None:
        while True:
            self._dirty.clear()
            began = clock.effort()
            after = await self._step(hands) if hands.cloud.asked else _AGAIN
            took = clock.effort() - began
            self.metrics.decisions.observe(took)
            # A look takes longer the more there is to see: rest as long, so that everything else has its turn.
            await clock.sleep(max(_GATHER, took))
            try:
                async with asyncio.timeout(after):
                    await self._dirty.wait()
            except TimeoutError:
                continue

    async def _step(self, hands: _Hands) -> float:
        """One look at everything; seconds after which to look again though nothing changes."""
        try:
            return hands.perform(decide(hands.world(), self.settings))
        except Exception:
            log.exception("a bug; looking again in %g s", _AFTER_A_BUG)
            await clock.sleep(_AFTER_A_BUG)
            return 0.0


class _Hands:
    """What one run of the controller holds: watches, the two sides, and events."""

    def __init__(self, controller: SlicesController) -> None:
        client, metrics, changed = controller._client, controller.metrics, controller.changed
        self._controller, self._client = controller, client
        self._seen: dict[Ref, Ref] = {}
        self.watching = Watching(client, controller.settings, changed)
        self.events = EventRecorder(client, words.COMPONENT, waiting=_EVENTS)
        start = controller.settings.concurrency
        self.cloud = Cloud(controller._container, self.events, metrics, start=start, changed=changed)
        resources = self.watching.resources
        self.cluster = Cluster(client, self.events, metrics, resources=resources, seen=self.watching.seen, changed=changed)

    async def __aenter__(self) -> Self:
        await self.watching.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.cloud.close()
        await self.cluster.close()
        await self.watching.close()
        await self.events.close(timeout=2.0)

    def world(self) -> World:
        """Everything as it stands now."""
        watching, cloud = self.watching, self.cloud
        leaders, jobsets = watching.leaders(), watching.jobsets()
        self._controller.metrics.waiting = len(leaders)
        waited = {**self._seen, **{job: leader.jobset for job, leader in leaders.items()}}
        self._seen = {job: jobset for job, jobset in waited.items() if jobset in jobsets}
        return World(
            now=clock.now().timestamp(),
            leaders=leaders,
            jobsets=jobsets,
            pools=cloud.pools,
            busy=cloud.busy(),
            working=cloud.working,
            seen=self._seen,
            seats=watching.seats.taken(jobsets, leaders),
            failures=cloud.failures,
            workloads=watching.workloads(),
            checks=watching.checks(),
            idle_checks=watching.idle_checks(),
            flavors=watching.flavors(),
            room=cloud.room(),
            trouble=cloud.trouble,
        )

    def perform(self, decision: Decision) -> float:
        """Begin what was decided; returns seconds after which to look again."""
        after = _AGAIN
        if decision.wake is not None:
            after = min(after, max(decision.wake - clock.now().timestamp(), 0.0) + 0.01)
        self.cloud.begin()
        for action in decision.actions:
            again = self.cloud.take(action) if isinstance(action, Create | Delete) else self.cluster.take(action)
            if again is not None:
                after = min(after, again + 0.01)
        return after
