"""What the controllers of a Service's endpoints share: they reconcile a Service when it or one of its pods changes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.kube.selectors import from_labels
from sliceworks.twin.controllers.runtime.controller import Change, Controller
from sliceworks.twin.controllers.runtime.controller_context import NamespacedName
from sliceworks.twin.controllers.runtime.object_index import SelectorIndex
from sliceworks.twin.controllers.runtime.pod_index import Pod, PodIndex
from sliceworks.twin.controllers.runtime.resource_keys import PODS, SERVICES

if TYPE_CHECKING:
    from sliceworks.kube.resources import Object
    from sliceworks.twin.controllers.runtime.controller_context import ControllerContext

BATCH_SECONDS = 0.2
"""Pod changes within this period are handled by one reconcile: those of one workload come together."""


class ServiceSelectorIndex(SelectorIndex):
    """The selectors of all Services that have one."""

    watches = frozenset({SERVICES})

    def observe(self, change: Change) -> None:
        labels = (change.obj.get("spec") or {}).get("selector") if change.type != "DELETED" else None
        if labels:
            self.put(change.namespace, change.name, from_labels(labels))
        else:
            self.remove(change.namespace, change.name)


class ServiceController(Controller[NamespacedName]):
    """Enqueues a Service when it or one of its pods changes."""

    workers = 5

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._pods = context.shared_index(PodIndex)
        self._selectors = context.shared_index(ServiceSelectorIndex)

    def observe(self, change: Change) -> None:
        if change.resource == PODS:
            self._observe_pod()
        elif change.resource == SERVICES:
            self.queue.add((change.namespace, change.name))

    def _observe_pod(self) -> None:
        before, after = self._pods.before, self._pods.after
        if before is not None and after is not None and _endpoint_fields(before) == _endpoint_fields(after):
            return
        for pod in (before, after):
            if pod is not None and pod.ips:
                self._enqueue_services(pod)

    def _enqueue_services(self, pod: Pod) -> None:
        for name in self._selectors.matching(pod.namespace, pod.labels):
            self.queue.add_after((pod.namespace, name), BATCH_SECONDS)

    def _get_pod(self, pod: Pod) -> Object:
        return self.context.get(PODS, pod.namespace, pod.name) or {}


def _endpoint_fields(pod: Pod) -> tuple[Any, ...]:
    """The fields of a pod that its endpoint depends on."""
    return (pod.ips, pod.ready, bool(pod.deleting), pod.finished, pod.node, pod.labels, pod.host)
