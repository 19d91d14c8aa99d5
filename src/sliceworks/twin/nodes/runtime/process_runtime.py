"""Runs pods as processes and serves `kubectl logs` for them."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from sliceworks.base.errors import ApiError, BadRequest, SliceworksError
from sliceworks.base.transport import Response
from sliceworks.kube import kubeconfig
from sliceworks.kube.events import EventRecorder
from sliceworks.kube.resources import POD, Key, key_of
from sliceworks.twin.controllers.runtime.pod_index import is_finished
from sliceworks.twin.nodes.runtime import pod_volumes, resolv_conf, resource_metrics
from sliceworks.twin.nodes.runtime.container_log import LogOptions, since_seconds, stream_log
from sliceworks.twin.nodes.runtime.dns_server import DnsServer
from sliceworks.twin.nodes.runtime.image import run_as_processes
from sliceworks.twin.nodes.runtime.pod_cgroup import PodCgroups
from sliceworks.twin.nodes.runtime.pod_dns import LoopbackRange, PodHosts
from sliceworks.twin.nodes.runtime.pod_volumes import token_sources
from sliceworks.twin.nodes.runtime.pod_worker import PodWorker, finish_deletion
from sliceworks.twin.nodes.runtime.process import NamespaceSupport, kill_orphans, pod_uids
from sliceworks.twin.nodes.runtime.process_usage import ProcessUsage
from sliceworks.twin.nodes.runtime.resource_metrics import ResourceMetrics
from sliceworks.twin.nodes.runtime.service_proxy import ServiceProxy, served_host_ports

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterator
    from ipaddress import IPv4Network
    from pathlib import Path

    from sliceworks.kube.client import Client
    from sliceworks.twin.apiserver.registry.resources import AggregatedApi
    from sliceworks.twin.apiserver.request_info import Call
    from sliceworks.twin.apiserver.streaming.remote_command import OpenSession, StreamOptions
    from sliceworks.twin.nodes.runtime.container_runner import ContainerRunner
    from sliceworks.twin.nodes.runtime.image import ImageMap
    from sliceworks.twin.nodes.runtime.security_context import SecurityContext
    from sliceworks.twin.nodes.runtime.service_proxy import ServicePort

Obj = dict[str, Any]
_TOKEN_SECONDS = 86_400
_DNS_SERVER = "kube-dns.kube-system"
"""The name of its address, which no pod can have."""


@dataclass(slots=True)
class ApiAccess:
    """The URL of the API server; empty before the twin listens, and in a twin without a listener."""

    url: str = ""
    ca: bytes = b""

    @property
    def address(self) -> tuple[str, int] | None:
        """Host and port of the URL."""
        parts = urlsplit(self.url)
        return (parts.hostname or "", parts.port or 443) if self.url else None

    async def tokens(self, client: Client, pod: Obj) -> dict[str, str]:
        """Request the tokens of the pod's service account that its volumes need, by audience; that for the API has none."""
        spec, namespace = pod["spec"], pod["metadata"]["namespace"]
        audiences = {source.get("audience") or "" for source in token_sources(spec)}
        if spec.get("automountServiceAccountToken") is not False:
            audiences.add("")
        name, tokens = spec.get("serviceAccountName") or "default", {}
        for audience in sorted(audiences) if self.url else ():
            requested = [audience] if audience else []
            with contextlib.suppress(ApiError):  # the service account does not exist
                response = await client.create_token(name, namespace, audiences=requested, seconds=_TOKEN_SECONDS, pod=pod)
                tokens[audience] = str(response["status"]["token"])
        return tokens

    def variables(self, token: str, namespace: str, folder: Path, security: SecurityContext) -> dict[str, str]:
        """The environment variables that give a process of a container access to the API; `folder` has the container's files."""
        if not token:
            return {}
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        file = folder / "kubeconfig"
        content = kubeconfig.render(name="twin", server=self.url, token=token, ca=self.ca, namespace=namespace)
        file.touch(mode=0o600)
        file.write_text(content)
        security.own(file)
        return {"KUBECONFIG": str(file)}


ANNOTATION = "sliceworks.dev/runtime"
_LOOPBACK = "127.0.0.1"
_PLAIN_TEXT = {"content-type": "text/plain"}


class ProcessRuntime:
    """Runs every pod whose containers all have a command, or an image in `images`; `folder` holds their files and logs.

    With `hidden` folders, containers do not see these, and none of their processes outlives them. The addresses of pods and
    Services are in a loopback network or, for API servers that reject these in endpoints, in another `network` of this machine.
    """

    def __init__(
        self,
        client: Client,
        folder: Path,
        hidden: tuple[Path, ...] = (),
        images: ImageMap | None = None,
        *,
        network: IPv4Network | None = None,
    ) -> None:
        self._client = client.using(field_manager="kubelet")
        self._recorder = EventRecorder(self._client, "kubelet", core=True)
        self._folder = folder
        self._images = images
        self._access = ApiAccess()
        self._namespaces = NamespaceSupport(folder, hidden)
        self._loopback = LoopbackRange(network)
        self.networks = self._loopback.networks
        self._hosts = PodHosts(self.networks.pods if self.networks is not None else None)
        self._cgroups = PodCgroups(self._loopback.number)
        self._services = ServiceProxy(self._client, self._recorder, self.networks, self._hosts.files, self._access)
        self._services.find_host_ports = self._host_ports
        self._dns: DnsServer | None = None
        self._workers: dict[Key, PodWorker] = {}
        self._finished: dict[Key, str] = {}
        """The UIDs of pods that had finished before this runtime started."""
        self.metrics = ResourceMetrics(lambda: [worker.pod for worker in self._workers.values()], ProcessUsage().read)
        self._sampling: asyncio.Task[None] | None = None
        self._cleanups: set[asyncio.Task[None]] = set()
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        kill_orphans(folder)

    async def open(self) -> None:
        """Start to proxy the Services of the cluster; raises if containers cannot be isolated as requested."""
        if self._namespaces.hidden and (reason := await self._namespaces.unavailable_reason()):
            await self.close()
            raise SliceworksError(f"containers cannot be isolated on this machine: {reason}", hint="omit --isolate")
        await self._delete_leftovers()
        await self._services.open()
        if ProcessUsage.is_available():
            self._sampling = asyncio.create_task(self.metrics.run(), name="resource metrics")
        if self.networks is not None:
            self._dns = DnsServer(self.networks, resolv_conf.read_machine().nameservers, lambda: self._services.zone)
            address = self._hosts.address("", _DNS_SERVER)
            self._hosts.dns_server = address if await self._dns.open(address) else ""

    def aggregated_apis(self) -> dict[str, AggregatedApi]:
        """The API groups that this runtime serves: resource metrics, if this machine has them."""
        return {resource_metrics.GROUP: self.metrics.api()} if ProcessUsage.is_available() else {}

    def set_api_address(self, url: str, ca: bytes) -> None:
        """Set the URL and CA certificate of the API server."""
        self._access.url, self._access.ca = url, ca
        self._services.notify()

    def node_address(self, name: str) -> str:
        """The address of a node that was created without one; empty where only 127.0.0.1 works."""
        return self._hosts.address("", name) if self.networks else ""

    def accepts(self, pod: Obj) -> bool:
        """Whether a pod runs as processes: its containers have commands or mapped images, and no annotation says otherwise.

        A pod that runs as processes continues to, whatever its containers become.
        """
        worker = self._workers.get(key_of(pod))
        if worker is not None and worker.uid == pod["metadata"]["uid"]:
            return True
        if (pod["metadata"].get("annotations") or {}).get(ANNOTATION) == "simulated":
            return False
        return run_as_processes(self._images, pod["spec"])

    def on_pod_changed(self, pod: Obj, host: str) -> None:
        """Start a worker for a new pod, or pass the change on to it."""
        key, metadata = key_of(pod), pod["metadata"]
        worker = self._workers.get(key)
        if worker is not None and worker.uid != metadata["uid"]:
            self.on_pod_deleted(key)
            worker = None
        if worker is None:
            if is_finished(pod):
                self._finished[key] = metadata["uid"]
                if metadata.get("deletionTimestamp"):
                    self._run_in_background(finish_deletion(self._client, pod))
                return
            worker = self._workers[key] = PodWorker(
                self._client,
                self._recorder,
                self._hosts,
                pod,
                host=host,
                folder=self._folder / metadata["uid"],
                access=self._access,
                namespaces=self._namespaces,
                services=self._services,
                cgroups=self._cgroups,
                images=self._images,
            )
            self._services.notify()
        worker.on_pod_changed(pod)

    def _host_ports(self) -> Iterator[ServicePort]:
        for worker in self._workers.values():
            if not worker.task.done():
                yield from served_host_ports(worker.pod, *worker.addresses, self.networks)

    def on_pod_deleted(self, pod: Key) -> None:
        """Kill the processes of a deleted pod and delete its files."""
        worker = self._workers.pop(pod, None)
        if worker is not None:
            worker.kill()
            self._services.notify()
            self._run_in_background(self._clean_up(worker))
        elif uid := self._finished.pop(pod, ""):
            self._delete_folder(self._folder / uid)

    def on_volume_released(self, name: str) -> None:
        """Delete the files of a PersistentVolume."""
        self._delete_folder(pod_volumes.volume_folder(self._folder, name))

    def _delete_folder(self, folder: Path) -> None:
        self._run_in_background(asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True))

    async def _delete_leftovers(self) -> None:
        """Delete the files of pods that were deleted while the twin ended."""
        if uids := set(pod_uids(self._folder)):
            uids -= {pod["metadata"]["uid"] for pod in (await self._client.list_all(POD)).items}
        for uid in uids:
            self._delete_folder(self._folder / uid)

    def _run_in_background(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._cleanups.add(task)
        task.add_done_callback(self._cleanups.discard)

    async def _clean_up(self, worker: PodWorker) -> None:
        await asyncio.gather(worker.task, return_exceptions=True)
        await worker.delete_files()

    async def close(self) -> None:
        """Kill all processes."""
        if self._sampling is not None:
            self._sampling.cancel()
        workers = list(self._workers.values())
        for worker in workers:
            worker.kill()
        await asyncio.gather(*(worker.task for worker in workers), *self._cleanups, return_exceptions=True)
        self._workers.clear()
        if self._dns is not None:
            self._dns.close()
        await self._services.close()
        await asyncio.to_thread(self._cgroups.close)
        self._loopback.close()
        await self._recorder.close(1.0)

    def runs(self, pod: Obj) -> bool:
        """Whether a pod runs as processes."""
        return key_of(pod) in self._workers

    def exec(self, pod: Obj, container: str, command: list[str], options: StreamOptions) -> OpenSession:
        """How to run a command in a container; raises BadRequest if the container does not run."""
        return self._find_runner(pod, container).exec(command, options)

    def attach(self, pod: Obj, container: str) -> OpenSession:
        """How to attach to the process of a container; raises BadRequest if the container does not run."""
        return self._find_runner(pod, container).attach()

    def _find_runner(self, pod: Obj, container: str) -> ContainerRunner:
        runner = self._workers[key_of(pod)].containers.get(container)
        if runner is None:  # an ephemeral container that had ended when the twin started
            raise BadRequest(f'container not found ("{container}")')
        return runner

    async def find_address(self, pod: Obj, port: int) -> tuple[str, int]:
        """Where a port of a pod accepts connections: at its address or, if the pod declares the port, on 127.0.0.1.

        Raises OSError.
        """
        declared = {item["containerPort"] for container in pod["spec"]["containers"] for item in container.get("ports") or ()}
        addresses = [self._workers[key_of(pod)].addresses[1], *([_LOOPBACK] if port in declared else [])]
        for address in addresses:
            try:
                _, writer = await asyncio.open_connection(address, port)
            except OSError:
                if address == addresses[-1]:
                    raise
            else:
                writer.close()
                break
        return address, port

    def logs(self, call: Call, pod: Obj, container: str) -> Response:
        """The response to a log request."""
        options = _log_options(call)
        status = _container_status(pod, container)
        count = (status or {}).get("restartCount", 0)
        worker = self._workers.get(key_of(pod))
        runner = worker.containers.get(container) if worker is not None else None
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
        follow = call.flag("follow") and runner is not None and not call.flag("previous")
        return Response(200, _PLAIN_TEXT, stream=stream_log(file, options, runner.ended if runner is not None and follow else None))


def _container_status(pod: Obj, container: str) -> Obj | None:
    status = pod.get("status") or {}
    fields = ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses")
    return next((item for field in fields for item in status.get(field) or () if item["name"] == container), None)


def _log_options(call: Call) -> LogOptions:
    since = None
    if (seconds := call.number("sinceSeconds")) is not None:
        since = since_seconds(seconds)
    elif since_time := call.param("sinceTime"):
        since = datetime.fromisoformat(since_time)
    return LogOptions(call.number("tailLines"), since, call.number("limitBytes"), call.flag("timestamps"))
