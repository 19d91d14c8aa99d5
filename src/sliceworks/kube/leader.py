"""Leader election: of several copies of a program, the one that holds a Lease works.

Clocks of different machines disagree, so no time that another copy wrote is ever compared with ours: a lease has run out when it
has not changed for its duration as we watched it.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from sliceworks.base import clock
from sliceworks.base.errors import AlreadyExists, Conflict, SliceworksError
from sliceworks.kube.backoff import NEVER
from sliceworks.kube.well_known import LEASE

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from sliceworks.kube.client import Client
    from sliceworks.kube.resources import Object

log = logging.getLogger(__name__)
T = TypeVar("T")

_JITTER = 1.2


@dataclass(frozen=True, slots=True)
class Timing:
    """A lease lasts `lease` seconds; its holder gives up after `renew` seconds without success, and tries every `retry`."""

    lease: int = 15
    renew: float = 10.0
    retry: float = 2.0

    def __post_init__(self) -> None:
        if not self.lease > self.renew > self.retry * _JITTER > 0:
            raise ValueError("a lease must outlast its renewal, and a renewal several tries")


class LeaderElection:
    """One candidate for one Lease."""

    def __init__(self, client: Client, name: str, namespace: str, *, identity: str = "", timing: Timing | None = None) -> None:
        self.identity = identity or f"{socket.gethostname()}_{clock.uid()}"
        self.leader = ""
        # Each try has a time of its own: the client must not spend several on one.
        self._client = client.using(retry=NEVER)
        self._name, self._namespace = name, namespace
        self._timing = timing or Timing()
        self._seen: Object | None = None
        self._seen_spec: dict[str, Any] = {}
        self._seen_at = 0.0

    @property
    def is_leader(self) -> bool:
        """Whether this candidate held the lease when it last looked."""
        return self.leader == self.identity

    async def run(self, lead: Callable[[], Awaitable[T]], on_lost: Callable[[], None] | None = None) -> T:
        """Run `lead` while holding the lease, and return what it returns.

        When the lease is lost, `lead` is cancelled, `on_lost` is called and the candidate stands again. The lease is given back
        when `lead` ends or this is cancelled.
        """
        try:
            while True:
                await self._acquire()
                log.info("%s leads %s/%s", self.identity, self._namespace, self._name)
                work = asyncio.ensure_future(lead())
                held = asyncio.create_task(self._hold())
                try:
                    await asyncio.wait((work, held), return_when=asyncio.FIRST_COMPLETED)
                    if work.done():
                        return work.result()
                finally:
                    await _end(held, work)
                log.warning("%s no longer leads %s/%s", self.identity, self._namespace, self._name)
                if on_lost is not None:
                    on_lost()
        finally:
            await self._release()

    async def _acquire(self) -> None:
        while not await self._try():
            await clock.sleep(self._timing.retry * (1 + _JITTER * clock.randomness().random()))

    async def _hold(self) -> None:
        """Return when the lease is lost."""
        renewed = clock.loop_time()
        while True:
            await clock.sleep(self._timing.retry)
            left = renewed + self._timing.renew - clock.loop_time()
            try:
                async with asyncio.timeout(max(left, 0)):
                    if await self._try():
                        renewed = clock.loop_time()
                        continue
            except TimeoutError:
                log.warning("the lease %s/%s could not be renewed in time", self._namespace, self._name)
            if not self.is_leader or clock.loop_time() - renewed >= self._timing.renew:
                self.leader = ""
                return

    async def _try(self) -> bool:
        """Look at the lease and take or renew it if that is allowed; whether it is ours now."""
        try:
            lease = await self._client.find(LEASE, self._name, self._namespace)
            if lease is None:
                self._observe(await self._client.create(self._fresh(), self._namespace, resource=LEASE))
                return True
            self._observe(lease)
            if self.leader and not self.is_leader and not self._has_run_out():
                return False
            self._observe(await self._client.replace(self._claimed(lease), resource=LEASE))
        except (Conflict, AlreadyExists):
            return False
        except SliceworksError as error:
            log.warning("the lease %s/%s: %s", self._namespace, self._name, error)
            return False
        return True

    def _observe(self, lease: Object) -> None:
        spec = lease.get("spec") or {}
        if self._seen is None or spec != self._seen_spec:
            self._seen_spec, self._seen_at = spec, clock.loop_time()
        self._seen = lease
        self.leader = spec.get("holderIdentity") or ""

    def _has_run_out(self) -> bool:
        return clock.loop_time() >= self._seen_at + (self._seen_spec.get("leaseDurationSeconds") or 0)

    def _fresh(self) -> Object:
        metadata = {"name": self._name, "namespace": self._namespace}
        return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": self._claim(0)}

    def _claimed(self, lease: Object) -> Object:
        transitions = self._seen_spec.get("leaseTransitions") or 0
        if not self.is_leader:
            return {**lease, "spec": {**self._seen_spec, **self._claim(transitions + 1)}}
        renewed = {"renewTime": clock.micro_timestamp(), "leaseDurationSeconds": self._timing.lease}
        return {**lease, "spec": {**self._seen_spec, **renewed}}

    def _claim(self, transitions: int) -> dict[str, Any]:
        moment = clock.micro_timestamp()
        return {
            "holderIdentity": self.identity,
            "leaseDurationSeconds": self._timing.lease,
            "acquireTime": moment,
            "renewTime": moment,
            "leaseTransitions": transitions,
        }

    async def _release(self) -> None:
        if not self.is_leader or self._seen is None:
            return
        self.leader = ""
        spec = {**self._seen_spec, "holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": clock.micro_timestamp()}
        try:
            async with asyncio.timeout(self._timing.retry):
                await self._client.replace({**self._seen, "spec": spec}, resource=LEASE)
        except (SliceworksError, TimeoutError) as error:
            log.info("the lease %s/%s was not given back: %s", self._namespace, self._name, error)


async def _end(*tasks: asyncio.Future[Any]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
