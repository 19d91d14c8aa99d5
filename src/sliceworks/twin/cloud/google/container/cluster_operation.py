"""Operations on clusters and node pools: concurrency rules, responses and failures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from sliceworks.base import clock
from sliceworks.catalog import gke_rules
from sliceworks.catalog.gke_rules import PoolSize, Violation
from sliceworks.twin.cloud.core.document_store import Document, Table
from sliceworks.twin.cloud.core.exceptions import CODES, GoogleError, not_found, refuse
from sliceworks.twin.cloud.core.faults import Fault, fault_kinds
from sliceworks.twin.cloud.core.operations import OperationQueue
from sliceworks.twin.cloud.google.container import resource_names
from sliceworks.twin.cloud.google.container.capacity import pool_usage
from sliceworks.twin.cloud.google.container.gke_state import instances, pool_path, set_instances
from sliceworks.twin.cloud.google.container.node_template import max_pods, resolve_shape
from sliceworks.twin.cloud.google.container.resource_names import ANY_LOCATION, location_of, location_path, project_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from sliceworks.twin.cloud.core.routes import Call
    from sliceworks.twin.cloud.google.container.gke_state import GkeState
    from sliceworks.twin.cloud.google.container.node_template import Instance
    from sliceworks.twin.store.store import Store
Obj = dict[str, Any]


class Failure(NamedTuple):
    """The failure of an operation: canonical code, message, GKE's condition code if it has one, and the status message."""

    status: str
    message: str
    condition: str = ""
    summary: str = ""

    def conditions(self) -> list[Obj]:
        """The `conditions` of node pools, clusters and operations."""
        condition: Obj = {"canonicalCode": self.status, "message": self.message}
        if self.condition:
            condition["code"] = self.condition
        return [condition]


@dataclass(frozen=True, slots=True)
class ProvisioningProblem:
    """Instances that are late (`seconds`) or not created (`missing`, with the failure). `lasting`: capacity does not return."""

    seconds: float = 0.0
    failure: Failure | None = None
    missing: int = 0
    lasting: bool = False


def find_provisioning_problem(state: GkeState, pool: Document) -> ProvisioningProblem | None:
    """Return the fault or capacity shortage that affects the instances of a node pool, if any."""
    pool_instances, path = instances(pool), pool_path(pool)
    attributes = {**state.attributes(pool.parent, pool.body), "instance": pool_instances[0].name if pool_instances else pool.name}
    missing = len(pool_instances)
    violation = _find_violation(state, pool, attributes["instance"]) if pool_instances else None
    if violation is not None:
        return _refused(state, pool, violation)
    fault = state.faults.inject("instances", attributes)
    if fault is None:
        zones = (instance.zone for instance in pool_instances)
        usage = pool_usage(project_of(pool.parent), pool, resolve_shape(pool.body), zones)
        shortage = state.capacity.find_shortage(path, usage)
        if shortage is None or not pool_instances:
            return None
        fault, missing = Fault("", fault_kinds()[shortage.fault], {}), shortage.missing
        attributes |= {"zone": shortage.zone, **shortage.attributes}
    if not fault.kind.status:
        return ProvisioningProblem(fault.seconds or 0.0)
    seconds = fault.seconds if fault.seconds is not None else state.settings.seconds("giveUp")
    running = 0 if resolve_shape(pool.body).slice_hosts else len(pool_instances) - missing
    message = fault.format_message(attributes)
    summary = _summary(seconds, len(pool_instances), running, fault.kind.condition, message)
    failure = Failure(fault.kind.status, message, fault.kind.condition, summary)
    return ProvisioningProblem(seconds, failure, missing, lasting=fault.counted)


def _summary(seconds: float, expected: int, running: int, condition: str, message: str) -> str:
    return (
        f"Google Compute Engine: Not all instances running in IGM after {seconds:g}s. Expected {expected}, running {running}, "
        f"transitioning {expected - running}. Current errors: [{condition}]: {message}"
    )


def _find_violation(state: GkeState, pool: Document, instance: str) -> Violation | None:
    """The rule that Compute Engine enforces when it creates the instances of a node pool, if it is broken."""
    shape, config = resolve_shape(pool.body), pool.body.get("config") or {}
    if shape.slice_hosts and shape.slice is not None:
        policy = (pool.body.get("placementPolicy") or {}).get("policyName") or ""
        violation = gke_rules.check_placement(shape.slice, policy)
        if violation is not None:
            return violation
    cluster = state.cluster(pool.parent)
    is_adopted = bool(cluster.inner.get("adopted"))
    image = state.dependencies.find_missing_image(config, project_of(pool.parent), is_adopted=is_adopted)
    if image:
        return gke_rules.violate("secondary-boot-disk-image", instance=instance, image=image)
    pools = [other for other in state.pools.all(pool.parent) if other.name != pool.name]
    sizes = [PoolSize(len(instances(other)), max_pods(other.body)) for other in (*pools, pool)]
    return state.dependencies.find_shortage(cluster.body, pool.parent, sizes, instance)


def _refused(state: GkeState, pool: Document, violation: Violation) -> ProvisioningProblem:
    rule, expected, seconds = violation.rule, len(instances(pool)), state.settings.seconds("giveUp")
    summary = _summary(seconds, expected, 0, rule.code, violation.message)
    failure = Failure(rule.status, violation.message, rule.code, summary)
    return ProvisioningProblem(seconds, failure, expected, lasting=True)


def unregistered_failure(registered: int, expected: int) -> Failure:
    """The failure of an operation whose instances run but do not register as Nodes."""
    return Failure(
        "DEADLINE_EXCEEDED",
        f"All cluster resources were brought up, but: only {registered} nodes out of {expected} have registered; "
        "cluster may be unhealthy.",
    )


def mark_running(pool: Document) -> None:
    """Set a node pool to RUNNING without errors."""
    pool.body["status"] = "RUNNING"
    for key in ("statusMessage", "conditions"):
        pool.body.pop(key, None)


def mark_failed(pool: Document, kind: str, failure: Failure, exists: Callable[[str], bool]) -> list[Instance]:
    """Set the status of a node pool after a failed operation; removes and returns instances without Nodes unless it is new."""
    is_new = kind in ("CREATE_NODE_POOL", "CREATE_CLUSTER")
    existing = [instance for instance in instances(pool) if exists(instance.name)]
    has_failed = is_new and failure.status != "DEADLINE_EXCEEDED"
    pool.body["status"] = "ERROR" if has_failed or (kind == "DELETE_NODE_POOL" and not existing) else "RUNNING_WITH_ERROR"
    pool.body["statusMessage"] = failure.summary or failure.message
    pool.body["conditions"] = failure.conditions()
    if is_new:
        return []
    removed = [instance for instance in instances(pool) if instance not in existing]
    set_instances(pool, existing)
    return removed


def cluster_error_fields(kind: str, failure: Failure) -> Obj:
    """The status fields of a cluster after a failed operation."""
    if kind in ("CREATE_CLUSTER", "DELETE_CLUSTER"):
        return {"status": "ERROR", "statusMessage": failure.summary or failure.message, "conditions": failure.conditions()}
    return {"status": "RUNNING"}


UPGRADE_MASTER = "UPGRADE_MASTER"
_ABORTED = ("CANCELLED", "Operation was aborted.")
_LINK = "https://container.googleapis.com/v1/"


class ContainerOperations:
    """The operations of all clusters. Hidden operations (auto-repair, autoscaling) are not listed and do not block others."""

    def __init__(self, store: Store, state: GkeState, advance: Callable[[Document], Awaitable[None]]) -> None:
        self._table = Table(store, "container/operations", "Operation")
        self._state = state
        self.queue = OperationQueue(self._table, advance)
        self._running: dict[str, dict[str, str]] = {}
        self._hidden: dict[tuple[str, str], dict[str, str]] = {}
        self._cancelled: set[str] = set()
        state.faults.on_fault_ended.append(self._on_fault_ended)

    def start(self) -> None:
        """Resume operations."""
        self.queue.start()
        for document in self.queue.running():
            self._index(document)

    def begin(
        self, kind: str, cluster: str, pool: Document | None, *, step: str, seconds: float, hidden: bool = False, **inner: Any
    ) -> Obj:
        """Start an operation on a cluster or one of its node pools at a step, and return it."""
        name, target = resource_names.new_operation_name(), pool_path(pool) if pool else cluster
        location = location_of(cluster)
        parent = cluster.rpartition("/clusters/")[0]
        body: Obj = {
            "name": name,
            "zone": location,
            "operationType": kind,
            "status": "RUNNING",
            "selfLink": f"{_LINK}{parent}/operations/{name}",
            "targetLink": f"{_LINK}{target}",
            "startTime": clock.micro_timestamp(),
            "location": location,
        }
        inner |= {"cluster": cluster, "pool": pool.name if pool else "", "step": step, "hidden": hidden}
        document = Document(parent, name, body, inner)
        self._index(document)
        attributes = self._state.attributes(cluster, pool.body if pool else None)
        self.queue.add(document, seconds if hidden else self._inject_faults(document, seconds, attributes))
        return body

    def _inject_faults(self, document: Document, seconds: float, attributes: Mapping[str, str]) -> float | None:
        """Return the delay of the first step with injected faults; None if the operation is stuck."""
        attributes = {**attributes, "operationType": document.body["operationType"]}
        stuck = self._state.faults.inject("operation", attributes, stuck=True)
        if stuck is not None:
            document.inner["held"] = stuck.name
            return self._state.faults.seconds_left(stuck.name)
        fault = self._state.faults.inject("operation", attributes, stuck=False)
        if fault is None:
            return seconds
        if fault.kind.status:
            document.inner["fails"] = [fault.kind.status, fault.format_message(attributes)]
        return seconds + (fault.seconds or 0.0)

    def check(self, cluster: str, pool: str) -> None:
        """Raise GoogleError if a running operation or the operations quota prevents another operation."""
        running = self._running.get(cluster, {})
        for name, other in running.items():
            if not pool or other in ("", pool):
                document = self._table.get(cluster.rpartition("/clusters/")[0], name)
                if document is not None and document.body["operationType"] == UPGRADE_MASTER:
                    raise refuse("cluster-upgrading", operation=name, cluster=cluster.rpartition("/")[2])
                raise refuse("incompatible-operation", operation=name)
        quota = self._state.settings.values.operations
        if len(running) >= quota:
            raise refuse("operations-quota", cluster=cluster.rpartition("/")[2], quota=quota)

    def is_busy(self, cluster: str, pool: str) -> bool:
        """Whether an operation runs on a node pool or its cluster."""
        return any(other in ("", pool) for other in self._running.get(cluster, {}).values())

    def hidden(self, cluster: str, pool: str) -> list[Document]:
        """The hidden operations on a node pool."""
        names = self._hidden.get((cluster, pool)) or {}
        return [document for name, parent in names.items() if (document := self._table.get(parent, name)) is not None]

    def finish(self, document: Document, failure: Failure | None = None) -> None:
        """Finish an operation with success or a failure."""
        body = document.body
        body |= {"status": "DONE", "endTime": clock.micro_timestamp()}
        if failure is not None:
            message = failure.summary or failure.message
            body |= {
                "statusMessage": message,
                "detail": message,
                "error": {"code": CODES[failure.status].number, "message": failure.message},
                "nodepoolConditions" if document.inner["pool"] else "clusterConditions": failure.conditions(),
            }
        inner = document.inner
        if inner["hidden"]:
            self._hidden.get((inner["cluster"], inner["pool"]), {}).pop(document.name, None)
        self._running.get(inner["cluster"], {}).pop(document.name, None)
        self._cancelled.discard(document.name)
        self.queue.finish(document)

    def _index(self, document: Document) -> None:
        inner = document.inner
        if inner["hidden"]:
            self._hidden.setdefault((inner["cluster"], inner["pool"]), {})[document.name] = document.parent
        else:
            self._running.setdefault(inner["cluster"], {})[document.name] = inner["pool"]

    def _on_fault_ended(self, name: str) -> None:
        for document in list(self.queue.running()):
            if document.inner.get("held") == name:
                self.queue.resume(document.name)

    def get(self, call: Call) -> Obj:
        """Return an operation."""
        return self._get_document(call).body

    def find_all(self, call: Call) -> Obj:
        """List the operations of a location, or of all locations."""
        parent = location_path(call.params)
        scope = None if call.params["location"] == ANY_LOCATION else parent
        prefix = f"projects/{call.params['project']}/"
        documents = (document for document in self._table.all(scope) if document.parent.startswith(prefix))
        operations = [document.body for document in documents if not document.inner["hidden"]]
        return {"operations": operations} if operations else {}

    def cancel(self, call: Call) -> Obj:
        """Abort an operation."""
        document = self._get_document(call)
        if document.body["status"] == "DONE":
            raise GoogleError("FAILED_PRECONDITION", f"Operation {document.name} is already done.")
        document.body["status"] = "ABORTING"
        document.inner["fails"] = list(_ABORTED)
        self._cancelled.add(document.name)
        self.queue.requeue_after(document, 1.0)
        return {}

    def pending_failure(self, document: Document) -> Failure | None:
        """The failure that a cancellation or a fault has set for an operation."""
        # The document may be a copy from before the cancellation.
        failure = _ABORTED if document.name in self._cancelled else document.inner.get("fails")
        return Failure(*failure) if failure else None

    def _get_document(self, call: Call) -> Document:
        parent, name = location_path(call.params), call.params["operation"]
        document = self._table.get(parent, name)
        if document is None or document.inner["hidden"]:
            raise not_found(f"{parent}/operations/{name}")
        return document
