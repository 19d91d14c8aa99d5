"""What is kept of an object: pages never show the rest, and there are tens of thousands of pods."""

from __future__ import annotations

import sys
from typing import Any

Object = dict[str, Any]

_METADATA = (
    "name",
    "namespace",
    "uid",
    "resourceVersion",
    "labels",
    "annotations",
    "creationTimestamp",
    "deletionTimestamp",
    "ownerReferences",
)
_CONTAINER = ("name", "image", "ports", "resources")
_POD_SPEC = ("nodeName", "nodeSelector", "schedulingGates")
_POD_STATUS = ("phase", "reason", "message", "podIP", "conditions", "containerStatuses")


def slim(obj: Object) -> Object:
    """An object without what no page reads; of a pod, what tells where it runs and how it stands."""
    obj["metadata"].pop("managedFields", None)
    return _pod(obj) if obj.get("kind") == "Pod" else obj


def _pod(pod: Object) -> Object:
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    kept: Object = {key: spec[key] for key in _POD_SPEC if key in spec}
    kept["containers"] = [{key: each[key] for key in _CONTAINER if key in each} for each in spec.get("containers") or ()]
    metadata = {key: pod["metadata"][key] for key in _METADATA if key in pod["metadata"]}
    if "labels" in metadata:
        # The same few texts on every pod: kept once.
        metadata["labels"] = {sys.intern(key): sys.intern(str(value)) for key, value in metadata["labels"].items()}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": kept,
        "status": {key: status[key] for key in _POD_STATUS if key in status},
    }
