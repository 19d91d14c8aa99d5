"""What a forecast needs of each object, and nothing else."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sliceworks.base import quantity
from sliceworks.catalog.labels import RUN_SECONDS

Object = dict[str, Any]
"""The annotation of a pod template that says how long the work is expected to run."""
CHECKPOINTS = "CHECKPOINT_DIR"
"""The variable of a program that goes on where it stopped."""
_PLACING = ("nodeSelector", "affinity", "tolerations", "overhead", "resources", "priorityClassName")
_STATUS = (
    "conditions",
    "admission",
    "requeueState",
    "reclaimablePods",
    "admissionChecks",
    "accumulatedPastExecutionTimeSeconds",
)
_SPEC = ("queueName", "priority", "priorityClassRef", "active", "maximumExecutionTimeSeconds")
_CONDITION = ("type", "status", "reason", "message", "lastTransitionTime")


def trimmed(kind: str, obj: Object) -> Object:
    """One object, without what does not matter here. Raises KeyError, TypeError or ValueError where something is missing."""
    if kind == "Workload":
        return _workload(obj)
    metadata = _some(obj["metadata"], ("name", "namespace", "labels", "deletionTimestamp"))
    return {"metadata": metadata, **_some(obj, ("spec", "value", "status") if kind == "AdmissionCheck" else ("spec", "value"))}


def _workload(obj: Object) -> Object:
    metadata, spec, status = obj["metadata"], obj["spec"], obj.get("status") or {}
    datetime.fromisoformat(metadata["creationTimestamp"])
    owners = [_some(each, ("kind", "name", "controller")) for each in metadata.get("ownerReferences") or ()]
    kept = {**_some(metadata, ("name", "namespace", "uid", "creationTimestamp")), "ownerReferences": owners}
    found = _some(status, _STATUS)
    if "conditions" in found:
        found["conditions"] = [_some(each, _CONDITION) for each in found["conditions"]]
    return {
        "metadata": kept,
        "spec": {**_some(spec, _SPEC), "podSets": [_pod_set(each) for each in spec["podSets"]]},
        "status": found,
    }


def _pod_set(pods: Object) -> Object:
    template = pods["template"]
    about, spec = template.get("metadata") or {}, template.get("spec") or {}
    annotations = _some(about.get("annotations") or {}, (RUN_SECONDS,))
    kept = _some(spec, _PLACING)
    for kind in ("containers", "initContainers"):
        if spec.get(kind):
            kept[kind] = [_container(each) for each in spec[kind]]
    return {
        **_some(pods, ("name", "count", "minCount")),
        "template": {**({"metadata": {"annotations": annotations}} if annotations else {}), "spec": kept},
    }


def _container(container: Object) -> Object:
    kept = _some(container, ("name", "image", "resources", "restartPolicy"))
    for amounts in (container.get("resources") or {}).values():
        for text in amounts.values() if isinstance(amounts, dict) else ():
            quantity.parse(text)
    # Its value is nobody's business; that it is there says that the work goes on where it stopped.
    if any(each.get("name") == CHECKPOINTS for each in container.get("env") or ()):
        kept["env"] = [{"name": CHECKPOINTS}]
    return kept


def _some(obj: Object, fields: tuple[str, ...]) -> Object:
    return {name: obj[name] for name in fields if name in obj}
