"""APIServices: their names, the priorities of local ones, their order, and the Available condition."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from sliceworks.base import clock

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

Obj = dict[str, Any]
GROUP = "apiregistration.k8s.io"
KEY = f"{GROUP}/apiservices"
MANAGED = "kube-aggregator.kubernetes.io/automanaged"
"""The label of local APIServices: `onstart` for built-in group versions, `true` for those of custom resources."""
_AVAILABLE = "Available"
_CUSTOM_PRIORITIES = (1000, 100)
_PRIORITIES = {
    GROUP: (20001, 15),  # listed first, and without an APIService
    "": (18000, 1),
    "apps": (17800, 15),
    "events.k8s.io": (17750, 15),
    "authentication.k8s.io": (17700, 15),
    "authorization.k8s.io": (17600, 15),
    "autoscaling": (17500, 15),
    "batch": (17400, 15),
    "certificates.k8s.io": (17300, 15),
    "networking.k8s.io": (17200, 15),
    "policy": (17100, 15),
    "rbac.authorization.k8s.io": (17000, 15),
    "storage.k8s.io": (16800, 15),
    "admissionregistration.k8s.io": (16700, 15),
    "apiextensions.k8s.io": (16700, 15),
    "scheduling.k8s.io": (16600, 15),
    "coordination.k8s.io": (16500, 15),
    "node.k8s.io": (16300, 15),
    "discovery.k8s.io": (16200, 15),
    "resource.k8s.io": (16200, 21),
    "flowcontrol.apiserver.k8s.io": (16100, 21),
}
"""Of groups, and of their v1, as kube-apiserver registers them."""
_VERSION_PRIORITIES = {("autoscaling", "v2"): 30, ("admissionregistration.k8s.io", "v1beta1"): 12}
_STABILITY = {"alpha": 0, "beta": 1, "": 2}
_VERSION = re.compile(r"v(\d+)(?:(alpha|beta)(\d+))?")


def version_rank(version: str) -> tuple[Any, ...]:
    """A sort key in Kubernetes' order: stable before beta before alpha, newer first; other names last."""
    match = _VERSION.fullmatch(version)
    if not match:
        return (1, version)
    major, stability, minor = match.groups()
    return (0, -_STABILITY[stability or ""], -int(major), -int(minor or 0))


def split_name(name: str) -> tuple[str, str]:
    """The group and version in the name of an APIService."""
    version, _, group = name.partition(".")
    return group, version


def local_spec(group: str, version: str) -> Obj:
    """The spec of the APIService of a built-in or custom group version."""
    group_priority, version_priority = _PRIORITIES.get(group, _CUSTOM_PRIORITIES)
    return {
        **({"group": group} if group else {}),
        "version": version,
        "groupPriorityMinimum": group_priority,
        "versionPriority": _VERSION_PRIORITIES.get((group, version), version_priority),
    }


def local_api_service(group: str, version: str, managed: str = "") -> Obj:
    """The APIService of a group version that this server serves itself."""
    obj: Obj = {
        "kind": "APIService",
        "apiVersion": f"{GROUP}/v1",
        "metadata": {"name": f"{version}.{group}", **({"labels": {MANAGED: managed}} if managed else {})},
        "spec": local_spec(group, version),
    }
    reset_status(obj)
    return obj


def reset_status(obj: Obj) -> None:
    """Reset the status of a new APIService: a local one is available at once."""
    spec = obj.get("spec") or {}
    obj["status"] = {} if spec.get("service") is not None else {"conditions": [_local_condition()]}


def _local_condition() -> Obj:
    return condition("True", "Local", "Local APIServices are always available")


def condition(status: str, reason: str, message: str) -> Obj:
    """An Available condition."""
    return {"type": _AVAILABLE, "status": status, "lastTransitionTime": clock.timestamp(), "reason": reason, "message": message}


def desired_condition(current: Mapping[str, Any], new: Obj) -> Obj:
    """The new condition, with the transition time of the current one if its status stays the same."""
    if current.get("status") == new["status"]:
        return {**new, "lastTransitionTime": current.get("lastTransitionTime")}
    return new


def sort_group_versions(specs: Iterable[Mapping[str, Any]]) -> dict[str, list[str]]:
    """Groups by their highest priority, then by name; the versions of each by priority, then in Kubernetes' order."""
    ordered = sorted(specs, key=lambda spec: (-spec["groupPriorityMinimum"], f"{spec['version']}.{spec.get('group', '')}"))
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for spec in ordered:
        groups.setdefault(spec.get("group") or "", []).append(spec)
    return {
        group: [
            spec["version"] for spec in sorted(listed, key=lambda spec: (-spec["versionPriority"], version_rank(spec["version"])))
        ]
        for group, listed in groups.items()
    }
