"""Leader election: of several replicas, the one that holds the Lease runs.

Clocks of different machines disagree, so timestamps of other candidates are never compared with the local clock: a lease is expired
if it was observed unchanged for its whole duration.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from sliceworks.base import clock
from sliceworks.base.errors import AlreadyExists, Conflict, SliceworksError
from sliceworks.base.retry import NEVER
from sliceworks.kube.resources import LEASE

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from sliceworks.kube.client import Client
    from sliceworks.kube.resources import Object

log = logging.getLogger(__name__)
T = TypeVar("T")

_JITTER = 1.2


@dataclass(frozen=True, slots=True)
class LeaseTiming:
    """Lease duration, renew deadline and retry period in seconds, as in client-go."""

    lease: int = 15
    renew: float = 10.0
    retry: float = 2.0

    def __post_init__(self) -> None:
        if not self.lease > self.renew > self.retry * _JITTER > 0:
            raise ValueError("timing: must satisfy lease > renew > 1.2 * retry > 0")


class LeaderElection:
    """One candidate for one Lease."""

    def __init__(self, client: Client, name: str, namespace: str, *, identity: str = "", timing: LeaseTiming | None = None) -> None:
        self.identity = identity or f"{socket.gethostname()}_{clock.uid()}"
        self.leader = ""
        # No retries in the client: each attempt has its own deadline.
        self._client = client.using(retry=NEVER)
        self._name, self._namespace = name, namespace
        self._timing = timing or LeaseTiming()
        self._observed: Object | None = None
        self._observed_spec: dict[str, Any] = {}
        self._observed_at = 0.0

    @property
    def is_leader(self) -> bool:
        """Whether this candidate held the lease at the last observation."""
        return self.leader == self.identity

    async def run(self, lead: Callable[[], Awaitable[T]], on_lost: Callable[[], None] | None = None) -> T:
        """Run `lead` while holding the lease, and return its result.

        If the lease is lost, `lead` is cancelled, `on_lost` is called and the candidate tries to acquire the lease again. The lease
        is released when `lead` returns or this coroutine is cancelled.
        """
        try:
            while True:
                await self._acquire()
                log.info("%s became leader of lease %s/%s", self.identity, self._namespace, self._name)
                work = asyncio.ensure_future(lead())
                renewal = asyncio.create_task(self._renew_until_lost())
                try:
                    await asyncio.wait((work, renewal), return_when=asyncio.FIRST_COMPLETED)
                    if work.done():
                        return work.result()
                finally:
                    await _cancel(renewal, work)
                log.warning("%s lost lease %s/%s", self.identity, self._namespace, self._name)
                if on_lost is not None:
                    on_lost()
        finally:
            await self._release()

    async def _acquire(self) -> None:
        while not await self._try_acquire_or_renew():
            await clock.sleep(self._timing.retry * (1 + _JITTER * clock.rng().random()))

    async def _renew_until_lost(self) -> None:
        """Return when the lease is lost."""
        renewed = clock.loop_time()
        while True:
            await clock.sleep(self._timing.retry)
            left = renewed + self._timing.renew - clock.loop_time()
            try:
                async with asyncio.timeout(max(left, 0)):
                    if await self._try_acquire_or_renew():
                        renewed = clock.loop_time()
                        continue
            except TimeoutError:
                log.warning("failed to renew lease %s/%s before the deadline", self._namespace, self._name)
            if not self.is_leader or clock.loop_time() - renewed >= self._timing.renew:
                self.leader = ""
                return

    async def _try_acquire_or_renew(self) -> bool:
        """Acquire or renew the lease if it is free, expired or ours; returns whether this candidate holds it."""
        try:
            lease = await self._client.find(LEASE, self._name, self._namespace)
            if lease is None:
                self._observe(await self._client.create(self._new_lease(), self._namespace, resource=LEASE))
                return True
            self._observe(lease)
            if self.leader and not self.is_leader and not self._is_expired():
                return False
            self._observe(await self._client.replace(self._updated_lease(lease), resource=LEASE))
        except (Conflict, AlreadyExists):
            return False
        except SliceworksError as error:
            log.warning("lease %s/%s: %s", self._namespace, self._name, error)
            return False
        return True

    def _observe(self, lease: Object) -> None:
        spec = lease.get("spec") or {}
        if self._observed is None or spec != self._observed_spec:
            self._observed_spec, self._observed_at = spec, clock.loop_time()
        self._observed = lease
        self.leader = spec.get("holderIdentity") or ""

    def _is_expired(self) -> bool:
        return clock.loop_time() >= self._observed_at + (self._observed_spec.get("leaseDurationSeconds") or 0)

    def _new_lease(self) -> Object:
        metadata = {"name": self._name, "namespace": self._namespace}
        return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": self._new_spec(0)}

    def _updated_lease(self, lease: Object) -> Object:
        transitions = self._observed_spec.get("leaseTransitions") or 0
        if not self.is_leader:
            return {**lease, "spec": {**self._observed_spec, **self._new_spec(transitions + 1)}}
        renewed = {"renewTime": clock.micro_timestamp(), "leaseDurationSeconds": self._timing.lease}
        return {**lease, "spec": {**self._observed_spec, **renewed}}

    def _new_spec(self, transitions: int) -> dict[str, Any]:
        now = clock.micro_timestamp()
        return {
            "holderIdentity": self.identity,
            "leaseDurationSeconds": self._timing.lease,
            "acquireTime": now,
            "renewTime": now,
            "leaseTransitions": transitions,
        }

    async def _release(self) -> None:
        if not self.is_leader or self._observed is None:
            return
        self.leader = ""
        spec = {**self._observed_spec, "holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": clock.micro_timestamp()}
        try:
            async with asyncio.timeout(self._timing.retry):
                await self._client.replace({**self._observed, "spec": spec}, resource=LEASE)
        except (SliceworksError, TimeoutError) as error:
            log.info("failed to release lease %s/%s: %s", self._namespace, self._name, error)


async def _cancel(*tasks: asyncio.Future[Any]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
