"""A whole cluster in this process: the store, the API and the controllers that keep it in order."""

from __future__ import annotations

import asyncio
import contextlib
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Self

from sliceworks.kube.inprocess import InProcess
from sliceworks.schemas import builtins
from sliceworks.twin import bootstrap
from sliceworks.twin.api.app import Api
from sliceworks.twin.api.core import Core, StoreView
from sliceworks.twin.api.customs import Customs
from sliceworks.twin.api.definitions import DefinitionController
from sliceworks.twin.api.kinds import strategy
from sliceworks.twin.api.resources import Registry, Resource, Subresource, Version
from sliceworks.twin.auth.jwt import Issuer
from sliceworks.twin.auth.rbac import RESOURCES, Rbac
from sliceworks.twin.auth.tokens import Authenticator, administrator, new_token
from sliceworks.twin.controllers.manager import Controllers
from sliceworks.twin.controllers.programs import acting_as
from sliceworks.twin.store.store import Store

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from sliceworks.kube.transport import Request, Response
    from sliceworks.twin.auth.identity import User
    from sliceworks.twin.cloud.server import CloudServer
    from sliceworks.twin.nodes.player import Nodes
    from sliceworks.twin.nodes.processes.runtime import ProcessRuntime
    from sliceworks.twin.store.entries import Change


NODES = "nodes"
"""The program that plays the nodes."""


def builtin_registry() -> Registry:
    """Every built-in resource, with its versions folded together."""
    catalogue = builtins.catalogue()
    found: dict[tuple[str, str], Resource] = {}
    for item in catalogue.resources:
        version = Version(
            item.version,
            cache(partial(catalogue.schema, item.group, item.version, item.kind)),
            {
                below.name: Subresource(below.name, below.kind, below.verbs, below.group, below.version)
                for below in item.subresources
            },
            item.verbs,
        )
        resource = found.get((item.group, item.plural))
        if resource is not None:
            resource.versions[item.version] = version
            continue
        key = f"{item.group}/{item.plural}"
        found[item.group, item.plural] = Resource(
            group=item.group,
            kind=item.kind,
            plural=item.plural,
            singular=item.singular,
            namespaced=item.namespaced,
            versions={item.version: version},
            storage_version=catalogue.storage_version(item.group),
            storage_hash=item.storage_version_hash,
            strategy=strategy(key, has_status="status" in version.subresources),
            short_names=item.short_names,
            categories=item.categories,
            stored_as="/events" if key == "events.k8s.io/events" else "",
        )
    registry = Registry()
    for resource in found.values():
        registry.add(resource)
    return registry


class Cluster:
    """An embedded cluster. Use it as an async context manager: controllers run inside.

    Without `workloads` it is an API server with what keeps it in order, and nothing makes pods or places them.
    With `processes` the commands of containers run on this machine, with their files in that folder. With `config_connector` it has
    the kinds of Config Connector, and what keeps them. What asks it from this process waits for `between` before each request.
    """

    def __init__(
        self,
        store: Store | None = None,
        *,
        token: str = "",
        key_file: Path | None = None,
        ca: str = "",
        workloads: bool = True,
        processes: Path | None = None,
        config_connector: bool = False,
        between: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self.store = store or Store()
        self.token = token or new_token()
        registry = builtin_registry()
        view = StoreView(self.store)
        issuer = Issuer(key_file)
        rbac = Rbac(view.list)
        self.core = Core(self.store, registry, rbac, issuer)
        self.core.customs = Customs(self.core)
        self.api = Api(self.core, Authenticator({self.token: administrator()}, issuer, view.get))
        self._handle = self.api.handle if between is None else _waiting_for(between, self.api.handle)
        self.controllers = Controllers(self.store, registry, self._handle_as, authority=ca, workloads=workloads)
        self.core.pages |= self.controllers.pages
        self.nodes: Nodes | None = None
        self._cloud: CloudServer | None = None
        self._workloads = workloads
        self._authority = ca
        self._processes = processes
        self._runtime: ProcessRuntime | None = None
        self._tasks: list[asyncio.Task[Any]] = []
        self._installed = self._install(config_connector) if workloads else []
        self.store.subscribe(self._observe_roles)

    def _install(self, config_connector: bool) -> list[dict[str, Any]]:
        from sliceworks.twin.workloads import install

        return install(self.store, self.core.webhooks, config_connector_kinds=config_connector)

    def _observe_roles(self, change: Change) -> None:
        if change.resource in RESOURCES:
            self.core.rbac.observe(change.resource, change.namespace, change.name, None if change.type == "DELETED" else change.obj)

    async def __aenter__(self) -> Self:
        self._open_runtime()
        bootstrap.fill(self.store, self.core.registry, self.core.view, self._installed)
        self.core.customs.start()
        self._tasks = [asyncio.create_task(DefinitionController(self.core).run())]
        self.controllers.start()
        await self.store.settled()
        if self._workloads:
            await self._start_nodes()
        self._open_cloud()
        return self

    def reached_at(self, url: str, ca: bytes) -> None:
        """The API is served there: processes of pods are told."""
        if self._runtime is not None:
            self._runtime.reached_at(url, ca)

    def _open_runtime(self) -> None:
        """What runs processes says which addresses pods and Services have."""
        if self._processes is None or not self._workloads:
            return
        from sliceworks.twin.nodes.embedded import process_runtime

        self._runtime = process_runtime(self.as_user, self._processes)
        self.core.logs = self._runtime.logs
        if (networks := self._runtime.networks) is not None:
            self.core.pod_network, self.core.view.service_network = networks

    async def _start_nodes(self) -> None:
        if self._runtime is not None:
            await self._runtime.open()
        await self.revive_nodes()

    async def revive_nodes(self) -> None:
        """Play the nodes, from what the store says of them."""
        from sliceworks.twin.nodes.embedded import embedded_nodes

        with acting_as(NODES):
            self.nodes = await embedded_nodes(self.as_user, self.store, self._runtime).__aenter__()

    async def kill_nodes(self) -> None:
        """Play the nodes no more: machines and pods stay as they are, and nobody says anything of them."""
        nodes, self.nodes = self.nodes, None
        if nodes is not None:
            await nodes.__aexit__()

    def _open_cloud(self) -> None:
        from sliceworks.twin.admission import extended_resources

        self.api.debug["debug/twin/cloud"] = self._order_of_cloud
        # Once the cloud has a cluster, this is one of GKE's.
        extended_resources.install(self.core.webhooks, lambda: self.store.count("cloud.container/clusters") > 0)
        if any(resource.startswith("cloud.") for resource in self.store.resources()):
            self._start_cloud()

    @property
    def cloud(self) -> CloudServer:
        """Google's APIs, whose node pools are nodes here. They begin when they are first asked: most twins never are."""
        return self._cloud or self._start_cloud()

    def _start_cloud(self) -> CloudServer:
        from sliceworks.twin.cloud.embedded import embedded_cloud

        self._cloud = embedded_cloud(self.store, self.as_user, self.token, authority=self._authority)
        self._cloud.start()
        return self._cloud

    async def serve_cloud(self, request: Request, certificate: User | None = None) -> Response:
        """Google's APIs, for an HTTP server."""
        return await self.cloud.serve(request, certificate)

    async def _order_of_cloud(self, request: Request) -> Response:
        from sliceworks.twin.cloud.embedded import control

        return await control(self.cloud)(request)

    async def __aexit__(self, *_: object) -> None:
        if self._cloud is not None:
            await self._cloud.__aexit__()
        await self.kill_nodes()
        if self._runtime is not None:
            await self._runtime.close()
        await self.controllers.stop()
        for task in self._tasks:
            task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.gather(*self._tasks, return_exceptions=True)
        self.store.close_watches()
        self.store.close()

    async def _handle_as(self, request: Request, user: User) -> Response:
        return await self._handle(request, certificate=user)

    def as_user(self, user: User) -> InProcess:
        """A transport whose requests come from a user of this process' choosing."""
        return InProcess(partial(self._handle, certificate=user))

    def transport(self, token: str = "") -> InProcess:
        """A transport that presents a token: the administrator's unless another is given."""
        return InProcess(self._handle, token=token or self.token)


def _waiting_for(between: Callable[[], Awaitable[None]], handle: Callable[..., Awaitable[Response]]) -> Any:
    """Answer a request once something else has let it pass."""

    async def answer(request: Request, **options: Any) -> Response:
        await between()
        return await handle(request, **options)

    return answer
