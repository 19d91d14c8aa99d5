"""The resourcequota controller: status.hard and status.used of ResourceQuotas."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.base import clock, quantity
from sliceworks.twin.apiserver.admission import resource_quota
from sliceworks.twin.apiserver.admission.chain import QUOTAS
from sliceworks.twin.controllers.runtime.api_writer import ApiWriter
from sliceworks.twin.controllers.runtime.controller import Change, Controller
from sliceworks.twin.controllers.runtime.controller_context import ControllerContext, NamespacedName, controller_user
from sliceworks.twin.controllers.runtime.pod_index import is_finished
from sliceworks.twin.controllers.runtime.resource_keys import CLAIMS, PODS, SERVICES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_USER = controller_user("resourcequota-controller")


class ResourceQuotaController(Controller[NamespacedName]):
    """Recalculates a quota when it changes, and when the usage of an object in its namespace may have decreased."""

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._names: dict[str, set[str]] = {}
        self._writer = ApiWriter(context, _USER)

    def observe(self, change: Change) -> None:
        namespace = change.namespace
        if change.resource == QUOTAS:
            names = self._names.setdefault(namespace, set())
            if change.type == "DELETED":
                names.discard(change.name)
            else:
                names.add(change.name)
                self.queue.add((namespace, change.name))
        elif self._names.get(namespace) and _may_free_quota(change):
            for name in self._names[namespace]:
                self.queue.add((namespace, name))

    async def sync(self, key: NamespacedName) -> None:
        namespace, name = key
        quota = self.context.get(QUOTAS, namespace, name)
        if quota is None:
            return
        hard = (quota.get("spec") or {}).get("hard") or {}
        status = {**(quota.get("status") or {}), "hard": hard, "used": self._calculate_usage(key, quota, hard)}
        if status != quota.get("status"):
            await self._writer.update_status(QUOTAS, quota, status)

    def _calculate_usage(self, key: NamespacedName, quota: Mapping[str, Any], hard: Mapping[str, str]) -> dict[str, str]:
        namespace = key[0]
        used = dict.fromkeys(hard, "0")
        for resource in dict.fromkeys(counted for name in hard if (counted := resource_quota.resource_of(name))):
            objects = list(self.context.list_objects(resource, namespace))
            if resource == PODS:
                self._requeue_at_deadline(key, objects)
            add_usage(used, quota, resource, objects)
        return used

    def _requeue_at_deadline(self, key: NamespacedName, pods: Iterable[Mapping[str, Any]]) -> None:
        """Requeue the quota when a terminating pod exceeds its grace period: it no longer counts, without any change."""
        now = clock.now().timestamp()
        deadlines = [end for pod in pods if (end := resource_quota.charged_until(pod)) is not None and end >= now]
        if deadlines:
            self.queue.add_after(key, min(deadlines) - now + 1)


def add_usage(used: dict[str, str], quota: Mapping[str, Any], resource: str, objects: Iterable[Mapping[str, Any]]) -> None:
    """Add the usage of these objects to the resource names in `used`."""
    for obj in objects:
        if not resource_quota.in_scope(quota, resource, obj):
            continue
        for name, amount in resource_quota.usage_of(resource, obj).items():
            if name in used:
                used[name] = quantity.add(used[name], amount)


def _may_free_quota(change: Change) -> bool:
    """Whether a change may decrease usage; new objects are charged on admission."""
    if change.type == "DELETED":
        return True
    if change.type == "ADDED" or change.resource not in {PODS, SERVICES, CLAIMS}:
        return False
    return change.resource != PODS or is_finished(change.obj) or bool(change.obj["metadata"].get("deletionTimestamp"))
