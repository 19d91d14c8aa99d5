"""Servers that the cluster knows: the ready pods of the Services that a model's labels select, as they come and go.

Pods are asked, and not EndpointSlices: those hold no addresses on a twin whose pods all share one, as on a Mac.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from sliceworks.base import clock
from sliceworks.base.conditions import is_true
from sliceworks.base.words import counted
from sliceworks.kube.informers import Informers
from sliceworks.kube.selectors import from_labels
from sliceworks.kube.well_known import POD, SERVICE
from sliceworks.serving.gateway.state import make_server
from sliceworks.specs.gateway import Backend

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from sliceworks.kube.client import Client
    from sliceworks.kube.informers import Delta, Informer
    from sliceworks.serving.gateway.app import Application
    from sliceworks.serving.gateway.calls import Served
    from sliceworks.specs.gateway import Discovery

log = logging.getLogger("sliceworks.gateway.discovery")
Object = dict[str, Any]
_TOGETHER = 0.05  # seconds in which changes are gathered
_AGAIN = 5.0


class Discoverer:
    """Keeps the groups of models that are discovered filled; `follow` looks after servers that have come."""

    def __init__(self, application: Application, client: Client, follow: Callable[[], None]) -> None:
        self._application, self._client, self._follow = application, client, follow
        self._changed = asyncio.Event()
        self._told: dict[str, str] = {}
        """Why a model has no servers, as it was told last."""

    def refresh(self) -> None:
        """Look again: the document has changed."""
        self._changed.set()

    async def run(self) -> None:
        """Until cancelled. While the cluster does not answer, servers stay as they were, and so after a fault of our own."""
        while True:
            try:
                await self._keep()
            except Exception:
                log.exception("the cluster cannot be read, and is asked again in %g s", _AGAIN)
                await clock.sleep(_AGAIN)

    async def _keep(self) -> None:
        async with Informers(self._client, transform=_small) as informers:
            watched: dict[str, tuple[Informer, Informer]] = {}
            while True:
                for served in self._discovered():
                    place = self._place(served)
                    if place not in watched:
                        watched[place] = self._watch(informers, place)
                    services, pods = watched[place]
                    if services.synced and pods.synced:
                        self._fill(served, services.store, pods.store)
                        self._tell(served, place, services.store)
                await self._changed.wait()
                await clock.sleep(_TOGETHER)
                self._changed.clear()

    def _watch(self, informers: Informers, place: str) -> tuple[Informer, Informer]:
        found = informers.open(SERVICE, place), informers.open(POD, place)
        for each in found:
            each.add_handler(self._seen)
        return found

    def _seen(self, _: Delta) -> None:
        self._changed.set()

    def _discovered(self) -> list[Served]:
        return [each for each in self._application.state.models.values() if each.model.discover is not None]

    def _place(self, served: Served) -> str:
        assert served.model.discover is not None
        return served.model.discover.namespace or self._client.namespace

    def _fill(self, served: Served, services: Iterable[Object], pods: Iterable[Object]) -> None:
        discover = served.model.discover
        assert discover is not None
        found = dict.fromkeys([*served.model.backends, *backends(discover, services, pods)])
        known = {server.backend: server for server in served.group.servers}
        if list(found) == list(known):
            return
        spec = self._application.state.spec
        gone = served.group.replace(known.get(each) or make_server(each, spec) for each in found)
        for server in gone:
            server.close()
        log.info("%s has %s", served.name, counted(len(found), "server"))
        self._follow()

    def _tell(self, served: Served, place: str, services: Iterable[Object]) -> None:
        """Why there are no servers, once: a name that is misspelt looks like one that nobody has yet."""
        discover = served.model.discover
        assert discover is not None
        reason = "" if served.group.servers else lacking(discover, place, services)
        if reason and reason != self._told.get(served.name):
            log.warning("%s has no servers: %s", served.name, reason)
        self._told[served.name] = reason


def backends(discover: Discovery, services: Iterable[Object], pods: Iterable[Object]) -> list[Backend]:
    """The servers that a model has now, by their addresses."""
    listed = list(pods)
    found = {each.url: each for service in services if _has(service, discover.labels) for each in _of(discover, service, listed)}
    return [found[url] for url in sorted(found)]


def lacking(discover: Discovery, place: str, services: Iterable[Object]) -> str:
    """Why a model has no server."""
    labelled = [each for each in services if _has(each, discover.labels)]
    if not labelled:
        return f"no Service in {place} has the labels {from_labels(discover.labels)}"
    named = " and ".join(f"service/{each['metadata']['name']}" for each in labelled)
    ports = [port for each in labelled for port in each["spec"].get("ports") or ()]
    if not any(discover.port in (port.get("name"), str(port["port"])) for port in ports):
        known = ", ".join(str(port.get("name") or port["port"]) for port in ports)
        return f"{named} has no port {discover.port}, it has {known or 'none'}"
    return f"no pod of {named} is ready"


def _of(discover: Discovery, service: Object, pods: list[Object]) -> Iterator[Backend]:
    selector = service["spec"].get("selector") or {}
    for pod in pods if selector else ():
        if not (_has(pod, selector) and _ready(pod)):
            continue
        address, port = pod["status"]["podIP"], _port(service, pod, discover.port)
        if port is None:
            continue
        host = f"[{address}]" if ":" in address else address
        passed = _port(service, pod, discover.grpc_port) if discover.grpc_port else None
        grpc = f"{host}:{passed}" if passed else ""
        yield Backend(kind=discover.kind, url=f"http://{host}:{port}", model=discover.model, grpc=grpc)


def _has(obj: Object, labels: dict[str, str]) -> bool:
    return labels.items() <= (obj["metadata"].get("labels") or {}).items()


def _ready(pod: Object) -> bool:
    """Whether a pod answers, and is to go on doing so."""
    leaving, address = pod["metadata"].get("deletionTimestamp"), (pod.get("status") or {}).get("podIP")
    return bool(address) and not leaving and is_true(pod, "Ready")


def _port(service: Object, pod: Object, wanted: str) -> int | None:
    """The number that a pod has for a port of its Service."""
    for port in service["spec"].get("ports") or ():
        if wanted in (port.get("name"), str(port["port"])):
            target = port.get("targetPort", port["port"])
            if isinstance(target, int):
                return target
            return next((each["containerPort"] for each in _ports(pod) if each.get("name") == target), None)
    return None


def _ports(pod: Object) -> Iterator[Object]:
    for container in pod["spec"]["containers"]:
        yield from container.get("ports") or ()


def _small(obj: Object) -> Object:
    """What is kept of a Service or a pod."""
    metadata, spec, status = obj["metadata"], obj.get("spec") or {}, obj.get("status") or {}
    kept = {
        key: metadata[key]
        for key in ("name", "namespace", "uid", "resourceVersion", "labels", "deletionTimestamp")
        if key in metadata
    }
    if "containers" in spec:
        ready = [each for each in status.get("conditions") or () if each["type"] == "Ready"]
        containers = [{"ports": each.get("ports") or []} for each in spec["containers"]]
        return {"metadata": kept, "spec": {"containers": containers}, "status": {"podIP": status.get("podIP"), "conditions": ready}}
    return {"metadata": kept, "spec": {"selector": spec.get("selector"), "ports": spec.get("ports")}}
