"""The role of a pod in its group: pods that ask for the same have the same. It is a digest of Go's JSON of a part of the spec."""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, Any

import orjson

from sliceworks.base import quantity
from sliceworks.twin.workloads.kueue.keys import ROLE

if TYPE_CHECKING:
    from collections.abc import Mapping

# Go prints the fields of a struct in the order of their declaration; where it is that of the alphabet, nothing is said here.
_ORDER = (
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
_RANK = {name: rank for rank, name in enumerate(_ORDER)}
_SPREAD = {name: rank for rank, name in enumerate(("maxSkew", "topologyKey", "whenUnsatisfiable", *_ORDER))}
_ESCAPED = ((b"<", b"\\u003c"), (b">", b"\\u003e"), (b"&", b"\\u0026"))


def role_of(pod: Mapping[str, Any]) -> str:
    """The role that was noted when the pod came, else the one that its spec gives it."""
    noted = (pod["metadata"].get("annotations") or {}).get(ROLE)
    return str(noted) if noted is not None else role(pod["spec"])


def role(spec: Mapping[str, Any]) -> str:
    text = orjson.dumps({"spec": shape(spec)})
    for plain, escaped in _ESCAPED:
        text = text.replace(plain, escaped)
    return sha256(text).hexdigest()[:8]


def shape(spec: Mapping[str, Any]) -> dict[str, Any]:
    """The part of a spec that makes its role, in Go's order."""
    return {
        "affinity": _struct(spec.get("affinity")),
        "containers": _containers(spec.get("containers")),
        "initContainers": _containers(spec.get("initContainers")),
        "nodeSelector": _sorted(spec.get("nodeSelector")),
        "overhead": _amounts(spec.get("overhead")),
        "priority": spec.get("priority"),
        "resourceClaims": _struct(spec.get("resourceClaims")),
        "runtimeClassName": spec.get("runtimeClassName"),
        "tolerations": _struct(spec.get("tolerations")),
        "topologySpreadConstraints": _struct(spec.get("topologySpreadConstraints"), _SPREAD),
    }


def _containers(containers: list[dict[str, Any]] | None) -> list[dict[str, Any]] | None:
    return [
        {"ports": _struct(one.get("ports")), "resources": {"requests": _amounts((one.get("resources") or {}).get("requests"))}}
        for one in containers or ()
    ] or None


def _amounts(amounts: Mapping[str, Any] | None) -> dict[str, str] | None:
    return {name: quantity.canonical(amounts[name]) for name in sorted(amounts)} if amounts else None


def _sorted(values: Mapping[str, Any] | None) -> dict[str, Any] | None:
    return {key: values[key] for key in sorted(values)} if values else None


def _struct(value: Any, rank: Mapping[str, int] = _RANK) -> Any:
    """A value with the fields of its objects in Go's order."""
    if isinstance(value, list):
        return [_struct(one, rank) for one in value] or None
    if not isinstance(value, dict):
        return value
    ordered = sorted(value, key=lambda key: (rank.get(key, len(rank)), key))
    return {key: _sorted(value[key]) if key == "matchLabels" else _struct(value[key]) for key in ordered}
