"""Runs pods as processes of this machine, and answers `kubectl logs` about them."""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import TYPE_CHECKING, Any

from sliceworks.base.errors import BadRequest
from sliceworks.kube.events import EventRecorder
from sliceworks.kube.resources import Key, key_of
from sliceworks.kube.transport import Response
from sliceworks.twin.nodes.pod_status import TERMINAL
from sliceworks.twin.nodes.processes.access import Access
from sliceworks.twin.nodes.processes.hosts import Hosts, Part
from sliceworks.twin.nodes.processes.logs import LogOptions, follow_log, read_log, since_seconds
from sliceworks.twin.nodes.processes.pod import PodRun, let_go
from sliceworks.twin.nodes.processes.process import end_leftovers
from sliceworks.twin.nodes.processes.services import Services
from sliceworks.twin.nodes.processes.views import Namespaces

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from pathlib import Path

    from sliceworks.kube.client import Client
    from sliceworks.twin.api.calls import Call

Obj = dict[str, Any]
ANNOTATION = "sliceworks.dev/runtime"
_TEXT = {"content-type": "text/plain"}


class ProcessRuntime:
    """Runs every pod whose containers all say what to run; `folder` is where their files and logs are."""

    def __init__(self, client: Client, folder: Path) -> None:
        self._client = client.using(field_manager="kubelet")
        self._recorder = EventRecorder(self._client, "kubelet", core=True)
        self._folder = folder
        self._access = Access()
        self._namespaces = Namespaces(folder)
        self._part = Part()
        self._hosts = Hosts(self._part.number)
        self.networks = self._part.networks
        self._services = Services(self._client, self._recorder, self._part, self._hosts.files, self._access)
        self._runs: dict[Key, PodRun] = {}
        self._ended: set[asyncio.Task[None]] = set()
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        end_leftovers(folder)

    async def open(self) -> None:
        """Begin with the cluster's Services: pods that start are told of them."""
        await self._services.open()

    def reached_at(self, url: str, ca: bytes) -> None:
        """The API is served there."""
        self._access.url, self._access.ca = url, ca
        self._services.look()

    def takes(self, pod: Obj) -> bool:
        """Whether a pod is run as processes: all its containers name a command, and nobody asked for it to be simulated."""
        if (pod["metadata"].get("annotations") or {}).get(ANNOTATION) == "simulated":
            return False
        spec = pod["spec"]
        return all(each.get("command") for each in (*(spec.get("initContainers") or ()), *spec["containers"]))

    def see(self, pod: Obj, host: str) -> None:
        """A pod is new or has changed."""
        key, metadata = key_of(pod), pod["metadata"]
        run = self._runs.get(key)
        if run is not None and run.uid != metadata["uid"]:
            self.gone(key)
            run = None
        if run is None:
            if (pod.get("status") or {}).get("phase") in TERMINAL:
                if metadata.get("deletionTimestamp"):
                    self._keep(let_go(self._client, pod))
                return
            run = self._runs[key] = PodRun(
                self._client,
                self._recorder,
                self._hosts,
                pod,
                host=host,
                folder=self._folder / metadata["uid"],
                access=self._access,
                namespaces=self._namespaces,
                services=self._services,
            )
        run.see(pod)

    def gone(self, pod: Key) -> None:
        """A pod is not there any more: nothing of it is left."""
        run = self._runs.pop(pod, None)
        if run is not None:
            run.end()
            self._keep(self._clear(run))

    def _keep(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._ended.add(task)
        task.add_done_callback(self._ended.discard)

    async def _clear(self, run: PodRun) -> None:
        await asyncio.gather(run.task, return_exceptions=True)
        run.forget()

    async def close(self) -> None:
        """End all processes."""
        runs = list(self._runs.values())
        for run in runs:
            run.end()
        await asyncio.gather(*(run.task for run in runs), *self._ended, return_exceptions=True)
        self._runs.clear()
        await self._services.close()
        self._part.close()
        await self._recorder.close(1.0)

    def logs(self, call: Call, pod: Obj, container: str) -> Response:
        """The answer to a request for a container's log."""
        options = _options(call)
        status = _status_of(pod, container)
        count = (status or {}).get("restartCount", 0)
        run = self._runs.get(key_of(pod))
        found = run.containers.get(container) if run is not None else None
        if call.flag("previous"):
            if not (status and status["lastState"].get("terminated")):
                name = pod["metadata"]["name"]
                raise BadRequest(f'previous terminated container "{container}" in pod "{name}" not found')
            count -= 0 if "waiting" in status["state"] else 1
        elif status is None or ("waiting" in status["state"] and not status["lastState"].get("terminated")):
            reason = (status or {}).get("state", {}).get("waiting", {}).get("reason", "ContainerCreating")
            name = pod["metadata"]["name"]
            raise BadRequest(f'container "{container}" in pod "{name}" is waiting to start: {reason}')
        file = self._folder / pod["metadata"]["uid"] / container / "logs" / f"{count}.log"
        if call.flag("follow") and found is not None and not call.flag("previous"):
            return Response(200, _TEXT, stream=follow_log(file, options, found.ended))
        return Response(200, _TEXT, read_log(file, options))


def _status_of(pod: Obj, container: str) -> Obj | None:
    status = pod.get("status") or {}
    both = (*(status.get("containerStatuses") or ()), *(status.get("initContainerStatuses") or ()))
    return next((item for item in both if item["name"] == container), None)


def _options(call: Call) -> LogOptions:
    since = None
    if (seconds := call.number("sinceSeconds")) is not None:
        since = since_seconds(seconds)
    elif moment := call.param("sinceTime"):
        since = datetime.fromisoformat(moment)
    return LogOptions(call.number("tailLines"), since, call.number("limitBytes"), call.flag("timestamps"))
