"""Node states of a reconcile, and the instance status computed from them: state, conditions and projected fields. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

from sliceworks.base import clock
from sliceworks.controllers.graphs import well_known
from sliceworks.controllers.graphs.conditions import ConditionSet

if TYPE_CHECKING:
    from sliceworks.graph.model import Condition
    from sliceworks.graph.model import Conditions as Authored
    from sliceworks.kube.resources import Object


ACTIVE, IN_PROGRESS, ERROR, DELETING = "ACTIVE", "IN_PROGRESS", "ERROR", "DELETING"


class NodePhase(Enum):
    """The phase of one resource in a reconcile."""

    READY = "ready"
    SKIPPED = "skipped"
    NOT_READY = "not ready"
    UNRESOLVED = "unresolved"
    TERMINATING = "terminating"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class NodeState:
    """The phase of a resource, with the reason. A `permanent` failure is not retried until something changes."""

    phase: NodePhase
    message: str = ""
    permanent: bool = False


READY, SKIPPED = NodeState(NodePhase.READY), NodeState(NodePhase.SKIPPED)


@dataclass(slots=True)
class NodeStates:
    """The states of an instance's resources, by id."""

    nodes: dict[str, NodeState] = field(default_factory=dict)

    def first(self, phase: NodePhase) -> NodeState | None:
        """The first state in a phase."""
        return next((state for state in self.nodes.values() if state.phase is phase), None)

    def messages(self, *phases: NodePhase) -> str:
        """The joined messages of the states in these phases."""
        return "; ".join(dict.fromkeys(state.message for state in self.nodes.values() if state.phase in phases))

    @property
    def permanent(self) -> bool:
        """Whether every failure is permanent."""
        return all(state.permanent for state in self.nodes.values() if state.phase is NodePhase.FAILED)

    @property
    def is_resolved(self) -> bool:
        """Whether all desired objects are known: no resource is pending, terminating or failed."""
        return not any(
            state.phase in (NodePhase.UNRESOLVED, NodePhase.TERMINATING, NodePhase.FAILED) for state in self.nodes.values()
        )

    @property
    def state(self) -> str:
        """The instance's `status.state`."""
        if self.first(NodePhase.FAILED):
            return ERROR
        is_ready = all(state.phase in (NodePhase.READY, NodePhase.SKIPPED) for state in self.nodes.values())
        return ACTIVE if is_ready else IN_PROGRESS


MANAGED, RESOLVED, RESOURCES = "InstanceManaged", "GraphResolved", "ResourcesReady"

_ORDER = (MANAGED, RESOLVED, RESOURCES)


def conditions_of(instance: Object) -> ConditionSet:
    """The controller's conditions of an instance."""
    return ConditionSet(instance, _ORDER, only=True)


def mark_managed(conditions: ConditionSet) -> None:
    """Finalizer, labels and inventory are written."""
    conditions.true(MANAGED, "Managed", "instance is properly managed with finalizers and labels")


def mark_resolved(conditions: ConditionSet) -> None:
    """A graph is available."""
    conditions.true(RESOLVED, "Resolved", "runtime graph created and all resources resolved")


def mark_suspended(conditions: ConditionSet) -> None:
    """Reconciliation is suspended by an annotation."""
    message = f"reconciliation suspended via {well_known.RECONCILE} annotation"
    conditions.false(RESOURCES, "ReconciliationSuspended", message)


def mark_deleting(conditions: ConditionSet, message: str = "deleting resources") -> None:
    """The instance is being deleted."""
    conditions.unknown(RESOURCES, "UnderDeletion", message)


def mark_resources(conditions: ConditionSet, states: NodeStates) -> None:
    """Set `ResourcesReady` from the states of all resources."""
    terminating, unresolved = states.first(NodePhase.TERMINATING), states.first(NodePhase.UNRESOLVED)
    if states.first(NodePhase.FAILED):
        conditions.false(RESOURCES, "NotReady", f"resource reconciliation failed: {states.messages(NodePhase.FAILED)}")
    elif terminating:
        conditions.false(RESOURCES, "ResourceDeleting", terminating.message)
    elif unresolved:
        pending = states.messages(NodePhase.NOT_READY) or unresolved.message
        conditions.false(RESOURCES, "NotReady", f"resource reconciliation failed: waiting for unresolved resource: {pending}")
    elif states.first(NodePhase.NOT_READY):
        conditions.false(RESOURCES, "NotReady", f"awaiting resource readiness: {states.messages(NodePhase.NOT_READY)}")
    else:
        conditions.true(RESOURCES, "AllResourcesReady", "all resources are created and ready")


def build_status(conditions: ConditionSet, state: str, projected: Object) -> Object:
    """The complete status. A root condition that is True means ACTIVE."""
    fields = {name: value for name, value in projected.items() if name not in ("conditions", "state")}
    return {"conditions": conditions.items, "state": ACTIVE if conditions.ready else state, **fields}


def merge_conditions(instance: Object, authored: Authored) -> list[Object]:
    """The author's conditions with transition times; conditions that are pending or failed keep their previous value."""
    previous = {item["type"]: item for item in (instance.get("status") or {}).get("conditions") or ()}
    generation = instance["metadata"].get("generation") or 0
    items = [_with_transition_time(condition, previous.get(condition.type), generation) for condition in authored.items]
    if not authored.complete:
        types = {item["type"] for item in items}
        items += [item for kind, item in previous.items() if kind not in types]
    return items


def _with_transition_time(condition: Condition, previous: Object | None, generation: int) -> Object:
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
