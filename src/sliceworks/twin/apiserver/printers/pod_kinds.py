"""Rows of pods and pod templates."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sliceworks.twin.apiserver.printers.cells import (
    NONE,
    Obj,
    age_since,
    condition_status,
    container_cells,
    format_labels,
    parse_time,
    printer,
    spec_of,
    status_of,
)

if TYPE_CHECKING:
    from datetime import datetime

_COMPLETED = {
    "Succeeded": "The pod has completed successfully.",
    "Failed": "The pod failed.",
}


@dataclass(slots=True)
class _Restarts:
    """How often containers were restarted, and when one of them last terminated."""

    count: int = 0
    last: datetime | None = None
    last_timestamp: str = ""

    def add(self, container: dict[str, Any]) -> None:
        self.count += container.get("restartCount") or 0
        finished_at: str = ((container.get("lastState") or {}).get("terminated") or {}).get("finishedAt") or ""
        time = parse_time(finished_at) if finished_at else None
        if time is not None and (self.last is None or time > self.last):
            self.last, self.last_timestamp = time, finished_at

    def cell(self, now: datetime) -> str:
        return f"{self.count} ({age_since(self.last_timestamp, now)} ago)" if self.count and self.last else str(self.count)


@dataclass(slots=True)
class _Summary:
    """The values behind the cells Ready, Status and Restarts."""

    reason: str
    ready: int = 0
    initializing: bool = False
    restarts: _Restarts = field(default_factory=_Restarts)
    sidecar_restarts: _Restarts = field(default_factory=_Restarts)


def pod_cells(obj: Obj, now: datetime) -> list[Any]:
    spec, status = spec_of(obj), status_of(obj)
    inits = spec.get("initContainers") or []
    sidecars = {container["name"] for container in inits if container.get("restartPolicy") == "Always"}
    summary = _Summary(_first_reason(status))
    _read_inits(status, inits, sidecars, summary)
    if not summary.initializing or condition_status(obj, "Initialized") == "True":
        summary.restarts = summary.sidecar_restarts
        _read_containers(obj, status, summary)
    total = len(spec.get("containers") or ()) + len(sidecars)
    return [
        f"{summary.ready}/{total}",
        _deletion_reason(obj, status) or summary.reason,
        summary.restarts.cell(now),
        *_wide(obj, spec, status),
    ]


def _first_reason(status: Obj) -> str:
    for condition in status.get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("reason") == "SchedulingGated":
            return "SchedulingGated"
    return str(status.get("reason") or status.get("phase") or "")


def _read_inits(status: Obj, inits: list[Any], sidecars: set[str], summary: _Summary) -> None:
    """Read init containers up to the first that has not completed."""
    for index, container in enumerate(status.get("initContainerStatuses") or ()):
        summary.restarts.add(container)
        sidecar = container.get("name") in sidecars
        if sidecar:
            summary.sidecar_restarts.add(container)
        state = container.get("state") or {}
        terminated, waiting = state.get("terminated"), state.get("waiting") or {}
        if terminated is not None and not terminated.get("exitCode"):
            continue
        if sidecar and container.get("started"):
            summary.ready += bool(container.get("ready"))
            continue
        summary.initializing = True
        if terminated is not None:
            summary.reason = "Init:" + _termination_reason(terminated)
        elif waiting.get("reason") and waiting["reason"] != "PodInitializing":
            summary.reason = "Init:" + waiting["reason"]
        else:
            summary.reason = f"Init:{index}/{len(inits)}"
        return


def _termination_reason(terminated: dict[str, Any]) -> str:
    if terminated.get("reason"):
        return str(terminated["reason"])
    return f"Signal:{terminated['signal']}" if terminated.get("signal") else f"ExitCode:{terminated.get('exitCode') or 0}"


def _read_containers(obj: Obj, status: Obj, summary: _Summary) -> None:
    running, failure = False, ""
    for container in reversed(status.get("containerStatuses") or ()):
        summary.restarts.add(container)
        state = container.get("state") or {}
        terminated = state.get("terminated")
        if (state.get("waiting") or {}).get("reason"):
            summary.reason = state["waiting"]["reason"]
        elif terminated is not None:
            summary.reason = _termination_reason(terminated)
            failure = summary.reason if terminated.get("exitCode") else failure
        elif container.get("ready") and state.get("running") is not None:
            running = True
            summary.ready += 1
    if summary.reason == "Completed":
        if running and condition_status(obj, "Ready") == "True":
            summary.reason = "Running"
        elif failure or running:
            summary.reason = failure or "NotReady"


def _deletion_reason(obj: Obj, status: Obj) -> str:
    if not obj["metadata"].get("deletionTimestamp"):
        return ""
    if status.get("reason") == "NodeLost":
        return "Unknown"
    return "" if status.get("phase") in _COMPLETED else "Terminating"


def _wide(obj: Obj, spec: Obj, status: Obj) -> list[str]:
    addresses = status.get("podIPs") or [{"ip": status.get("podIP")}]
    gates = spec.get("readinessGates") or []
    passed = sum(condition_status(obj, gate.get("conditionType", "")) == "True" for gate in gates)
    return [
        addresses[0].get("ip") or NONE,
        spec.get("nodeName") or NONE,
        status.get("nominatedNodeName") or NONE,
        f"{passed}/{len(gates)}" if gates else NONE,
    ]


def row_conditions(obj: Obj) -> list[dict[str, str]] | None:
    """The condition of the row of a finished pod."""
    phase = status_of(obj).get("phase", "")
    if phase not in _COMPLETED:
        return None
    return [{"type": "Completed", "status": "True", "reason": phase, "message": _COMPLETED[phase]}]


def pod_template_cells(obj: Obj, now: datetime) -> list[Any]:
    template = obj.get("template") or {}
    return [*container_cells(template), format_labels((template.get("metadata") or {}).get("labels"))]


POD = printer(
    "Name:name | Ready | Status | Restarts | Age | IP:wide | Node:wide | Nominated Node:wide | Readiness Gates:wide",
    pod_cells,
    conditions=row_conditions,
)
POD_TEMPLATE = printer("Name:name | Containers | Images | Pod Labels", pod_template_cells)
