"""Keeps the status of ResourceQuotas: what is allowed, and what is really used once things have gone away."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.base import clock, quantity
from sliceworks.twin.admission import usage
from sliceworks.twin.admission.known import QUOTAS
from sliceworks.twin.controllers.loop import Change, Controller
from sliceworks.twin.controllers.world import World, controller_user

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_USER = controller_user("resourcequota-controller")


class Quotas(Controller[tuple[str, str]]):
    """Counts anew when a quota changes and when something it counts may use less than before."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._names: dict[str, set[str]] = {}

    def observe(self, change: Change) -> None:
        namespace = change.namespace
        if change.resource == QUOTAS:
            names = self._names.setdefault(namespace, set())
            if change.type == "DELETED":
                names.discard(change.name)
            else:
                names.add(change.name)
                self.queue.add((namespace, change.name))
        elif self._names.get(namespace) and _frees(change):
            for name in self._names[namespace]:
                self.queue.add((namespace, name))

    async def sync(self, key: tuple[str, str]) -> None:
        namespace, name = key
        quota, served = self.world.get(QUOTAS, namespace, name), self.world.of(QUOTAS)
        if quota is None or served is None:
            return
        hard = (quota.get("spec") or {}).get("hard") or {}
        wanted = {**(quota.get("status") or {}), "hard": hard, "used": self._used(key, quota, hard)}
        if wanted != quota.get("status"):
            await self.world.send(_USER, "PUT", served.path(namespace, name, "status"), {**quota, "status": wanted})

    def _used(self, key: tuple[str, str], quota: Mapping[str, Any], hard: Mapping[str, str]) -> dict[str, str]:
        namespace = key[0]
        used = dict.fromkeys(hard, "0")
        for resource in dict.fromkeys(found for name in hard if (found := usage.resource_of(name))):
            objects = list(self.world.find_all(resource, namespace))
            if resource == "/pods":
                self._look_again(key, objects)
            add_up(used, quota, resource, objects)
        return used

    def _look_again(self, key: tuple[str, str], pods: Iterable[Mapping[str, Any]]) -> None:
        """A pod that should have ended stops to count though nothing changes then."""
        now = clock.now().timestamp()
        ends = [end for pod in pods if (end := usage.charged_until(pod)) is not None and end >= now]
        if ends:
            self.queue.add_after(key, min(ends) - now + 1)


def add_up(used: dict[str, str], quota: Mapping[str, Any], resource: str, objects: Iterable[Mapping[str, Any]]) -> None:
    """Add what these objects of a resource use to the names in `used`."""
    for obj in objects:
        if not usage.in_scope(quota, resource, obj):
            continue
        for name, amount in usage.of(resource, obj).items():
            if name in used:
                used[name] = quantity.add(used[name], amount)


def _frees(change: Change) -> bool:
    """Whether the change may have set something free; what comes anew is charged when it is admitted."""
    if change.type == "DELETED":
        return True
    if change.type == "ADDED" or change.resource not in {"/pods", "/services", "/persistentvolumeclaims"}:
        return False
    obj = change.obj
    ended = (obj.get("status") or {}).get("phase") in {"Succeeded", "Failed"} or obj["metadata"].get("deletionTimestamp")
    return change.resource != "/pods" or bool(ended)
