"""Google's container API: node pools and operations of one cluster."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from sliceworks.base.errors import CloudAlreadyExists, CloudNotFound, UsageError
from sliceworks.catalog.availability import region_of
from sliceworks.cloud.credentials import find_credentials
from sliceworks.cloud.session import Session, split_endpoint

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sliceworks.cloud.session import Object


ENDPOINT = "https://container.googleapis.com"
COMPUTE = "https://compute.googleapis.com"
# google.rpc.Code by number, as in the error of an operation.
_CODES = [
    "OK",
    "CANCELLED",
    "UNKNOWN",
    "INVALID_ARGUMENT",
    "DEADLINE_EXCEEDED",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "ABORTED",
    "OUT_OF_RANGE",
    "UNIMPLEMENTED",
    "INTERNAL",
    "UNAVAILABLE",
    "DATA_LOSS",
    "UNAUTHENTICATED",
]


@dataclass(frozen=True, slots=True)
class Fault:
    """Why an operation or node pool failed: Google's canonical code and message."""

    code: str
    message: str


@dataclass(frozen=True, slots=True)
class Operation:
    """A long-running operation. `target` is the name of its node pool or cluster; `kind` is e.g. CREATE_NODE_POOL."""

    name: str
    kind: str
    target: str
    status: str
    started: str = ""
    ended: str = ""
    fault: Fault | None = None

    @property
    def done(self) -> bool:
        return self.status == "DONE"


def parse_operation(raw: Mapping[str, Any]) -> Operation:
    """Parse an operation. Its fault is in `error`, or only in the deprecated `statusMessage`."""
    return Operation(
        name=str(raw.get("name") or ""),
        kind=str(raw.get("operationType") or ""),
        target=str(raw.get("targetLink") or "").rpartition("/")[2],
        status=str(raw.get("status") or ""),
        started=str(raw.get("startTime") or ""),
        ended=str(raw.get("endTime") or ""),
        fault=_fault(raw),
    )


def fault_from_conditions(conditions: Any, message: str = "") -> Fault | None:
    """The fault in the conditions of a node pool or operation: the first with a specific code, else UNKNOWN."""
    conditions = [condition for condition in conditions or () if isinstance(condition, dict)]
    for condition in conditions:
        code = str(condition.get("code") or condition.get("canonicalCode") or "")
        if code and code not in ("UNKNOWN", "OK"):
            return Fault(code, " ".join(str(condition.get("message") or message).split()))
    if conditions or message:
        first = str(conditions[0].get("message") or "") if conditions else ""
        return Fault("UNKNOWN", " ".join(first.split() or message.split()))
    return None


def _fault(raw: Mapping[str, Any]) -> Fault | None:
    if raw.get("status") != "DONE":
        return None
    by_condition = fault_from_conditions(raw.get("clusterConditions") or raw.get("nodepoolConditions"))
    error = raw.get("error")
    if isinstance(error, dict) and (error.get("code") or error.get("message")):
        number = error.get("code") or 2
        code = _CODES[number] if isinstance(number, int) and 0 <= number < len(_CODES) else "UNKNOWN"
        if by_condition is not None and by_condition.code != "UNKNOWN":
            code = by_condition.code
        return Fault(code, " ".join(str(error.get("message") or "").split()))
    if by_condition is not None:
        return by_condition
    message = " ".join(str(raw.get("statusMessage") or "").split())
    return Fault("UNKNOWN", message) if message else None


class Container:
    """The node pools and operations of one cluster. `prefix` is the path before the API version: `/container` for a twin."""

    def __init__(
        self, session: Session, project: str, location: str, cluster: str, *, prefix: str = "", version: str = "v1beta1"
    ) -> None:
        for what, value, variable in (
            ("project", project, "GCP_PROJECT_ID"),
            ("location", location, "GCP_CLUSTER_LOCATION"),
            ("cluster", cluster, "GCP_CLUSTER"),
        ):
            if not value:
                raise UsageError(f"{what} is required", hint=f"set {variable}, or pass --twin to use a twin")
        self.session = session
        self.project, self.location, self.cluster = project, location, cluster
        # A twin serves all APIs at one address, each below its own prefix.
        self._is_google = not prefix
        self._location_path = f"{prefix.rstrip('/')}/{version}/projects/{quote(project)}/locations/{quote(location)}"
        self._cluster_path = f"{self._location_path}/clusters/{quote(cluster)}"

    async def list_node_pools(self) -> list[Object]:
        """All node pools of the cluster."""
        pools: list[Object] = (await self.session.call("GET", f"{self._cluster_path}/nodePools")).get("nodePools") or []
        return pools

    async def create_node_pool(self, pool: Object) -> Operation:
        """Start to create a node pool; CloudAlreadyExists if the name is taken."""
        return parse_operation(await self.session.call("POST", f"{self._cluster_path}/nodePools", {"nodePool": pool}))

    async def delete_node_pool(self, name: str) -> Operation:
        """Start to delete a node pool; CloudNotFound if it does not exist."""
        return parse_operation(await self.session.call("DELETE", f"{self._cluster_path}/nodePools/{quote(name)}"))

    async def list_operations(self) -> list[Operation]:
        """The running and recent operations of the cluster's location."""
        response = await self.session.call("GET", f"{self._location_path}/operations")
        return [parse_operation(raw) for raw in response.get("operations") or ()]

    async def get_operation(self, name: str) -> Operation:
        """An operation, with its fault if it failed."""
        return parse_operation(await self.session.call("GET", f"{self._location_path}/operations/{quote(name)}"))

    async def cancel_operation(self, name: str) -> None:
        """Request cancellation of an operation, which may keep running for a while."""
        await self.session.call("POST", f"{self._location_path}/operations/{quote(name)}:cancel", {})

    async def ensure_workload_policy(self, name: str, topology: str) -> None:
        """Create the workload policy of slices of a topology, unless the region of the cluster has one of this name."""
        region = quote(region_of(self.location))
        path = f"/compute/v1/projects/{quote(self.project)}/regions/{region}/resourcePolicies"
        session = Session(COMPUTE, self.session.credentials) if self._is_google else self.session
        try:
            await session.call("GET", f"{path}/{quote(name)}")
        except CloudNotFound:
            policy = {"type": "HIGH_THROUGHPUT", "acceleratorTopology": topology}
            with suppress(CloudAlreadyExists):
                await session.call("POST", path, {"name": name, "workloadPolicy": policy})
        finally:
            if session is not self.session:
                await session.close()

    async def get_cluster(self) -> Object:
        """The cluster."""
        return await self.session.call("GET", self._cluster_path)


def open_container(
    project: str, location: str, cluster: str, *, endpoint: str = "", token: str = "", impersonate: str = ""
) -> Container:
    """A client for the node pools of one cluster; the caller closes its session. No request is sent yet.

    `endpoint` may have the form of Terraform's custom endpoints, with path and version: `http://127.0.0.1:8080/container/v1/`.
    """
    base, prefix = split_endpoint(endpoint or ENDPOINT)
    return Container(Session(base, find_credentials(token, impersonate)), project, location, cluster, prefix=prefix)
