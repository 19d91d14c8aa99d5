"""Runs the Sliceworks controllers in the twin's process: those that documents require, and those that are installed as
Deployments.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import orjson

from sliceworks.base import clock
from sliceworks.base.errors import NotFound, SliceworksError, root_error
from sliceworks.cloud.credentials import Token
from sliceworks.kube.client import Client
from sliceworks.kube.resources import CONFIG_MAP, SERVICE_ACCOUNT
from sliceworks.schemas import config_connector
from sliceworks.twin.cloud.core.authorization import AccessTokens
from sliceworks.twin.cloud.core.cloud_server import IMPERSONATION
from sliceworks.twin.cloud.core.workload_access import WorkloadAccess, project_of
from sliceworks.twin.controllers import controller_names
from sliceworks.twin.controllers.manager import run_as_component

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterable

    from sliceworks.base.yaml_documents import Document
    from sliceworks.cloud.credentials import Credentials
    from sliceworks.controllers.slices.settings import Settings
    from sliceworks.specs.scenario import CloudCluster, Scenario
    from sliceworks.twin.cluster import Cluster
    from sliceworks.twin.controllers.manager import Component
    from sliceworks.twin.store.watch_cache import Change

Object = dict[str, Any]
log = logging.getLogger(__name__)
DEPLOYMENTS = "apps/deployments"
_NAME, _COMPONENT = "app.kubernetes.io/name", "app.kubernetes.io/component"
_COMPONENTS = (controller_names.GRAPHS, controller_names.SLICES)
_READY_POLL = 0.1
GOOGLE_ACCOUNT = "iam.gke.io/gcp-service-account"
_TOKEN_SECONDS = 10 * 365 * 86400.0
_RESTART_DELAY = 5.0  # seconds before an ended controller restarts, like a pod


@dataclass(frozen=True, slots=True)
class Restartable:
    """A component that a drill can kill and start again; its tasks write under its name."""

    name: str
    kill: Callable[[], Awaitable[None]]
    restart: Callable[[], Awaitable[None]]


def list_restartables(cluster: Cluster) -> list[Restartable]:
    """The twin's own components: controllers, scheduler, JobSet, Kueue and the node simulator."""
    from sliceworks.twin.cluster import NODES

    def of(program: Component) -> Restartable:
        async def restart() -> None:
            cluster.controllers.restart(program)

        return Restartable(program.name, program.kill, restart)

    return [*map(of, cluster.controllers.components), Restartable(NODES, cluster.stop_nodes, cluster.start_nodes)]


@dataclass(frozen=True, slots=True)
class ControllerRequirements:
    """Controllers that documents need: graphs, Config Connector's kinds, and slices where a scenario names the cloud cluster."""

    graphs: bool = False
    config_connector: bool = False
    slices: CloudCluster | None = None

    @classmethod
    def of(cls, documents: Iterable[Document], scenario: Scenario | None = None) -> ControllerRequirements:
        """Requirements of documents. A graph that creates Config Connector objects needs their kinds, as such an object does."""
        graphs = connector = False
        for document in documents:
            graphs = graphs or document.data.get("kind") == "ResourceGraphDefinition"
            connector = connector or config_connector.GROUPS.encode() in orjson.dumps(document.data, default=str)
        return cls(graphs, connector, _cluster_of(scenario) if scenario is not None else None)


def _cluster_of(scenario: Scenario) -> CloudCluster | None:
    """The first cloud cluster that a scenario creates."""
    settings = [event.set_cloud for event in scenario.spec.events if event.set_cloud is not None]
    return next((cluster for setting in settings for cluster in setting.clusters or ()), None)


class Controller(Protocol):
    """A controller that runs until it is cancelled."""

    @property
    def ready(self) -> bool: ...

    async def run(self) -> None: ...


@asynccontextmanager
async def run_controllers(cluster: Cluster, requirements: ControllerRequirements) -> AsyncIterator[list[Restartable]]:
    """Run the required controllers; start them before the first document is applied. A drill can kill and restart each."""
    running: list[_RunningController] = []
    if requirements.graphs:
        running.append(_RunningController("graphs", lambda: _create_graphs_controller(Client(cluster.transport()))))
    if place := requirements.slices:
        from sliceworks.controllers.slices.settings import Settings

        cluster.cloud.services["container"].configure({"clusters": [place.model_dump(by_alias=True)]})
        settings = Settings(place.project, place.location, place.name)
        running.append(
            _RunningController(
                "slices", lambda: _create_slices_controller(cluster, Client(cluster.transport()), settings, Token(cluster.token))
            )
        )
    try:
        for controller in running:
            await controller.start()
        yield [Restartable(controller.name, controller.stop, controller.start) for controller in running]
        for controller in running:
            controller.check()
    finally:
        for controller in running:
            await controller.stop()


@dataclass(slots=True)
class _RunningController:
    """A running controller; each start creates a new one."""

    name: str
    create: Callable[[], Controller]
    task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Start a controller and wait until it is ready."""
        controller = self.create()
        with run_as_component(self.name):
            self.task = asyncio.create_task(controller.run(), name=type(controller).__name__)
        while not controller.ready and not self.task.done():
            await clock.sleep(_READY_POLL)
        self.check()

    def check(self) -> None:
        """Raise if the controller ended by itself: the rehearsal since then ran without it."""
        task = self.task
        if task is not None and task.done() and not task.cancelled() and (error := task.exception()) is not None:
            raise SliceworksError(f"the {self.name} controller ended: {root_error(error)}") from error

    async def stop(self) -> None:
        """Cancel the controller."""
        if self.task is not None:
            await _cancel_and_wait(self.task)


async def _cancel_and_wait(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def _create_graphs_controller(client: Client) -> Controller:
    from sliceworks.controllers.graphs import GraphController

    return GraphController(client)


def _create_slices_controller(cluster: Cluster, client: Client, settings: Settings, credentials: Credentials) -> Controller:
    """The slices controller, connected to the twin's cloud; without zones in the settings, for all zones of the location."""
    from sliceworks.base.metrics import Registry
    from sliceworks.base.transport import InProcess
    from sliceworks.cloud.container import Container
    from sliceworks.cloud.session import Session
    from sliceworks.controllers.slices.controller import SlicesController
    from sliceworks.twin.cloud.google.container.resource_names import zones_of

    settings = replace(settings, zones=settings.zones or tuple(zones_of(settings.location)))
    session = Session(credentials=credentials, transport=InProcess(cluster.cloud.serve))
    container = Container(session, settings.project, settings.location, settings.cluster, prefix="/container")
    return SlicesController(client, container, settings, Registry())


@asynccontextmanager
async def run_installed(cluster: Cluster) -> AsyncIterator[InstalledControllers]:
    """Run the controllers that are installed as Deployments; yields their host."""
    host = InstalledControllers(cluster)
    cluster.store.subscribe(host.observe)
    try:
        yield host
    finally:
        await host.stop()


class _HostedController(NamedTuple):
    """A running controller and the pod template that it was started with."""

    task: asyncio.Task[None]
    template: Object


class InstalledControllers:
    """Running controllers by their Deployments."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._running: dict[tuple[str, str], _HostedController] = {}

    def observe(self, change: Change) -> None:
        """Handle a change in the store."""
        if change.resource != DEPLOYMENTS:
            return
        if change.type == "DELETED":
            self._cancel((change.namespace, change.name))
        else:
            self.reconcile(change.obj)

    def reconcile(self, obj: Object) -> None:
        """Start or stop the controller of a Deployment, or restart it if its pod template has changed."""
        metadata = obj["metadata"]
        labels, key = metadata.get("labels") or {}, (metadata["namespace"], metadata["name"])
        component = labels.get(_COMPONENT) if labels.get(_NAME) == "sliceworks" else None
        if (
            component not in _COMPONENTS
            or component in self._cluster.without
            or not (obj.get("status") or {}).get("availableReplicas")
        ):
            self._cancel(key)
        elif key not in self._running or self._running[key].template != obj["spec"]["template"]:
            self._cancel(key)
            with run_as_component(key[1]):
                task = asyncio.get_running_loop().create_task(self._run(component, obj), name=f"{key[1]} of the twin")
            self._running[key] = _HostedController(task, obj["spec"]["template"])

    def list_restartables(self) -> list[Restartable]:
        """Running controllers, for a drill. A killed one restarts unless its Deployment was deleted meanwhile."""
        return [Restartable(key[1], partial(self._kill, key), partial(self._restart, key)) for key in self._running]

    async def _kill(self, key: tuple[str, str]) -> None:
        if task := self._cancel(key):
            await _cancel_and_wait(task)

    async def _restart(self, key: tuple[str, str]) -> None:
        entry = self._cluster.store.get(DEPLOYMENTS, *key)
        if entry is not None:
            self.reconcile(entry.object())

    async def _run(self, component: str, deployment: Object) -> None:
        while True:
            try:
                await (await self._create(component, deployment)).run()
            except Exception as error:
                log.warning("%s ended: %s", deployment["metadata"]["name"], error)
            await clock.sleep(_RESTART_DELAY)

    async def _create(self, component: str, deployment: Object) -> Controller:
        """A controller with the rights of its service account; slices has the settings of the Deployment's ConfigMaps."""
        client = _client(self._cluster, deployment)
        if component == controller_names.GRAPHS:
            return _create_graphs_controller(client)
        from sliceworks.controllers.slices import settings

        reader = Client(self._cluster.transport())
        values = settings.read(await _read_env(reader, deployment))
        credentials = await _pod_credentials(self._cluster, reader, deployment, values.project)
        return _create_slices_controller(self._cluster, client, values, credentials)

    def _cancel(self, key: tuple[str, str]) -> asyncio.Task[None] | None:
        """Cancel the controller of a Deployment without waiting for its end; None if it does not run."""
        hosted = self._running.pop(key, None)
        if hosted is None:
            return None
        hosted.task.cancel()
        return hosted.task

    async def stop(self) -> None:
        """Stop all controllers."""
        await asyncio.gather(*map(self._kill, list(self._running)))


def _client(cluster: Cluster, deployment: Object) -> Client:
    """A client with only the rights of the pod's service account."""
    from sliceworks.twin.apiserver.auth.authentication import AUTHENTICATED, User

    namespace = deployment["metadata"]["namespace"]
    account = _account_of(deployment)
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", AUTHENTICATED)
    return Client(cluster.as_user(User(f"system:serviceaccount:{namespace}:{account}", groups=groups)), namespace=namespace)


@dataclass(frozen=True, slots=True)
class _WorkloadIdentity:
    """Credentials of a pod: those of its Google service account, if IAM lets its Kubernetes service account act as that.

    A project without service accounts and IAM policy is not set up: its callers have all permissions.
    """

    cluster: Cluster
    project: str
    token: str

    async def headers(self) -> dict[str, str]:
        """The Authorization header."""
        is_set_up = WorkloadAccess(self.cluster.store).is_set_up(self.project)
        return {"authorization": f"Bearer {self.token if is_set_up else self.cluster.token}"}

    def invalidate(self) -> None:
        """The token lives as long as the controller."""


async def _pod_credentials(cluster: Cluster, client: Client, deployment: Object, project: str) -> Credentials:
    """The credentials of a Deployment's pods in Google's APIs."""
    namespace, name = deployment["metadata"]["namespace"], _account_of(deployment)
    account = await client.find(SERVICE_ACCOUNT, name, namespace) or {"metadata": {}}
    email = (account["metadata"].get("annotations") or {}).get(GOOGLE_ACCOUNT, "")
    token, _ = AccessTokens(cluster.store).issue(f"{project}.svc.id.goog[{namespace}/{name}]", _TOKEN_SECONDS)
    return _WorkloadIdentity(cluster, project_of(email) if email else project, f"{token}{IMPERSONATION}{email}" if email else token)


def _account_of(deployment: Object) -> str:
    """The service account of a Deployment's pods."""
    return str(deployment["spec"]["template"]["spec"].get("serviceAccountName") or "default")


async def _read_env(client: Client, deployment: Object) -> dict[str, str]:
    """Environment variables of the first container."""
    container = deployment["spec"]["template"]["spec"]["containers"][0]
    env: dict[str, str] = {}
    for source in container.get("envFrom") or ():
        name = (source.get("configMapRef") or {}).get("name")
        with suppress(NotFound):
            env |= (await client.get(CONFIG_MAP, name, deployment["metadata"]["namespace"])).get("data") or {} if name else {}
    return env | {item["name"]: item["value"] for item in container.get("env") or () if "value" in item}
