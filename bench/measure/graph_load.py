"""The load on graph engines: definitions, instances, and how long until all of them are ready."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from bench.measure.engines import kro_definitions

from sliceworks.base import clock
from sliceworks.base.errors import SliceworksError
from sliceworks.kube import Client, Resource, open_client
from sliceworks.kube.transport import Request
from sliceworks.kube.well_known import CUSTOM_RESOURCE_DEFINITION, NAMESPACE

if TYPE_CHECKING:
    from bench.measure.engines import Calls, Engine

Object = dict[str, Any]
GRAPHS = Resource("kro.run", "v1alpha1", "ResourceGraphDefinition", "resourcegraphdefinitions", namespaced=False)
AT_ONCE = 16
_CHILDREN = ("configmaps", "deployments", "services", "serviceaccounts", "secrets")
_PATIENCE, _PUBLISHED = 900.0, 60.0


def chain() -> Object:
    """ConfigMap → Deployment → Service → ServiceAccount: each takes something from the one before."""
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
    """So many ConfigMaps in rows of ten, each row after the one before."""
    resources = []
    for number in range(count):
        before = f"${{r{number - 10}.metadata.name}}" if number >= 10 else "${schema.metadata.name}"
        resources.append(_resource(f"r{number}", "v1", "ConfigMap", f"${{schema.metadata.name}}-{number}", data={"before": before}))
    return definition(f"Wide{count}", {}, resources)


def collection() -> Object:
    """As many ConfigMaps as the instance asks for."""
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
    """One engine under load."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.client: Client = open_client(engine.plane.kubeconfig, namespace="bench", field_manager="bench")
        self._made = 0

    async def prepare(self) -> None:
        """The namespace, and what the engine needs; then start it."""
        await self.client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "bench"}}, resource=NAMESPACE)
        if self.engine.name != "ours":
            for crd in kro_definitions():
                await self.client.create(crd, resource=CUSTOM_RESOURCE_DEFINITION)
            await clock.sleep(1)
        await asyncio.to_thread(self.engine.start)

    async def publish(self, graph: Object) -> Resource:
        """Apply a definition and wait until its kind is served."""
        await self.client.create(graph, resource=GRAPHS)
        async with asyncio.timeout(_PUBLISHED):
            while (await self._state(graph)) != "Active":
                await clock.sleep(0.1)
        kind = graph["spec"]["schema"]["kind"]
        return Resource("kro.run", "v1alpha1", kind, f"{kind.lower()}s", subresources=("status",))

    async def _state(self, graph: Object) -> str:
        try:
            found = await self.client.get(GRAPHS, graph["metadata"]["name"])
        except SliceworksError:
            return ""
        return str((found.get("status") or {}).get("state"))

    async def make(self, resource: Resource, count: int, spec: Object | None = None) -> float:
        """Make instances; seconds from the first request until all are active."""
        names = [f"i{self._made + number:05d}" for number in range(count)]
        self._made += count
        turns = asyncio.Semaphore(AT_ONCE)

        async def one(name: str) -> None:
            async with turns:
                body = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {"name": name}, "spec": spec or {}}
                await self.client.create(body, resource=resource)

        began = clock.loop_time()
        watching = asyncio.create_task(self._all_active(resource, set(names)))
        await asyncio.gather(*(one(name) for name in names))
        async with asyncio.timeout(_PATIENCE):
            await watching
        return clock.loop_time() - began

    async def _all_active(self, resource: Resource, waited: set[str]) -> None:
        """Wait for all of them. A server may end a watch at any time: then they are listed anew."""
        while waited:
            listed = await self.client.list(resource, "bench")
            waited -= {_name(item) for item in listed.items if _active(item)}
            watch = self.client.watch(resource, "bench", resource_version=listed.resource_version, timeout_seconds=3600)
            async with aclosing(watch) as events:
                while waited and (event := await anext(events, None)) is not None:
                    if _active(event.object):
                        waited.discard(_name(event.object))

    async def calls(self, *plurals: str) -> Calls:
        """Requests that the server has answered so far about these kinds and their objects."""
        response = await self.client.exchange(Request("GET", "/metrics", headers={"accept": "text/plain"}))
        return self.engine.calls(frozenset({*_CHILDREN, *plurals}), response.body.decode())

    async def at_rest(self, *plurals: str) -> None:
        """Wait until nobody writes for a while."""
        before = await self.calls(*plurals)
        while True:
            await clock.sleep(3)
            now = await self.calls(*plurals)
            if now.writes == before.writes:
                return
            before = now

    async def close(self) -> None:
        """Let go."""
        await self.client.close()


def _active(instance: Object) -> bool:
    return bool((instance.get("status") or {}).get("state") == "ACTIVE")


def _name(instance: Object) -> str:
    return str(instance["metadata"]["name"])
