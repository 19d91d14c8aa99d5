"""The Endpoints controller: one Endpoints object for each Service with a selector."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sliceworks.base.errors import ApiError
from sliceworks.twin.controllers.builtin import endpoints_reconciler
from sliceworks.twin.controllers.builtin.pod_control import is_namespace_terminating
from sliceworks.twin.controllers.builtin.service_controller import ServiceController
from sliceworks.twin.controllers.runtime.api_writer import ApiWriter
from sliceworks.twin.controllers.runtime.controller_context import NamespacedName, ObjectKey, controller_user
from sliceworks.twin.controllers.runtime.recorder import Recorder
from sliceworks.twin.controllers.runtime.resource_keys import ENDPOINTS, PODS, SERVICES

if TYPE_CHECKING:
    from sliceworks.kube.resources import Object
    from sliceworks.twin.controllers.runtime.controller import Change
    from sliceworks.twin.controllers.runtime.controller_context import ControllerContext

_USER = controller_user(endpoints_reconciler.CONTROLLER)
LEADER = "control-plane.alpha.kubernetes.io/leader"


class EndpointsController(ServiceController):
    """Reconciles the Endpoints object of a Service when the Service or one of its pods changes, or it is deleted."""

    watches = frozenset({SERVICES, ENDPOINTS, PODS})

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._writer = ApiWriter(context, _USER)
        self._recorder = Recorder(context, _USER, endpoints_reconciler.CONTROLLER)
        self._is_running = False

    async def run(self) -> None:
        self._is_running = True
        await super().run()

    def observe(self, change: Change) -> None:
        super().observe(change)
        if change.resource == ENDPOINTS and (change.type == "DELETED" or self._is_leftover(change.obj)):
            self.queue.add((change.namespace, change.name))

    def _is_leftover(self, endpoints: Object) -> bool:
        """Whether the Service of this object may have been deleted while the controller did not run."""
        return not self._is_running and LEADER not in (endpoints["metadata"].get("annotations") or {})

    async def sync(self, key: NamespacedName) -> None:
        service = self.context.get(SERVICES, *key)
        if service is None:
            await self._writer.delete_if_exists(ObjectKey(ENDPOINTS, *key))
            return
        selector = self._selectors.get(*key)
        if selector is None or service["spec"].get("type") == "ExternalName":
            return
        current = self.context.get(ENDPOINTS, *key)
        subsets = endpoints_reconciler.desired_subsets(service, self._pods.matching(key[0], selector), self._get_pod)
        desired = endpoints_reconciler.update_endpoints(service, subsets, current)
        if desired is not None:
            await self._write(desired, is_new=current is None)

    async def _write(self, endpoints: Object, *, is_new: bool) -> None:
        metadata = endpoints["metadata"]
        name = f"{metadata['namespace']}/{metadata['name']}"
        try:
            if is_new:
                await self._writer.create(ENDPOINTS, metadata["namespace"], endpoints)
            else:
                await self._writer.update(ENDPOINTS, endpoints)
        except ApiError as error:
            if is_new and is_namespace_terminating(error):
                return
            verb, subject = ("create", f"for service {name}") if is_new else ("update", name)
            reason = f"FailedTo{verb.capitalize()}Endpoint"
            await self._recorder.warning(endpoints, reason, f"Failed to {verb} endpoint {subject}: {error.message}")
            raise
