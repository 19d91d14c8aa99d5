"""Runs controllers as a program does: pages for probes and numbers, one leader of several copies, a clean end on a signal."""

from __future__ import annotations

import asyncio
import signal
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from sliceworks.controllers.serving import PageServer, health, numbers
from sliceworks.kube.leader import LeaderElection, Timing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sliceworks.base.metrics import Registry
    from sliceworks.kube.client import Client

OFF = ("", "0")


class Runs(Protocol):
    """A controller: `run` works until it is cancelled, `ready` tells whether its caches are filled."""

    @property
    def ready(self) -> bool:
        """Whether its caches are filled."""
        ...

    async def run(self) -> None:
        """Work until cancelled."""
        ...


@dataclass(frozen=True, slots=True)
class Settings:
    """How a program of controllers runs. Empty addresses, or `0`, serve nothing."""

    metrics_address: str = "127.0.0.1:8078"
    probe_address: str = "127.0.0.1:8079"
    elect: bool = False
    lease_name: str = "controller.kro.run"
    lease_namespace: str = ""
    timing: Timing = field(default_factory=Timing)


async def run(client: Client, controllers: Sequence[Runs], registry: Registry, settings: Settings) -> None:
    """Run until a signal ends it, or a controller fails for good."""
    standing = _Standing(controllers)
    async with AsyncExitStack() as stack:
        if settings.metrics_address not in OFF:
            await stack.enter_async_context(PageServer(settings.metrics_address, numbers(registry.text)))
        if settings.probe_address not in OFF:
            await stack.enter_async_context(PageServer(settings.probe_address, health(standing.ready)))
        work = asyncio.ensure_future(_lead(client, standing, settings))
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, work.cancel)
        try:
            await work
        except asyncio.CancelledError:
            if not work.cancelled():
                raise
        finally:
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.remove_signal_handler(number)


class _Standing:
    """The controllers, at work or standing by for the leader."""

    def __init__(self, controllers: Sequence[Runs]) -> None:
        self._controllers = controllers
        self._standing_by = False

    def ready(self) -> bool:
        """A copy that stands by is ready too: it would take over at once."""
        return self._standing_by or all(controller.ready for controller in self._controllers)

    async def work(self) -> None:
        self._standing_by = False
        async with asyncio.TaskGroup() as group:
            for controller in self._controllers:
                group.create_task(controller.run())

    def stand_by(self) -> None:
        self._standing_by = True


async def _lead(client: Client, standing: _Standing, settings: Settings) -> None:
    if not settings.elect:
        await standing.work()
        return
    standing.stand_by()
    namespace = settings.lease_namespace or client.namespace
    election = LeaderElection(client, settings.lease_name, namespace, timing=settings.timing)
    await election.run(standing.work, on_lost=standing.stand_by)
