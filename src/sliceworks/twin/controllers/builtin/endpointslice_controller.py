"""The EndpointSlice controller."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from sliceworks.twin.controllers.builtin import endpointslice_reconciler
from sliceworks.twin.controllers.builtin.service_controller import BATCH_SECONDS, ServiceController
from sliceworks.twin.controllers.runtime.api_writer import ApiWriter
from sliceworks.twin.controllers.runtime.controller_context import NamespacedName, ObjectKey, controller_user
from sliceworks.twin.controllers.runtime.resource_keys import NODES, PODS, SERVICES, SLICES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sliceworks.kube.resources import Object
    from sliceworks.twin.controllers.runtime.controller import Change
    from sliceworks.twin.controllers.runtime.controller_context import ControllerContext
    from sliceworks.twin.controllers.runtime.pod_index import Pod

_USER = controller_user("endpointslice-controller")


class SlicesByService:
    """The names of the EndpointSlices that one controller manages, by their Service."""

    def __init__(self, manager: str) -> None:
        self._manager = manager
        self._names: dict[NamespacedName, dict[str, None]] = {}
        self._services: dict[NamespacedName, NamespacedName] = {}
        """The Service of each slice."""

    def observe(self, change: Change) -> NamespacedName | None:
        """Update the index; returns the Service of the changed or deleted slice, or None if this controller does not manage it.

        As on Kubernetes, the Service of a slice gets no other one when a user changes the labels of the slice.
        """
        endpoint_slice, labels = (change.namespace, change.name), change.obj["metadata"].get("labels") or {}
        is_managed = change.type != "DELETED" and labels.get(endpointslice_reconciler.MANAGED_BY) == self._manager
        after = (change.namespace, labels.get(endpointslice_reconciler.SERVICE_NAME, "")) if is_managed else None
        before = self._services.pop(endpoint_slice, None)
        if before is not None and before != after:
            del self._names[before][change.name]
            if not self._names[before]:
                del self._names[before]
        if after is not None:
            self._services[endpoint_slice] = after
            self._names.setdefault(after, {})[change.name] = None
        return before if change.type == "DELETED" else after

    def get(self, context: ControllerContext, key: NamespacedName) -> list[Object]:
        """The live slices of a Service."""
        slices = (context.get(SLICES, key[0], name) for name in list(self._names.get(key, ())))
        return [endpoint_slice for endpoint_slice in slices if endpoint_slice is not None]


class EndpointSliceController(ServiceController):
    """Reconciles the EndpointSlices of a Service when it, one of its slices or one of its pods changes."""

    watches = frozenset({SERVICES, SLICES, PODS, NODES})

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._writer = ApiWriter(context, _USER)
        self._slices = SlicesByService(endpointslice_reconciler.MANAGER)
        self._zones: dict[str, str] = {}
        """The zones of nodes."""

    def observe(self, change: Change) -> None:
        super().observe(change)
        if change.resource == SLICES:
            self._observe_slice(change)
        elif change.resource == NODES:
            self._observe_node(change)

    def _observe_node(self, change: Change) -> None:
        if change.type == "DELETED":
            self._zones.pop(change.name, None)
        else:
            is_new = change.name not in self._zones
            self._zones[change.name] = (change.obj["metadata"].get("labels") or {}).get(endpointslice_reconciler.ZONE, "")
            if is_new:
                for pod in self._pods.on_node(change.name):
                    self._enqueue_services(pod)

    def _observe_slice(self, change: Change) -> None:
        key = self._slices.observe(change)
        if key is not None and change.type == "DELETED":
            self.queue.add_after(key, BATCH_SECONDS)

    async def sync(self, key: NamespacedName) -> None:
        service, selector = self.context.get(SERVICES, *key), self._selectors.get(*key)
        if service is None or selector is None or service["metadata"].get("deletionTimestamp"):
            # The garbage collector deletes the slices of a deleted Service; those of one without selector are kept.
            return
        slices = self._slices.get(self.context, key)
        families, pods = endpointslice_reconciler.address_types(service), self._pods.matching(key[0], selector)
        for endpoint_slice in slices:
            if endpoint_slice["addressType"] not in families:
                await self._delete(endpoint_slice)
        for family in families:
            existing = [endpoint_slice for endpoint_slice in slices if endpoint_slice["addressType"] == family]
            endpoints = self._desired_endpoints(pods, service, family)
            await self._apply(key[0], endpointslice_reconciler.plan_slices(service, family, endpoints, existing))

    def _desired_endpoints(self, pods: list[Pod], service: Object, family: str) -> Iterator[tuple[list[Object], Object]]:
        """The desired endpoints, each with its ports."""
        publish_not_ready = bool(service["spec"].get("publishNotReadyAddresses"))
        for pod in pods:
            if pod.finished:
                continue
            zone = self._zones.get(pod.node)
            if zone is None and not publish_not_ready:
                continue
            addresses = [ip for ip in pod.ips if (":" in ip) == (family == "IPv6")]
            if addresses:
                ports = endpointslice_reconciler.endpoint_ports(service, partial(self._get_pod, pod))
                yield ports, endpointslice_reconciler.pod_to_endpoint(service, pod, addresses, zone or "")

    async def _apply(self, namespace: str, changes: endpointslice_reconciler.SliceChanges) -> None:
        for endpoint_slice in changes.create:
            await self._writer.create(SLICES, namespace, endpoint_slice)
        for endpoint_slice in changes.update:
            await self._writer.update(SLICES, endpoint_slice)
        for endpoint_slice in changes.delete:
            await self._delete(endpoint_slice)

    async def _delete(self, endpoint_slice: Object) -> None:
        metadata = endpoint_slice["metadata"]
        await self._writer.delete_if_exists(ObjectKey(SLICES, metadata["namespace"], metadata["name"]))
