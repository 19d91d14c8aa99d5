"""Node auto-repair: recreates deleted instances and repairs unhealthy ones.

A managed instance group keeps its size: a preempted spot instance is recreated under its name. A multi-host slice is recreated as a
whole when it loses one instance.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sliceworks.twin.cloud.google.container.gke_state import instances

if TYPE_CHECKING:
    from sliceworks.twin.cloud.core.document_store import Document
    from sliceworks.twin.cloud.google.container.cluster_operation import ContainerOperations
    from sliceworks.twin.cloud.google.container.gke_state import GkeState
    from sliceworks.twin.cloud.google.container.operation_steps import OperationSteps

_REPAIRABLE = ("RUNNING", "RUNNING_WITH_ERROR")


class AutoRepair:
    """Starts repair operations when Nodes fail or are deleted."""

    def __init__(self, state: GkeState, operations: ContainerOperations, steps: OperationSteps) -> None:
        self._state = state
        self._operations = operations
        self._steps = steps

    def start(self) -> None:
        """Subscribe to Node events."""
        node_manager = self._state.node_manager
        node_manager.on_node_ready = self._steps.on_node_ready
        node_manager.on_node_not_ready = self._on_node_not_ready
        node_manager.on_node_deleted = self._on_node_deleted
        node_manager.on_nodes_listed = self._on_nodes_listed
        self._steps.on_pool_idle = self._repair_missing

    def _on_node_deleted(self, node: str) -> None:
        pool = self._find_pool(node)
        if pool is not None:
            self._begin_repair(pool, "repair", self._state.settings.seconds("repair"))

    def _on_node_not_ready(self, node: str) -> None:
        pool = self._find_pool(node)
        if pool is not None and (pool.body.get("management") or {}).get("autoRepair"):
            self._begin_repair(pool, "unhealthy", self._state.settings.seconds("unhealthy"), node=node)

    def _on_nodes_listed(self) -> None:
        """Repair Nodes that were deleted while the twin was stopped, and resume operations that wait for Nodes."""
        for pool in list(self._state.pools.all()):
            self._repair_missing(pool)
        for operation in list(self._operations.queue.running()):
            if operation.inner["step"] == "register":
                self._operations.queue.resume(operation.name)

    def _repair_missing(self, pool: Document) -> None:
        """Recreate instances that were deleted during another operation on the node pool."""
        is_repairable = pool.body["status"] in _REPAIRABLE and self._state.has_nodes(pool.parent)
        if is_repairable and any(not self._state.node_manager.exists(instance.name) for instance in instances(pool)):
            self._begin_repair(pool, "repair", self._state.settings.seconds("repair"))

    def _find_pool(self, node: str) -> Document | None:
        """The node pool of a Node, unless another operation is changing the pool."""
        key = self._state.pool_keys.get(node)
        pool = self._state.pools.get(*key) if key else None
        return pool if pool is not None and pool.body["status"] in _REPAIRABLE else None

    def _begin_repair(self, pool: Document, step: str, seconds: float, **inner: str) -> None:
        repairs = self._operations.hidden(pool.parent, pool.name)
        if step == "repair":
            for repair in repairs:
                if repair.inner["step"] == "unhealthy":
                    self._operations.finish(repair)
            repairs = [repair for repair in repairs if repair.inner["step"] != "unhealthy"]
        if not repairs:
            self._operations.begin("AUTO_REPAIR_NODES", pool.parent, pool, step=step, seconds=seconds, hidden=True, **inner)
