"""Backend discovery: ready pods of the Services that a model's labels select.

It reads pods instead of EndpointSlices, which have no addresses on a twin whose pods share one, as on macOS.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from sliceworks.base import clock
from sliceworks.base.conditions import is_condition_true
from sliceworks.base.names import pluralize
from sliceworks.kube.informers import Informers
from sliceworks.kube.resources import POD, SERVICE
from sliceworks.kube.selectors import from_labels
from sliceworks.serving.gateway.state import create_upstream
from sliceworks.specs.gateway import Backend

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from sliceworks.kube.client import Client
    from sliceworks.kube.informers import Delta, Informer
    from sliceworks.serving.gateway.state import ServedModel, State
    from sliceworks.specs.gateway import Discovery

log = logging.getLogger("sliceworks.gateway.discovery")
Object = dict[str, Any]
_BATCH_DELAY = 0.05
_RETRY_DELAY = 5.0


class BackendDiscovery:
    """Keeps the upstreams of models with discovery up to date; calls `on_change` after it replaced some."""

    def __init__(self, read_state: Callable[[], State], client: Client, on_change: Callable[[], None]) -> None:
        self._read_state, self._client, self._on_change = read_state, client, on_change
        self._changed = asyncio.Event()
        self._logged: dict[str, str] = {}
        """The reason that was last logged for a model without backends."""

    def refresh(self) -> None:
        """Update upstreams after a reload of the document."""
        self._changed.set()

    async def run(self) -> None:
        """Run until cancelled. While the cluster cannot be read, models keep their upstreams."""
        while True:
            try:
                await self._watch_cluster()
            except Exception:
                log.exception("cannot read the cluster; retrying in %g s", _RETRY_DELAY)
                await clock.sleep(_RETRY_DELAY)

    async def _watch_cluster(self) -> None:
        async with Informers(self._client, transform=_trim) as informers:
            watched: dict[str, tuple[Informer, Informer]] = {}
            while True:
                for served in self._read_state().models.values():
                    if (discovery := served.model.discovery) is None:
                        continue
                    namespace = discovery.namespace or self._client.namespace
                    if namespace not in watched:
                        watched[namespace] = self._watch(informers, namespace)
                    services, pods = watched[namespace]
                    if services.synced and pods.synced:
                        self._update(served, discovery, services.store, pods.store)
                        self._log_reason(served, discovery, namespace, services.store)
                await self._changed.wait()
                await clock.sleep(_BATCH_DELAY)
                self._changed.clear()

    def _watch(self, informers: Informers, namespace: str) -> tuple[Informer, Informer]:
        services, pods = informers.open(SERVICE, namespace), informers.open(POD, namespace)
        for informer in (services, pods):
            informer.add_handler(self._on_event)
        return services, pods

    def _on_event(self, _: Delta) -> None:
        self._changed.set()

    def _update(self, served: ServedModel, discovery: Discovery, services: Iterable[Object], pods: Iterable[Object]) -> None:
        backends = dict.fromkeys([*served.model.backends, *find_backends(discovery, services, pods)])
        known = {upstream.backend: upstream for upstream in served.balancer.upstreams}
        if list(backends) == list(known):
            return
        spec = self._read_state().spec
        removed = served.balancer.set_upstreams(known.get(backend) or create_upstream(backend, spec) for backend in backends)
        for upstream in removed:
            upstream.close()
        log.info("%s has %s", served.name, pluralize(len(backends), "backend"))
        self._on_change()

    def _log_reason(self, served: ServedModel, discovery: Discovery, namespace: str, services: Iterable[Object]) -> None:
        """Log once why a model has no backends: a misspelt label looks like a Service that does not exist yet."""
        reason = "" if served.balancer.upstreams else explain_no_backends(discovery, namespace, services)
        if reason and reason != self._logged.get(served.name):
            log.warning("%s has no backends: %s", served.name, reason)
        self._logged[served.name] = reason


def find_backends(discovery: Discovery, services: Iterable[Object], pods: Iterable[Object]) -> list[Backend]:
    """The current backends of a model, sorted by URL."""
    candidates = list(pods)
    selected = (service for service in services if _has_labels(service, discovery.labels))
    backends = {backend.url: backend for service in selected for backend in _service_backends(discovery, service, candidates)}
    return [backends[url] for url in sorted(backends)]


def explain_no_backends(discovery: Discovery, namespace: str, services: Iterable[Object]) -> str:
    """Why discovery finds no backend."""
    selected = [service for service in services if _has_labels(service, discovery.labels)]
    if not selected:
        return f"no Service in namespace {namespace} has the labels {from_labels(discovery.labels)}"
    names = " and ".join(f"service/{service['metadata']['name']}" for service in selected)
    ports = [port for service in selected for port in service["spec"].get("ports") or ()]
    if not any(discovery.port in (port.get("name"), str(port["port"])) for port in ports):
        known = ", ".join(str(port.get("name") or port["port"]) for port in ports)
        return f"{names} has no port {discovery.port} (ports: {known or 'none'})"
    return f"no pod of {names} is ready"


def _service_backends(discovery: Discovery, service: Object, pods: list[Object]) -> Iterator[Backend]:
    selector = service["spec"].get("selector") or {}
    for pod in pods if selector else ():
        if not (_has_labels(pod, selector) and _is_ready(pod)):
            continue
        address, port = pod["status"]["podIP"], _target_port(service, pod, discovery.port)
        if port is None:
            continue
        host = f"[{address}]" if ":" in address else address
        grpc_port = _target_port(service, pod, discovery.grpc_port) if discovery.grpc_port else None
        grpc = f"{host}:{grpc_port}" if grpc_port else ""
        yield Backend(kind=discovery.kind, url=f"http://{host}:{port}", model=discovery.model, grpc=grpc)


def _has_labels(obj: Object, labels: dict[str, str]) -> bool:
    return labels.items() <= (obj["metadata"].get("labels") or {}).items()


def _is_ready(pod: Object) -> bool:
    """Whether a pod is ready and not terminating."""
    is_terminating, address = pod["metadata"].get("deletionTimestamp"), (pod.get("status") or {}).get("podIP")
    return bool(address) and not is_terminating and is_condition_true(pod, "Ready")


def _target_port(service: Object, pod: Object, name: str) -> int | None:
    """The pod's port number for a Service port, given by name or number."""
    for port in service["spec"].get("ports") or ():
        if name in (port.get("name"), str(port["port"])):
            target = port.get("targetPort", port["port"])
            if isinstance(target, int):
                return target
            ports = (port for container in pod["spec"]["containers"] for port in container.get("ports") or ())
            return next((port["containerPort"] for port in ports if port.get("name") == target), None)
    return None


_METADATA = ("name", "namespace", "uid", "resourceVersion", "labels", "deletionTimestamp")


def _trim(obj: Object) -> Object:
    """The fields of a Service or a pod that discovery needs; the informers store only these."""
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    metadata = {key: obj["metadata"][key] for key in _METADATA if key in obj["metadata"]}
    if "containers" not in spec:
        return {"metadata": metadata, "spec": {"selector": spec.get("selector"), "ports": spec.get("ports")}}
    ready = [condition for condition in status.get("conditions") or () if condition["type"] == "Ready"]
    containers = [{"ports": container.get("ports") or []} for container in spec["containers"]]
    return {"metadata": metadata, "spec": {"containers": containers}, "status": {"podIP": status.get("podIP"), "conditions": ready}}
