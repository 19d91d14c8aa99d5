"""One pod as processes: its containers in order, its status, and its end."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
import shutil
from typing import TYPE_CHECKING, Any

from sliceworks.base import clock
from sliceworks.base.errors import Conflict, NotFound, SliceworksError
from sliceworks.kube.well_known import POD
from sliceworks.twin.nodes import containers as made
from sliceworks.twin.nodes.pod_status import TERMINAL, Addresses, pod_status
from sliceworks.twin.nodes.processes import volumes
from sliceworks.twin.nodes.processes.container import ContainerRun
from sliceworks.twin.nodes.processes.sources import read_sources

if TYPE_CHECKING:
    from pathlib import Path

    from sliceworks.kube.client import Client
    from sliceworks.kube.events import EventRecorder
    from sliceworks.twin.nodes.processes.access import Access
    from sliceworks.twin.nodes.processes.hosts import Hosts
    from sliceworks.twin.nodes.processes.services import Services
    from sliceworks.twin.nodes.processes.sources import Sources
    from sliceworks.twin.nodes.processes.views import Namespaces

log = logging.getLogger(__name__)
Obj = dict[str, Any]
_ALL_ADDRESSES = re.compile(r"(?<![\d.])0\.0\.0\.0(?![\d.])")
_FRESH = 5.0
_REPLACED = (
    "This machine refuses mount namespaces ({}): mount paths are replaced by folders in the command, in variables and in the files "
    "of config maps, and are not there otherwise; Services are found by their variables alone"
)
_LOST = {"reason": "ContainerStatusUnknown", "message": "The container could not be located when the pod was terminated"}
_DEADLINE = {
    "phase": "Failed",
    "reason": "DeadlineExceeded",
    "message": "Pod was active on the node longer than the specified deadline",
}


class PodRun:
    """Runs one pod until it has ended or is stopped."""

    def __init__(
        self,
        client: Client,
        recorder: EventRecorder,
        hosts: Hosts,
        pod: Obj,
        *,
        host: str,
        folder: Path,
        access: Access,
        namespaces: Namespaces,
        services: Services,
    ) -> None:
        self.client = client
        self.access = access
        self.namespaces = namespaces
        self.services = services
        self.pod = pod
        self.folder = folder
        self.uid: str = pod["metadata"]["uid"]
        self.addresses = (host, host if pod["spec"].get("hostNetwork") else hosts.of_pod(pod))
        self.stopping = False
        self.token = ""
        self.statuses: dict[str, Obj] = {}
        self.containers: dict[str, ContainerRun] = {}
        self._recorder = recorder
        self._hosts = hosts
        self._asked_to_stop = asyncio.Event()
        self._writing = asyncio.Lock()
        self._overlay: Obj = {}
        spec = pod["spec"]
        self._init = [ContainerRun(self, each, folder / each["name"]) for each in spec.get("initContainers") or ()]
        self._main = [ContainerRun(self, each, folder / each["name"]) for each in spec["containers"]]
        for each in (*self._init, *self._main):
            self.containers[each.name] = each
        self.task = asyncio.create_task(self._live(), name=f"pod {pod['metadata']['name']}")

    def named(self, text: str) -> str:
        """A text with the names of pods replaced by their addresses. All addresses of a pod are its one."""
        own = _ALL_ADDRESSES.sub(self.addresses[1], text)
        return self._hosts.replaced(own, self.pod["metadata"]["namespace"], self.pod["spec"].get("subdomain") or "")

    def names(self) -> tuple[str, Path | None]:
        """What a pod has as its host name and as its /etc/hosts; nothing where it shares its node's."""
        if self.pod["spec"].get("hostNetwork"):
            return "", None
        known = self._hosts.known(self.pod)
        aliases = self.pod["spec"].get("hostAliases") or ()
        return known.hostname, self._hosts.files.open(self.uid, known, self.folder / "hosts", aliases)

    def tell(self, reason: str, message: str, *, warning: bool = False) -> None:
        """Record an event about the pod."""
        self._recorder.record(self.pod, reason, message, type="Warning" if warning else "Normal")

    def see(self, pod: Obj) -> None:
        """Take in a newer state; one that is being deleted is stopped."""
        self.pod = pod
        if pod["metadata"].get("deletionTimestamp"):
            self._asked_to_stop.set()
            if self.task.done():
                self.task = asyncio.create_task(let_go(self.client, pod))

    def end(self) -> None:
        """End everything at once."""
        self.stopping = True
        for each in self.containers.values():
            each.kill()
        self.task.cancel()

    async def _live(self) -> None:
        try:
            self._take_stock()
            work = asyncio.create_task(self._work())
            stop = asyncio.create_task(self._asked_to_stop.wait())
            fresh = asyncio.create_task(self._keep_fresh())
            try:
                await asyncio.wait({work, stop}, return_when=asyncio.FIRST_COMPLETED, timeout=self._time_left())
                if not work.done():
                    await self._stop(work)
                else:
                    work.result()
            finally:
                for task in (work, stop, fresh):
                    task.cancel()
        except NotFound:
            pass  # it was deleted by force
        except Exception:
            log.exception("pod %s", self.pod["metadata"]["name"])
        finally:
            await asyncio.gather(*(each.clear() for each in self.containers.values()))
        if self._asked_to_stop.is_set():  # perhaps in the moment in which it ended by itself
            await let_go(self.client, self.pod)

    async def _keep_fresh(self) -> None:
        """Config maps and secrets that change are seen in their folders, as a kubelet sees to it."""
        while any("configMap" in each or "secret" in each for each in self.pod["spec"].get("volumes") or ()):
            await clock.sleep(_FRESH)
            with contextlib.suppress(SliceworksError):
                await self.fill(await read_sources(self.client, self.pod))

    async def fill(self, sources: Sources) -> dict[str, Path]:
        """The folders of its volumes, with what they hold now."""
        replaced = bool(await self.namespaces.refusal())
        sources.token = self.token
        return volumes.materialise(self.folder / "volumes", sources, self.addresses, replaced=replaced)

    async def _tell_of_paths(self) -> None:
        """A machine without mount namespaces does less than a node; whoever looks at the pod should see it."""
        if volumes.mounted(self.pod["spec"]) and (refusal := await self.namespaces.refusal()):
            self.tell("NoMountNamespace", _REPLACED.format(refusal), warning=True)

    def _take_stock(self) -> None:
        """What ran when the twin was last stopped does not run any more."""
        old = self.pod.get("status") or {}
        for status in (*(old.get("initContainerStatuses") or ()), *(old.get("containerStatuses") or ())):
            found = self.containers.get(status["name"])
            if found is None:
                continue
            self.statuses[found.name] = status
            if "running" in status["state"]:
                ended = made.terminated(self.uid, found.container, status, clock.timestamp(), 137, **_LOST)
                self.statuses[found.name] = ended

    async def _work(self) -> None:
        await self._tell_of_paths()
        sidecars = []
        for each in self._init:
            if made.is_sidecar(each.container):
                sidecars.append(asyncio.create_task(each.keep()))
            elif self._done(each) is None:
                code = await each.keep(once=True)
                if code:
                    return
                self.statuses[each.name] = {**self.statuses[each.name], "ready": True}
        try:
            await asyncio.gather(*(each.keep() for each in self._main if self._done(each) is None))
        finally:
            for each in self._init:
                if made.is_sidecar(each.container):
                    await each.stop(self._grace())
            for task in sidecars:
                task.cancel()

    def _done(self, run: ContainerRun) -> int | None:
        """The exit code of a container that is not to be started again."""
        ended = self.statuses.get(run.name, {}).get("state", {}).get("terminated")
        if ended is None or made.restarts(run.container, self.pod["spec"], ended["exitCode"]):
            return None
        return int(ended["exitCode"])

    def _time_left(self) -> float | None:
        seconds = self.pod["spec"].get("activeDeadlineSeconds")
        return None if seconds is None else float(seconds)

    def _grace(self) -> float:
        metadata, spec = self.pod["metadata"], self.pod["spec"]
        return float(metadata.get("deletionGracePeriodSeconds", spec.get("terminationGracePeriodSeconds", 30)))

    async def _stop(self, work: asyncio.Task[None]) -> None:
        """End the containers in good order, write down how, and let the pod go if it is to be deleted."""
        self.stopping = True
        if not self._asked_to_stop.is_set():
            self._overlay = _DEADLINE
        for each in self._main:
            self.tell("Killing", f"Stopping container {each.name}")
        await asyncio.gather(*(each.stop(self._grace()) for each in self._main))
        await asyncio.wait({work}, timeout=1.0)
        work.cancel()
        await self.publish(final=True)
        if self.pod["metadata"].get("deletionTimestamp"):
            await let_go(self.client, self.pod)

    async def publish(self, *, final: bool = False) -> None:
        """Write the status that the containers' states make."""
        async with self._writing:
            while True:
                try:
                    await self._write(final=final)
                except Conflict:
                    metadata = self.pod["metadata"]
                    self.pod = await self.client.get(POD, metadata["name"], metadata["namespace"])
                else:
                    return

    async def _write(self, *, final: bool) -> None:
        pod, now = self.pod, clock.timestamp()
        if (pod.get("status") or {}).get("phase") in TERMINAL:
            return
        metadata = pod["metadata"]
        status = pod_status(
            pod, self._of(self._main), self._of(self._init), now, Addresses(*self.addresses), final=final, overlay=self._overlay
        )
        lock = {"uid": self.uid, "resourceVersion": metadata["resourceVersion"]}
        change = {"metadata": lock, "status": status}
        self.pod = await self.client.patch(POD, metadata["name"], change, metadata["namespace"], subresource="status")

    def _of(self, runs: list[ContainerRun]) -> list[Obj]:
        return [self.statuses.get(run.name) or made.waiting(run.container, None, "ContainerCreating") for run in runs]

    def forget(self) -> None:
        """Remove what it wrote. Its file of names goes with the rest, also when it was ended while it was clearing up."""
        self._hosts.files.close(self.uid)
        shutil.rmtree(self.folder, ignore_errors=True)


async def let_go(client: Client, pod: Obj) -> None:
    """Say of a pod that is to be deleted that nothing of it runs any more."""
    metadata = pod["metadata"]
    try:
        await client.delete(POD, metadata["name"], metadata["namespace"], grace_period_seconds=0, uid=metadata["uid"])
    except (NotFound, Conflict):
        return  # it is gone, or another by now
    except SliceworksError as error:
        log.warning("pod %s/%s cannot be let go: %s", metadata["namespace"], metadata["name"], error)
