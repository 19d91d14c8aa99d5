"""The cloud's side: one picture of all node pools, the requests under way, and what became of them."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from sliceworks.base import clock
from sliceworks.base.errors import (
    CloudAlreadyExists,
    CloudError,
    CloudNotFound,
    FailedPrecondition,
    SliceworksError,
    TooManyOperations,
    Unauthenticated,
    Unreachable,
)
from sliceworks.controllers.slices.bodies import read_pool
from sliceworks.controllers.slices.flights import Flight, poll_after
from sliceworks.controllers.slices.reading import problem
from sliceworks.controllers.slices.steps import reason_of
from sliceworks.controllers.slices.telling import Teller
from sliceworks.controllers.slices.views import Problem
from sliceworks.controllers.slices.window import Window
from sliceworks.controllers.slices.world import Create, Delete, Failure

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from typing import Any, Literal

    from sliceworks.cloud.container import Container
    from sliceworks.cloud.operations import Fault, Operation
    from sliceworks.controllers.slices.metrics import Metrics
    from sliceworks.controllers.slices.views import Pool, Ref
    from sliceworks.kube.events import EventRecorder

log = logging.getLogger(__name__)
_FIRST_PAUSE, _LONGEST_PAUSE = 2.0, 300.0


class Cloud:
    """Sends requests without waiting for their operations; `changed` is called whenever there is something new to decide on."""

    def __init__(
        self, container: Container, events: EventRecorder, metrics: Metrics, *, start: int, changed: Callable[[], None]
    ) -> None:
        self.pools: dict[str, Pool] = {}
        self.asked = False  # whether the cloud has answered once, well or not
        self.trouble: Problem | None = None
        self.failures: dict[Ref, Failure] = {}
        self.working: dict[str, float] = {}
        self.window = Window(start)
        self._container, self._metrics, self._changed = container, metrics, changed
        self._teller = Teller(events, metrics)
        self._flights: dict[str, Flight] = {}
        self._faults: dict[str, Fault] = {}
        self._later: dict[str, tuple[int, float]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._news = asyncio.Event()  # there is something new under way: a LIST may be due earlier
        self._waiting = False
        self._troubles = 0

    def busy(self) -> dict[str, Literal["create", "delete"]]:
        """The pools that a request is under way for."""
        return {name: flight.kind for name, flight in self._flights.items()}

    def room(self) -> int:
        """How many requests may be sent now."""
        return self.window.free(len(self._flights), clock.loop_time())

    def take(self, action: Create | Delete) -> float | None:
        """Send a request if there is room; else seconds after which to ask again, or None where a change will tell."""
        now = clock.loop_time()
        flight = self._flights.get(action.name)
        if flight is not None:
            if not (isinstance(action, Delete) and flight.kind == "create" and flight.operation):
                return None
            del self._flights[action.name]  # what is being made is no longer wanted
        _, not_before = self._later.get(action.name, (0, 0.0))
        if not_before > now:
            return not_before - now
        if self.window.free(len(self._flights), now) <= 0:
            self._waiting = True
            return self.window.resumes(now)
        kind: Literal["create", "delete"] = "create" if isinstance(action, Create) else "delete"
        self._flights[action.name] = begun = Flight(kind, action, now)
        self._spawn(self._send(begun))
        return None

    def begin(self) -> None:
        """A new round of actions comes: forget whether the last one had to wait."""
        self._waiting = False

    async def follow(self) -> None:
        """Keep the picture of all pools true, until cancelled: a LIST when it is due, however many requests made it so."""
        while True:
            await self.refresh()
            self._changed()
            listed = clock.loop_time()
            while (rest := listed + self._rest() - clock.loop_time()) > 0:
                self._news.clear()
                try:
                    async with asyncio.timeout(rest):
                        await self._news.wait()
                except TimeoutError:
                    break

    async def refresh(self) -> None:
        """One LIST of all pools, and what it says about the requests under way."""
        began = clock.loop_time()
        try:
            raw = await self._container.node_pools()
        except SliceworksError as error:
            self._lost(error)
            return
        finally:
            self.asked = True
        if self.trouble is not None and self._troubles:
            log.warning("the cloud answers again")
        self.trouble, self._troubles = None, 0
        self._metrics.lists.add()
        self.pools = {pool.name: self._explained(pool) for pool in map(read_pool, raw)}
        now = clock.now().timestamp()
        works = (pool.name for pool in self.pools.values() if pool.status in ("RUNNING", "RECONCILING"))
        self.working = {name: self.working.get(name, now) for name in works}
        self._metrics.pools = Counter(pool.status for pool in self.pools.values() if pool.ours)
        for flight in [each for each in self._flights.values() if each.began < began]:
            if flight.unsure and self._flies(flight):
                del self._flights[flight.name]
            elif flight.operation and self._flies(flight):
                await self._settle(flight)
        self._metrics.in_flight, self._metrics.limit = len(self._flights), self.window.limit

    async def close(self) -> None:
        """Let go of requests under way: what they have begun is found again by whoever comes next."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _rest(self) -> float:
        if self.trouble is not None:
            return min(_LONGEST_PAUSE, _FIRST_PAUSE * 2.0 ** min(self._troubles - 1, 10))
        flights = list(self._flights.values())
        return poll_after(flights, clock.loop_time(), waiting=self._waiting or any(each.unsure for each in flights))

    def _lost(self, error: SliceworksError) -> None:
        found = problem(error)
        if isinstance(error, CloudNotFound):
            found = Problem("ClusterNotFound", found.message)
        if self.trouble != found:
            log.error("the node pools cannot be listed: %s", found.message)
        self.trouble = found
        self._troubles += 1

    async def _send(self, flight: Flight) -> None:
        try:
            operation = await self._ask(flight.action)
        except SliceworksError as error:
            del self._flights[flight.name]
            self._refused(flight, error)
        except Exception:
            log.exception("node pool %s: a bug; what became of it shows in the next list", flight.name)
            self._unsure(flight, clock.loop_time())
        else:
            # Only a LIST that begins from now on is sure to show what became of it.
            flight.operation, flight.began = operation.name, clock.loop_time()
            self.window.accepted(len(self._flights))
            self._teller.started(flight)
            if isinstance(flight.action, Create):
                self.failures.pop(flight.action.job, None)
        finally:
            self._news.set()
            self._changed()

    async def _ask(self, action: Create | Delete) -> Operation:
        if isinstance(action, Create):
            return await self._container.create(dict(action.body))
        try:
            return await self._container.delete(action.name)
        except FailedPrecondition:
            if action.cancel:
                await self._cancel(action.name)
            raise

    async def _cancel(self, name: str) -> None:
        """Stop what is still making a pool that is to go."""
        for operation in await self._container.operations():
            if operation.target == name and not operation.done:
                try:
                    await self._container.cancel(operation.name)
                except CloudError as error:
                    log.info("the operation %s cannot be stopped: %s", operation.name, error)

    def _refused(self, flight: Flight, error: SliceworksError) -> None:
        now = clock.loop_time()
        self._metrics.operations.add(flight.kind, type(error).__name__)
        running = sum(bool(each.operation) for each in self._flights.values())
        if flight.kind == "delete" and isinstance(error, FailedPrecondition):
            self._put_off(flight.name, now)  # something goes on with this pool: that says nothing about others
        elif isinstance(error, TooManyOperations | FailedPrecondition):
            self.window.refused(running, now, error.retry_after or 0.0, full=isinstance(error, TooManyOperations))
        elif isinstance(error, CloudAlreadyExists) or (flight.kind == "delete" and isinstance(error, CloudNotFound)):
            self._unsure(flight, now)
        elif isinstance(error, Unreachable | Unauthenticated) or (isinstance(error, CloudError) and error.temporary):
            self.window.refused(running, now, full=False)
            log.warning("node pool %s: %s", flight.name, error)
            self._unsure(flight, now)
        elif isinstance(flight.action, Create):
            self._failed(flight.action, problem(error))
        else:
            self._put_off(flight.name, now)
            self._teller.deletion_failed(flight.action, problem(error).message)

    def _unsure(self, flight: Flight, now: float) -> None:
        """Somebody was faster, or the answer was lost: nothing more is asked for this pool before a LIST shows what is."""
        self._flights[flight.name] = replace(flight, began=now, operation="", unsure=True)

    def _put_off(self, name: str, now: float) -> None:
        times = self._later.get(name, (0, 0.0))[0] + 1
        self._later[name] = (times, now + min(_LONGEST_PAUSE, _FIRST_PAUSE * 2.0 ** min(times - 1, 10)))

    async def _settle(self, flight: Flight) -> None:
        """What a LIST says about a request: it is done, it failed, or it goes on."""
        pool = self.pools.get(flight.name)
        status = pool.status if pool is not None else ""
        if status == ("PROVISIONING" if flight.kind == "create" else "STOPPING"):
            return
        well = status in ("RUNNING", "RECONCILING") if flight.kind == "create" else not status
        if well:
            self._ended(flight)
            self._later.pop(flight.name, None)
            self._teller.succeeded(flight)
            return
        operation = await self._operation(flight)
        if (operation is not None and not operation.done) or not self._flies(flight):
            return
        self._ended(flight)
        fault = operation.fault if operation is not None else None
        if isinstance(flight.action, Delete):
            self._put_off(flight.name, clock.loop_time())
            self._teller.deletion_failed(flight.action, fault.message if fault is not None else f"it is still in state {status}")
        elif pool is None:
            why = Problem(reason_of(fault.code), fault.message) if fault is not None else Problem("Gone", "it was deleted at once")
            self._failed(flight.action, why)
        elif fault is not None and (pool.fault is None or pool.fault.code == "UNKNOWN"):
            self._faults[pool.name] = fault
            self.pools[pool.name] = replace(pool, fault=fault)

    async def _operation(self, flight: Flight) -> Operation | None:
        try:
            return await self._container.operation(flight.operation)
        except SliceworksError as error:
            log.info("the operation %s cannot be read: %s", flight.operation, error)
            return None

    def _flies(self, flight: Flight) -> bool:
        """Whether this request has not given way to a later one meanwhile."""
        return self._flights.get(flight.name) is flight

    def _ended(self, flight: Flight) -> None:
        self._flights.pop(flight.name, None)
        self.window.finished()

    def _explained(self, pool: Pool) -> Pool:
        """A broken pool with the words of the operation that broke it, where the pool itself has none."""
        fault = self._faults.get(pool.name)
        if fault is None:
            return pool
        if pool.status not in ("ERROR", "RUNNING_WITH_ERROR"):
            del self._faults[pool.name]
            return pool
        return replace(pool, fault=fault) if pool.fault is None or pool.fault.code == "UNKNOWN" else pool

    def _failed(self, action: Create, why: Problem) -> None:
        self.failures[action.job] = Failure(action.attempt, why)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
