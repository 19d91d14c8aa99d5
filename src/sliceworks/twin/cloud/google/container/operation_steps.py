"""The steps of operations on clusters and node pools.

    machines    create instances, or find that capacity is unavailable
    give_up     retry unavailable capacity, and fail in the end
    register    wait until the Nodes of the instances are ready
    drain       cordon Nodes and evict their pods
    remove      delete Nodes, then the node pool or cluster
    change      change fields of a node pool or cluster
    unhealthy   repair a Node that has not been ready for long
    repair      delete failed Nodes and create them again

Steps are idempotent: the twin may stop in the middle of one and repeat it. Their names are stored with operations.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from sliceworks.base import clock
from sliceworks.twin.cloud.google.container import cluster_operation
from sliceworks.twin.cloud.google.container.cluster_operation import Failure
from sliceworks.twin.cloud.google.container.gke_state import instances, set_instances
from sliceworks.twin.cloud.google.container.node_template import Instance, resolve_shape

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from sliceworks.twin.cloud.core.document_store import Document
    from sliceworks.twin.cloud.google.container.cluster_operation import ContainerOperations, ProvisioningProblem
    from sliceworks.twin.cloud.google.container.gke_state import GkeState

Obj = dict[str, Any]
_DRAIN_TIMEOUT = 3600.0
_DRAIN_RETRY = 10.0
_CAPACITY_RETRY = 60.0
_RECREATING = ("machineType", "diskType", "diskSizeGb")
"""Fields of a node pool's config whose change recreates its instances."""


class OperationSteps:
    """Advances operations step by step."""

    def __init__(self, state: GkeState) -> None:
        self._state = state
        self.operations: ContainerOperations
        self.on_pool_idle: Callable[[Document], None] = lambda _: None
        """Called with a node pool whose operation has ended."""
        self.on_scale_up_failed: Callable[[Document], None] = lambda _: None
        """Called with a node pool that the autoscaler could not scale up."""
        self._awaited: dict[str, str] = {}
        """The operation that waits for each Node."""
        self._awaited_count: Counter[str] = Counter()
        """The number of Nodes that each operation waits for."""
        self._steps: dict[str, Callable[[Document], Awaitable[None]]] = {
            "machines": self._create_instances,
            "give_up": self._give_up,
            "register": self._register,
            "drain": self._drain,
            "remove": self._remove,
            "change": self._change,
            "unhealthy": self._unhealthy,
            "repair": self._repair,
        }

    async def advance(self, operation: Document) -> None:
        """Do the next step of an operation."""
        failure = self.operations.pending_failure(operation)
        if failure is not None:
            await self._fail(operation, failure)
        else:
            await self._steps[operation.inner["step"]](operation)

    def on_node_ready(self, node: str) -> None:
        """Resume the operation that waits for a Node when it was the last one."""
        operation = self._awaited.pop(node, "")
        if operation:
            self._awaited_count[operation] -= 1
            if self._awaited_count[operation] <= 0:
                del self._awaited_count[operation]
                self.operations.queue.resume(operation)

    def _pools(self, operation: Document) -> list[Document]:
        """The node pools of an operation: one, or all of a cluster."""
        cluster, name = operation.inner["cluster"], operation.inner["pool"]
        if not name:
            return list(self._state.pools.all(cluster))
        pool = self._state.pools.get(cluster, name)
        return [pool] if pool is not None else []

    # Instances are created.

    async def _create_instances(self, operation: Document) -> None:
        state, pools = self._state, self._pools(operation)
        boot = state.settings.seconds("boot")
        for pool in pools:
            problem = cluster_operation.find_provisioning_problem(state, pool)
            if problem is None:
                continue
            if problem.failure is None:
                boot += problem.seconds
            elif operation.inner["hidden"]:
                self._handle_no_capacity(operation, pool)
                return
            else:
                await self._create_available(operation, pool, problem.missing, boot)
                self._wait_for_capacity(operation, problem)
                return
        dropped = [instance[0] for instance in operation.inner.get("drop") or ()]
        for pool in pools:
            if state.has_nodes(pool.parent):
                await state.node_manager.cordon(dropped)
                remaining = [instance for instance in instances(pool) if instance.name not in dropped]
                await state.node_manager.create(state.nodes(pool, remaining, boot))
        timeout = boot + state.settings.seconds("register")
        operation.inner.pop("giveUp", None)
        operation.inner |= {"step": "register", "until": clock.now().timestamp() + timeout, "patience": timeout}
        await self._register(operation)

    def _handle_no_capacity(self, operation: Document, pool: Document) -> None:
        """Retry a repair later; abandon a scale-up of the autoscaler."""
        added = [Instance(*instance) for instance in operation.inner.get("add") or ()]
        if not added:
            self.operations.queue.requeue_after(operation, _CAPACITY_RETRY)
            return
        set_instances(pool, [instance for instance in instances(pool) if instance not in added])
        self._state.node_manager.free(instance.number for instance in added)
        self._state.put(pool)
        self.on_scale_up_failed(pool)
        self.operations.finish(operation)

    async def _create_available(self, operation: Document, pool: Document, missing: int, boot: float) -> None:
        """Create the instances that capacity allows; a multi-host slice is all or nothing."""
        available = [] if resolve_shape(pool.body).slice_hosts else instances(pool)[: max(0, len(instances(pool)) - missing)]
        if operation.inner.get("drop") is None and available and self._state.has_nodes(pool.parent):
            await self._state.node_manager.create(self._state.nodes(pool, available, boot))

    def _wait_for_capacity(self, operation: Document, problem: ProvisioningProblem) -> None:
        """Retry until the operation gives up; a problem that lasts is not retried."""
        assert problem.failure is not None
        now, inner = clock.now().timestamp(), operation.inner
        inner |= {"step": "give_up", "failure": list(problem.failure), "retry": not problem.lasting}
        left = inner.setdefault("giveUp", now + (problem.seconds or self._state.settings.seconds("giveUp"))) - now
        self.operations.queue.requeue_after(operation, left if problem.lasting else min(left, _CAPACITY_RETRY))

    async def _give_up(self, operation: Document) -> None:
        if operation.inner["retry"] and clock.now().timestamp() < operation.inner["giveUp"]:
            await self._create_instances(operation)
        else:
            self._end_with_failure(operation, Failure(*operation.inner["failure"]))

    async def _register(self, operation: Document) -> None:
        state, pools = self._state, self._pools(operation)
        dropped = [Instance(*instance) for instance in operation.inner.get("drop") or ()]
        expected = [
            instance for pool in pools if state.has_nodes(pool.parent) for instance in instances(pool) if instance not in dropped
        ]
        missing = [instance.name for instance in expected if not state.node_manager.is_ready(instance.name)]
        seconds_left = min(operation.inner["until"] - clock.now().timestamp(), operation.inner["patience"])
        if missing and seconds_left > 0:
            self._awaited |= dict.fromkeys(missing, operation.name)
            self._awaited_count[operation.name] = len(missing)
            if not all(state.node_manager.exists(name) for name in missing):
                # Recreate an instance that was deleted before it was ready.
                operation.inner["step"] = "machines"
                seconds_left = min(seconds_left, state.settings.seconds("repair"))
            self.operations.queue.requeue_after(operation, seconds_left)
            return
        if dropped:
            await self._delete_nodes([instance.name for instance in dropped])
        if missing:
            self._end_with_failure(operation, cluster_operation.unregistered_failure(len(expected) - len(missing), len(expected)))
        else:
            self._end_with_success(operation, dropped)

    def _end_with_success(self, operation: Document, dropped: list[Instance]) -> None:
        for pool in self._pools(operation):
            set_instances(pool, [instance for instance in instances(pool) if instance not in dropped])
            self._state.node_manager.free(instance.number for instance in dropped)
            cluster_operation.mark_running(pool)
            self._state.put(pool)
        if not operation.inner["pool"]:
            cluster = self._state.cluster(operation.inner["cluster"])
            cluster.body["status"] = "RUNNING"
            self._state.clusters.put(cluster)
        self._finish(operation)

    def _finish(self, operation: Document, failure: Failure | None = None) -> None:
        self.operations.finish(operation, failure)
        for pool in self._pools(operation):
            self.on_pool_idle(pool)

    # Instances are deleted.

    async def _delete_nodes(self, names: list[str]) -> None:
        await self._state.node_manager.drain(names)
        await self._state.node_manager.delete(names)

    async def _drain(self, operation: Document) -> None:
        state, inner = self._state, operation.inner
        names = (
            [instance.name for pool in self._pools(operation) for instance in instances(pool)] if self._has_nodes(operation) else []
        )
        names = [name for name in names if state.node_manager.exists(name)]
        await state.node_manager.cordon(names)
        blocked = await state.node_manager.drain(names) if names else 0
        elapsed = inner.get("drained", 0.0)
        if blocked and elapsed < _DRAIN_TIMEOUT:
            inner["drained"] = elapsed + _DRAIN_RETRY
            self.operations.queue.requeue_after(operation, _DRAIN_RETRY)
            return
        inner["step"] = "remove"
        self.operations.queue.requeue_after(operation, inner["rest"])

    def _has_nodes(self, operation: Document) -> bool:
        return self._state.has_nodes(operation.inner["cluster"])

    async def _remove(self, operation: Document) -> None:
        pools = self._pools(operation)
        if self._has_nodes(operation):
            await self._state.node_manager.delete([instance.name for pool in pools for instance in instances(pool)])
        for pool in pools:
            self._state.delete(pool)
        if not operation.inner["pool"]:
            self._state.clusters.delete(self._state.cluster(operation.inner["cluster"]))
        self.operations.finish(operation)

    # Fields change.

    async def _change(self, operation: Document) -> None:
        inner = operation.inner
        if inner["pool"]:
            for pool in self._pools(operation):
                before = pool.body.get("config") or {}
                pool.body |= inner["change"]
                self._state.put(pool)
                config = pool.body.get("config") or {}
                if config != before and self._has_nodes(operation):
                    await self._relabel(pool, before)
                if any(config.get(field) != before.get(field) for field in _RECREATING):
                    await self._delete_nodes([instance.name for instance in instances(pool)])
                    inner["step"] = "machines"
                    await self._create_instances(operation)
                    return
        else:
            cluster = self._state.cluster(inner["cluster"])
            cluster.body |= inner["change"]
            cluster.body["status"] = "RUNNING"
            self._state.clusters.put(cluster)
            for name, change in (inner.get("pools") or {}).items():
                changed = self._state.pools.get(inner["cluster"], name)
                if changed is not None:
                    changed.body |= change
                    self._state.put(changed)
        self.operations.finish(operation)

    async def _relabel(self, pool: Document, before: Obj) -> None:
        """Apply the labels and taints of a node pool to its Nodes."""
        for node in self._state.nodes(pool, instances(pool), 0.0):
            labels = {**dict.fromkeys(before.get("labels") or ()), **node["metadata"]["labels"]}
            await self._state.node_manager.relabel(node["metadata"]["name"], labels, node["spec"].get("taints") or [])

    # Instances fail.

    async def _unhealthy(self, operation: Document) -> None:
        state = await self._state.node_manager.node_state(operation.inner["node"])
        if state == "maintenance":
            self.operations.queue.requeue_after(operation, _CAPACITY_RETRY)
        elif state == "ready":
            self.operations.finish(operation)
        else:
            operation.inner["step"] = "repair"
            await self._repair(operation)

    async def _repair(self, operation: Document) -> None:
        node_manager = self._state.node_manager
        for pool in self._pools(operation):
            names = [instance.name for instance in instances(pool)]
            # A multi-host slice is recreated as a whole.
            is_slice = bool(resolve_shape(pool.body).slice_hosts)
            await node_manager.delete(
                [name for name in names if node_manager.exists(name) and (is_slice or not node_manager.is_ready(name))]
            )
        operation.inner["step"] = "machines"
        await self._create_instances(operation)

    # Operations fail.

    async def _fail(self, operation: Document, failure: Failure) -> None:
        if operation.body["operationType"] in ("CREATE_NODE_POOL", "CREATE_CLUSTER"):
            await self._state.node_manager.delete(
                [instance.name for pool in self._pools(operation) for instance in instances(pool)]
            )
        self._end_with_failure(operation, failure)

    def _end_with_failure(self, operation: Document, failure: Failure) -> None:
        state, kind = self._state, operation.body["operationType"]
        for pool in self._pools(operation):
            if not operation.inner["hidden"]:
                dropped = cluster_operation.mark_failed(pool, kind, failure, state.node_manager.exists)
                state.node_manager.free(instance.number for instance in dropped)
                state.put(pool)
        if not operation.inner["pool"]:
            cluster = state.cluster(operation.inner["cluster"])
            cluster.body |= cluster_operation.cluster_error_fields(kind, failure)
            state.clusters.put(cluster)
        self._finish(operation, failure)
