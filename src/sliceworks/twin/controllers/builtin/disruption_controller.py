"""The disruption controller: the status of PodDisruptionBudgets."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from sliceworks.base import clock
from sliceworks.base.conditions import set_condition
from sliceworks.base.errors import ApiError
from sliceworks.kube.resources import controller_of
from sliceworks.twin.controllers.builtin.deployment_rollout import desired_replicas
from sliceworks.twin.controllers.builtin.pod_control import parse_time, scaled_value, selector_of
from sliceworks.twin.controllers.runtime.api_writer import ApiWriter
from sliceworks.twin.controllers.runtime.controller import Change, Controller
from sliceworks.twin.controllers.runtime.controller_context import NamespacedName, controller_user
from sliceworks.twin.controllers.runtime.object_index import SelectorIndex
from sliceworks.twin.controllers.runtime.pod_index import Pod, PodIndex
from sliceworks.twin.controllers.runtime.recorder import Recorder
from sliceworks.twin.controllers.runtime.resource_keys import (
    BUDGETS,
    DEPLOYMENTS,
    PODS,
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    STATEFUL_SETS,
)

if TYPE_CHECKING:
    from sliceworks.kube.resources import Object
    from sliceworks.twin.controllers.runtime.controller_context import ControllerContext

_USER = controller_user("disruption-controller")
_SCALED = {"ReplicaSet": REPLICA_SETS, "ReplicationController": REPLICATION_CONTROLLERS, "StatefulSet": STATEFUL_SETS}
_DELETION_TIMEOUT = 120.0
"""Seconds after which a pod whose eviction was granted, but which was not deleted, counts as healthy again."""


class ExpectedPodsUnknown(Exception):
    """The number of expected pods cannot be determined."""


class DisruptionController(Controller[NamespacedName]):
    """Updates a budget when it, one of its pods or the scale of their controllers changes."""

    watches = frozenset({BUDGETS, PODS, REPLICA_SETS, REPLICATION_CONTROLLERS, DEPLOYMENTS, STATEFUL_SETS})

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._pods = context.shared_index(PodIndex)
        self._writer, self._recorder = ApiWriter(context, _USER), Recorder(context, _USER, "controllermanager")
        self._selectors = SelectorIndex()

    def observe(self, change: Change) -> None:
        if change.resource == BUDGETS:
            if change.type == "DELETED":
                self._selectors.remove(change.namespace, change.name)
            else:
                self._selectors.put(change.namespace, change.name, selector_of(change.obj))
                self.queue.add((change.namespace, change.name))
        elif change.resource == PODS:
            self._enqueue_budgets(self._pods.before, self._pods.after)
        else:
            self._enqueue_budgets(*islice(self._pods.owned_by(change.obj["metadata"]["uid"]), 1))

    def _enqueue_budgets(self, *pods: Pod | None) -> None:
        for pod in filter(None, pods):
            for name in self._selectors.matching(pod.namespace, pod.labels):
                self.queue.add((pod.namespace, name))

    async def sync(self, key: NamespacedName) -> None:
        budget = self.context.get(BUDGETS, *key)
        if budget is None:
            return
        pods = self._pods.matching(key[0], selector_of(budget))
        if not pods:
            await self._recorder.normal(budget, "NoPods", "No matching pods found")
        old = budget.get("status") or {}
        try:
            expected, desired = await self._get_expected_pods(budget, pods)
        except ExpectedPodsUnknown as error:
            message = f"Failed to calculate the number of expected pods: {error}"
            await self._recorder.warning(budget, "CalculateExpectedPodCountFailed", message)
            status = {**old, "disruptionsAllowed": 0}
            _set_condition(status, "SyncFailed", str(error), old.get("observedGeneration", 0))
        else:
            status = self._compute_status(key, budget, pods, expected, desired)
        if status != old:
            await self._writer.update_status(BUDGETS, budget, status)

    def _compute_status(self, key: NamespacedName, budget: Object, pods: list[Pod], expected: int, desired: int) -> Object:
        old, now = budget.get("status") or {}, clock.now()
        names = {pod.name for pod in pods if not pod.deleting}
        disrupted = {name: time for name, time in (old.get("disruptedPods") or {}).items() if name in names}
        remaining = {name: _DELETION_TIMEOUT - (now - parse_time(time)).total_seconds() for name, time in disrupted.items()}
        disrupted = {name: time for name, time in disrupted.items() if remaining[name] > 0}
        if disrupted:
            self.queue.add_after(key, min(remaining[name] for name in disrupted) + 0.01)
        healthy = sum(1 for pod in pods if pod.ready and not pod.deleting and pod.name not in disrupted)
        status: Object = {
            "currentHealthy": healthy,
            "desiredHealthy": desired,
            "expectedPods": expected,
            "disruptionsAllowed": max(0, healthy - desired) if expected > 0 else 0,
            "observedGeneration": budget["metadata"].get("generation", 0),
            "conditions": old.get("conditions"),
        }
        if disrupted:
            status["disruptedPods"] = disrupted
        reason = "SufficientPods" if status["disruptionsAllowed"] else "InsufficientPods"
        _set_condition(status, reason, "", budget["metadata"].get("generation", 0))
        return status

    async def _get_expected_pods(self, budget: Object, pods: list[Pod]) -> tuple[int, int]:
        """The number of expected pods, and how many of them must be healthy."""
        spec = budget["spec"]
        max_unavailable, min_available = spec.get("maxUnavailable"), spec.get("minAvailable")
        if max_unavailable is not None:
            expected = await self._get_scale(pods)
            return expected, max(0, expected - scaled_value(max_unavailable, expected, round_up=True))
        if isinstance(min_available, str):
            expected = await self._get_scale(pods)
            return expected, scaled_value(min_available, expected, round_up=True)
        return len(pods), int(min_available or 0)

    async def _get_scale(self, pods: list[Pod]) -> int:
        """The total scale of the controllers of these pods."""
        scales: dict[str, int] = {}
        seen: set[str] = set()
        for pod in pods:
            if pod.owner and pod.owner not in seen:
                seen.add(pod.owner)
                uid, scale = await self._get_controller_scale(pod)
                scales[uid] = scale
        return sum(scales.values())

    async def _get_controller_scale(self, pod: Pod) -> tuple[str, int]:
        resource = _SCALED.get(pod.owner_kind)
        controller = self.context.get(resource, pod.namespace, pod.owner_name) if resource else None
        if controller is None:
            return pod.owner, await self._get_scale_subresource(pod)
        owner = controller_of(controller)
        if owner is not None and owner["kind"] == "Deployment":
            controller = self.context.get(DEPLOYMENTS, pod.namespace, owner["name"]) or controller
        return controller["metadata"]["uid"], desired_replicas(controller)

    async def _get_scale_subresource(self, pod: Pod) -> int:
        obj = self.context.get(PODS, pod.namespace, pod.name) or {"metadata": {}}
        owner = controller_of(obj) or {"apiVersion": ""}
        served = self.context.resource_for_kind(owner["apiVersion"], pod.owner_kind)
        if served is None:
            raise ExpectedPodsUnknown(f'found no controllers for pod "{pod.name}"')
        try:
            scale = await self.context.send(_USER, "GET", served.resource.path(pod.namespace, pod.owner_name, "scale"))
        except ApiError as error:
            if pod.owner_kind == "Job":
                raise ExpectedPodsUnknown(f"{served.resource.qualified} does not implement the scale subresource") from error
            raise ExpectedPodsUnknown(f'found no controllers for pod "{pod.name}"') from error
        return int((scale.get("spec") or {}).get("replicas") or 0)


def _set_condition(status: Object, reason: str, message: str, generation: int) -> None:
    """Set DisruptionAllowed in a copy of the conditions."""
    conditions = [dict(condition) for condition in status.get("conditions") or ()]
    condition: Object = {"type": "DisruptionAllowed", "status": "True" if reason == "SufficientPods" else "False"}
    condition |= {"reason": reason, "message": message, **({"observedGeneration": generation} if generation else {})}
    set_condition(conditions, condition)
    status["conditions"] = conditions
