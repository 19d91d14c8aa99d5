"""The status of an instance: its conditions, its state and what the definition takes from its objects. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sliceworks.base import clock
from sliceworks.controllers.graphs import names, states
from sliceworks.controllers.graphs.conditions import Conditions
from sliceworks.controllers.graphs.states import States, Step

if TYPE_CHECKING:
    from sliceworks.graph.model import Condition
    from sliceworks.graph.model import Conditions as Authored
    from sliceworks.kube.resources import Object

MANAGED, RESOLVED, RESOURCES = "InstanceManaged", "GraphResolved", "ResourcesReady"
_ORDER = (MANAGED, RESOLVED, RESOURCES)


def conditions_of(instance: Object) -> Conditions:
    """The conditions of an instance that are ours."""
    return Conditions(instance, _ORDER, only=True)


def managed(conditions: Conditions) -> None:
    """Finalizer, labels and inventory are in place."""
    conditions.true(MANAGED, "Managed", "instance is properly managed with finalizers and labels")


def resolved(conditions: Conditions) -> None:
    """There is a graph to serve it by."""
    conditions.true(RESOLVED, "Resolved", "runtime graph created and all resources resolved")


def suspended(conditions: Conditions) -> None:
    """Somebody asked to leave it alone."""
    message = f"reconciliation suspended via {names.RECONCILE} annotation"
    conditions.false(RESOURCES, "ReconciliationSuspended", message)


def deleting(conditions: Conditions, message: str = "deleting resources") -> None:
    """It is going."""
    conditions.unknown(RESOURCES, "UnderDeletion", message)


def judge(conditions: Conditions, found: States) -> None:
    """What a pass over all resources makes of `ResourcesReady`."""
    going, unresolved = found.first(Step.TERMINATING), found.first(Step.UNRESOLVED)
    if found.first(Step.FAILED):
        conditions.false(RESOURCES, "NotReady", f"resource reconciliation failed: {found.messages(Step.FAILED)}")
    elif going:
        conditions.false(RESOURCES, "ResourceDeleting", going.message)
    elif unresolved:
        waiting = found.messages(Step.NOT_READY) or unresolved.message
        conditions.false(RESOURCES, "NotReady", f"resource reconciliation failed: waiting for unresolved resource: {waiting}")
    elif found.first(Step.NOT_READY):
        conditions.false(RESOURCES, "NotReady", f"awaiting resource readiness: {found.messages(Step.NOT_READY)}")
    else:
        conditions.true(RESOURCES, "AllResourcesReady", "all resources are created and ready")


def assemble(conditions: Conditions, state: str, projected: Object) -> Object:
    """The whole status. A root that is true means active whatever else was seen."""
    shown = {name: value for name, value in projected.items() if name not in ("conditions", "state")}
    return {"conditions": conditions.items, "state": states.ACTIVE if conditions.ready else state, **shown}


def authored(instance: Object, made: Authored) -> list[Object]:
    """The conditions that the definition's author computes: their times change with their status only.

    Those that cannot be told now stay as they were.
    """
    previous = {item["type"]: item for item in (instance.get("status") or {}).get("conditions") or ()}
    generation = instance["metadata"].get("generation") or 0
    items = [_stamped(condition, previous.get(condition.type), generation) for condition in made.items]
    if not made.complete:
        have = {item["type"] for item in items}
        items += [item for kind, item in previous.items() if kind not in have]
    return items


def _stamped(condition: Condition, previous: Object | None, generation: int) -> Object:
    item: Object = {"type": condition.type, "status": condition.status}
    same = previous is not None and previous["status"] == condition.status and "lastTransitionTime" in previous
    item["lastTransitionTime"] = previous["lastTransitionTime"] if same and previous is not None else clock.timestamp()
    if condition.reason:
        item["reason"] = condition.reason
    if condition.message:
        item["message"] = condition.message
    if generation:
        item["observedGeneration"] = generation
    return item
