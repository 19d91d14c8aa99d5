"""Rows of pods: what their containers, and before those their init containers, are at."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sliceworks.twin.api.cells.shared import NONE, Obj, age, condition, containers, kind, labels, moment, name, since, spec, status

if TYPE_CHECKING:
    from datetime import datetime

_ENDED = ("Succeeded", "Failed")
_COMPLETED = {
    "Succeeded": "The pod has completed successfully.",
    "Failed": "The pod failed.",
}


@dataclass(slots=True)
class _Restarts:
    """How often containers were started again, and when one of them last ended."""

    count: int = 0
    last: datetime | None = None
    last_text: str = ""

    def add(self, container: dict[str, Any]) -> None:
        self.count += container.get("restartCount") or 0
        ended: str = ((container.get("lastState") or {}).get("terminated") or {}).get("finishedAt") or ""
        when = moment(ended) if ended else None
        if when is not None and (self.last is None or when > self.last):
            self.last, self.last_text = when, ended

    def shown(self, now: datetime) -> str:
        return f"{self.count} ({since(self.last_text, now)} ago)" if self.count and self.last else str(self.count)


@dataclass(slots=True)
class _Summary:
    """What the cells Ready, Status and Restarts are made of."""

    reason: str
    ready: int = 0
    initializing: bool = False
    restarts: _Restarts = field(default_factory=_Restarts)
    sidecar_restarts: _Restarts = field(default_factory=_Restarts)


def pod_row(obj: Obj, now: datetime) -> list[Any]:
    wanted, state = spec(obj), status(obj)
    inits = wanted.get("initContainers") or []
    sidecars = {one["name"] for one in inits if one.get("restartPolicy") == "Always"}
    summary = _Summary(_first_reason(state))
    _read_inits(state, inits, sidecars, summary)
    if not summary.initializing or condition(obj, "Initialized") == "True":
        summary.restarts = summary.sidecar_restarts
        _read_containers(obj, state, summary)
    total = len(wanted.get("containers") or ()) + len(sidecars)
    return [
        name(obj),
        f"{summary.ready}/{total}",
        _while_deleted(obj, state) or summary.reason,
        summary.restarts.shown(now),
        age(obj, now),
        *_wide(obj, wanted, state),
    ]


def _first_reason(state: Obj) -> str:
    for one in state.get("conditions") or ():
        if one.get("type") == "PodScheduled" and one.get("reason") == "SchedulingGated":
            return "SchedulingGated"
    return str(state.get("reason") or state.get("phase") or "")


def _read_inits(state: Obj, inits: list[Any], sidecars: set[str], summary: _Summary) -> None:
    """Up to the first init container that is not done."""
    for index, container in enumerate(state.get("initContainerStatuses") or ()):
        summary.restarts.add(container)
        sidecar = container.get("name") in sidecars
        if sidecar:
            summary.sidecar_restarts.add(container)
        at = container.get("state") or {}
        ended, waiting = at.get("terminated"), at.get("waiting") or {}
        if ended is not None and not ended.get("exitCode"):
            continue
        if sidecar and container.get("started"):
            summary.ready += bool(container.get("ready"))
            continue
        summary.initializing = True
        if ended is not None:
            summary.reason = "Init:" + _end(ended)
        elif waiting.get("reason") and waiting["reason"] != "PodInitializing":
            summary.reason = "Init:" + waiting["reason"]
        else:
            summary.reason = f"Init:{index}/{len(inits)}"
        return


def _end(ended: dict[str, Any]) -> str:
    if ended.get("reason"):
        return str(ended["reason"])
    return f"Signal:{ended['signal']}" if ended.get("signal") else f"ExitCode:{ended.get('exitCode') or 0}"


def _read_containers(obj: Obj, state: Obj, summary: _Summary) -> None:
    running, failure = False, ""
    for container in reversed(state.get("containerStatuses") or ()):
        summary.restarts.add(container)
        at = container.get("state") or {}
        ended = at.get("terminated")
        if (at.get("waiting") or {}).get("reason"):
            summary.reason = at["waiting"]["reason"]
        elif ended is not None:
            summary.reason = _end(ended)
            failure = summary.reason if ended.get("exitCode") else failure
        elif container.get("ready") and at.get("running") is not None:
            running = True
            summary.ready += 1
    if summary.reason == "Completed":
        if running and condition(obj, "Ready") == "True":
            summary.reason = "Running"
        elif failure or running:
            summary.reason = failure or "NotReady"


def _while_deleted(obj: Obj, state: Obj) -> str:
    if not obj["metadata"].get("deletionTimestamp"):
        return ""
    if state.get("reason") == "NodeLost":
        return "Unknown"
    return "" if state.get("phase") in _ENDED else "Terminating"


def _wide(obj: Obj, wanted: Obj, state: Obj) -> list[str]:
    addresses = state.get("podIPs") or [{"ip": state.get("podIP")}]
    gates = wanted.get("readinessGates") or []
    passed = sum(condition(obj, gate.get("conditionType", "")) == "True" for gate in gates)
    return [
        addresses[0].get("ip") or NONE,
        wanted.get("nodeName") or NONE,
        state.get("nominatedNodeName") or NONE,
        f"{passed}/{len(gates)}" if gates else NONE,
    ]


def completed(obj: Obj) -> list[dict[str, str]] | None:
    """The condition of a row whose pod has ended."""
    phase = status(obj).get("phase", "")
    if phase not in _COMPLETED:
        return None
    return [{"type": "Completed", "status": "True", "reason": phase, "message": _COMPLETED[phase]}]


def pod_template_row(obj: Obj, now: datetime) -> list[Any]:
    template = obj.get("template") or {}
    return [name(obj), *containers(template), labels((template.get("metadata") or {}).get("labels"))]


KINDS = {
    "/pods": kind(
        "Name:name | Ready | Status | Restarts | Age | IP:wide | Node:wide | Nominated Node:wide | Readiness Gates:wide", pod_row
    ),
    "/podtemplates": kind("Name:name | Containers | Images | Pod Labels", pod_template_row),
}
