"""Whether a stage's conditions hold: each is made into a function once, because they are asked for every change of every pod."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from sliceworks.twin.nodes.containers import restarts
from sliceworks.twin.nodes.pod_status import gates_met

if TYPE_CHECKING:
    from collections.abc import Callable

    from sliceworks.twin.nodes.stages import Match, Stage, Stages

    Holds = Callable[["Obj", "Obj | None"], bool]

Obj = dict[str, Any]
CONTAINER = "sliceworks.dev/container"
_KEYS = frozenset(
    f"sliceworks.dev/{name}" for name in ("run-seconds", "image-pull", "image-pull-seconds", "ready-seconds", "fail", "state")
)
"""The annotations that stages ask for most often; others are looked at one by one."""


def possible(stages: Stages, obj: Obj, node: Obj | None) -> Stages:
    """The stages that an object's phase, its deletion and its annotations leave open: few of many, found by a look at a table."""
    metadata = obj["metadata"]
    phase = (obj.get("status") or {}).get("phase", "")
    return _possible(stages, phase, "deletionTimestamp" in metadata, _ours(metadata), _ours(node["metadata"] if node else {}))


def _ours(metadata: Obj) -> tuple[str, ...]:
    annotations = metadata.get("annotations")
    return tuple(name for name in annotations if name in _KEYS) if annotations else ()


@lru_cache(4096)
def _possible(stages: Stages, phase: str, deleting: bool, notes: tuple[str, ...], node_notes: tuple[str, ...]) -> Stages:
    def open_to(match: Match) -> bool:
        if match.path is None or match.path.keys is None:
            return True
        wanted = match.exists is True or match.within is not None
        match match.path.keys:
            case ("status", "phase") if not match.path.of_node:
                return match.within is None or phase in match.within
            case ("metadata", "deletionTimestamp") if not match.path.of_node:
                return match.exists is not True or deleting
            case ("metadata", "annotations", name) if wanted and name in _KEYS:
                return name in (node_notes if match.path.of_node else notes)
        return True

    return tuple(stage for stage in stages if all(open_to(match) for match in stage.when))


@lru_cache(1024)
def conditions(stage: Stage) -> tuple[Holds, ...]:
    """What must hold for a stage to happen."""
    return tuple(_function(match) for match in stage.when)


def _function(match: Match) -> Holds:
    if match.path is None:
        named = _NAMED[match.named]
        return lambda obj, node: named(obj)
    keys, values = match.path.keys, match.path.values
    if match.exists is not None:
        wanted = match.exists
        if keys is not None and not match.path.of_node:
            return lambda obj, node: _reached(obj, keys) is wanted
        return lambda obj, node: bool(values(obj, node)) is wanted
    if match.within is not None:
        within = match.within
        return lambda obj, node: any(_text(value) in within for value in values(obj, node))
    if match.outside is not None:
        outside = match.outside
        return lambda obj, node: not any(_text(value) in outside for value in values(obj, node))
    return lambda obj, node: _below(match, obj, node)


def _reached(value: Any, keys: tuple[str, ...]) -> bool:
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
        if value is None:
            return False
    return True


def _below(match: Match, obj: Obj, node: Obj | None) -> bool:
    assert match.path is not None
    assert match.below is not None
    limit, values = match.below.of(obj, node), match.path.values(obj, node)
    try:
        return limit is None or not values or float(values[0]) < float(limit)
    except ValueError:
        return True  # somebody wrote something else into an annotation: as if it were not there


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return str(value).lower() if isinstance(value, bool) else str(value)


def may_restart(pod: Obj, status: Obj) -> bool:
    """Whether a container has ended and the kubelet is to start it again."""
    ended = status["state"].get("terminated") or ("waiting" in status["state"] and status["lastState"].get("terminated"))
    if not ended:
        return False
    container = next((item for item in pod["spec"]["containers"] if item["name"] == status["name"]), None)
    return container is not None and restarts(container, pod["spec"], ended["exitCode"])


def _to_restart(pod: Obj) -> bool:
    return any(may_restart(pod, status) for status in (pod.get("status") or {}).get("containerStatuses") or ())


def may_end(pod: Obj, status: Obj) -> bool:
    """Whether a container runs that the pod's annotations are about: all of them, unless one is named."""
    named = (pod["metadata"].get("annotations") or {}).get(CONTAINER)
    return "running" in status["state"] and named in (None, status["name"])


def _to_end(pod: Obj) -> bool:
    return any(may_end(pod, status) for status in (pod.get("status") or {}).get("containerStatuses") or ())


_NAMED: dict[str, Callable[[Obj], bool]] = {
    "gates-met": gates_met,
    "gates-unmet": lambda pod: not gates_met(pod),
    "to-end": _to_end,
    "to-restart": _to_restart,
}
