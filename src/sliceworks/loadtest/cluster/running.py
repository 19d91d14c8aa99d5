"""Runs a test whose senders are pods: makes them, follows them, collects their rows, and removes everything, however it ends."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from sliceworks.base import clock, progress
from sliceworks.base.errors import NotFound, SliceworksError, TimedOut
from sliceworks.kube.well_known import POD
from sliceworks.loadtest.cluster import making, objects, pods
from sliceworks.loadtest.cluster.collecting import Collector
from sliceworks.loadtest.listening import Listener
from sliceworks.loadtest.running import Outcome, not_started

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from sliceworks.kube import Client
    from sliceworks.loadtest.cluster.objects import Launch
    from sliceworks.loadtest.listening import Progress
    from sliceworks.specs.load_test import StopRule

    Ask = Callable[[dict[str, Any], str, str], Awaitable[bytes]]
    """A pod, a method and a path to what the pod answers."""

Object = dict[str, Any]
_EVERY = 1.0
_LOG = 64 * 1024


class ClusterRun:
    """One test on a cluster. `ask` carries a request to a pod."""

    def __init__(
        self,
        client: Client,
        launch: Launch,
        folder: Path,
        ask: Ask,
        *,
        rule: StopRule,
        told: Callable[[Progress], None] | None = None,
    ) -> None:
        self._client, self._launch, self._folder, self._ask = client, launch, folder, ask
        self._listener = Listener(rule, told)
        self._pods: dict[int, Object] = {}

    def stop(self, why: str) -> None:
        """End it early; what has been measured is kept."""
        self._listener.stop(why)

    async def run(self) -> Outcome:
        """From the first object to the last row, and until nothing of it is left in the cluster."""
        try:
            # 1. The Job owns everything else, and starts when that is there.
            await making.make(self._client, self._launch)
            # 2. All pods must run before any of them may send.
            await self._wait_for_pods()
            # 3. Rows come while they are measured.
            collectors = await self._collect()
        finally:
            # 4. Nothing stays, whatever happened.
            await making.remove(self._client, self._launch)
        listener = self._listener
        if not listener.began:
            raise not_started(listener.why, self._folder)
        return _outcome(listener, collectors)

    async def _wait_for_pods(self) -> None:
        ends = clock.loop_time() + self._launch.workers.start_within
        with progress.working(f"Starting {self._launch.pods} pods") as step:
            while True:
                found = await self._look()
                running = {pods.index(each): each for each in found if pods.runs(each)}
                if len(running) == self._launch.pods:
                    self._pods = running
                    return
                if why := self._listener.why:
                    raise not_started(why, self._folder)
                if dead := next((why for each in found if (why := pods.over(each))), ""):
                    await self._keep_logs(found)
                    raise SliceworksError(f"the senders did not start: {dead}", hint=f"look at {self._folder / 'senders.log'}")
                late = clock.loop_time() >= ends
                for each in found:
                    if not pods.runs(each) and (late or pods.hopeless(each)):
                        raise TimedOut(f"the senders did not start: {pods.waits_for(each)}")
                if late:
                    raise TimedOut(
                        "the senders did not start: the Job has made no pods", hint=f"kubectl describe job {self._launch.name}"
                    )
                step(f"{len(running)} run")
                await clock.sleep(_EVERY / 2)

    async def _look(self) -> list[Object]:
        return (await self._client.list_all(POD, self._launch.namespace, labels=f"{objects.LABEL}={self._launch.name}")).items

    async def _collect(self) -> list[Collector]:
        """Follow all senders to their end; end them when the test is to end."""
        senders = self._senders()
        every = max(_EVERY, len(senders) / 50)
        collectors = [
            Collector(number, self._way(index), self._fate(index), self._folder, every) for number, index in enumerate(senders)
        ]
        beside = [asyncio.create_task(self._end_when_told()), asyncio.create_task(self._guard())]
        try:
            await asyncio.gather(*(self._follow(each) for each in collectors))
            lost = [self._pods[senders[each.index]] for each in collectors if each.lost]
            await self._keep_logs(lost)
        finally:
            for task in beside:
                task.cancel()
            await self._tell(list(self._pods.values()), "/leave")
        return collectors

    async def _follow(self, collector: Collector) -> None:
        await collector.collect(self._listener)
        if collector.lost and not self._listener.began:
            self.stop(f"sender {collector.index} did not start: {collector.lost}")

    def _way(self, index: int) -> Callable[[str, str], Awaitable[bytes]]:
        return lambda method, path: self._ask(self._pods[index], method, path)

    def _fate(self, index: int) -> Callable[[], Awaitable[str]]:
        name = self._pods[index]["metadata"]["name"]

        async def gone() -> str:
            try:
                return pods.over(await self._client.get(POD, name, self._launch.namespace))
            except NotFound:
                return f"pod/{name} was deleted"
            except SliceworksError:
                return ""  # the API server does not answer either: both may again

        return gone

    async def _guard(self) -> None:
        """Without the one who brings them together the senders end by themselves, a minute later."""
        gone = self._fate(0)
        while self._launch.pods > 1:
            await clock.sleep(2 * _EVERY)
            if why := await gone():
                self.stop(f"the senders have lost their master: {why}")
                return

    async def _end_when_told(self) -> None:
        """Tell the senders alone: a master that goes first ends them at once, without the answers that are under way."""
        await self._listener.stopping.wait()
        await asyncio.gather(*(self._insist(self._pods[index], "/stop") for index in self._senders()))

    def _senders(self) -> list[int]:
        return [index for index in sorted(self._pods) if index or self._launch.pods == 1]

    async def _insist(self, pod: Object, path: str) -> None:
        """Tell a pod until it has heard."""
        while True:
            try:
                await self._ask(pod, "POST", path)
            except SliceworksError:
                await clock.sleep(_EVERY)
            else:
                return

    async def _tell(self, those: list[Object], path: str) -> None:
        async def tell(pod: Object) -> None:
            with suppress(SliceworksError):
                await self._ask(pod, "POST", path)

        await asyncio.gather(*map(tell, those))

    async def _keep_logs(self, found: list[Object]) -> None:
        """What lost pods wrote, as far as it can still be had."""
        for each in found:
            with suppress(SliceworksError, OSError):
                text = await self._client.logs(each["metadata"]["name"], self._launch.namespace, limit_bytes=_LOG)
                with (self._folder / "senders.log").open("a") as log:
                    log.write(f"pod/{each['metadata']['name']}\n{text}\n")


def _outcome(listener: Listener, collectors: list[Collector]) -> Outcome:
    lost = tuple(each.index for each in collectors if each.lost or not listener.came_to_its_end(each.index))
    notes = tuple(f"sender {each.index}: {each.lost}" for each in collectors if each.lost)
    return Outcome(listener.began, listener.why, lost, notes, listener.clocks)
