"""Defaults that depend on more than one field, for controllers of pods and for autoscalers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sliceworks.schemas.rules.shape import Json

_LARGEST = 2**31 - 1
_METRICS_ANNOTATION = "autoscaling.alpha.kubernetes.io/metrics"


def job(value: Json) -> None:
    spec = value["spec"]
    if spec.get("parallelism") is None:
        spec["parallelism"] = 1
        if spec.get("completions") is None:
            spec["completions"] = 1
    if "backoffLimit" not in spec:
        spec["backoffLimit"] = 6 if spec.get("backoffLimitPerIndex") is None else _LARGEST
    spec.setdefault("completionMode", "NonIndexed")
    spec.setdefault("suspend", False)
    spec.setdefault("podReplacementPolicy", "TerminatingOrFailed" if spec.get("podFailurePolicy") is None else "Failed")
    spec.setdefault("manualSelector", False)
    labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels")
    if labels and not value["metadata"].get("labels"):
        # One map, not a copy: the labels that a job's strategy adds to its template appear on the job as well.
        value["metadata"]["labels"] = labels


def replication_controller(value: Json) -> None:
    spec = value["spec"]
    labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels")
    if labels:
        if not spec.get("selector"):
            spec["selector"] = dict(labels)
        if not value["metadata"].get("labels"):
            value["metadata"]["labels"] = dict(labels)


def stateful_set_spec(value: Json) -> None:
    for claim in value.get("volumeClaimTemplates") or ():
        claim.update(apiVersion="v1", kind="PersistentVolumeClaim")


def stateful_set_strategy(value: Json) -> None:
    if "type" not in value:
        value["type"] = "RollingUpdate"
        value.setdefault("rollingUpdate", {})
    if value["type"] == "RollingUpdate" and (rolling := value.get("rollingUpdate")) is not None:
        rolling.setdefault("partition", 0)
        rolling.pop("maxUnavailable", None)  # behind a feature gate that is off in 1.35


def autoscaler_v1(value: Json) -> None:
    if value["spec"].get("targetCPUUtilizationPercentage") is None and _METRICS_ANNOTATION not in (
        value["metadata"].get("annotations") or {}
    ):
        value["spec"]["targetCPUUtilizationPercentage"] = 80


def autoscaler_v2(value: Json) -> None:
    spec = value["spec"]
    if not spec.get("metrics"):
        spec["metrics"] = [
            {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}}
        ]
    if (behavior := spec.get("behavior")) is not None:
        behavior["scaleUp"] = _rules(
            behavior.get("scaleUp"), [_policy("Pods", 4), _policy("Percent", 100)], stabilizationWindowSeconds=0
        )
        behavior["scaleDown"] = _rules(behavior.get("scaleDown"), [_policy("Percent", 100)])


def _rules(given: Json | None, policies: list[Json], **more: Any) -> Json:
    return (
        {"selectPolicy": "Max", "policies": policies}
        | more
        | {name: found for name, found in (given or {}).items() if found is not None}
    )


def _policy(kind: str, value: int) -> Json:
    return {"type": kind, "value": value, "periodSeconds": 15}
