"""Controllers as a program: one leader of several copies, a clean end on a signal."""

from __future__ import annotations

import asyncio
import os
import signal
from dataclasses import replace

from tests.support.embedded import Embedded, on_twin

from sliceworks.base import clock
from sliceworks.base.metrics import Registry
from sliceworks.controllers import running
from sliceworks.controllers.running import Settings, run
from sliceworks.kube.client import Client

QUIET = Settings(metrics_address="0", probe_address="")


class Worker:
    """A controller that only says whether it works."""

    def __init__(self) -> None:
        self.ready = False

    async def run(self) -> None:
        self.ready = True
        try:
            await asyncio.Event().wait()
        finally:
            self.ready = False


def test_signal_ends_it() -> None:
    class Nothing:
        namespace = "default"

    async def main() -> None:
        worker = Worker()
        program = asyncio.create_task(run(Nothing(), [worker], Registry(), QUIET))  # type: ignore[arg-type]
        async with asyncio.timeout(30):
            while not worker.ready:
                await asyncio.sleep(0)
        os.kill(os.getpid(), signal.SIGTERM)
        await program
        assert not worker.ready

    asyncio.run(main())


def test_one_of_two_copies_works() -> None:
    async def only_lead(client: Client, worker: Worker) -> None:
        standing = running._Standing([worker])
        await running._lead(client, standing, replace(QUIET, elect=True, lease_namespace="default"))

    async def main(twin: Embedded) -> None:
        workers = [Worker(), Worker()]
        tasks = [asyncio.create_task(only_lead(Client(twin.cluster.transport()), worker)) for worker in workers]
        await clock.sleep(30)
        assert sorted(worker.ready for worker in workers) == [False, True]
        leader = next(index for index, worker in enumerate(workers) if worker.ready)
        tasks[leader].cancel()
        await clock.sleep(30)
        assert workers[1 - leader].ready
        assert not workers[leader].ready
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    on_twin(main)
