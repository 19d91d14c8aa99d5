"""The HorizontalPodAutoscaler controller."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn

from sliceworks.base import clock, quantity
from sliceworks.base.conditions import set_condition
from sliceworks.base.errors import ApiError, BadRequest, Conflict, NotFound
from sliceworks.base.retry import Backoff
from sliceworks.kube.selectors import parse_labels
from sliceworks.kube.workqueue import WorkQueue
from sliceworks.twin.controllers.builtin import autoscaler_behavior
from sliceworks.twin.controllers.builtin.metric_source import MetricFailure, ReplicaProposal, compute_replicas
from sliceworks.twin.controllers.builtin.replica_calculator import MetricsClient, ScaledPods, Tolerances
from sliceworks.twin.controllers.runtime.api_writer import ApiWriter
from sliceworks.twin.controllers.runtime.controller import Change, Controller
from sliceworks.twin.controllers.runtime.controller_context import NamespacedName, controller_user
from sliceworks.twin.controllers.runtime.object_index import SelectorIndex
from sliceworks.twin.controllers.runtime.pod_index import PodIndex
from sliceworks.twin.controllers.runtime.recorder import Recorder
from sliceworks.twin.controllers.runtime.resource_keys import AUTOSCALERS, PODS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sliceworks.kube.resources import Object
    from sliceworks.kube.selectors import LabelSelector
    from sliceworks.twin.apiserver.auth.authentication import User
    from sliceworks.twin.controllers.runtime.controller_context import ControllerContext

_MAX_ATTEMPTS = 5
_RETRY_SECONDS = 0.01
ABLE_TO_SCALE, SCALING_ACTIVE, SCALING_LIMITED = "AbleToScale", "ScalingActive", "ScalingLimited"
PERIOD = 15.0
"""Seconds between two reconciles of an autoscaler, and before the first."""
_USER = controller_user("horizontal-pod-autoscaler")


class ScaleTarget:
    """The scale subresource of one object, read and written as one user."""

    def __init__(self, context: ControllerContext, user: User, path: str, scale: dict[str, Any]) -> None:
        self._context, self._user, self._path, self._scale = context, user, path, scale

    @property
    def replicas(self) -> int:
        """spec.replicas of the scale."""
        return int((self._scale.get("spec") or {}).get("replicas") or 0)

    @property
    def status_replicas(self) -> int:
        return int((self._scale.get("status") or {}).get("replicas") or 0)

    @property
    def selector(self) -> str:
        """The label selector of its pods; empty if it has none."""
        return str((self._scale.get("status") or {}).get("selector") or "")

    async def resize(self, replicas: int) -> None:
        """Set spec.replicas, with retries on conflict."""
        for attempt in range(_MAX_ATTEMPTS):
            try:
                await self._context.write(self._user, "PUT", self._path, {**self._scale, "spec": {"replicas": replicas}})
            except Conflict:
                if attempt == _MAX_ATTEMPTS - 1:
                    raise
                await clock.sleep(_RETRY_SECONDS)
                self._scale = await self._context.send(self._user, "GET", self._path)
            else:
                return


async def find_scale_target(context: ControllerContext, user: User, namespace: str, reference: Mapping[str, Any]) -> ScaleTarget:
    """The scale of the object that a reference names; raises ApiError if it has none."""
    group, kind = reference.get("apiVersion", "").rpartition("/")[0], reference["kind"]
    served = context.resource_for_kind(reference.get("apiVersion", ""), kind)
    if served is None:
        raise NotFound(f'no matches for kind "{kind}" in group "{group}"')
    path = served.resource.path(namespace, reference["name"], "scale")
    return ScaleTarget(context, user, path, await context.send(user, "GET", path))


class AutoscalerStatus:
    """The status of an autoscaler, while one reconcile updates it."""

    def __init__(self, autoscaler: Mapping[str, Any]) -> None:
        self._before: Object = autoscaler.get("status") or {}
        conditions = [dict(condition) for condition in self._before.get("conditions") or ()]
        self.status: Object = {**self._before, "conditions": conditions}

    def set_condition(self, kind: str, reason: str, message: str, *, holds: bool = True) -> None:
        condition = {"type": kind, "status": "True" if holds else "False", "reason": reason, "message": message}
        set_condition(self.status["conditions"], condition)

    def set_replicas(
        self, current: int, desired: int | None = None, metrics: Sequence[Object] = (), *, scaled: bool = False
    ) -> None:
        """Set the current and desired replicas; without `desired`, the last value is kept.

        observedGeneration is not set: the real controller omits it as well.
        """
        self.status = {
            "currentReplicas": current,
            "desiredReplicas": (self._before.get("desiredReplicas") or 0) if desired is None else desired,
            "currentMetrics": list(metrics) or None,
            "conditions": self.status["conditions"],
        }
        last = clock.timestamp() if scaled else self._before.get("lastScaleTime")
        if last:
            self.status["lastScaleTime"] = last

    @property
    def is_changed(self) -> bool:
        """Whether the status differs from the stored one; an empty field equals a missing one."""
        return _non_empty(self.status) != _non_empty(self._before)


def _non_empty(status: Object) -> Object:
    return {name: value for name, value in status.items() if value}


class NoProposal(Exception):
    """No replica count could be computed from the metrics."""


@dataclass(slots=True)
class Reconciliation:
    """One reconcile of an autoscaler with a scale target."""

    key: NamespacedName
    autoscaler: Object
    status: AutoscalerStatus
    target: ScaleTarget
    metrics: list[Object] = field(default_factory=list)
    """The status of each metric."""

    @property
    def spec(self) -> Object:
        spec: Object = self.autoscaler["spec"]
        return spec


class HorizontalController(Controller[NamespacedName]):
    """Reconciles each autoscaler once per period, however often it changes."""

    workers = 5
    watches = frozenset({AUTOSCALERS})

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self.queue: WorkQueue[NamespacedName] = WorkQueue(Backoff(first=PERIOD, cap=PERIOD, jitter=0.0))
        self._pods = context.shared_index(PodIndex)
        self._writer, self._recorder = ApiWriter(context, _USER), Recorder(context, _USER, "horizontal-pod-autoscaler")
        self._metrics = MetricsClient(context, _USER)
        self._selectors = SelectorIndex()
        self._histories: dict[NamespacedName, autoscaler_behavior.ScalingHistory] = {}

    def observe(self, change: Change) -> None:
        key = (change.namespace, change.name)
        if change.type == "DELETED":
            self._selectors.remove(*key)
        else:
            self.queue.add_after(key, PERIOD)

    async def sync(self, key: NamespacedName) -> None:
        autoscaler = self.context.get(AUTOSCALERS, *key)
        if autoscaler is None:
            self._histories.pop(key, None)
            return
        status = AutoscalerStatus(autoscaler)
        await self._reconcile(key, autoscaler, status)
        if status.is_changed:
            await self._update_status(autoscaler, status)
        self.queue.add_after(key, PERIOD)

    async def _reconcile(self, key: NamespacedName, autoscaler: Object, status: AutoscalerStatus) -> None:
        try:
            target = await find_scale_target(self.context, _USER, key[0], autoscaler["spec"]["scaleTargetRef"])
        except ApiError as error:
            await self._recorder.warning(autoscaler, "FailedGetScale", error.message)
            message = f"the HPA controller was unable to get the target's current scale: {error.message}"
            status.set_condition(ABLE_TO_SCALE, "FailedGetScale", message, holds=False)
            return
        status.set_condition(ABLE_TO_SCALE, "SucceededGetScale", "the HPA controller was able to get the target's current scale")
        self._histories.setdefault(key, autoscaler_behavior.ScalingHistory()).start(target.replicas, _now())
        await self._reconcile_bounds(Reconciliation(key, autoscaler, status, target))

    async def _reconcile_bounds(self, run: Reconciliation) -> None:
        """Scale to within minReplicas and maxReplicas; only then evaluate the metrics."""
        current, minimum, maximum = run.target.replicas, run.spec.get("minReplicas", 1), run.spec["maxReplicas"]
        if current == 0 and minimum != 0:
            message = "scaling is disabled since the replica count of the target is zero"
            run.status.set_condition(SCALING_ACTIVE, "ScalingDisabled", message, holds=False)
            run.status.set_replicas(current, 0)
        elif current > maximum:
            await self._resize(run, maximum, "Current number of replicas above Spec.MaxReplicas")
        elif current < minimum:
            await self._resize(run, minimum, "Current number of replicas below Spec.MinReplicas")
        else:
            await self._reconcile_metrics(run, autoscaler_behavior.Bounds(minimum, maximum))

    async def _reconcile_metrics(self, run: Reconciliation, bounds: autoscaler_behavior.Bounds) -> None:
        """Scale to what the metrics ask for, within the scaling behavior."""
        current, behavior, history = run.target.replicas, run.spec.get("behavior"), self._histories[run.key]
        try:
            best = await self._compute_proposal(run, await self._get_selector(run))
        except NoProposal as error:
            run.status.set_replicas(current, metrics=run.metrics)
            await self._recorder.warning(run.autoscaler, "FailedComputeMetricsReplicas", str(error))
            return
        if behavior is None:
            decision = autoscaler_behavior.normalize_replicas(history, current, best.replicas, bounds, now=_now())
        else:
            decision = autoscaler_behavior.normalize_with_behavior(history, behavior, current, best.replicas, bounds, now=_now())
        run.status.set_condition(ABLE_TO_SCALE, *decision.able)
        run.status.set_condition(SCALING_LIMITED, *decision.limit, holds=decision.limited)
        if decision.replicas == current:
            run.status.set_replicas(current, current, run.metrics)
        else:
            cause = f"{best.name} above target" if best.replicas > current else "All metrics below target"
            await self._resize(run, decision.replicas, cause)

    async def _compute_proposal(self, run: Reconciliation, selector: LabelSelector) -> ReplicaProposal:
        """The proposal of the metric that asks for the most replicas; scaling down requires that no metric failed."""
        proposals: list[ReplicaProposal] = []
        failures: list[MetricFailure] = []
        scaled_pods = self._scaled_pods(run, selector)
        for metric in run.spec["metrics"]:
            try:
                proposals.append(await compute_replicas(self._metrics, metric, scaled_pods, run.key[0], selector))
                run.metrics.append(proposals[-1].status)
            except MetricFailure as failure:
                await self._recorder.warning(run.autoscaler, failure.reason, failure.message)
                failures.append(failure)
                run.metrics.append({"type": ""})
        best = max(proposals, key=lambda proposal: proposal.replicas, default=None)
        if best is None or (failures and best.replicas < run.target.replicas):
            message = f"the HPA was unable to compute the replica count: {failures[0].message}"
            run.status.set_condition(SCALING_ACTIVE, failures[0].reason, message, holds=False)
            invalid = f"{len(failures)} invalid out of {len(run.metrics)}"
            raise NoProposal(f"invalid metrics ({invalid}), first error is: {failures[0].summary}")
        message = f"the HPA was able to successfully calculate a replica count from {best.name}"
        run.status.set_condition(SCALING_ACTIVE, "ValidMetricFound", message)
        return best

    def _scaled_pods(self, run: Reconciliation, selector: LabelSelector) -> ScaledPods:
        namespace = run.key[0]
        names = [pod.name for pod in self._pods.matching(namespace, selector)]
        pods = [pod for name in names if (pod := self.context.get(PODS, namespace, name)) is not None]
        return ScaledPods(run.target.replicas, run.target.status_replicas, pods, _tolerances(run.spec), clock.now())

    async def _get_selector(self, run: Reconciliation) -> LabelSelector:
        """The selector of the target's pods; fails if it is missing, invalid or selects pods of another autoscaler."""
        expression, namespace = run.target.selector, run.key[0]
        if not expression:
            await self._recorder.warning(run.autoscaler, "SelectorRequired", "selector is required")
            run.status.set_condition(SCALING_ACTIVE, "InvalidSelector", "the HPA target's scale is missing a selector", holds=False)
            raise NoProposal("selector is required")
        try:
            selector = parse_labels(expression)
        except BadRequest as error:
            message = f"couldn't convert selector into a corresponding internal selector object: {error.message}"
            await self._fail_selector(run, "InvalidSelector", message)
        self._selectors.put(*run.key, selector)
        pods = self._pods.matching(namespace, selector)
        names = sorted({name for pod in pods for name in self._selectors.matching(namespace, pod.labels)})
        if len(names) > 1:
            autoscalers = " ".join(f"{namespace}/{name}" for name in names)
            message = f"pods by selector {expression} are controlled by multiple HPAs: [{autoscalers}]"
            await self._fail_selector(run, "AmbiguousSelector", message)
        return selector

    async def _fail_selector(self, run: Reconciliation, reason: str, message: str) -> NoReturn:
        await self._recorder.warning(run.autoscaler, reason, message)
        run.status.set_condition(SCALING_ACTIVE, reason, message, holds=False)
        raise NoProposal(message)

    async def _resize(self, run: Reconciliation, size: int, cause: str) -> None:
        current, status = run.target.replicas, run.status
        try:
            await run.target.resize(size)
        except ApiError as error:
            message = f"New size: {size}; reason: {cause}; error: {error.message}"
            await self._recorder.warning(run.autoscaler, "FailedRescale", message)
            message = f"the HPA controller was unable to update the target scale: {error.message}"
            status.set_condition(ABLE_TO_SCALE, "FailedUpdateScale", message, holds=False)
            status.set_replicas(current, metrics=run.metrics)
            return
        status.set_condition(ABLE_TO_SCALE, "SucceededRescale", f"the HPA controller was able to update the target scale to {size}")
        await self._recorder.normal(run.autoscaler, "SuccessfulRescale", f"New size: {size}; reason: {cause}")
        self._histories[run.key].record_scale(run.spec.get("behavior"), current, size, _now())
        status.set_replicas(current, size, run.metrics, scaled=True)

    async def _update_status(self, autoscaler: Object, status: AutoscalerStatus) -> None:
        try:
            await self._writer.update_status(AUTOSCALERS, autoscaler, status.status)
        except ApiError as error:
            await self._recorder.warning(autoscaler, "FailedUpdateStatus", error.message)
            raise


def _tolerances(spec: Object) -> Tolerances:
    behavior = spec.get("behavior") or {}
    tolerances = {direction: (behavior.get(f"scale{direction.title()}") or {}).get("tolerance") for direction in ("down", "up")}
    return Tolerances(**{direction: float(quantity.parse(value)) for direction, value in tolerances.items() if value is not None})


def _now() -> float:
    return clock.now().timestamp()
