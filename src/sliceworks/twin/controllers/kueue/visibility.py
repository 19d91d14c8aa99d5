"""Kueue's visibility API: pending workloads of a queue in order, with discovery and OpenAPI."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from sliceworks.base.errors import BadRequest, MethodNotAllowed, NotFound
from sliceworks.schemas.builtins import OBJECT_META
from sliceworks.twin.apiserver.openapi.v3 import aggregated_document
from sliceworks.twin.apiserver.registry.resources import AggregatedApi, Resource, Strategy, Subresource, Version
from sliceworks.twin.controllers.kueue.cache import Cache
from sliceworks.twin.controllers.kueue.kueue_api import WORKLOADS, Obj

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sliceworks.schemas import Schema
    from sliceworks.twin.apiserver.request_info import RequestInfo
    from sliceworks.twin.controllers.kueue.core.model import WorkloadInfo
    from sliceworks.twin.controllers.kueue.core.queue_manager import QueueManager
    from sliceworks.twin.controllers.runtime.controller_context import ControllerContext


GROUP = "visibility.kueue.x-k8s.io"
VERSIONS = ("v1beta2", "v1beta1")
KIND, PENDING_WORKLOADS = "PendingWorkloadsSummary", "pendingworkloads"
_DEFAULT_LIMIT = 1000
_OWNER_FIELDS = ("apiVersion", "kind", "name", "uid")


class VisibilityServer:
    """Serves `clusterqueues/NAME/pendingworkloads` and `namespaces/NAMESPACE/localqueues/NAME/pendingworkloads`."""

    def __init__(self, context: ControllerContext) -> None:
        self._context, self._get = context, context.get

    @property
    def _queue_manager(self) -> QueueManager:
        """That of the running Kueue: a restarted Kueue has a new one."""
        return self._context.shared_index(Cache).queue_manager

    def answer(self, target: RequestInfo, params: Mapping[str, list[str]]) -> Obj:
        """The PendingWorkloadsSummary of the requested queue."""
        if target.subresource != PENDING_WORKLOADS or target.version not in VERSIONS:
            raise NotFound("the server could not find the requested resource", details={})
        if target.verb != "get":
            raise MethodNotAllowed("the server does not allow this method on the requested resource", details={})
        offset, limit = _int_param(params, "offset", 0), _int_param(params, "limit", _DEFAULT_LIMIT)
        rows = self._pending_in_local_queue(target) if target.namespace else self._pending_in_cluster_queue(target)
        items = [self._pending_workload(*row) for row in rows[offset : offset + limit]]
        return {
            "kind": KIND,
            "apiVersion": f"{GROUP}/{target.version}",
            "metadata": {},
            "items": [workload for workload in items if workload is not None],
        }

    def _pending_in_cluster_queue(self, target: RequestInfo) -> list[tuple[WorkloadInfo, int, int]]:
        pending = self._queue_manager.pending.get(target.name)
        if target.resource != "clusterqueues" or pending is None:
            raise _not_found("clusterqueue", target.name)
        counts: Counter[str] = Counter()
        rows = []
        for position, workload in enumerate(pending.ordered()):
            rows.append((workload, position, counts[workload.queue[1]]))
            counts[workload.queue[1]] += 1
        return rows

    def _pending_in_local_queue(self, target: RequestInfo) -> list[tuple[WorkloadInfo, int, int]]:
        key = (target.namespace, target.name)
        name = self._queue_manager.local_queues.get(key)
        if target.resource != "localqueues" or name is None:
            raise _not_found("localqueue", target.name)
        pending = self._queue_manager.pending.get(name)
        ordered = enumerate(pending.ordered()) if pending is not None else ()
        members = [(workload, position) for position, workload in ordered if workload.queue == key]
        return [(workload, position, index) for index, (workload, position) in enumerate(members)]

    def _pending_workload(self, workload: WorkloadInfo, position: int, local_position: int) -> Obj | None:
        obj = self._get(WORKLOADS, *workload.key)
        if obj is None:
            return None
        metadata: Obj = {key: obj["metadata"][key] for key in ("name", "namespace", "creationTimestamp")}
        owners: list[Any] = [{key: ref[key] for key in _OWNER_FIELDS} for ref in obj["metadata"].get("ownerReferences") or ()]
        return {
            "metadata": metadata | ({"ownerReferences": owners} if owners else {}),
            "priority": workload.priority,
            "localQueueName": workload.queue[1],
            "positionInClusterQueue": position,
            "positionInLocalQueue": local_position,
        }


def _int_param(params: Mapping[str, list[str]], name: str, default: int) -> int:
    text = params.get(name, [""])[0]
    if not text:
        return default
    if not text.isdigit():
        raise BadRequest(f'strconv.ParseInt: parsing "{text}": invalid syntax')
    return int(text)


def _not_found(kind: str, name: str) -> NotFound:
    details = {"name": name, "group": GROUP, "kind": kind}
    return NotFound(f'{kind}.{GROUP} "{name}" not found', details=details)


def visibility_api(context: ControllerContext) -> AggregatedApi:
    """The visibility API for the API server to aggregate."""
    return AggregatedApi(
        VisibilityServer(context).answer, (_resource("clusterqueue", False), _resource("localqueue", True)), _document
    )


def _resource(singular: str, namespaced: bool) -> Resource:
    """A resource of which only the subresource `pendingworkloads` is served."""
    versions = {
        name: Version(name, _no_schema, {PENDING_WORKLOADS: Subresource(PENDING_WORKLOADS, KIND, ("get",), GROUP, name)})
        for name in VERSIONS
    }
    return Resource(GROUP, KIND, f"{singular}s", singular, namespaced, versions, VERSIONS[0], "", Strategy())


def _no_schema() -> Schema:
    raise KeyError(f"{GROUP} is read-only")


def _document(version: str) -> bytes:
    package, base = f"io.k8s.sigs.kueue.apis.visibility.{version}", f"/apis/{GROUP}/{version}"
    summary = {"$ref": f"#/components/schemas/{package}.{KIND}"}
    operation = {
        "tags": [f"visibilityKueueXK8sIo_{version}"],
        "responses": {"200": {"description": "OK", "content": {"application/json": {"schema": summary}}}},
        "x-kubernetes-action": "get",
        "x-kubernetes-group-version-kind": {"group": GROUP, "version": version, "kind": KIND},
    }
    name = f"readVisibilityKueueXK8sIo{version.capitalize()}"
    paths: dict[str, Obj] = {
        f"{base}/clusterqueues/{{name}}/{PENDING_WORKLOADS}": _path(
            {**operation, "operationId": f"{name}{KIND}Pendingworkloads"}, "name"
        ),
        f"{base}/namespaces/{{namespace}}/localqueues/{{name}}/{PENDING_WORKLOADS}": _path(
            {**operation, "operationId": f"{name}Namespaced{KIND}Pendingworkloads"}, "name", "namespace"
        ),
    }
    return aggregated_document(GROUP, version, paths, _components(package, version))


def _path(operation: Obj, *names: str) -> Obj:
    path = [{"name": name, "in": "path", "required": True, "schema": {"type": "string", "uniqueItems": True}} for name in names]
    query = [{"name": name, "in": "query", "schema": {"type": "integer", "uniqueItems": True}} for name in ("limit", "offset")]
    return {"get": operation, "parameters": [*path, *query]}


def _components(package: str, version: str) -> dict[str, Obj]:
    metadata = {"default": {}, "allOf": [{"$ref": f"#/components/schemas/{OBJECT_META}"}]}
    integer = {"type": "integer", "format": "int32", "default": 0}
    integers = dict.fromkeys(("priority", "positionInClusterQueue", "positionInLocalQueue"), integer)
    pending_workload = {"default": {}, "allOf": [{"$ref": f"#/components/schemas/{package}.PendingWorkload"}]}
    string = {"type": "string"}
    return {
        f"{package}.PendingWorkload": {
            "type": "object",
            "required": ["priority", "localQueueName", "positionInClusterQueue", "positionInLocalQueue"],
            "properties": {"metadata": metadata, "localQueueName": {**string, "default": ""}, **integers},
        },
        f"{package}.{KIND}": {
            "type": "object",
            "required": ["items"],
            "properties": {
                "apiVersion": string,
                "kind": string,
                "metadata": metadata,
                "items": {"type": "array", "items": pending_workload},
            },
            "x-kubernetes-group-version-kind": [{"group": GROUP, "kind": KIND, "version": version}],
        },
    }
