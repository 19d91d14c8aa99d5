"""The EndpointSlice controller."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from sliceworks.kube.selectors import from_labels
from sliceworks.twin.controllers.builtin import endpointslice_reconciler
from sliceworks.twin.controllers.runtime.api_writer import ApiWriter
from sliceworks.twin.controllers.runtime.controller import Change, Controller
from sliceworks.twin.controllers.runtime.controller_context import NamespacedName, ObjectKey, controller_user
from sliceworks.twin.controllers.runtime.object_index import SelectorIndex
from sliceworks.twin.controllers.runtime.pod_index import Pod, PodIndex
from sliceworks.twin.controllers.runtime.resource_keys import NODES, PODS, SERVICES, SLICES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sliceworks.kube.resources import Object
    from sliceworks.twin.controllers.runtime.controller_context import ControllerContext

_USER = controller_user("endpointslice-controller")
_BATCH_SECONDS = 0.2
"""Pod changes within this period are handled by one reconcile: those of one workload come together."""


class EndpointSliceController(Controller[NamespacedName]):
    """Reconciles the EndpointSlices of a Service when it, one of its slices or one of its pods changes."""

    workers = 5
    watches = frozenset({SERVICES, SLICES, PODS, NODES})

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._pods = context.shared_index(PodIndex)
        self._selectors = SelectorIndex()
        self._writer = ApiWriter(context, _USER)
        self._slices: dict[NamespacedName, dict[str, None]] = {}
        self._zones: dict[str, str] = {}
        """The zones of nodes."""

    def observe(self, change: Change) -> None:
        if change.resource == PODS:
            self._observe_pod()
        elif change.resource == SERVICES:
            self._observe_service(change)
        elif change.resource == SLICES:
            self._observe_slice(change)
        elif change.type == "DELETED":
            self._zones.pop(change.name, None)
        else:
            is_new = change.name not in self._zones
            self._zones[change.name] = (change.obj["metadata"].get("labels") or {}).get(endpointslice_reconciler.ZONE, "")
            if is_new:
                for pod in self._pods.on_node(change.name):
                    self._enqueue_services(pod)

    def _observe_service(self, change: Change) -> None:
        labels = (change.obj.get("spec") or {}).get("selector") if change.type != "DELETED" else None
        if labels:
            self._selectors.put(change.namespace, change.name, from_labels(labels))
        else:
            self._selectors.remove(change.namespace, change.name)
        self.queue.add((change.namespace, change.name))

    def _observe_slice(self, change: Change) -> None:
        labels = change.obj["metadata"].get("labels") or {}
        key = (change.namespace, labels.get(endpointslice_reconciler.SERVICE_NAME, ""))
        if labels.get(endpointslice_reconciler.MANAGED_BY) != endpointslice_reconciler.MANAGER:
            return
        slices = self._slices.setdefault(key, {})
        if change.type != "DELETED":
            slices[change.name] = None
            return
        slices.pop(change.name, None)
        if not slices:
            del self._slices[key]
        self.queue.add_after(key, _BATCH_SECONDS)

    def _observe_pod(self) -> None:
        before, after = self._pods.before, self._pods.after
        if before is not None and after is not None and _endpoint_fields(before) == _endpoint_fields(after):
            return
        for pod in (before, after):
            if pod is not None and pod.ips:
                self._enqueue_services(pod)

    def _enqueue_services(self, pod: Pod) -> None:
        for name in self._selectors.matching(pod.namespace, pod.labels):
            self.queue.add_after((pod.namespace, name), _BATCH_SECONDS)

    async def sync(self, key: NamespacedName) -> None:
        service, selector = self.context.get(SERVICES, *key), self._selectors.get(*key)
        if service is None or selector is None or service["metadata"].get("deletionTimestamp"):
            # The garbage collector deletes the slices of a deleted Service; those of one without selector are kept.
            return
        slices = [
            live_slice
            for name in list(self._slices.get(key, ()))
            if (live_slice := self.context.get(SLICES, key[0], name)) is not None
        ]
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

    def _get_pod(self, pod: Pod) -> Object:
        return self.context.get(PODS, pod.namespace, pod.name) or {}

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


def _endpoint_fields(pod: Pod) -> tuple[Any, ...]:
    """The fields of a pod that its endpoint depends on."""
    return (pod.ips, pod.ready, bool(pod.deleting), pod.finished, pod.node, pod.labels, pod.host)
