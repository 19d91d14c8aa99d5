"""Pod groups: the role of a pod, and which pods of a group are kept, excess, replaced or missing."""

from __future__ import annotations

from datetime import datetime, timedelta
from hashlib import sha256
from typing import TYPE_CHECKING, Any, NamedTuple

from sliceworks.base import clock, quantity
from sliceworks.schemas.golang import encode_json
from sliceworks.twin.controllers.kueue import workload_status
from sliceworks.twin.controllers.kueue.kueue_api import (
    GROUP_NAME_LABEL,
    GROUP_TOTAL_COUNT_ANNOTATION,
    MANAGED,
    RETRIABLE_IN_GROUP_ANNOTATION,
    ROLE_HASH_ANNOTATION,
    SCHEDULING_GATES,
    Obj,
    label_value,
)
from sliceworks.twin.controllers.runtime.resource_keys import PODS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from sliceworks.twin.controllers.runtime.controller import Change


# Go encodes the fields of a struct in the order of their declaration. Fields that are missing here follow in alphabetical order.
_FIELD_ORDER = (
    *("name", "hostPort", "containerPort", "protocol", "hostIP"),
    *("key", "operator", "value", "values", "effect", "tolerationSeconds"),
    *("nodeAffinity", "podAffinity", "podAntiAffinity", "weight", "preference", "podAffinityTerm"),
    "requiredDuringSchedulingIgnoredDuringExecution",
    "preferredDuringSchedulingIgnoredDuringExecution",
    *("nodeSelectorTerms", "labelSelector", "namespaces", "topologyKey"),
    *(
        "matchLabels",
        "matchExpressions",
        "matchFields",
        "namespaceSelector",
        "minDomains",
        "nodeAffinityPolicy",
        "nodeTaintsPolicy",
    ),
    *("matchLabelKeys", "mismatchLabelKeys", "resourceClaimName", "resourceClaimTemplateName"),
)
_RANK = {name: rank for rank, name in enumerate(_FIELD_ORDER)}
_SPREAD_RANK = {name: rank for rank, name in enumerate(("maxSkew", "topologyKey", "whenUnsatisfiable", *_FIELD_ORDER))}


def role_of(pod: Mapping[str, Any]) -> str:
    """The role hash that the webhook wrote on the pod, or else the hash of its spec."""
    written = annotation(pod, ROLE_HASH_ANNOTATION)
    return written if written is not None else role_hash(pod["spec"])


def role_hash(spec: Mapping[str, Any]) -> str:
    encoded = encode_json({"spec": role_shape(spec)}, sort_keys=False)
    return sha256(encoded.encode()).hexdigest()[:8]


def role_shape(spec: Mapping[str, Any]) -> dict[str, Any]:
    """The part of a pod spec that determines the pod's role, with its fields in Go's order."""
    return {
        "affinity": _struct(spec.get("affinity")),
        "containers": _containers(spec.get("containers")),
        "initContainers": _containers(spec.get("initContainers")),
        "nodeSelector": _sorted(spec.get("nodeSelector")),
        "overhead": _quantities(spec.get("overhead")),
        "priority": spec.get("priority"),
        "resourceClaims": _struct(spec.get("resourceClaims")),
        "runtimeClassName": spec.get("runtimeClassName"),
        "tolerations": _struct(spec.get("tolerations")),
        "topologySpreadConstraints": _struct(spec.get("topologySpreadConstraints"), _SPREAD_RANK),
    }


def _containers(containers: list[dict[str, Any]] | None) -> list[dict[str, Any]] | None:
    return [
        {
            "ports": _struct(container.get("ports")),
            "resources": {"requests": _quantities((container.get("resources") or {}).get("requests"))},
        }
        for container in containers or ()
    ] or None


def _quantities(resources: Mapping[str, Any] | None) -> dict[str, str] | None:
    return {name: quantity.canonical(resources[name]) for name in sorted(resources)} if resources else None


def _sorted(values: Mapping[str, Any] | None) -> dict[str, Any] | None:
    return {key: values[key] for key in sorted(values)} if values else None


def _struct(value: Any, rank: Mapping[str, int] = _RANK) -> Any:
    """A value with the fields of its objects in Go's order."""
    if isinstance(value, list):
        return [_struct(item, rank) for item in value] or None
    if not isinstance(value, dict):
        return value
    ordered = sorted(value, key=lambda key: (rank.get(key, len(rank)), key))
    return {key: _sorted(value[key]) if key == "matchLabels" else _struct(value[key]) for key in ordered}


class PodGroupIndex:
    """Index of the names of the pods of each group."""

    watches = frozenset({PODS})

    def __init__(self) -> None:
        self.names: dict[tuple[str, str], dict[str, None]] = {}

    def observe(self, change: Change) -> None:
        key = (change.namespace, group_name_of(change.obj))
        if not key[1]:
            return
        if change.type != "DELETED":
            self.names.setdefault(key, {})[change.name] = None
        elif key in self.names:
            self.names[key].pop(change.name, None)
            if not self.names[key]:
                del self.names[key]


def group_name_of(pod: Mapping[str, Any]) -> str:
    return label_value(pod, GROUP_NAME_LABEL)


def annotation(pod: Mapping[str, Any], name: str) -> str | None:
    value = (pod["metadata"].get("annotations") or {}).get(name)
    return None if value is None else str(value)


def total_of(pod: Mapping[str, Any]) -> int:
    """The total count of the pod's group; zero when the annotation is missing or invalid."""
    text = annotation(pod, GROUP_TOTAL_COUNT_ANNOTATION) or ""
    return int(text) if text.isdigit() else 0


def phase(pod: Mapping[str, Any]) -> str:
    return str((pod.get("status") or {}).get("phase") or "")


def is_gated(pod: Mapping[str, Any]) -> bool:
    return any(gate["name"] == SCHEDULING_GATES[0] for gate in pod["spec"].get("schedulingGates") or ())


def is_managed(pod: Mapping[str, Any]) -> bool:
    return MANAGED in (pod["metadata"].get("finalizers") or ())


def is_deleting(pod: Mapping[str, Any]) -> bool:
    return "deletionTimestamp" in pod["metadata"]


def is_runnable_or_succeeded(pod: Mapping[str, Any]) -> bool:
    """Whether a pod can run, is running or has succeeded."""
    return not (is_deleting(pod) and not pod["spec"].get("nodeName")) and phase(pod) != "Failed"


def is_running(pod: Mapping[str, Any]) -> bool:
    """Whether a pod is running; after its grace period, a deleted pod counts as stopped."""
    if phase(pod) != "Running":
        return False
    metadata = pod["metadata"]
    if "deletionTimestamp" not in metadata or metadata.get("deletionGracePeriodSeconds") is None:
        return True
    end = datetime.fromisoformat(metadata["deletionTimestamp"]) + timedelta(seconds=metadata["deletionGracePeriodSeconds"])
    return clock.now() <= end


def is_unretriable(pods: Iterable[Mapping[str, Any]]) -> bool:
    """Whether one of the pods marks its group as not retriable."""
    return any(annotation(pod, RETRIABLE_IN_GROUP_ANNOTATION) == "false" for pod in pods)


def sort_active_pods(pods: Iterable[Obj]) -> list[Obj]:
    """Pods that can run: managed, ungated and old ones first."""
    return sorted(pods, key=lambda pod: (not is_managed(pod), is_gated(pod), pod["metadata"]["creationTimestamp"]))


def _last_active(pod: Mapping[str, Any], now: datetime) -> datetime:
    times = [
        condition["lastTransitionTime"]
        for condition in (pod.get("status") or {}).get("conditions") or ()
        if (condition["type"], condition["status"], condition.get("reason")) == ("ContainersReady", "False", "Failed")
    ]
    if is_deleting(pod):
        times.append(pod["metadata"]["deletionTimestamp"])
    return min([now, *map(datetime.fromisoformat, times)])


def sort_inactive_pods(pods: Iterable[Obj]) -> list[Obj]:
    """Pods that cannot run any more: managed ones first, then those that were active last."""
    now = clock.now()
    by_creation = sorted(pods, key=lambda pod: str(pod["metadata"]["creationTimestamp"]))
    by_activity = sorted(by_creation, key=lambda pod: _last_active(pod, now), reverse=True)
    return sorted(by_activity, key=lambda pod: not is_managed(pod))


class PartitionedPods(NamedTuple):
    """The pods of a group: kept, in excess and replaced ones, and the number of missing ones."""

    kept: list[Obj]
    excess: list[Obj]
    replaced: list[Obj]
    absent: int


def partition_pods(pods: list[Obj], workload: Mapping[str, Any]) -> PartitionedPods:
    """Compare the pods of a group with the roles and counts in its Workload."""
    kept: list[Obj] = []
    excess: list[Obj] = []
    replaced: list[Obj] = []
    absent = 0
    for pod_set in workload_status.pod_sets_of(workload):
        role_pods = [pod for pod in pods if role_of(pod) == pod_set["name"]]
        active = sort_active_pods(pod for pod in role_pods if is_runnable_or_succeeded(pod))
        inactive = sort_inactive_pods(pod for pod in role_pods if not is_runnable_or_succeeded(pod))
        missing = max(0, pod_set["count"] - len(active))
        absent += missing
        kept += active[: pod_set["count"]] + inactive[:missing]
        excess += active[pod_set["count"] :]
        replaced += inactive[missing:]
    return PartitionedPods(kept, excess, replaced, absent)
