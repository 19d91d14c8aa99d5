"""Keeps the EndpointSlices of every Service that selects pods."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from sliceworks.base.errors import NotFound
from sliceworks.kube.selectors import from_labels
from sliceworks.twin.controllers.loop import Change, Controller
from sliceworks.twin.controllers.world import controller_user
from sliceworks.twin.workloads.endpoints import slices
from sliceworks.twin.workloads.pods import PODS, Pod, Pods
from sliceworks.twin.workloads.selecting import Selecting

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sliceworks.twin.controllers.world import World

SERVICES, SLICES, NODES = "/services", "discovery.k8s.io/endpointslices", "/nodes"
_USER = controller_user("endpointslice-controller")
_BATCH = 0.2
"""Seconds in which changes of pods are gathered: those of one workload come together."""

Obj = dict[str, Any]
Key = tuple[str, str]


class EndpointSlices(Controller[Key]):
    """Looks at a Service whenever it, one of its slices or one of its pods changes."""

    workers = 5
    watches = frozenset({SERVICES, SLICES, PODS, NODES})

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._pods = world.shared(Pods)
        self._selectors = Selecting()
        self._members: dict[Key, dict[str, None]] = {}
        self._slices: dict[Key, dict[str, None]] = {}
        self._zones: dict[str, str] = {}

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
            new = change.name not in self._zones
            self._zones[change.name] = (change.obj["metadata"].get("labels") or {}).get(slices.ZONE, "")
            if new:
                for pod in self._pods.on(change.name):
                    self._add(pod)

    def _observe_service(self, change: Change) -> None:
        key = (change.namespace, change.name)
        labels = (change.obj.get("spec") or {}).get("selector") if change.type != "DELETED" else None
        selector = from_labels(labels) if labels else None
        if selector is None:
            self._selectors.remove(*key)
            self._members.pop(key, None)
        elif self._selectors.get(*key) != selector:
            self._selectors.put(*key, selector)
            pods = self._pods.matching(change.namespace, selector)
            self._members[key] = {pod.name: None for pod in pods if pod.ips}
        self.queue.add(key)

    def _observe_slice(self, change: Change) -> None:
        found = change.obj["metadata"].get("labels") or {}
        key = (change.namespace, found.get(slices.SERVICE_NAME, ""))
        if found.get(slices.MANAGED_BY) != slices.MANAGER:
            return
        if change.type == "DELETED":
            self._slices.get(key, {}).pop(change.name, None)
            self.queue.add_after(key, _BATCH)
        else:
            self._slices.setdefault(key, {})[change.name] = None

    def _observe_pod(self) -> None:
        before, after = self._pods.before, self._pods.after
        if before is not None and after is not None and _looks(before) == _looks(after):
            return
        if before is not None and before.ips:
            self._add(before, there=False)
        if after is not None and after.ips:
            self._add(after)

    def _add(self, pod: Pod, *, there: bool = True) -> None:
        for name in self._selectors.matching(pod.namespace, pod.labels):
            key = (pod.namespace, name)
            if there:
                self._members[key][pod.name] = None
            else:
                self._members[key].pop(pod.name, None)
            self.queue.add_after(key, _BATCH)

    async def sync(self, key: Key) -> None:
        service = self.world.get(SERVICES, *key)
        if service is None or key not in self._selectors or service["metadata"].get("deletionTimestamp"):
            # Slices go with their Service; those of one that no longer selects stay as they are.
            return
        there = [each for name in list(self._slices.get(key, ())) if (each := self.world.get(SLICES, key[0], name)) is not None]
        families = slices.families(service)
        for each in there:
            if each["addressType"] not in families:
                await self._delete(each)
        for family in families:
            own = [each for each in there if each["addressType"] == family]
            await self._act(key[0], slices.plan(service, family, self._wanted(key, service, family), own))

    def _wanted(self, key: Key, service: Obj, family: str) -> Iterator[tuple[list[Obj], Obj]]:
        """The endpoints that there should be, each with its ports."""
        early = bool(service["spec"].get("publishNotReadyAddresses"))
        for name in self._members.get(key, ()):
            pod = self._pods.get(key[0], name)
            if pod is None or pod.ended:
                continue
            zone = self._zones.get(pod.node)
            if zone is None and not early:
                continue
            addresses = [ip for ip in pod.ips if (":" in ip) == (family == "IPv6")]
            if addresses:
                its_ports = slices.ports(service, partial(self._look, pod))
                yield its_ports, slices.endpoint(service, pod, addresses, zone or "")

    def _look(self, pod: Pod) -> Obj:
        return self.world.get(PODS, pod.namespace, pod.name) or {}

    async def _act(self, namespace: str, plan: slices.Plan) -> None:
        path = f"/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices"
        for each in plan.create:
            await self.world.tell(_USER, "POST", path, each)
        for each in plan.update:
            await self.world.tell(_USER, "PUT", f"{path}/{each['metadata']['name']}", each)
        for each in plan.delete:
            await self._delete(each)

    async def _delete(self, each: Obj) -> None:
        metadata = each["metadata"]
        path = f"/apis/discovery.k8s.io/v1/namespaces/{metadata['namespace']}/endpointslices/{metadata['name']}"
        try:
            await self.world.tell(_USER, "DELETE", path)
        except NotFound:
            return


def _looks(pod: Pod) -> tuple[Any, ...]:
    """What of a pod shows in its endpoint."""
    return (pod.ips, pod.ready, bool(pod.deleting), pod.ended, pod.node, pod.labels, pod.host)
