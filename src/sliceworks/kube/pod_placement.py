"""Where pods run on GKE: node selectors, tolerations and affinity for accelerators and node pools."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.catalog import labels
from sliceworks.catalog.tpus import Slice

if TYPE_CHECKING:
    from sliceworks.catalog.lookup import Accelerator
    from sliceworks.specs.model_service.components import Pool

Object = dict[str, Any]


def node_selector(shape: Accelerator, capacity: str, reservation: str = "") -> dict[str, str]:
    """The node selector of an accelerator. The chip count is included only if two machine types offer the topology."""
    selector = shape.node_labels()
    if not (isinstance(shape, Slice) and len(shape.generation.machines_for(shape.axes)) > 1):
        selector.pop(labels.ACCELERATOR_COUNT, None)
    if capacity == "spot":
        selector[labels.SPOT] = "true"
    elif reservation:
        selector[labels.RESERVATION_NAME] = reservation
    return selector


def tolerations(shape: Accelerator, capacity: str) -> list[dict[str, Any]]:
    """The tolerations for the taints of an accelerator's nodes."""
    tolerations = [{"key": shape.resource, "operator": "Exists", "effect": "NoSchedule"}]
    if capacity == "spot":
        tolerations.append({"key": labels.SPOT, "operator": "Equal", "value": "true", "effect": "NoSchedule"})
    return tolerations


def affinity(capacity: str) -> dict[str, Any]:
    """Node affinity that keeps on-demand pods off spot nodes; empty for spot pods."""
    if capacity == "spot":
        return {}
    terms = [{"matchExpressions": [{"key": labels.SPOT, "operator": "DoesNotExist"}]}]
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}


KONNECTIVITY_AGENTS: Object = {
    "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "kube-system"}},
    "podSelector": {"matchLabels": {"k8s-app": "konnectivity-agent"}},
}
"""The source of requests that GKE's API server proxies to pods."""


def node_pool_scheduling(pool: Pool) -> Object:
    """nodeSelector and tolerations of a pod spec for a CPU node pool."""
    selector = {**({labels.NODE_POOL: pool.name} if pool.name else {}), **pool.labels}
    tolerations = [{"key": key, "operator": "Exists", "effect": "NoSchedule"} for key in pool.tolerates]
    return {**({"nodeSelector": selector} if selector else {}), **({"tolerations": tolerations} if tolerations else {})}
