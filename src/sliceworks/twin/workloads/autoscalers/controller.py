"""The controller of HorizontalPodAutoscalers: comes by every 15 seconds, and keeps each target's replicas within their bounds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from sliceworks.base.errors import ApiError, BadRequest
from sliceworks.kube.backoff import Backoff
from sliceworks.kube.selectors import parse_labels
from sliceworks.kube.workqueue import WorkQueue
from sliceworks.twin.controllers.events import Recorder
from sliceworks.twin.controllers.loop import Change, Controller
from sliceworks.twin.controllers.world import controller_user
from sliceworks.twin.workloads.autoscalers import targets
from sliceworks.twin.workloads.autoscalers.standing import ABLE, ACTIVE, Standing
from sliceworks.twin.workloads.autoscalers.unmeasured import all_failed, failure
from sliceworks.twin.workloads.pods import Pods
from sliceworks.twin.workloads.selecting import Selecting

if TYPE_CHECKING:
    from sliceworks.twin.controllers.world import World

AUTOSCALERS = "autoscaling/horizontalpodautoscalers"
PERIOD = 15.0
"""Seconds between two looks at an autoscaler, and before the first."""
_USER = controller_user("horizontal-pod-autoscaler")

Obj = dict[str, Any]
Key = tuple[str, str]


class NoReplicas(Exception):
    """How many replicas there should be cannot be told from the metrics."""


class Autoscalers(Controller[Key]):
    """Looks at an autoscaler once in each period, however often it changes."""

    workers = 5
    watches = frozenset({AUTOSCALERS})

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.queue: WorkQueue[Key] = WorkQueue(Backoff(first=PERIOD, cap=PERIOD, jitter=0.0))
        self._pods = world.shared(Pods)
        self._recorder = Recorder(world, _USER, "horizontal-pod-autoscaler")
        self._selectors = Selecting()

    def observe(self, change: Change) -> None:
        key = (change.namespace, change.name)
        if change.type == "DELETED":
            self._selectors.remove(*key)
        else:
            self.queue.add_after(key, PERIOD)

    async def sync(self, key: Key) -> None:
        autoscaler = self.world.get(AUTOSCALERS, *key)
        if autoscaler is None:
            return
        standing = Standing(autoscaler)
        await self._look(key, autoscaler, standing)
        if standing.changed:
            await self._write(key, autoscaler, standing)
        self.queue.add_after(key, PERIOD)

    async def _look(self, key: Key, autoscaler: Obj, standing: Standing) -> None:
        try:
            target = await targets.find(self.world, _USER, key[0], autoscaler["spec"]["scaleTargetRef"])
        except ApiError as error:
            await self._recorder.warning(autoscaler, "FailedGetScale", error.message)
            words = f"the HPA controller was unable to get the target's current scale: {error.message}"
            standing.say(ABLE, "FailedGetScale", words, holds=False)
            return
        standing.say(ABLE, "SucceededGetScale", "the HPA controller was able to get the target's current scale")
        await self._keep(key, autoscaler, standing, target)

    async def _keep(self, key: Key, autoscaler: Obj, standing: Standing, target: targets.Target) -> None:
        """Keep the replicas within their bounds; only then does it matter what is measured."""
        spec, current = autoscaler["spec"], target.replicas
        least, most = spec.get("minReplicas", 1), spec["maxReplicas"]
        if current == 0 and least != 0:
            words = "scaling is disabled since the replica count of the target is zero"
            standing.say(ACTIVE, "ScalingDisabled", words, holds=False)
            standing.count(current, 0)
        elif current > most:
            await self._resize(autoscaler, standing, target, most, "Current number of replicas above Spec.MaxReplicas")
        elif current < least:
            await self._resize(autoscaler, standing, target, least, "Current number of replicas below Spec.MinReplicas")
        else:
            await self._measure(key, autoscaler, standing, target)

    async def _measure(self, key: Key, autoscaler: Obj, standing: Standing, target: targets.Target) -> None:
        try:
            await self._check_selector(key, autoscaler, standing, target.selector)
        except NoReplicas as error:
            standing.count(target.replicas)
            await self._recorder.warning(autoscaler, "FailedComputeMetricsReplicas", str(error))
            return
        failures = [failure(metric, key[0]) for metric in autoscaler["spec"]["metrics"]]
        for each in failures:
            await self._recorder.warning(autoscaler, each.reason, each.message)
        words = f"the HPA was unable to compute the replica count: {failures[0].message}"
        standing.say(ACTIVE, failures[0].reason, words, holds=False)
        standing.count(target.replicas, metrics=[{"type": ""}] * len(failures))
        await self._recorder.warning(autoscaler, "FailedComputeMetricsReplicas", all_failed(failures))

    async def _check_selector(self, key: Key, autoscaler: Obj, standing: Standing, text: str) -> None:
        """Make sure that the target's pods can be told, and are the target's alone."""
        if not text:
            await self._recorder.warning(autoscaler, "SelectorRequired", "selector is required")
            standing.say(ACTIVE, "InvalidSelector", "the HPA target's scale is missing a selector", holds=False)
            raise NoReplicas("selector is required")
        try:
            selector = parse_labels(text)
        except BadRequest as error:
            words = f"couldn't convert selector into a corresponding internal selector object: {error.message}"
            await self._refuse(autoscaler, standing, "InvalidSelector", words)
        self._selectors.put(*key, selector)
        pods = self._pods.matching(key[0], selector)
        names = sorted({name for pod in pods for name in self._selectors.matching(key[0], pod.labels)})
        if len(names) > 1:
            both = " ".join(f"{key[0]}/{name}" for name in names)
            words = f"pods by selector {text} are controlled by multiple HPAs: [{both}]"
            await self._refuse(autoscaler, standing, "AmbiguousSelector", words)

    async def _refuse(self, autoscaler: Obj, standing: Standing, reason: str, words: str) -> NoReturn:
        await self._recorder.warning(autoscaler, reason, words)
        standing.say(ACTIVE, reason, words, holds=False)
        raise NoReplicas(words)

    async def _resize(self, autoscaler: Obj, standing: Standing, target: targets.Target, size: int, why: str) -> None:
        current = target.replicas
        try:
            await target.resize(size)
        except ApiError as error:
            words = f"New size: {size}; reason: {why}; error: {error.message}"
            await self._recorder.warning(autoscaler, "FailedRescale", words)
            words = f"the HPA controller was unable to update the target scale: {error.message}"
            standing.say(ABLE, "FailedUpdateScale", words, holds=False)
            standing.count(current)
            return
        standing.say(ABLE, "SucceededRescale", f"the HPA controller was able to update the target scale to {size}")
        await self._recorder.normal(autoscaler, "SuccessfulRescale", f"New size: {size}; reason: {why}")
        standing.count(current, size, scaled=True)

    async def _write(self, key: Key, autoscaler: Obj, standing: Standing) -> None:
        path = f"/apis/autoscaling/v2/namespaces/{key[0]}/horizontalpodautoscalers/{key[1]}/status"
        try:
            await self.world.tell(_USER, "PUT", path, {**autoscaler, "status": standing.status})
        except ApiError as error:
            await self._recorder.warning(autoscaler, "FailedUpdateStatus", error.message)
            raise
