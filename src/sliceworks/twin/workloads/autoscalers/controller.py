"""The controller of HorizontalPodAutoscalers: comes by every 15 seconds, keeps bounds, and follows what is measured within them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn

from sliceworks.base import clock, quantity
from sliceworks.base.errors import ApiError, BadRequest
from sliceworks.kube.backoff import Backoff
from sliceworks.kube.selectors import parse_labels
from sliceworks.kube.workqueue import WorkQueue
from sliceworks.twin.controllers.events import Recorder
from sliceworks.twin.controllers.loop import Change, Controller
from sliceworks.twin.controllers.world import controller_user
from sliceworks.twin.workloads.autoscalers import pace, targets
from sliceworks.twin.workloads.autoscalers.calculator import Crowd, Tolerances
from sliceworks.twin.workloads.autoscalers.readings import Readings
from sliceworks.twin.workloads.autoscalers.sources import Failure, Proposal, propose
from sliceworks.twin.workloads.autoscalers.standing import ABLE, ACTIVE, LIMITED, Standing
from sliceworks.twin.workloads.pods import PODS, Pods
from sliceworks.twin.workloads.selecting import Selecting

if TYPE_CHECKING:
    from sliceworks.kube.selectors import LabelSelector
    from sliceworks.twin.controllers.world import World

AUTOSCALERS = "autoscaling/horizontalpodautoscalers"
PERIOD = 15.0
"""Seconds between two looks at an autoscaler, and before the first."""
_USER = controller_user("horizontal-pod-autoscaler")

Obj = dict[str, Any]
Key = tuple[str, str]


class NoReplicas(Exception):
    """How many replicas there should be cannot be told from the metrics."""


@dataclass(slots=True)
class Look:
    """One look at an autoscaler that has something to scale."""

    key: Key
    autoscaler: Obj
    standing: Standing
    target: targets.Target
    metrics: list[Obj] = field(default_factory=list)
    """How each metric stands."""

    @property
    def spec(self) -> Obj:
        found: Obj = self.autoscaler["spec"]
        return found


class Autoscalers(Controller[Key]):
    """Looks at an autoscaler once in each period, however often it changes."""

    workers = 5
    watches = frozenset({AUTOSCALERS})

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.queue: WorkQueue[Key] = WorkQueue(Backoff(first=PERIOD, cap=PERIOD, jitter=0.0))
        self._pods = world.shared(Pods)
        self._recorder = Recorder(world, _USER, "horizontal-pod-autoscaler")
        self._readings = Readings(world, _USER)
        self._selectors = Selecting()
        self._memories: dict[Key, pace.Memory] = {}

    def observe(self, change: Change) -> None:
        key = (change.namespace, change.name)
        if change.type == "DELETED":
            self._selectors.remove(*key)
        else:
            self.queue.add_after(key, PERIOD)

    async def sync(self, key: Key) -> None:
        autoscaler = self.world.get(AUTOSCALERS, *key)
        if autoscaler is None:
            self._memories.pop(key, None)
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
        self._memories.setdefault(key, pace.Memory()).begin(target.replicas, _now())
        await self._keep(Look(key, autoscaler, standing, target))

    async def _keep(self, look: Look) -> None:
        """Keep the replicas within their bounds; only then does it matter what is measured."""
        current, least, most = look.target.replicas, look.spec.get("minReplicas", 1), look.spec["maxReplicas"]
        if current == 0 and least != 0:
            words = "scaling is disabled since the replica count of the target is zero"
            look.standing.say(ACTIVE, "ScalingDisabled", words, holds=False)
            look.standing.count(current, 0)
        elif current > most:
            await self._resize(look, most, "Current number of replicas above Spec.MaxReplicas")
        elif current < least:
            await self._resize(look, least, "Current number of replicas below Spec.MinReplicas")
        else:
            await self._follow(look, pace.Bounds(least, most))

    async def _follow(self, look: Look, bounds: pace.Bounds) -> None:
        """Have as many as the metrics ask for, as fast as that may be."""
        current, behavior, memory = look.target.replicas, look.spec.get("behavior"), self._memories[look.key]
        try:
            best = await self._best(look, await self._selected(look))
        except NoReplicas as error:
            look.standing.count(current, metrics=look.metrics)
            await self._recorder.warning(look.autoscaler, "FailedComputeMetricsReplicas", str(error))
            return
        if behavior is None:
            step = pace.plain(memory, current, best.replicas, bounds, now=_now())
        else:
            step = pace.behaved(memory, behavior, current, best.replicas, bounds, now=_now())
        look.standing.say(ABLE, *step.able)
        look.standing.say(LIMITED, *step.limit, holds=step.limited)
        if step.replicas == current:
            look.standing.count(current, current, look.metrics)
        else:
            why = f"{best.name} above target" if best.replicas > current else "All metrics below target"
            await self._resize(look, step.replicas, why)

    async def _best(self, look: Look, selector: LabelSelector) -> Proposal:
        """The proposal of the metric that asks for most. Fewer are only wanted when all metrics could be had."""
        found: list[Proposal] = []
        failures: list[Failure] = []
        crowd = self._crowd(look, selector)
        for metric in look.spec["metrics"]:
            try:
                found.append(await propose(self._readings, metric, crowd, look.key[0], selector))
                look.metrics.append(found[-1].status)
            except Failure as failure:
                await self._recorder.warning(look.autoscaler, failure.reason, failure.message)
                failures.append(failure)
                look.metrics.append({"type": ""})
        best = max(found, key=lambda each: each.replicas, default=None)
        if best is None or (failures and best.replicas < look.target.replicas):
            words = f"the HPA was unable to compute the replica count: {failures[0].message}"
            look.standing.say(ACTIVE, failures[0].reason, words, holds=False)
            count = f"{len(failures)} invalid out of {len(look.metrics)}"
            raise NoReplicas(f"invalid metrics ({count}), first error is: {failures[0].summary}")
        words = f"the HPA was able to successfully calculate a replica count from {best.name}"
        look.standing.say(ACTIVE, "ValidMetricFound", words)
        return best

    def _crowd(self, look: Look, selector: LabelSelector) -> Crowd:
        namespace = look.key[0]
        pods = [self.world.get(PODS, namespace, pod.name) for pod in self._pods.matching(namespace, selector)]
        there = [pod for pod in pods if pod is not None]
        return Crowd(look.target.replicas, look.target.counted, there, _tolerances(look.spec), clock.now())

    async def _selected(self, look: Look) -> LabelSelector:
        """The labels of the target's pods, once it is sure that these are the target's alone."""
        text, namespace = look.target.selector, look.key[0]
        if not text:
            await self._recorder.warning(look.autoscaler, "SelectorRequired", "selector is required")
            look.standing.say(ACTIVE, "InvalidSelector", "the HPA target's scale is missing a selector", holds=False)
            raise NoReplicas("selector is required")
        try:
            selector = parse_labels(text)
        except BadRequest as error:
            words = f"couldn't convert selector into a corresponding internal selector object: {error.message}"
            await self._refuse(look, "InvalidSelector", words)
        self._selectors.put(*look.key, selector)
        pods = self._pods.matching(namespace, selector)
        names = sorted({name for pod in pods for name in self._selectors.matching(namespace, pod.labels)})
        if len(names) > 1:
            both = " ".join(f"{namespace}/{name}" for name in names)
            await self._refuse(look, "AmbiguousSelector", f"pods by selector {text} are controlled by multiple HPAs: [{both}]")
        return selector

    async def _refuse(self, look: Look, reason: str, words: str) -> NoReturn:
        await self._recorder.warning(look.autoscaler, reason, words)
        look.standing.say(ACTIVE, reason, words, holds=False)
        raise NoReplicas(words)

    async def _resize(self, look: Look, size: int, why: str) -> None:
        current, standing = look.target.replicas, look.standing
        try:
            await look.target.resize(size)
        except ApiError as error:
            words = f"New size: {size}; reason: {why}; error: {error.message}"
            await self._recorder.warning(look.autoscaler, "FailedRescale", words)
            words = f"the HPA controller was unable to update the target scale: {error.message}"
            standing.say(ABLE, "FailedUpdateScale", words, holds=False)
            standing.count(current, metrics=look.metrics)
            return
        standing.say(ABLE, "SucceededRescale", f"the HPA controller was able to update the target scale to {size}")
        await self._recorder.normal(look.autoscaler, "SuccessfulRescale", f"New size: {size}; reason: {why}")
        self._memories[look.key].note(look.spec.get("behavior"), current, size, _now())
        standing.count(current, size, look.metrics, scaled=True)

    async def _write(self, key: Key, autoscaler: Obj, standing: Standing) -> None:
        path = f"/apis/autoscaling/v2/namespaces/{key[0]}/horizontalpodautoscalers/{key[1]}/status"
        try:
            await self.world.tell(_USER, "PUT", path, {**autoscaler, "status": standing.status})
        except ApiError as error:
            await self._recorder.warning(autoscaler, "FailedUpdateStatus", error.message)
            raise


def _tolerances(spec: Obj) -> Tolerances:
    behavior = spec.get("behavior") or {}
    given = {side: (behavior.get(f"scale{side.title()}") or {}).get("tolerance") for side in ("down", "up")}
    return Tolerances(**{side: float(quantity.parse(text)) for side, text in given.items() if text is not None})


def _now() -> float:
    return clock.now().timestamp()
