"""What is measured, asked where a cluster serves it: usage of pods from metrics.k8s.io, other numbers from external.metrics.k8s.io.

A twin serves neither of its own: whoever wants autoscalers to act defines these kinds and writes readings as objects.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sliceworks.base import clock, duration, quantity
from sliceworks.base.errors import ApiError

if TYPE_CHECKING:
    from datetime import datetime

    from sliceworks.kube.selectors import LabelSelector
    from sliceworks.twin.auth.identity import User
    from sliceworks.twin.controllers.world import World

_VERSION = "v1beta1"
_UNKNOWN = "the server could not find the requested resource"

Obj = dict[str, Any]


class Unread(Exception):
    """There is no reading, for the reason that is told."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What a pod used, in thousandths, over a window of seconds that ended at a moment."""

    value: int
    at: datetime | None = None
    window: float = 0.0


class Readings:
    """Asks as one user."""

    def __init__(self, world: World, user: User) -> None:
        self._world, self._user = world, user

    async def usage(self, namespace: str, selector: LabelSelector, resource: str, container: str = "") -> dict[str, Reading]:
        """What pods use of a resource, by their names; of one of their containers where one is named."""
        items = await self._items("resource", "metrics.k8s.io", "pods", namespace, str(selector))
        try:
            found = {each["metadata"]["name"]: _reading(each, resource, container) for each in items}
        except (ValueError, TypeError, AttributeError, KeyError) as error:
            raise Unread(f"unable to fetch metrics from resource metrics API: {error}") from error
        return {name: reading for name, reading in found.items() if reading is not None}

    async def external(self, namespace: str, metric: str, selector: LabelSelector) -> list[int]:
        """The values of a metric that has nothing to do with the cluster, in thousandths."""
        items = await self._items("external", "external.metrics.k8s.io", metric, namespace, str(selector))
        try:
            return [quantity.milli(each.get("value", "0")) for each in items]
        except (ValueError, TypeError) as error:
            raise Unread(f"unable to fetch metrics from external metrics API: {error}") from error

    async def _items(self, api: str, group: str, plural: str, namespace: str, selector: str) -> list[Obj]:
        unable = f"unable to fetch metrics from {api} metrics API"
        if self._world.of(f"{group}/{plural}") is None:
            raise Unread(f"{unable}: {_UNKNOWN} (get {plural}.{group})")
        path = f"/apis/{group}/{_VERSION}/namespaces/{namespace}/{plural}"
        try:
            found = await self._world.send(self._user, "GET", path, labelSelector=selector)
        except ApiError as error:
            raise Unread(f"{unable}: {error.message}") from error
        items: list[Obj] = found["items"]
        if not items:
            raise Unread(f"no metrics returned from {api} metrics API")
        return items


def _reading(item: Obj, resource: str, container: str) -> Reading | None:
    """What one pod uses; None where a container that counts says nothing."""
    containers = [each for each in item.get("containers") or () if not container or each["name"] == container]
    usages = [each.get("usage") or {} for each in containers]
    if not usages or any(resource not in each for each in usages):
        return None
    value = sum(quantity.milli(each[resource]) for each in usages)
    return Reading(value, clock.parse(item.get("timestamp")), duration.parse(item.get("window") or "0"))
