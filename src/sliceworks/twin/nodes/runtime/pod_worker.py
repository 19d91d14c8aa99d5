"""Runs one pod as processes: containers in order, status, termination."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
import shutil
from typing import TYPE_CHECKING, Any

from sliceworks.base import clock
from sliceworks.base.errors import Conflict, NotFound, SliceworksError, Unreachable
from sliceworks.kube.pod_requests import all_containers, is_sidecar
from sliceworks.kube.resources import POD
from sliceworks.twin.nodes import container_status
from sliceworks.twin.nodes.pod_status import Addresses, compute_pod_status, is_unobserved
from sliceworks.twin.nodes.runtime import pod_volumes, resolv_conf
from sliceworks.twin.nodes.runtime.container_runner import MIN_GRACE, ContainerRunner
from sliceworks.twin.nodes.runtime.image import find_image
from sliceworks.twin.nodes.runtime.value_sources import read_sources

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from sliceworks.kube.client import Client
    from sliceworks.kube.events import EventRecorder
    from sliceworks.twin.nodes.runtime.image import ImageMap
    from sliceworks.twin.nodes.runtime.pod_cgroup import PodCgroups
    from sliceworks.twin.nodes.runtime.pod_dns import PodHosts
    from sliceworks.twin.nodes.runtime.process import NamespaceSupport
    from sliceworks.twin.nodes.runtime.process_runtime import ApiAccess
    from sliceworks.twin.nodes.runtime.service_proxy import ServiceProxy
    from sliceworks.twin.nodes.runtime.value_sources import Sources

log = logging.getLogger(__name__)
Obj = dict[str, Any]
_ALL_ADDRESSES = re.compile(r"(?<![\d.])0\.0\.0\.0(?![\d.])")
_VOLUME_REFRESH, _STATUS_SECONDS = 5.0, 1.0
_TOKEN_REFRESH = 19 * 3600.0
"""Tokens are valid for a day; the kubelet replaces them after 80% of their time."""
_VOLUMES, _HOSTS = ".volumes", ".hosts"  # no container has such a name, and so such a folder
_SHELL = ["sh"]
"""What an ephemeral container runs if neither it nor its image has a command."""
_NO_MOUNT_NAMESPACE = (
    "mount namespaces are not available on this machine ({}): mount paths are replaced by folders in the command, environment "
    "variables and ConfigMap files only, and Services are found by environment variables only"
)
_LOST = {"reason": "ContainerStatusUnknown", "message": "The container could not be located when the pod was terminated"}
_DEADLINE = {
    "phase": "Failed",
    "reason": "DeadlineExceeded",
    "message": "Pod was active on the node longer than the specified deadline",
}


class PodWorker:
    """Runs one pod until it completes or is stopped."""

    def __init__(
        self,
        client: Client,
        recorder: EventRecorder,
        hosts: PodHosts,
        pod: Obj,
        *,
        host: str,
        folder: Path,
        access: ApiAccess,
        namespaces: NamespaceSupport,
        services: ServiceProxy,
        cgroups: PodCgroups,
        images: ImageMap | None = None,
    ) -> None:
        self.client = client
        self.access = access
        self.namespaces = namespaces
        self.services = services
        self.images = images
        self.pod = pod
        self.folder = folder
        self.uid: str = pod["metadata"]["uid"]
        self.addresses = (host, host if pod["spec"].get("hostNetwork") else hosts.register(pod))
        self.cgroup = None if pod["spec"].get("hostNetwork") else cgroups.create(self.uid, self.addresses[1])
        self.is_stopping = False
        self.tokens: dict[str, str] = {}
        self.statuses: dict[str, Obj] = {}
        self._recorder = recorder
        self._hosts = hosts
        self._stop_requested = asyncio.Event()
        self._changed = asyncio.Event()
        self._status_lock = asyncio.Lock()
        self._overlay: Obj = {}
        spec = pod["spec"]
        self._init = [ContainerRunner(self, item, folder / item["name"]) for item in spec.get("initContainers") or ()]
        self._main = [ContainerRunner(self, item, folder / item["name"]) for item in spec["containers"]]
        self.containers = {runner.name: runner for runner in (*self._init, *self._main)}
        self._ephemeral_tasks: list[asyncio.Task[int]] = []
        self.task = asyncio.create_task(self._run(), name=f"pod {pod['metadata']['name']}")

    def replace_all_addresses(self, value: str) -> str:
        """Replace 0.0.0.0 by the address of the pod."""
        return _ALL_ADDRESSES.sub(self.addresses[1], value)

    def replace_names(self, value: str) -> str:
        """Replace names of pods and 0.0.0.0 by loopback addresses."""
        value = self.replace_all_addresses(value)
        return self._hosts.replace_names(value, self.pod["metadata"]["namespace"], self.pod["spec"].get("subdomain") or "")

    def host_files(self) -> tuple[str, Path | None]:
        """The host name and hosts file of the pod; none if it uses the host network."""
        if self.pod["spec"].get("hostNetwork"):
            return "", None
        own = self._hosts.hostname_of(self.pod)
        aliases = self.pod["spec"].get("hostAliases") or ()
        return own.hostname, self._hosts.files.open(self.uid, own, self.folder / _HOSTS, aliases)

    def resolver_file(self) -> Path | None:
        """The resolver configuration of the pod; None if it is that of this machine."""
        machine = resolv_conf.read_machine()
        own = resolv_conf.of_pod(self.pod, machine, self._hosts.dns_server)
        if own == machine:
            return None
        file = self.folder / "resolv.conf"
        file.write_text(own.render())
        return file

    def record_event(self, reason: str, message: str, *, warning: bool = False) -> None:
        """Record an event about the pod."""
        self._recorder.record(self.pod, reason, message, type="Warning" if warning else "Normal")

    def on_pod_changed(self, pod: Obj) -> None:
        """Take in a newer state; one that is being deleted is stopped."""
        self.pod = pod
        self._changed.set()
        if not self.task.done():
            self._start_ephemeral_containers()
        if pod["metadata"].get("deletionTimestamp"):
            self._stop_requested.set()
            if self.task.done():
                self.task = asyncio.create_task(finish_deletion(self.client, pod))

    def kill(self) -> None:
        """Kill all processes."""
        self.is_stopping = True
        for runner in self.containers.values():
            runner.kill()
        self.task.cancel()

    async def _run(self) -> None:
        try:
            self._restore_statuses()
            self._start_ephemeral_containers()
            work = asyncio.create_task(self._run_containers())
            stop = asyncio.create_task(self._stop_requested.wait())
            refreshes = [asyncio.create_task(work) for work in (self._refresh_volumes(), self._refresh_tokens())]
            deadline = asyncio.create_task(self._wait_for_deadline())
            try:
                await asyncio.wait({work, stop, deadline}, return_when=asyncio.FIRST_COMPLETED)
                if not work.done():
                    await self._stop(work)
                else:
                    work.result()
            finally:
                self.is_stopping = True
                tasks = (work, stop, *refreshes, deadline, *self._ephemeral_tasks)
                await _cancel(tasks)
        except NotFound:
            pass  # force-deleted
        except Exception:
            log.exception("pod %s", self.pod["metadata"]["name"])
        finally:
            await asyncio.gather(*(runner.kill_and_wait() for runner in self.containers.values()))
        if self._stop_requested.is_set():  # possibly after it completed
            await finish_deletion(self.client, self.pod)

    async def _refresh_volumes(self) -> None:
        """Update volumes of ConfigMaps and Secrets periodically, as the kubelet does."""
        while pod_volumes.have_updates(self.pod["spec"]):
            await clock.sleep(_VOLUME_REFRESH)
            with contextlib.suppress(SliceworksError, pod_volumes.InvalidVolume):
                await self.populate_volumes(await read_sources(self.client, self.pod))

    async def _refresh_tokens(self) -> None:
        """Replace the tokens of the service account before they expire."""
        while True:
            await clock.sleep(_TOKEN_REFRESH)
            with contextlib.suppress(SliceworksError, pod_volumes.InvalidVolume):
                self.tokens = await self.access.tokens(self.client, self.pod) or self.tokens
                await self.populate_volumes(await read_sources(self.client, self.pod))
                for runner in self.containers.values():
                    if runner.is_running:
                        runner.write_kubeconfig()

    async def populate_volumes(self, sources: Sources) -> dict[str, Path]:
        """Update the folders of the volumes; returns them by volume name."""
        replace_paths = bool(await self.namespaces.unavailable_reason())
        sources.tokens = self.tokens
        return pod_volumes.populate_volumes(self.folder / _VOLUMES, sources, self.addresses, replace_paths=replace_paths)

    async def _report_missing_namespaces(self) -> None:
        """Record a warning if the pod has mounts and this machine has no mount namespaces."""
        if pod_volumes.has_mounts(self.pod["spec"]) and (reason := await self.namespaces.unavailable_reason()):
            self.record_event("NoMountNamespace", _NO_MOUNT_NAMESPACE.format(reason), warning=True)

    def _restore_statuses(self) -> None:
        """Mark containers that ran when the twin stopped as terminated."""
        old, spec = self.pod.get("status") or {}, self.pod["spec"]
        containers = {item["name"]: item for item in (*all_containers(spec), *(spec.get("ephemeralContainers") or ()))}
        fields = ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses")
        for status in (item for field in fields for item in old.get(field) or ()):
            name = status["name"]
            if name not in containers:
                continue
            self.statuses[name] = status
            if "running" in status["state"]:
                now = clock.timestamp()
                self.statuses[name] = container_status.terminated_status(self.uid, containers[name], status, now, 137, **_LOST)

    def _start_ephemeral_containers(self) -> None:
        """Run the ephemeral containers that are new; they are never restarted."""
        for item in self.pod["spec"].get("ephemeralContainers") or ():
            name = item["name"]
            if self.is_stopping or name in self.containers or name in self.statuses:
                continue
            container = {**item, "restartPolicy": "Never"}
            if not find_image(self.images, item).words(item):
                container["command"] = _SHELL
            runner = self.containers[name] = ContainerRunner(self, container, self.folder / name)
            self._ephemeral_tasks.append(asyncio.create_task(runner.run(), name=f"ephemeral container {name}"))

    async def _run_containers(self) -> None:
        await self._report_missing_namespaces()
        sidecars: list[asyncio.Task[int]] = []
        try:
            for runner in self._init:
                if is_sidecar(runner.container):
                    sidecars.append(asyncio.create_task(runner.run(), name=f"sidecar {runner.name}"))
                elif self._final_exit_code(runner) is None:
                    code = await runner.run(once=True)
                    if code or self.is_stopping:
                        return
                    self.statuses[runner.name] = {**self.statuses[runner.name], "ready": True}
            await asyncio.gather(*(runner.run() for runner in self._main if self._final_exit_code(runner) is None))
        finally:
            if not self.is_stopping:
                await self._stop_sidecars(clock.loop_time())
            await _wait_briefly(sidecars)
            await _cancel(sidecars)

    async def _stop_sidecars(self, started: float) -> None:
        """Stop the sidecars for good, the last one first; the grace period of the pod began at `started`."""
        grace = self._grace_period()
        for runner in reversed(self._init):
            if is_sidecar(runner.container):
                await runner.finish(max(started + grace - clock.loop_time(), min(grace, MIN_GRACE)))

    def _final_exit_code(self, runner: ContainerRunner) -> int | None:
        """The exit code of a terminated container that is not restarted."""
        ended = self.statuses.get(runner.name, {}).get("state", {}).get("terminated")
        if ended is None or container_status.should_restart(runner.container, self.pod["spec"], ended["exitCode"]):
            return None
        return int(ended["exitCode"])

    async def _wait_for_deadline(self) -> None:
        """Return when the pod has been active for its `activeDeadlineSeconds`, which can be set and lowered meanwhile."""
        start_time = (self.pod.get("status") or {}).get("startTime")
        started = clock.loop_time() - (clock.seconds_since(start_time) if start_time else 0.0)
        while True:
            self._changed.clear()
            seconds = self.pod["spec"].get("activeDeadlineSeconds")
            left = None if seconds is None else max(float(seconds) - (clock.loop_time() - started), 0.0)
            try:
                async with asyncio.timeout(left):
                    await self._changed.wait()
            except TimeoutError:
                return
            if is_unobserved(self.pod):
                await self.publish()

    def _grace_period(self) -> float:
        metadata, spec = self.pod["metadata"], self.pod["spec"]
        return float(metadata.get("deletionGracePeriodSeconds", spec.get("terminationGracePeriodSeconds", 30)))

    async def _stop(self, work: asyncio.Task[None]) -> None:
        """Stop the containers, write the final status, and finish the deletion of the pod."""
        self.is_stopping = True
        if not self._stop_requested.is_set():
            self._overlay = _DEADLINE
        for runner in self.containers.values():
            if runner.is_running:
                self.record_event("Killing", f"Stopping container {runner.name}")
        started = clock.loop_time()
        others = [runner for runner in self.containers.values() if not is_sidecar(runner.container)]
        await asyncio.gather(*(runner.stop(self._grace_period()) for runner in others))
        await self._stop_sidecars(started)
        await _wait_briefly([work, *self._ephemeral_tasks])
        await _cancel([work])
        await self.publish(final=True)
        if self.pod["metadata"].get("deletionTimestamp"):
            await finish_deletion(self.client, self.pod)

    async def publish(self, *, final: bool = False) -> None:
        """Write the status of the pod, unless another pod has its name now. A write without a response is repeated."""
        failures = 0
        async with self._status_lock:
            while True:
                try:
                    await self._write_status(final=final)
                except Conflict:
                    metadata = self.pod["metadata"]
                    pod = await self.client.get(POD, metadata["name"], metadata["namespace"])
                    if pod["metadata"]["uid"] != self.uid:
                        return
                    self.pod = pod
                except Unreachable:
                    failures += 1
                    retry = self.client.retry
                    if failures >= retry.attempts:
                        raise
                    await clock.sleep(retry.delay(failures))
                else:
                    return

    async def _write_status(self, *, final: bool) -> None:
        pod, now = self.pod, clock.timestamp()
        metadata = pod["metadata"]
        main, init = self._statuses_of(self._main), self._statuses_of(self._init)
        addresses = Addresses(*self.addresses)
        status = compute_pod_status(pod, main, init, now, addresses, final=final, waits_for_sidecars=True, overlay=self._overlay)
        if ephemeral := self._ephemeral_statuses():
            status["ephemeralContainerStatuses"] = ephemeral
        lock = {"uid": self.uid, "resourceVersion": metadata["resourceVersion"]}
        change = {"metadata": lock, "status": status}
        self.pod = await self.client.patch(POD, metadata["name"], change, metadata["namespace"], subresource="status")

    def _statuses_of(self, runners: list[ContainerRunner]) -> list[Obj]:
        reason = "PodInitializing" if self._init else "ContainerCreating"
        return [
            self.statuses.get(runner.name) or container_status.waiting_status(runner.container, None, reason) for runner in runners
        ]

    def _ephemeral_statuses(self) -> list[Obj]:
        """The statuses of ephemeral containers, which have no probes and are never ready."""
        containers = self.pod["spec"].get("ephemeralContainers") or ()
        statuses = [
            self.statuses.get(item["name"]) or container_status.waiting_status(item, None, "ContainerCreating")
            for item in containers
        ]
        return [{name: value for name, value in status.items() if name != "started"} | {"ready": False} for status in statuses]

    async def delete_files(self) -> None:
        """Delete the files of the pod and remove it from the hosts files of others."""
        self._hosts.release(self.uid)
        await asyncio.to_thread(self._delete_files)  # volumes can have any number of files

    def _delete_files(self) -> None:
        if self.cgroup is not None:
            self.cgroup.remove()
        pod_volumes.delete_memory(self.uid)
        shutil.rmtree(self.folder, ignore_errors=True)


async def _wait_briefly(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Wait until the tasks of containers whose processes have ended have written their statuses."""
    if waiting := set(tasks):
        await asyncio.wait(waiting, timeout=_STATUS_SECONDS)


async def _cancel(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancel tasks and wait for their end."""
    for task in (tasks := tuple(tasks)):
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def finish_deletion(client: Client, pod: Obj) -> None:
    """Delete a terminating pod whose containers have stopped, as the kubelet does."""
    metadata = pod["metadata"]
    try:
        await client.delete(POD, metadata["name"], metadata["namespace"], grace_period_seconds=0, uid=metadata["uid"])
    except (NotFound, Conflict):
        return  # deleted already, or replaced by another pod
    except SliceworksError as error:
        log.warning("cannot delete pod %s/%s: %s", metadata["namespace"], metadata["name"], error)
