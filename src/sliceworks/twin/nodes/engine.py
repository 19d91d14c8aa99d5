"""What becomes of an object next: pure, so that it is told by input and output alone.

`next_step` says which stage comes and when; `outcome` says what it does once its time has come.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from sliceworks.base.clock import rfc3339
from sliceworks.twin.nodes import containers as made
from sliceworks.twin.nodes.addresses import derived_address
from sliceworks.twin.nodes.matching import conditions, may_end, may_restart, possible
from sliceworks.twin.nodes.paths import path
from sliceworks.twin.nodes.pod_status import NOWHERE, Addresses, pod_status
from sliceworks.twin.nodes.words import spoken

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    from sliceworks.twin.nodes.stages import ContainerChange, Delay, Stage, Stages, Told, Value

Obj = dict[str, Any]
_LOOKUP = re.compile(r"\$\(([^()]+)\)")


@dataclass(frozen=True, slots=True)
class Step:
    """A stage that is to happen, and when."""

    stage: Stage
    at: datetime


@dataclass(slots=True)
class Outcome:
    """What a stage does: the status to write (merged into the old one), what to write into the object, events, and its end."""

    status: Obj = field(default_factory=dict)
    patch: Obj = field(default_factory=dict)
    events: tuple[Told, ...] = ()
    delete: bool = False


def next_step(obj: Obj, stages: Stages, now: datetime, random: Callable[[], Random], node: Obj | None = None) -> Step | None:
    """The stage that comes next for an object, or None. `random` is asked only where chance decides."""
    found: list[Stage] = []
    candidates = possible(stages, obj, node)
    for stage in candidates:
        if not stage.limit and (not found or stage.weight is not None) and all(holds(obj, node) for holds in conditions(stage)):
            found.append(stage)
            if stage.weight is None:
                break
    step: Step | None = None
    if found:
        chosen = found[0] if len(found) == 1 and found[0].weight is None else _draw(found, obj, node, random)
        step = None if chosen is None else Step(chosen, _moment(chosen.delay, obj, now, node=node, random=random))
    for stage in candidates:
        if stage.limit and all(holds(obj, node) for holds in conditions(stage)):
            at = _moment(stage.delay, obj, now, node=node, random=random)
            step = Step(stage, at) if step is None or at < step.at else step
    return step


def _draw(found: list[Stage], obj: Obj, node: Obj | None, random: Callable[[], Random]) -> Stage | None:
    weights = [_number(stage.weight, obj, node) for stage in found]
    if not any(weight > 0 for weight in weights):
        return None
    return random().choices(found, weights)[0]


def _moment(delay: Delay, obj: Obj, now: datetime, *, node: Obj | None, random: Callable[[], Random]) -> datetime:
    seconds = _number(delay.seconds, obj, node)
    if delay.doubling is not None:
        count = max([int(value) for value in delay.doubling.values(obj, node)] or [0])
        seconds *= 2 ** min(max(count - 1, 0), 16)
    if (spread := _number(delay.spread, obj, node)) > 0:
        seconds += random().random() * spread
    if delay.most is not None and (most := delay.most.of(obj, node)) is not None:
        seconds = min(seconds, float(most))
    start = now
    if delay.since is not None and (since := delay.since.first(obj, node)):
        start = datetime.fromisoformat(since)
    return max(start + timedelta(seconds=seconds), now) if seconds > 0 else now


def _number(value: Value | None, obj: Obj, node: Obj | None) -> float:
    found = None if value is None else value.of(obj, node)
    try:
        return max(float(found or 0), 0.0)
    except ValueError:
        return 0.0  # somebody wrote something else into an annotation: as if it were not there


def outcome(stage: Stage, obj: Obj, now: datetime, where: Addresses = NOWHERE, node: Obj | None = None) -> Outcome:
    """What a stage does to an object at this moment."""
    moment, then = rfc3339(now), stage.then
    status: Obj = _filled(then.status, obj, moment, node)
    if then.fill:
        old = obj.get("status") or {}
        # The API server fills an empty nodeInfo in with empty texts: that is nothing yet.
        status |= {name: value for name, value in _filled(then.fill, obj, moment, node).items() if not _says(old.get(name))}
    if then.containers is not None:
        overlay = {**status, "conditions": [_filled(item, obj, moment, node) for item in then.conditions]}
        statuses, init = _changed(then.containers, obj, node, moment)
        status = pod_status(obj, statuses, init, moment, where, final=then.final, overlay=overlay)
    elif then.conditions:
        status["conditions"] = _merged(obj, [_filled(item, obj, moment, node) for item in then.conditions], moment)
    patch = _filled(then.patch, obj, moment, node)
    if then.add_finalizers or then.remove_finalizers:
        kept = [name for name in obj["metadata"].get("finalizers") or () if name not in then.remove_finalizers]
        kept += [name for name in then.add_finalizers if name not in kept]
        patch.setdefault("metadata", {})["finalizers"] = kept or None
    return Outcome(status, patch, then.events, then.delete)


def _changed(change: ContainerChange, pod: Obj, node: Obj | None, now: str) -> tuple[list[Obj], list[Obj]]:
    """The container statuses after a change, and those of init containers, which have done their part when others start."""
    old = pod.get("status") or {}
    before = {status["name"]: status for status in old.get("containerStatuses") or ()}
    statuses = [
        _one(change, pod, container, before.get(container["name"]), now, node=node)
        if _concerned(change, pod, container, before)
        else before[container["name"]]
        for container in pod["spec"]["containers"]
    ]
    initial = {status["name"]: status for status in old.get("initContainerStatuses") or ()}
    init = [_init(change, pod, item, initial.get(item["name"]), now) for item in pod["spec"].get("initContainers") or ()]
    return statuses, init


def _concerned(change: ContainerChange, pod: Obj, container: Obj, before: dict[str, Obj]) -> bool:
    status = before.get(container["name"])
    if status is None:
        return True
    if change.which == "to-restart":
        return may_restart(pod, status)
    if change.which == "named":
        return may_end(pod, status)
    return change.state != "terminated" or "terminated" not in status["state"]


def _one(change: ContainerChange, pod: Obj, container: Obj, old: Obj | None, now: str, *, node: Obj | None) -> Obj:
    uid = pod["metadata"].get("uid", "")
    if change.state == "running":
        return made.running(uid, container, old, now, ready=change.ready, restarted=change.restarted)
    reason, message = str(change.reason.of(pod, node)), str(change.message.of(pod, node))
    message = spoken(message, pod, container)
    if change.state == "waiting":
        return made.waiting(container, old, reason, message)
    if change.state == "terminated":
        code = int(_number(change.exit_code, pod, node))
        return made.terminated(uid, container, old, now, code, reason=reason, message=message)
    if old is None:
        return made.waiting(container, old, "ContainerCreating")
    return {**old, "ready": change.ready} if "running" in old["state"] else old


def _init(change: ContainerChange, pod: Obj, container: Obj, old: Obj | None, now: str) -> Obj:
    uid, sidecar = pod["metadata"].get("uid", ""), made.is_sidecar(container)
    state = (old or {}).get("state") or {}
    if change.state == "waiting" and not ("running" in state or "terminated" in state):
        return made.waiting(container, old, "PodInitializing")
    if change.state == "running" and sidecar:
        return made.running(uid, container, old, now, ready=True)
    if change.state == "running" and "terminated" not in state:
        return {**made.terminated(uid, container, old, now, 0), "ready": True}
    if change.state == "terminated" and sidecar and "running" in state and change.which == "all":
        return made.terminated(uid, container, old, now, 0)
    return old if old is not None else made.waiting(container, old, "PodInitializing")


def _merged(obj: Obj, conditions: list[Obj], now: str) -> list[Obj]:
    """An object's conditions with some of them set; the time of a transition moves only where the status changes."""
    old = {item["type"]: item for item in (obj.get("status") or {}).get("conditions") or ()}
    for condition in conditions:
        before = old.get(condition["type"])
        same = before is not None and before["status"] == condition["status"]
        condition["lastTransitionTime"] = before["lastTransitionTime"] if same and before else now
        old[condition["type"]] = condition
    return list(old.values())


def _says(value: Any) -> bool:
    """Whether a part of a status says anything."""
    return any(value.values()) if isinstance(value, dict) else bool(value)


def _filled(template: Any, obj: Obj, now: str, node: Obj | None = None) -> Any:
    """A template with its words put in: `$now`, `$name`, `$address`, which follows from the name, and `$(path)` for what lies at a
    path. A path that stands alone gives what is there as it is, or null."""
    if isinstance(template, dict):
        return {key: _filled(value, obj, now, node) for key, value in template.items()}
    if isinstance(template, list):
        return [_filled(value, obj, now, node) for value in template]
    if not isinstance(template, str) or "$" not in template:
        return template
    if "$(" in template:
        return _looked_up(template, obj, node)
    words = {"$now": now, "$name": obj["metadata"]["name"], "$address": derived_address(obj["metadata"]["name"])}
    return words.get(template, template)


def _looked_up(text: str, obj: Obj, node: Obj | None) -> Any:
    alone = _LOOKUP.fullmatch(text)
    if alone:
        return path(alone[1]).first(obj, node)
    return _LOOKUP.sub(lambda found: str(path(found[1]).first(obj, node) or ""), text)
