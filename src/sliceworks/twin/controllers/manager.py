"""The controller manager: runs the components of one cluster's control plane.

Each component can be killed and restarted on its own, like the process it stands for.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from sliceworks.twin.controllers.builtin.admission_policy_status import AdmissionPolicyStatusController
from sliceworks.twin.controllers.builtin.clusterrole_aggregation import ClusterRoleAggregationController
from sliceworks.twin.controllers.builtin.garbage_collector import GarbageCollector
from sliceworks.twin.controllers.builtin.namespace_controller import NamespaceController
from sliceworks.twin.controllers.builtin.resource_quota_controller import ResourceQuotaController
from sliceworks.twin.controllers.builtin.serviceaccount_controller import RootCAPublisher, ServiceAccountController
from sliceworks.twin.controllers.builtin.serviceaccount_tokens import TokensController
from sliceworks.twin.controllers.builtin.storage_protection import StorageProtectionController
from sliceworks.twin.controllers.controller_names import is_enabled
from sliceworks.twin.controllers.runtime.controller_context import ControllerContext, notify

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from sliceworks.twin.apiserver.auth.service_account_token import TokenIssuer
    from sliceworks.twin.apiserver.registry.resources import AggregatedApi, Registry
    from sliceworks.twin.controllers.runtime.controller import Change, Controller
    from sliceworks.twin.controllers.runtime.controller_context import CloudAccess, Handle, Index
    from sliceworks.twin.store.store import Store

    ControllerFactory = Callable[[ControllerContext], tuple[Controller[Any], ...]]

log = logging.getLogger(__name__)
current_component: ContextVar[str] = ContextVar("current_component", default="")
"""The name of the component that the current task belongs to."""


@contextmanager
def run_as_component(name: str) -> Iterator[None]:
    """Tasks created in this context belong to the named component."""
    token = current_component.set(name)
    try:
        yield
    finally:
        current_component.reset(token)


class Component:
    """The controllers that run in one process on a real cluster, under that process' name."""

    def __init__(self, name: str, context: ControllerContext, create: ControllerFactory) -> None:
        self.name = name
        self._context, self._create = context, create
        self._tasks: list[asyncio.Task[None]] = []
        self._indexes: tuple[type[Index], ...] = ()
        self.controllers: tuple[Controller[Any], ...] = ()
        self.reset()

    def reset(self) -> None:
        """Replace the controllers and their indexes by new, empty ones."""
        self._context.drop_indexes(self._indexes)
        others = self._context.indexes
        self.controllers = self._create(self._context)
        self._indexes = tuple(kind for kind in self._context.indexes if kind not in others)

    def observe(self, change: Change) -> None:
        """Pass a change to this component only."""
        for kind in self._indexes:
            index = self._context.shared_index(kind)
            if change.resource in index.watches:
                notify(index, change)
        for controller in self.controllers:
            if controller.watches is None or change.resource in controller.watches:
                notify(controller, change)

    def start(self) -> None:
        """Run the controllers in tasks of the running loop."""
        with run_as_component(self.name):
            self._tasks = [asyncio.create_task(controller.run(), name=type(controller).__name__) for controller in self.controllers]
        for task in self._tasks:
            task.add_done_callback(_log_exit)

    async def kill(self) -> None:
        """Cancel the controllers at whatever point they have reached; a restart finishes their work."""
        for controller in self.controllers:
            controller.queue.shut_down()
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _log_exit(task: asyncio.Task[None]) -> None:
    """Log a controller that ended without being cancelled."""
    if not task.cancelled() and (error := task.exception()) is not None:
        log.error("controller %s exited", task.get_name(), exc_info=error)


class ControllerManager:
    """Runs all components of a cluster; start it once the store is open.

    `handle` responds to a request of a user, `authority` is the cluster's CA certificate, `issuer` signs tokens in Secrets, and
    `workloads` selects the components that run workloads. The controllers in `without` do not run.
    """

    def __init__(
        self,
        store: Store,
        registry: Registry,
        handle: Handle,
        *,
        authority: str,
        issuer: TokenIssuer,
        workloads: bool = True,
        without: Collection[str] = (),
        cloud_access: CloudAccess | None = None,
    ) -> None:
        context = ControllerContext(store, registry, handle, cloud_access)
        self._store, self._context = store, context
        factories = _factories(authority, issuer, workloads=workloads, without=without)
        self.components = tuple(Component(name, context, create) for name, create in factories)
        """In the order in which they observe a change."""
        self.aggregated_apis: dict[str, AggregatedApi] = _aggregated_apis(context, without) if workloads else {}
        self._interested: dict[str, tuple[Controller[Any], ...]] = {}

    @property
    def controllers(self) -> tuple[Controller[Any], ...]:
        """The controllers of all components."""
        return tuple(controller for component in self.components for controller in component.controllers)

    def start(self) -> None:
        """Observe all existing objects, then every change, and run the controllers in tasks of the running loop."""
        self._store.subscribe(self._observe)
        for component in self.components:
            component.start()

    def _observe(self, change: Change) -> None:
        self._context.observe(change)
        interested = self._interested.get(change.resource)
        if interested is None:
            watching = (
                controller for controller in self.controllers if controller.watches is None or change.resource in controller.watches
            )
            interested = self._interested[change.resource] = tuple(watching)
        for controller in interested:
            notify(controller, change)

    def restart(self, component: Component) -> None:
        """Start a killed component again without state: it observes all existing objects first."""
        component.reset()
        self._interested.clear()
        self._store.subscribe(component.observe)
        self._store.unsubscribe(component.observe)
        component.start()

    @property
    def idle(self) -> bool:
        """Whether all work queues are empty, delayed keys included."""
        return all(controller.queue.idle for controller in self.controllers)

    async def stop(self) -> None:
        """Kill all components; the next start finishes their work."""
        for component in self.components:
            await component.kill()


def _factories(
    authority: str, issuer: TokenIssuer, *, workloads: bool, without: Collection[str]
) -> Iterator[tuple[str, ControllerFactory]]:
    enabled = [create for name, create in cluster_controllers(authority, issuer).items() if is_enabled(name, without)]
    if enabled:
        yield "cluster-controllers", lambda context: tuple(create(context) for create in enabled)
    if workloads:
        # Imported here because these modules take as long to load as all others together.
        from sliceworks.twin.controllers.installation import components

        yield from components(without)


def cluster_controllers(authority: str, issuer: TokenIssuer) -> dict[str, Callable[[ControllerContext], Controller[Any]]]:
    """The controllers of kube-controller-manager that every cluster needs, in the order in which they observe a change."""
    return {
        "serviceaccount-controller": ServiceAccountController,
        "serviceaccount-token-controller": lambda context: TokensController(context, authority, issuer),
        "root-ca-certificate-publisher-controller": lambda context: RootCAPublisher(context, authority),
        "clusterrole-aggregation-controller": ClusterRoleAggregationController,
        "resourcequota-controller": ResourceQuotaController,
        "validatingadmissionpolicy-status-controller": AdmissionPolicyStatusController,
        # Protects volumes and volume attributes classes too.
        "persistentvolumeclaim-protection-controller": StorageProtectionController,
        "namespace-controller": NamespaceController,
        "garbage-collector-controller": GarbageCollector,
    }


def _aggregated_apis(context: ControllerContext, without: Collection[str]) -> dict[str, AggregatedApi]:
    from sliceworks.twin.controllers.installation import aggregated_apis

    return aggregated_apis(context, without)
