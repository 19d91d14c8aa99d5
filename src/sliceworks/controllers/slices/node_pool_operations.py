"""Lists node pools, starts create and delete operations within an adaptive concurrency limit, and tracks them."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

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
from sliceworks.base.retry import Backoff
from sliceworks.controllers.slices.model import ANY_CLUSTER, CreateNodePool, DeleteNodePool, FailedAttempt, Problem
from sliceworks.controllers.slices.node_pool import read_cluster, read_pool
from sliceworks.controllers.slices.object_views import problem_from
from sliceworks.controllers.slices.provisioner import condition_reason
from sliceworks.controllers.slices.telemetry import OperationReporter

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from typing import Any

    from sliceworks.cloud.container import Container, Fault, Operation
    from sliceworks.controllers.slices.model import NodePool
    from sliceworks.controllers.slices.telemetry import Metrics
    from sliceworks.kube.events import EventRecorder
    from sliceworks.kube.resources import Key

log = logging.getLogger(__name__)
_FAST_POLL, _SLOW_POLL, _MAX_POLL, _IDLE_POLL = 0.2, 1.0, 10.0, 60.0
_CLUSTER_INTERVAL = 600.0  # seconds between reads of the cluster
_LIMIT_BACKOFF = Backoff(first=0.5, cap=30.0, jitter=0.0)
_RETRY_BACKOFF = Backoff(first=2.0, cap=300.0, jitter=0.0)


@dataclass(slots=True)
class PendingOperation:
    """One request and its operation. `operation` is empty until the API accepts the request; `started` is loop time.

    If `is_unknown`, the outcome of the request is unknown until a later LIST shows it.
    """

    kind: Literal["create", "delete"]
    action: CreateNodePool | DeleteNodePool
    started: float
    operation: str = ""
    is_unknown: bool = False

    @property
    def name(self) -> str:
        return self.action.name


def poll_interval(pending_operations: list[PendingOperation], now: float, *, waiting: bool) -> float:
    """Seconds until the next LIST: short for young operations, and while other requests wait for a free slot."""
    if not pending_operations:
        return _IDLE_POLL
    age = now - max(pending.started for pending in pending_operations)
    return min(max(age / 10, _FAST_POLL if waiting else _SLOW_POLL), _MAX_POLL)


class OperationLimit:
    """An adaptive limit of concurrent operations: it grows while requests are accepted, and shrinks when one is rejected.

    Times are loop times in seconds.
    """

    def __init__(self, start: int) -> None:
        self.limit = float(max(start, 1))
        self._proven = 0.0
        self._was_rejected = False
        self._rejections = 0
        self._pause_until = 0.0

    def available(self, in_flight: int, now: float) -> int:
        """The number of operations that can be started now."""
        return 0 if now < self._pause_until else max(int(self.limit) - in_flight, 0)

    def resume_after(self, now: float) -> float | None:
        """Seconds until the pause after a rejection ends; None if there is no pause."""
        return self._pause_until - now if self._pause_until > now else None

    def record_accepted(self, running: int) -> None:
        """A request was accepted; `running` includes it."""
        self._rejections = 0
        self._proven = max(self._proven, float(running))
        if not self._was_rejected:
            self.limit += 1.0

    def record_rejected(self, running: int, now: float, at_least: float = 0.0, *, full: bool = True) -> None:
        """A request was rejected while `running` others were pending; `full` if it was because of their number."""
        self._was_rejected = True
        self.limit = float(max(running, 1))
        if full:
            self._proven = self.limit
        self._rejections += 1
        self._pause_until = now + max(_LIMIT_BACKOFF.delay(self._rejections), at_least)

    def record_finished(self) -> None:
        """An operation has ended."""
        self._pause_until = 0.0
        if self._was_rejected:
            self.limit += 1.0 if self.limit < self._proven else 1.0 / self.limit


class NodePoolManager:
    """Starts operations in the background and lists node pools; calls `changed` when the snapshot has changed."""

    def __init__(
        self, container: Container, events: EventRecorder, metrics: Metrics, *, start: int, changed: Callable[[], None]
    ) -> None:
        self.pools: dict[str, NodePool] = {}
        self.has_listed = False  # whether a LIST has completed, successfully or not
        self.listing_since: float | None = None  # when the running LIST started
        self.cloud_error: Problem | None = None
        self.failures: dict[Key, FailedAttempt] = {}
        self.running_since: dict[str, float] = {}
        self.cluster = ANY_CLUSTER
        self._cluster_read_at: float | None = None
        self.operation_limit = OperationLimit(start)
        self._container, self._metrics, self._changed = container, metrics, changed
        self._reporter = OperationReporter(events, metrics)
        self._pending: dict[str, PendingOperation] = {}
        self._faults: dict[str, Fault] = {}
        self._backoffs: dict[str, tuple[int, float]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._wake_up = asyncio.Event()  # set by new operations, which may need an earlier LIST
        self._has_waiting = False
        self._failed_lists = 0

    def pending_operations(self) -> dict[str, Literal["create", "delete"]]:
        """The node pools with a pending operation."""
        return {name: pending.kind for name, pending in self._pending.items()}

    def available_operations(self) -> int:
        """The number of operations that can be started now."""
        return self.operation_limit.available(len(self._pending), clock.loop_time())

    def start(self, action: CreateNodePool | DeleteNodePool) -> float | None:
        """Start an operation if the limit allows it; else the seconds until a retry, or None to wait for a change."""
        now = clock.loop_time()
        pending = self._pending.get(action.name)
        if pending is not None:
            if not (isinstance(action, DeleteNodePool) and pending.kind == "create" and pending.operation):
                return None
            del self._pending[action.name]  # the deletion supersedes the creation
        _, not_before = self._backoffs.get(action.name, (0, 0.0))
        if not_before > now:
            return not_before - now
        if self.operation_limit.available(len(self._pending), now) <= 0:
            self._has_waiting = True
            return self.operation_limit.resume_after(now)
        kind: Literal["create", "delete"] = "create" if isinstance(action, CreateNodePool) else "delete"
        self._pending[action.name] = pending = PendingOperation(kind, action, now)
        self._spawn(self._send(pending))
        return None

    def begin_round(self) -> None:
        """Start a new round of actions."""
        self._has_waiting = False

    async def poll(self) -> None:
        """List node pools whenever that is due, until cancelled."""
        while True:
            self.listing_since = clock.loop_time()
            await self.refresh()
            self.listing_since = None
            self._changed()
            listed = clock.loop_time()
            while (wait := listed + self._poll_delay() - clock.loop_time()) > 0:
                self._wake_up.clear()
                try:
                    async with asyncio.timeout(wait):
                        await self._wake_up.wait()
                except TimeoutError:
                    break

    async def refresh(self) -> None:
        """List all node pools, and update the pending operations."""
        started = clock.loop_time()
        try:
            raw = await self._container.list_node_pools()
        except SliceworksError as error:
            self._list_failed(error)
            return
        finally:
            self.has_listed = True
        if self.cloud_error is not None and self._failed_lists:
            log.warning("listing node pools succeeds again")
        self.cloud_error, self._failed_lists = None, 0
        self._metrics.lists.inc()
        await self._read_cluster()
        self.pools = {pool.name: self._with_fault(pool) for pool in map(read_pool, raw)}
        now = clock.now().timestamp()
        running = (pool.name for pool in self.pools.values() if pool.is_running)
        self.running_since = {name: self.running_since.get(name, now) for name in running}
        self._metrics.pools = Counter(pool.status for pool in self.pools.values() if pool.is_managed)
        for pending in [pending for pending in self._pending.values() if pending.started < started]:
            if pending.is_unknown and self._is_current(pending):
                del self._pending[pending.name]
            elif pending.operation and self._is_current(pending):
                await self._update_operation(pending)
        self._metrics.in_flight, self._metrics.limit = len(self._pending), self.operation_limit.limit

    async def _read_cluster(self) -> None:
        """Read what node pools depend on; if that fails, the last answer is kept, or what every cluster accepts."""
        now = clock.loop_time()
        if self._cluster_read_at is not None and now - self._cluster_read_at < _CLUSTER_INTERVAL:
            return
        self._cluster_read_at = now
        try:
            self.cluster = read_cluster(await self._container.get_cluster())
        except SliceworksError as error:
            log.warning("cannot read the cluster: %s", error)

    async def close(self) -> None:
        """Cancel pending requests; the next controller finds their operations by LIST."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _poll_delay(self) -> float:
        if self.cloud_error is not None:
            return _RETRY_BACKOFF.delay(self._failed_lists)
        pending_operations = list(self._pending.values())
        return poll_interval(
            pending_operations,
            clock.loop_time(),
            waiting=self._has_waiting or any(pending.is_unknown for pending in pending_operations),
        )

    def _list_failed(self, error: SliceworksError) -> None:
        problem = problem_from(error)
        if isinstance(error, CloudNotFound):
            problem = Problem("ClusterNotFound", problem.message)
        if self.cloud_error != problem:
            log.error("cannot list node pools: %s", problem.message)
        self.cloud_error = problem
        self._failed_lists += 1

    async def _send(self, pending: PendingOperation) -> None:
        try:
            operation = await self._request(pending.action)
        except SliceworksError as error:
            del self._pending[pending.name]
            self._request_failed(pending, error)
        except Exception:
            log.exception("node pool %s: unexpected error; the next LIST shows the outcome", pending.name)
            self._mark_unknown(pending, clock.loop_time())
        else:
            # Only a LIST that starts after this time is sure to show the outcome.
            pending.operation, pending.started = operation.name, clock.loop_time()
            self.operation_limit.record_accepted(len(self._pending))
            self._reporter.started(pending)
            if isinstance(pending.action, CreateNodePool):
                self.failures.pop(pending.action.job, None)
        finally:
            self._wake_up.set()
            self._changed()

    async def _request(self, action: CreateNodePool | DeleteNodePool) -> Operation:
        if isinstance(action, CreateNodePool):
            policy = action.body.get("placementPolicy") or {}
            if policy.get("policyName"):
                await self._container.ensure_workload_policy(policy["policyName"], policy["tpuTopology"])
            return await self._container.create_node_pool(dict(action.body))
        try:
            return await self._container.delete_node_pool(action.name)
        except FailedPrecondition:
            if action.cancel:
                await self._cancel(action.name)
            raise

    async def _cancel(self, name: str) -> None:
        """Cancel the operation that is creating a pool."""
        for operation in await self._container.list_operations():
            if operation.target == name and not operation.done:
                try:
                    await self._container.cancel_operation(operation.name)
                except CloudError as error:
                    log.info("cannot cancel operation %s: %s", operation.name, error)

    def _request_failed(self, pending: PendingOperation, error: SliceworksError) -> None:
        now = clock.loop_time()
        self._metrics.operations.inc(pending.kind, type(error).__name__)
        running = sum(bool(pending.operation) for pending in self._pending.values())
        if pending.kind == "delete" and isinstance(error, FailedPrecondition):
            self._back_off(pending.name, now)  # another operation on this pool; it does not affect others
        elif isinstance(error, TooManyOperations | FailedPrecondition):
            self.operation_limit.record_rejected(running, now, error.retry_after or 0.0, full=isinstance(error, TooManyOperations))
        elif isinstance(error, CloudAlreadyExists) or (pending.kind == "delete" and isinstance(error, CloudNotFound)):
            self._mark_unknown(pending, now)
        elif isinstance(error, Unreachable | Unauthenticated) or (isinstance(error, CloudError) and error.temporary):
            self.operation_limit.record_rejected(running, now, full=False)
            log.warning("node pool %s: %s", pending.name, error)
            self._mark_unknown(pending, now)
        elif isinstance(pending.action, CreateNodePool):
            self._record_failure(pending.action, problem_from(error))
        else:
            self._back_off(pending.name, now)
            self._reporter.deletion_failed(pending.action, problem_from(error).message)

    def _mark_unknown(self, pending: PendingOperation, now: float) -> None:
        """The outcome is unknown, or another client was first: wait for a LIST before the next request for this pool."""
        self._pending[pending.name] = replace(pending, started=now, operation="", is_unknown=True)

    def _back_off(self, name: str, now: float) -> None:
        times = self._backoffs.get(name, (0, 0.0))[0] + 1
        self._backoffs[name] = (times, now + _RETRY_BACKOFF.delay(times))

    async def _update_operation(self, pending: PendingOperation) -> None:
        """Update an operation from the last LIST: succeeded, failed or still running."""
        pool = self.pools.get(pending.name)
        status = pool.status if pool is not None else ""
        if status == ("PROVISIONING" if pending.kind == "create" else "STOPPING"):
            return
        if (pool is not None and pool.is_running) if pending.kind == "create" else pool is None:
            self._finish(pending)
            self._backoffs.pop(pending.name, None)
            self._reporter.succeeded(pending)
            return
        operation = await self._operation(pending)
        if (operation is not None and not operation.done) or not self._is_current(pending):
            return
        self._finish(pending)
        fault = operation.fault if operation is not None else None
        if isinstance(pending.action, DeleteNodePool):
            self._back_off(pending.name, clock.loop_time())
            self._reporter.deletion_failed(pending.action, fault.message if fault is not None else f"status is still {status}")
        elif pool is None:
            problem = (
                Problem(condition_reason(fault.code), fault.message)
                if fault is not None
                else Problem("Gone", "node pool was deleted immediately after its creation")
            )
            self._record_failure(pending.action, problem)
        elif fault is not None and (pool.fault is None or pool.fault.code == "UNKNOWN"):
            self._faults[pool.name] = fault
            self.pools[pool.name] = replace(pool, fault=fault)

    async def _operation(self, pending: PendingOperation) -> Operation | None:
        try:
            return await self._container.get_operation(pending.operation)
        except SliceworksError as error:
            log.info("cannot read operation %s: %s", pending.operation, error)
            return None

    def _is_current(self, pending: PendingOperation) -> bool:
        """Whether no later request has superseded this one."""
        return self._pending.get(pending.name) is pending

    def _finish(self, pending: PendingOperation) -> None:
        self._pending.pop(pending.name, None)
        self.operation_limit.record_finished()

    def _with_fault(self, pool: NodePool) -> NodePool:
        """A broken pool with the fault of its operation, if the pool does not have one."""
        fault = self._faults.get(pool.name)
        if fault is None:
            return pool
        if not pool.is_broken:
            del self._faults[pool.name]
            return pool
        return replace(pool, fault=fault) if pool.fault is None or pool.fault.code == "UNKNOWN" else pool

    def _record_failure(self, action: CreateNodePool, problem: Problem) -> None:
        self.failures[action.job] = FailedAttempt(action.attempt, problem)

    def _spawn(self, coroutine: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
