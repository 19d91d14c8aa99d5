"""Graph engines under load, each with its own etcd and kube-apiserver: kro with its defaults, kro tuned, and ours."""

from __future__ import annotations

import asyncio
import re
import sys
import urllib.error
import urllib.request
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tests.real.build import build
from tests.real.control_plane import ControlPlane
from tests.real.processes import Process, cpu_seconds, free_port
from tests.real.programs import PROGRAMS
from tests.support import kro as real_kro

from sliceworks.base import clock
from sliceworks.base.errors import SliceworksError
from sliceworks.base.transport import Request
from sliceworks.kube import Client, Resource, open_client
from sliceworks.kube.resources import CUSTOM_RESOURCE_DEFINITION, NAMESPACE

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

Object = dict[str, Any]
GRAPHS = Resource("kro.run", "v1alpha1", "ResourceGraphDefinition", "resourcegraphdefinitions", namespaced=False)
CONCURRENCY = 16
_CHILDREN = ("configmaps", "deployments", "services", "serviceaccounts", "secrets")
_INSTANCES_TIMEOUT, _DEFINITION_TIMEOUT = 900.0, 60.0
TUNED = (
    "--dynamic-controller-concurrent-reconciles=32",
    "--client-qps=0",
    "--dynamic-controller-rate-limiter-rate-limit=100000",
    "--dynamic-controller-rate-limiter-burst-limit=100000",
    "--instance-requeue-interval=1s",
    "--rgd-progress-requeue-delay=200ms",
)
_REQUESTS = re.compile(r"^apiserver_request_total\{(.*)\} (\S+)$", re.MULTILINE)
_LABEL = re.compile(r'(\w+)="([^"]*)"')
_READS = frozenset({"GET", "LIST", "WATCH", "WATCHLIST", "CONNECT"})


@dataclass(frozen=True, slots=True)
class RequestCount:
    """API requests for the objects of the load."""

    total: float
    writes: float

    def __sub__(self, other: RequestCount) -> RequestCount:
        return RequestCount(self.total - other.total, self.writes - other.writes)


class Engine:
    """One graph engine with its control plane."""

    def __init__(self, name: str, folder: Path, flags: tuple[str, ...] = ()) -> None:
        folder.mkdir()
        self.name = name
        self._folder, self._flags = folder, flags
        self.plane = ControlPlane(folder, controllers=())
        self.process: Process | None = None

    def start(self) -> None:
        """Start it and wait until it is ready; kro's CRDs must exist."""
        probes = f"127.0.0.1:{free_port()}"
        common = (
            f"--kubeconfig={self.plane.kubeconfig}",
            "--metrics-bind-address=0",
            f"--health-probe-bind-address={probes}",
            *self._flags,
        )
        if self.name == "ours":
            command = (sys.executable, "-m", "sliceworks", "controller", "run", "graphs", *common)
        else:
            command = (str(build(PROGRAMS["kro"])), *common)
        self.process = Process(self.name, command, self._folder / f"{self.name}.log")
        self.process.wait_until(lambda: _is_ready(f"http://{probes}/readyz"))

    def resident_bytes(self) -> int:
        """Resident memory of the engine, without its control plane."""
        assert self.process is not None
        return self.process.resident_bytes()

    def cpu_seconds(self) -> float:
        """CPU time of the engine so far."""
        assert self.process is not None
        return cpu_seconds(self.process.pid)

    @staticmethod
    def count_requests(resources: frozenset[str], page: str) -> RequestCount:
        """Requests for these resources, from the API server's metrics."""
        total = writes = 0.0
        for labels, value in _REQUESTS.findall(page):
            series = dict(_LABEL.findall(labels))
            if series.get("resource") in resources and series.get("verb") not in ("WATCH", "WATCHLIST"):
                total += float(value)
                if series.get("verb") not in _READS:
                    writes += float(value)
        return RequestCount(total, writes)

    def stop(self) -> None:
        """Stop the engine and its control plane."""
        if self.process is not None:
            self.process.kill()
        self.plane.stop()


def _kro_crds() -> list[dict[str, object]]:
    """The CRDs that kro needs before it starts."""
    return [real_kro.load(path) for path in sorted((real_kro.folder() / "helm" / "crds").glob("*.yaml"))]


def _is_ready(url: str) -> bool:
    with suppress(urllib.error.URLError, OSError), urllib.request.urlopen(url, timeout=2) as response:
        return bool(response.status == 200)
    return False


def chain() -> Object:
    """ConfigMap → Deployment → Service → ServiceAccount: each uses a field of the previous one."""
    name = "${schema.metadata.name}"
    labels = {"app": name}
    containers = [{"name": "main", "image": "${config.data.image}"}]
    pod = {"metadata": {"labels": labels}, "spec": {"containers": containers}}
    deployment = {"replicas": 1, "selector": {"matchLabels": labels}, "template": pod}
    service = {"selector": "${deployment.spec.selector.matchLabels}", "ports": [{"port": 80}]}
    return definition(
        "Chain",
        {"image": "string | default=example.com/image:1"},
        [
            _resource("config", "v1", "ConfigMap", name, data={"image": "${schema.spec.image}"}),
            _resource("deployment", "apps/v1", "Deployment", name, spec=deployment),
            _resource("service", "v1", "Service", "${deployment.metadata.name}", spec=service),
            _resource("account", "v1", "ServiceAccount", "${service.metadata.name}"),
        ],
    )


def wide(count: int) -> Object:
    """`count` ConfigMaps in rows of ten; each row depends on the previous one."""
    resources = []
    for number in range(count):
        previous = f"${{r{number - 10}.metadata.name}}" if number >= 10 else "${schema.metadata.name}"
        resources.append(
            _resource(f"r{number}", "v1", "ConfigMap", f"${{schema.metadata.name}}-{number}", data={"previous": previous})
        )
    return definition(f"Wide{count}", {}, resources)


def collection() -> Object:
    """A collection: one ConfigMap for each item of the instance."""
    resource = _resource("rows", "v1", "ConfigMap", "${schema.metadata.name}-${entry}", data={"entry": "${entry}"})
    return definition("Row", {"items": "[]string"}, [{**resource, "forEach": [{"entry": "${schema.spec.items}"}]}])


def definition(kind: str, spec: Object, resources: list[Object]) -> Object:
    """A ResourceGraphDefinition."""
    return {
        "apiVersion": GRAPHS.api_version,
        "kind": GRAPHS.kind,
        "metadata": {"name": kind.lower()},
        "spec": {"schema": {"apiVersion": "v1alpha1", "kind": kind, "spec": spec}, "resources": resources},
    }


def _resource(identifier: str, api_version: str, kind: str, name: str, **body: Any) -> Object:
    return {"id": identifier, "template": {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, **body}}


class GraphLoad:
    """The load on one engine."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.client: Client = open_client(engine.plane.kubeconfig, namespace="bench", field_manager="bench")
        self._created = 0

    async def prepare(self) -> None:
        """Create the namespace and CRDs, then start the engine."""
        await self.client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "bench"}}, resource=NAMESPACE)
        if self.engine.name != "ours":
            for crd in _kro_crds():
                await self.client.create(crd, resource=CUSTOM_RESOURCE_DEFINITION)
            await clock.sleep(1)
        await asyncio.to_thread(self.engine.start)

    async def publish(self, graph: Object) -> Resource:
        """Create a ResourceGraphDefinition and wait until it is active."""
        await self.client.create(graph, resource=GRAPHS)
        async with asyncio.timeout(_DEFINITION_TIMEOUT):
            while (await self._state(graph)) != "Active":
                await clock.sleep(0.1)
        kind = graph["spec"]["schema"]["kind"]
        return Resource("kro.run", "v1alpha1", kind, f"{kind.lower()}s", subresources=("status",))

    async def _state(self, graph: Object) -> str:
        try:
            definition = await self.client.get(GRAPHS, graph["metadata"]["name"])
        except SliceworksError:
            return ""
        return str((definition.get("status") or {}).get("state"))

    async def create_instances(self, resource: Resource, count: int, spec: Object | None = None) -> float:
        """Create instances; returns the seconds from the first request until all are active."""
        names = [f"i{self._created + number:05d}" for number in range(count)]
        self._created += count
        slots = asyncio.Semaphore(CONCURRENCY)

        async def create(name: str) -> None:
            async with slots:
                body = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {"name": name}, "spec": spec or {}}
                await self.client.create(body, resource=resource)

        started = clock.loop_time()
        all_active = asyncio.create_task(self._wait_active(resource, set(names)))
        await asyncio.gather(*(create(name) for name in names))
        async with asyncio.timeout(_INSTANCES_TIMEOUT):
            await all_active
        return clock.loop_time() - started

    async def _wait_active(self, resource: Resource, pending: set[str]) -> None:
        """Wait until all are active. The server may close a watch at any time; then they are listed again."""
        while pending:
            listed = await self.client.list(resource, "bench")
            pending -= {_name(item) for item in listed.items if _is_active(item)}
            watch = self.client.watch(resource, "bench", resource_version=listed.resource_version, timeout_seconds=3600)
            async with aclosing(watch) as events:
                while pending and (event := await anext(events, None)) is not None:
                    if _is_active(event.object):
                        pending.discard(_name(event.object))

    async def requests(self, *plurals: str) -> RequestCount:
        """Requests so far for these kinds and for the objects of their graphs."""
        response = await self.client.exchange(Request("GET", "/metrics", headers={"accept": "text/plain"}))
        return self.engine.count_requests(frozenset({*_CHILDREN, *plurals}), response.body.decode())

    async def wait_idle(self, *plurals: str) -> None:
        """Wait until there are no writes for three seconds."""
        before = await self.requests(*plurals)
        while True:
            await clock.sleep(3)
            now = await self.requests(*plurals)
            if now.writes == before.writes:
                return
            before = now

    async def close(self) -> None:
        """Close the client."""
        await self.client.close()


def _is_active(instance: Object) -> bool:
    return bool((instance.get("status") or {}).get("state") == "ACTIVE")


def _name(instance: Object) -> str:
    return str(instance["metadata"]["name"])


@asynccontextmanager
async def start_load(engine: Engine) -> AsyncIterator[GraphLoad]:
    """A load on an engine, which is started before and stopped afterwards."""
    load = GraphLoad(engine)
    try:
        await load.prepare()
        yield load
    finally:
        await load.close()
        engine.stop()
