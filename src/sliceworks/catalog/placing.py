"""How pods get to the nodes that have an accelerator: what they select, what they tolerate, and what they keep away from. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.catalog import labels
from sliceworks.catalog.tpus import Slice

if TYPE_CHECKING:
    from sliceworks.catalog.finding import Accelerator


def node_selector(shape: Accelerator, capacity: str, reservation: str = "") -> dict[str, str]:
    """The labels of its nodes. How many chips a node has is named only where one topology has two kinds of machines."""
    found = shape.node_labels()
    if not (isinstance(shape, Slice) and len(shape.generation.machines_for(shape.axes)) > 1):
        found.pop(labels.ACCELERATOR_COUNT, None)
    if capacity == "spot":
        found[labels.SPOT] = "true"
    elif reservation:
        found[labels.RESERVATION_NAME] = reservation
    return found


def tolerations(shape: Accelerator, capacity: str) -> list[dict[str, Any]]:
    """What its nodes keep other pods away with."""
    found = [{"key": shape.resource, "operator": "Exists", "effect": "NoSchedule"}]
    if capacity == "spot":
        found.append({"key": labels.SPOT, "operator": "Equal", "value": "true", "effect": "NoSchedule"})
    return found


def affinity(capacity: str) -> dict[str, Any]:
    """What is asked for on demand does not run on machines that may be taken away; spot has nothing to avoid."""
    if capacity == "spot":
        return {}
    terms = [{"matchExpressions": [{"key": labels.SPOT, "operator": "DoesNotExist"}]}]
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}
