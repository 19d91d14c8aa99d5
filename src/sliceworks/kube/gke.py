"""What pods have to know of Google's clusters: the way to a pool of nodes, and whom the API server's requests come from. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.catalog.labels import NODE_POOL

if TYPE_CHECKING:
    from sliceworks.specs.serving.parts import Pool

Object = dict[str, Any]
API_AGENTS: Object = {
    "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "kube-system"}},
    "podSelector": {"matchLabels": {"k8s-app": "konnectivity-agent"}},
}
"""What the API server of GKE reaches pods through: requests that it passes on come from there."""


def pool(wanted: Pool) -> Object:
    """The part of a pod that leads it to a pool of ordinary machines."""
    selector = {**({NODE_POOL: wanted.name} if wanted.name else {}), **wanted.labels}
    tolerations = [{"key": key, "operator": "Exists", "effect": "NoSchedule"} for key in wanted.tolerates]
    return {**({"nodeSelector": selector} if selector else {}), **({"tolerations": tolerations} if tolerations else {})}
