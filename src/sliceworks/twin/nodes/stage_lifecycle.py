"""Chooses the next stage of an object and computes its result. Does no I/O."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from sliceworks.base.clock import rfc3339
from sliceworks.base.conditions import set_condition
from sliceworks.kube.pod_requests import is_sidecar
from sliceworks.twin.controllers.runtime.pod_index import FINISHED_PHASES
from sliceworks.twin.nodes import container_status
from sliceworks.twin.nodes.container_status import render_message, should_restart
from sliceworks.twin.nodes.pod_status import NO_ADDRESSES, Addresses, are_gates_met, compute_pod_status
from sliceworks.twin.nodes.simulated_node import derived_address
from sliceworks.twin.nodes.stage import path

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from random import Random

    from sliceworks.twin.nodes.stage import ContainerChange, Delay, EventTemplate, Match, Stage, Stages, Value

    Predicate = Callable[["Obj", "Obj | None"], bool]
    Candidates = tuple[tuple[Stage, tuple[Predicate, ...]], ...]
Obj = dict[str, Any]
_CONTAINER = "sliceworks.dev/container"
_INDEXED_ANNOTATIONS = frozenset(
    f"sliceworks.dev/{name}" for name in ("run-seconds", "image-pull", "image-pull-seconds", "ready-seconds", "fail", "state")
)
"""The annotations that most stages match on; candidates are indexed by them."""


def candidate_stages(stages: Stages, obj: Obj, node: Obj | None) -> Candidates:
    """The stages that can match, by a cached index of phase, deletion and annotations, and the conditions that remain."""
    metadata = obj["metadata"]
    phase = (obj.get("status") or {}).get("phase", "")
    return _candidates(
        stages,
        phase,
        "deletionTimestamp" in metadata,
        _indexed_annotations(metadata),
        _indexed_annotations(node["metadata"] if node else {}),
    )


def _indexed_annotations(metadata: Obj) -> tuple[str, ...]:
    annotations = metadata.get("annotations")
    return tuple(name for name in annotations if name in _INDEXED_ANNOTATIONS) if annotations else ()


@lru_cache(4096)
def _candidates(
    stages: Stages, phase: str, is_deleting: bool, annotations: tuple[str, ...], node_annotations: tuple[str, ...]
) -> Candidates:
    def can_match(match: Match) -> bool:
        if match.path is None or match.path.keys is None:
            return True
        needs_value = match.exists is True or match.within is not None
        match match.path.keys:
            case ("status", "phase") if not match.path.is_related:
                return match.within is None or phase in match.within
            case ("metadata", "deletionTimestamp") if not match.path.is_related:
                return match.exists is not True or is_deleting
            case ("metadata", "annotations", name) if needs_value and name in _INDEXED_ANNOTATIONS:
                return name in (node_annotations if match.path.is_related else annotations)
        return True

    return tuple(
        (stage, stage_conditions(stage, with_phase=False)) for stage in stages if all(can_match(match) for match in stage.when)
    )


def stage_conditions(stage: Stage, *, with_phase: bool = True) -> tuple[Predicate, ...]:
    """The conditions of a stage as functions, those that inspect lists last; `with_phase` includes those on the phase."""
    matches = (match for match in stage.when if with_phase or not _is_on_phase(match))
    return tuple(_predicate(match) for match in sorted(matches, key=lambda match: match.path is None or match.path.keys is None))


def _is_on_phase(match: Match) -> bool:
    """Whether the index of candidates decides a condition."""
    return match.within is not None and match.path is not None and match.path.expression == ".status.phase"


def _predicate(match: Match) -> Predicate:
    if match.path is None:
        predicate = _NAMED_PREDICATES[match.named]
        return lambda obj, node: predicate(obj)
    keys, values = None if match.path.is_related else match.path.keys, match.path.values
    if match.exists is not None:
        exists = match.exists
        if keys is not None:
            return lambda obj, node: (_value_at(obj, keys) is not None) is exists
        return lambda obj, node: bool(values(obj, node)) is exists
    if match.within is not None:
        within = match.within
        if keys is not None:
            return lambda obj, node: (value := _value_at(obj, keys)) is not None and _to_string(value) in within
        return lambda obj, node: any(_to_string(value) in within for value in values(obj, node))
    if match.outside is not None:
        outside = match.outside
        return lambda obj, node: not any(_to_string(value) in outside for value in values(obj, node))
    return lambda obj, node: _is_below(match, obj, node)


def _value_at(value: Any, keys: Iterable[str]) -> Any:
    """The value below these keys; None if there is none."""
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
        if value is None:
            return None
    return value


def _is_below(match: Match, obj: Obj, node: Obj | None) -> bool:
    assert match.path is not None
    assert match.below is not None
    limit, values = match.below.resolve(obj, node), match.path.values(obj, node)
    try:
        return limit is None or not values or float(values[0]) < float(limit)
    except ValueError:
        return True  # ignore an annotation that is not a number


def _to_string(value: Any) -> str:
    if isinstance(value, str):
        return value
    return str(value).lower() if isinstance(value, bool) else str(value)


def may_restart(pod: Obj, status: Obj) -> bool:
    """Whether a container has terminated and the kubelet restarts it."""
    ended = status["state"].get("terminated") or ("waiting" in status["state"] and status["lastState"].get("terminated"))
    if not ended:
        return False
    container = next((item for item in pod["spec"]["containers"] if item["name"] == status["name"]), None)
    return container is not None and should_restart(container, pod["spec"], ended["exitCode"])


def _has_container_to_restart(pod: Obj) -> bool:
    return any(may_restart(pod, status) for status in (pod.get("status") or {}).get("containerStatuses") or ())


def may_end(pod: Obj, status: Obj) -> bool:
    """Whether a container is running and selected by the pod's annotations: all, unless one is named."""
    named = (pod["metadata"].get("annotations") or {}).get(_CONTAINER)
    return "running" in status["state"] and named in (None, status["name"])


def _has_container_to_end(pod: Obj) -> bool:
    return any(may_end(pod, status) for status in (pod.get("status") or {}).get("containerStatuses") or ())


_NAMED_PREDICATES: dict[str, Callable[[Obj], bool]] = {
    "gates-met": are_gates_met,
    "gates-unmet": lambda pod: not are_gates_met(pod),
    "to-end": _has_container_to_end,
    "to-restart": _has_container_to_restart,
}
_PLACEHOLDER = re.compile(r"\$\(([^()]+)\)")


@dataclass(frozen=True, slots=True)
class ScheduledStage:
    """A stage and the time at which it is due."""

    stage: Stage
    at: datetime


@dataclass(slots=True)
class StageResult:
    """The result of a stage: a status to merge, a patch, events, and whether to delete the object."""

    status: Obj = field(default_factory=dict)
    patch: Obj = field(default_factory=dict)
    events: tuple[EventTemplate, ...] = ()
    delete: bool = False


def next_stage(
    obj: Obj, stages: Stages, now: datetime, random: Callable[[], Random], node: Obj | None = None
) -> ScheduledStage | None:
    """Return the next stage of an object, or None. `random` is only called for weights and spreads."""
    matching: list[Stage] = []
    candidates = candidate_stages(stages, obj, node)
    for stage, conditions in candidates:
        if not stage.limit and (not matching or stage.weight is not None) and all(matches(obj, node) for matches in conditions):
            matching.append(stage)
            if stage.weight is None:
                break
    step: ScheduledStage | None = None
    if matching:
        is_certain = len(matching) == 1 and matching[0].weight is None
        chosen = matching[0] if is_certain else _choose_by_weight(matching, obj, node, random)
        step = None if chosen is None else ScheduledStage(chosen, _due_time(chosen.delay, obj, now, node=node, random=random))
    for stage, conditions in candidates:
        if stage.limit and all(matches(obj, node) for matches in conditions):
            at = _due_time(stage.delay, obj, now, node=node, random=random)
            step = ScheduledStage(stage, at) if step is None or at < step.at else step
    return step


def _choose_by_weight(stages: list[Stage], obj: Obj, node: Obj | None, random: Callable[[], Random]) -> Stage | None:
    weights = [_number(stage.weight, obj, node) for stage in stages]
    if not any(weight > 0 for weight in weights):
        return None
    return random().choices(stages, weights)[0]


def _due_time(delay: Delay, obj: Obj, now: datetime, *, node: Obj | None, random: Callable[[], Random]) -> datetime:
    seconds = _number(delay.seconds, obj, node)
    if delay.doubling is not None:
        count = max([int(value) for value in delay.doubling.values(obj, node)] or [0])
        seconds *= 2 ** min(max(count - 1, 0), 16)
    if (spread := _number(delay.spread, obj, node)) > 0:
        seconds += random().random() * spread
    if delay.most is not None and (maximum := delay.most.resolve(obj, node)) is not None:
        seconds = min(seconds, float(maximum))
    start = now
    if delay.since is not None and (since := delay.since.first(obj, node)):
        start = datetime.fromisoformat(since)
    return max(start + timedelta(seconds=seconds), now) if seconds > 0 else now


def _number(value: Value | None, obj: Obj, node: Obj | None) -> float:
    number = None if value is None else value.resolve(obj, node)
    try:
        return max(float(number or 0), 0.0)
    except ValueError:
        return 0.0  # ignore an annotation that is not a number


def apply_stage(stage: Stage, obj: Obj, now: datetime, addresses: Addresses = NO_ADDRESSES, node: Obj | None = None) -> StageResult:
    """Compute the result of a stage for an object now."""
    timestamp, then = rfc3339(now), stage.then
    status: Obj = _render(then.status, obj, timestamp, node)
    if then.fill:
        old = obj.get("status") or {}
        # The API server stores a missing nodeInfo as empty strings.
        status |= {
            name: value
            for name, value in _render(then.fill, obj, timestamp, node, addresses.host).items()
            if not _is_set(old.get(name))
        }
    if then.containers is not None:
        overlay = {**status, "conditions": [_render(item, obj, timestamp, node) for item in then.conditions]}
        statuses, init = _change_containers(then.containers, obj, node, timestamp)
        status = compute_pod_status(obj, statuses, init, timestamp, addresses, final=then.final, overlay=overlay)
        if status["phase"] in FINISHED_PHASES and init:
            status["initContainerStatuses"] = _stop_sidecars(obj, init, timestamp)
    elif then.conditions:
        status["conditions"] = _merge_conditions(obj, [_render(item, obj, timestamp, node) for item in then.conditions], timestamp)
    patch = _render(then.patch, obj, timestamp, node)
    if then.add_finalizers or then.remove_finalizers:
        finalizers = [name for name in obj["metadata"].get("finalizers") or () if name not in then.remove_finalizers]
        finalizers += [name for name in then.add_finalizers if name not in finalizers]
        patch.setdefault("metadata", {})["finalizers"] = finalizers or None
    events = tuple(event for template in then.events for event in _render_event(template, obj))
    return StageResult(status, patch, events, then.delete)


def _render_event(template: EventTemplate, obj: Obj) -> list[EventTemplate]:
    """The events of a template: one for each value of the path in its message, if it has one."""
    placeholder = _PLACEHOLDER.search(template.message)
    if placeholder is None:
        return [template]
    values = dict.fromkeys(map(str, path(placeholder[1]).values(obj)))
    return [replace(template, message=template.message.replace(placeholder[0], value)) for value in values]


def _change_containers(change: ContainerChange, pod: Obj, node: Obj | None, now: str) -> tuple[list[Obj], list[Obj]]:
    """The statuses of containers and of init containers after a change."""
    if change.state == "configured":
        return _configure_containers(change, pod, now)
    old = pod.get("status") or {}
    before = {status["name"]: status for status in old.get("containerStatuses") or ()}
    statuses = [
        _change_container(change, pod, container, before.get(container["name"]), now, node=node)
        if _is_selected(change, pod, container, before)
        else before[container["name"]]
        for container in pod["spec"]["containers"]
    ]
    initial = {status["name"]: status for status in old.get("initContainerStatuses") or ()}
    init = [
        _change_init_container(change, pod, item, initial.get(item["name"]), now)
        for item in pod["spec"].get("initContainers") or ()
    ]
    return statuses, init


def _configure_containers(change: ContainerChange, pod: Obj, now: str) -> tuple[list[Obj], list[Obj]]:
    """Start the containers in order, except those that lack an image, ConfigMap or Secret, or wait for an init container."""
    old, uid = pod.get("status") or {}, pod["metadata"].get("uid", "")
    before = {item["name"]: item for item in (*(old.get("initContainerStatuses") or ()), *(old.get("containerStatuses") or ()))}
    waiting = {item["name"]: ("CreateContainerConfigError", item["message"]) for item in pod["missing"].get("containers") or ()}
    waiting |= {item["name"]: ("InvalidImageName", item["message"]) for item in pod["missing"].get("images") or ()}
    is_initialized = True

    def start(container: Obj, *, init: bool) -> Obj:
        nonlocal is_initialized
        name = container["name"]
        status = before.get(name)
        if not is_initialized:
            return container_status.waiting_status(container, status, "PodInitializing")
        if name in waiting:
            is_initialized = not init
            return container_status.waiting_status(container, status, *waiting[name])
        if init and not is_sidecar(container):
            return {**container_status.terminated_status(uid, container, status, now, 0), "ready": True}
        return container_status.running_status(uid, container, status, now, ready=change.ready)

    init = [start(container, init=True) for container in pod["spec"].get("initContainers") or ()]
    return [start(container, init=False) for container in pod["spec"]["containers"]], init


def _is_selected(change: ContainerChange, pod: Obj, container: Obj, before: dict[str, Obj]) -> bool:
    status = before.get(container["name"])
    if status is None:
        return True
    if change.which == "to-restart":
        return may_restart(pod, status)
    if change.which == "named":
        return may_end(pod, status)
    return change.state != "terminated" or "terminated" not in status["state"]


def _change_container(change: ContainerChange, pod: Obj, container: Obj, old: Obj | None, now: str, *, node: Obj | None) -> Obj:
    uid = pod["metadata"].get("uid", "")
    if change.state == "running":
        return container_status.running_status(uid, container, old, now, ready=change.ready, restarted=change.restarted)
    reason, message = str(change.reason.resolve(pod, node)), str(change.message.resolve(pod, node))
    message = render_message(message, pod, container)
    if change.state == "waiting":
        if reason == "ContainerCreating" and pod["spec"].get("initContainers"):
            reason = "PodInitializing"
        return container_status.waiting_status(container, old, reason, message)
    if change.state == "terminated":
        code = int(_number(change.exit_code, pod, node))
        return container_status.terminated_status(uid, container, old, now, code, reason=reason, message=message)
    if old is None:
        return container_status.waiting_status(container, old, "ContainerCreating")
    return {**old, "ready": change.ready} if "running" in old["state"] else old


def _change_init_container(change: ContainerChange, pod: Obj, container: Obj, old: Obj | None, now: str) -> Obj:
    uid, sidecar = pod["metadata"].get("uid", ""), is_sidecar(container)
    state = (old or {}).get("state") or {}
    if change.state == "waiting" and not ("running" in state or "terminated" in state):
        return container_status.waiting_status(container, old, "PodInitializing")
    if change.state == "running" and sidecar:
        return container_status.running_status(uid, container, old, now, ready=True)
    if change.state == "running" and "terminated" not in state:
        return {**container_status.terminated_status(uid, container, old, now, 0), "ready": True}
    if change.state == "terminated" and sidecar and "running" in state and change.which == "all":
        return container_status.terminated_status(uid, container, old, now, 0)
    return old if old is not None else container_status.waiting_status(container, old, "PodInitializing")


def _stop_sidecars(pod: Obj, init: list[Obj], now: str) -> list[Obj]:
    """The statuses of the init containers of a pod that has finished: its kubelet has stopped the sidecars."""
    uid, specs = pod["metadata"].get("uid", ""), {item["name"]: item for item in pod["spec"]["initContainers"]}
    return [
        container_status.terminated_status(uid, specs[item["name"]], item, now, 0) if "running" in item["state"] else item
        for item in init
    ]


def _merge_conditions(obj: Obj, conditions: list[Obj], now: str) -> list[Obj]:
    """Merge conditions into those of an object; lastTransitionTime changes only with the status."""
    merged = [dict(condition) for condition in (obj.get("status") or {}).get("conditions") or ()]
    for condition in conditions:
        set_condition(merged, {**condition, "lastTransitionTime": now})
    return merged


def _is_set(value: Any) -> bool:
    """Whether a status field has a non-empty value."""
    return any(value.values()) if isinstance(value, dict) else bool(value)


def _render(template: Any, obj: Obj, now: str, node: Obj | None = None, address: str = "") -> Any:
    """Fill in the placeholders of a template: `$now`, `$name`, `$address` and `$(path)`.

    A `$(path)` that is the whole string becomes the value itself, or null.
    """
    if isinstance(template, dict):
        return {key: _render(value, obj, now, node, address) for key, value in template.items()}
    if isinstance(template, list):
        return [_render(value, obj, now, node, address) for value in template]
    if not isinstance(template, str) or "$" not in template:
        return template
    if "$(" in template:
        return _resolve_paths(template, obj, node)
    name = obj["metadata"]["name"]
    values = {"$now": now, "$name": name, "$address": address or derived_address(name)}
    return values.get(template, template)


def _resolve_paths(template: str, obj: Obj, node: Obj | None) -> Any:
    single = _PLACEHOLDER.fullmatch(template)
    if single:
        return path(single[1]).first(obj, node)
    return _PLACEHOLDER.sub(lambda match: str(path(match[1]).first(obj, node) or ""), template)
