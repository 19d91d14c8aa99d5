"""What autoscalers make of a service: between which numbers, by what, and why they do nothing where they do not. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sliceworks.base.conditions import condition
from sliceworks.serving.why import Cause

Object = dict[str, Any]
_REMEDIES = {
    "FailedGetPodsMetric": "is an adapter of custom metrics installed, and does anything read the servers' metrics?",
    "FailedGetResourceMetric": "kubectl top pods tells whether the cluster measures its pods",
}


@dataclass(frozen=True, slots=True)
class Scaling:
    """One autoscaler."""

    name: str
    replicas: str
    state: str
    trouble: Cause | None = None


def scaling(autoscaler: Object) -> Scaling:
    """How one stands. Until the controller comes by, which takes it 15 seconds, it says nothing of itself."""
    spec, name = autoscaler["spec"], autoscaler["metadata"]["name"]
    now = (autoscaler.get("status") or {}).get("currentReplicas") or 0
    active = condition(autoscaler, "ScalingActive") or condition(autoscaler, "AbleToScale")
    limits = f"{spec.get('minReplicas', 1)}–{spec['maxReplicas']}"
    if not active:
        return Scaling(name, limits, "no controller has looked at it yet")
    replicas = f"{now} of {limits}"
    if active.get("reason") == "ScalingDisabled":
        return Scaling(name, replicas, "off: there are no replicas")
    if active.get("status") != "True":
        reason = active.get("reason", "")
        cause = Cause(f"horizontalpodautoscaler/{name}", active.get("message") or reason, _REMEDIES.get(reason, ""))
        return Scaling(name, replicas, "fails", cause)
    return Scaling(name, replicas, _measured(autoscaler))


def _measured(autoscaler: Object) -> str:
    """What there is of the first metric for each replica, and what there should be."""
    wanted, seen = autoscaler["spec"]["metrics"][0], (autoscaler["status"].get("currentMetrics") or [{}])[0]
    kind = "pods" if wanted["type"] == "Pods" else "resource"
    target, current = wanted[kind]["target"], (seen.get(kind) or {}).get("current") or {}
    if kind == "resource":
        return f"{current.get('averageUtilization', '?')}% of {target['averageUtilization']}% {wanted[kind]['name']}"
    name = wanted[kind]["metric"]["name"].removeprefix("prometheus.googleapis.com|").partition("|")[0]
    return f"{current.get('averageValue', '?')} of {target['averageValue']} {name}"
