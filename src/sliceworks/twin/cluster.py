"""An embedded cluster: store, API server, controllers, nodes and cloud in one process."""

from __future__ import annotations

import asyncio
import contextlib
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urlsplit

from sliceworks.base.sockets import is_ipv4
from sliceworks.base.transport import InProcess
from sliceworks.twin.apiserver import bootstrap
from sliceworks.twin.apiserver.aggregation.controller import ApiServiceController
from sliceworks.twin.apiserver.auth.authentication import Authenticator, administrator, new_token
from sliceworks.twin.apiserver.auth.rbac import RESOURCES, Rbac
from sliceworks.twin.apiserver.auth.service_account_token import TokenIssuer
from sliceworks.twin.apiserver.generic_server import ApiHandler, ApiServer, StoreView
from sliceworks.twin.apiserver.registry.crd_controller import CrdController
from sliceworks.twin.apiserver.registry.kinds import builtin_registry
from sliceworks.twin.cloud.core.workload_access import WorkloadAccess
from sliceworks.twin.controllers.manager import ControllerManager, run_as_component
from sliceworks.twin.store.store import Store

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection
    from pathlib import Path

    from sliceworks.base.transport import Request, Response
    from sliceworks.twin.apiserver.auth.authentication import User
    from sliceworks.twin.apiserver.auth.certificates import FrontProxy
    from sliceworks.twin.cloud.core.cloud_server import CloudServer
    from sliceworks.twin.cloud.pod_storage import PodStorage
    from sliceworks.twin.nodes.runtime.image import ImageMap
    from sliceworks.twin.nodes.runtime.process_runtime import ProcessRuntime
    from sliceworks.twin.nodes.simulator import NodeSimulator
    from sliceworks.twin.store.watch_cache import Change


NODES = "nodes"
"""The component name of the node simulator."""


class Cluster:
    """An embedded cluster. Use it as an async context manager: controllers run inside.

    Without `workloads` it has no nodes, scheduler or workload controllers; the controllers in `without` do not run, and their
    kinds and webhooks are not installed. With `processes`, the commands of containers run as
    processes of this machine, with their files in that directory; with `images`, those of containers with these images. With
    `config_connector`, the kinds and controllers of Config Connector are installed. Aggregated APIs know the API server by the
    certificate of `front_proxy`. `features` are those that kube-apiserver has off by default.
    Pods of Jobs complete after `job_seconds` unless an annotation says otherwise; None: they run until they are
    deleted. In-process requests await `between` first.
    """

    def __init__(
        self,
        store: Store | None = None,
        *,
        token: str = "",
        key_file: Path | None = None,
        ca: str = "",
        front_proxy: FrontProxy | None = None,
        features: Collection[str] = (),
        workloads: bool = True,
        without: Collection[str] = (),
        processes: Path | None = None,
        hidden: tuple[Path, ...] = (),
        images: ImageMap | None = None,
        config_connector: bool = False,
        job_seconds: float | None = None,
        between: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self.store = store or Store()
        self.token = token or new_token()
        registry = builtin_registry(features)
        view = StoreView(self.store)
        issuer = TokenIssuer(key_file)
        rbac = Rbac(view.list)
        self.api_server = ApiServer(self.store, registry, rbac, issuer)
        self.api = ApiHandler(self.api_server, Authenticator({self.token: administrator()}, issuer, view.get))
        self._handle = self.api.handle if between is None else _handle_after(between, self.api.handle)
        access = WorkloadAccess(self.store)
        self.controllers = ControllerManager(
            self.store,
            registry,
            self._handle_as,
            authority=ca,
            issuer=issuer,
            workloads=workloads,
            without=without,
            cloud_access=access,
        )
        self.api_server.aggregated_apis |= self.controllers.aggregated_apis
        self.api_server.proxy_client = front_proxy.client_file if front_proxy is not None else None
        self.without = frozenset(without)
        self.nodes: NodeSimulator | None = None
        self._cloud: CloudServer | None = None
        self._workloads = workloads
        self._authority, self._front_proxy = ca, front_proxy
        self._endpoint = ""
        self._processes, self._hidden, self._images = processes, hidden, images
        self._job_seconds = job_seconds
        self._runtime: ProcessRuntime | None = None
        self._tasks: list[asyncio.Task[Any]] = []
        self._installed = self._install(config_connector) if workloads else []
        self.store.subscribe(self._observe_roles, RESOURCES)

    def _install(self, config_connector: bool) -> list[dict[str, Any]]:
        from sliceworks.twin.controllers.installation import install

        return install(self.store, self.api_server.webhooks, config_connector_kinds=config_connector, without=self.without)

    def _observe_roles(self, change: Change) -> None:
        obj = None if change.type == "DELETED" else change.obj
        self.api_server.rbac.observe(change.resource, change.namespace, change.name, obj)

    async def __aenter__(self) -> Self:
        self._open_runtime()
        registry, proxy = self.api_server.registry, self._front_proxy
        aggregated = [
            f"{version}.{group}" for group, api in self.api_server.aggregated_apis.items() for version in api.resources[0].versions
        ]
        api_services = bootstrap.api_services(registry, aggregated)
        bootstrap.restore_api_services(self.store, api_services)
        objects = [
            *bootstrap.config_maps(self._authority, proxy.authority if proxy is not None else ""),
            *api_services,
            *self._installed,
        ]
        bootstrap.create_missing(self.store, registry, self.api_server.view, objects)
        self.api_server.crd_registry.start()
        controllers = (CrdController(self.api_server), ApiServiceController(self.api_server))
        self._tasks = [asyncio.create_task(controller.run()) for controller in controllers]
        self.controllers.start()
        await self.store.wait_durable()
        if self._workloads:
            await self._start_nodes()
        self._open_cloud()
        return self

    def set_api_address(self, url: str, ca: bytes) -> None:
        """Set the address of the API: the endpoint of its Service and of clusters in the cloud, for pods that are processes."""
        self._endpoint = url.removeprefix("https://")
        parts = urlsplit(url)
        if parts.hostname and parts.port and is_ipv4(parts.hostname):
            bootstrap.put_api_endpoints(self.store, parts.hostname, parts.port)
        if self._cloud is not None:
            self._set_endpoint(self._cloud)
        if self._runtime is not None:
            self._runtime.set_api_address(url, ca)

    def _set_endpoint(self, cloud: CloudServer) -> None:
        if self._endpoint:
            container: Any = cloud.services["container"]
            container.clusters.address = self._endpoint

    def _open_runtime(self) -> None:
        """Create the process runtime, which decides on the networks of pods and Services."""
        if self._processes is None or not self._workloads:
            return
        from sliceworks.twin.nodes.embedded_nodes import process_runtime
        from sliceworks.twin.nodes.runtime import resource_metrics

        self._runtime = process_runtime(self.as_user, self._processes, self._hidden, self._images)
        self.api_server.kubelet = self._runtime
        if apis := self._runtime.aggregated_apis():
            self.api_server.aggregated_apis |= apis
            self._installed.append(resource_metrics.reader_role())
        if (networks := self._runtime.networks) is not None:
            self.api_server.pod_network, self.api_server.view.service_network = networks

    async def _start_nodes(self) -> None:
        if self._runtime is not None:
            await self._runtime.open()
        await self.start_nodes()

    async def start_nodes(self) -> None:
        """Simulate the nodes in the store."""
        from sliceworks.twin.nodes.embedded_nodes import embedded_nodes

        with run_as_component(NODES):
            nodes = embedded_nodes(self.as_user, self.store, self._runtime, job_seconds=self._job_seconds, storage=self.pod_storage)
            self.nodes = await nodes.__aenter__()

    @cached_property
    def pod_storage(self) -> PodStorage:
        """Cloud Storage as simulated pods use it."""
        from sliceworks.twin.cloud.pod_storage import PodStorage

        return PodStorage(self.store)

    async def stop_nodes(self) -> None:
        """Stop the node simulator: nodes and pods keep their last status."""
        nodes, self.nodes = self.nodes, None
        if nodes is not None:
            await nodes.__aexit__()

    def _open_cloud(self) -> None:
        from sliceworks.twin.apiserver.admission import toleration

        self.api.debug["debug/twin/cloud"] = self._control_cloud
        # GKE enables this plugin: act as GKE once the cloud has a cluster.
        toleration.install_extended_resource_toleration(
            self.api_server.webhooks, lambda: self.store.has_objects("cloud.container/clusters")
        )
        if any(resource.startswith("cloud.") for resource in self.store.resources()):
            self._start_cloud()

    @property
    def cloud(self) -> CloudServer:
        """Google's APIs, whose node pools become nodes of this cluster; started on first use."""
        return self._cloud or self._start_cloud()

    def _start_cloud(self) -> CloudServer:
        from sliceworks.twin.cloud.backends import create_embedded_cloud

        self._cloud = create_embedded_cloud(self.store, self._as_cloud, self.token, authority=self._authority)
        self._set_endpoint(self._cloud)
        self._cloud.start()
        return self._cloud

    def _as_cloud(self, user: User) -> InProcess:
        """A transport for the cloud, whose requests belong to no component: the cloud works on when its caller is killed."""

        async def handle(request: Request, **options: Any) -> Response:
            with run_as_component(""):
                return await self._handle(request, certificate=user, **options)

        return InProcess(handle)

    async def serve_cloud(self, request: Request, certificate: User | None = None) -> Response:
        """Handle a request to Google's APIs."""
        return await self.cloud.serve(request, certificate)

    async def _control_cloud(self, request: Request) -> Response:
        from sliceworks.twin.cloud.backends import control_handler

        return await control_handler(self.cloud)(request)

    async def __aexit__(self, *_: object) -> None:
        if self._cloud is not None:
            await self._cloud.__aexit__()
        await self.stop_nodes()
        if self._runtime is not None:
            await self._runtime.close()
        await self.controllers.stop()
        await self.api_server.close()
        for task in self._tasks:
            task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.gather(*self._tasks, return_exceptions=True)
        self.store.close_watches()
        self.store.close()

    async def _handle_as(self, request: Request, user: User) -> Response:
        return await self._handle(request, certificate=user)

    def as_user(self, user: User) -> InProcess:
        """A transport that sends requests as a user."""
        return InProcess(partial(self._handle, certificate=user))

    def transport(self, token: str = "") -> InProcess:
        """A transport that authenticates with a token, by default the administrator's."""
        return InProcess(self._handle, token=token or self.token)


def _handle_after(between: Callable[[], Awaitable[None]], handle: Callable[..., Awaitable[Response]]) -> Any:
    async def handle_after(request: Request, **options: Any) -> Response:
        await between()
        return await handle(request, **options)

    return handle_after
