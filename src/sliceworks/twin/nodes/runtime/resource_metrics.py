"""The resource metrics API (metrics.k8s.io) for pods that run as processes, with their measured usage."""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

from sliceworks.base import clock
from sliceworks.base.errors import MethodNotAllowed, NotFound
from sliceworks.kube.selectors import parse_labels
from sliceworks.schemas.builtins import OBJECT_META
from sliceworks.twin.apiserver.openapi.v3 import aggregated_document
from sliceworks.twin.apiserver.registry.resources import AggregatedApi, Resource, Strategy, Version

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from sliceworks.schemas import Schema
    from sliceworks.twin.apiserver.request_info import RequestInfo
    from sliceworks.twin.nodes.runtime.process_usage import Usage

Obj = dict[str, Any]
GROUP, _VERSION = "metrics.k8s.io", "v1beta1"
INTERVAL = 15.0
"""Seconds between samples, as of a metrics server."""
_PACKAGE = "io.k8s.metrics.pkg.apis.metrics.v1beta1"


class Sample(NamedTuple):
    """The usage of all containers at one time: on the system's clock, on the twin's, and as a timestamp."""

    real_time: float
    time: float
    timestamp: str
    usages: Mapping[str, Usage]


class ResourceMetrics:
    """Samples the usage of containers, and answers with that between the last two samples.

    `pods` returns the pods that run as processes, and `read` the usage by container (`UID/NAME`). Other pods are not in the
    answers: their usage is unknown.
    """

    def __init__(self, pods: Callable[[], Iterable[Obj]], read: Callable[[], Mapping[str, Usage]]) -> None:
        self._pods = pods
        self._read = read
        self._before: Sample | None = None
        self._now: Sample | None = None

    async def run(self) -> None:
        """Take samples until cancelled."""
        while True:
            if any(True for _ in self._pods()):
                await self.sample()
            await clock.sleep(clock.scale_real_seconds(INTERVAL))

    async def sample(self) -> None:
        """Measure the usage of all containers."""
        usages = await asyncio.to_thread(self._read)
        self._before, self._now = self._now, Sample(clock.perf_counter(), clock.loop_time(), clock.timestamp(), usages)

    def answer(self, target: RequestInfo, params: Mapping[str, list[str]]) -> Obj:
        """The PodMetrics or NodeMetrics of a request."""
        if target.subresource or target.version != _VERSION or target.resource not in ("pods", "nodes"):
            raise NotFound("the server could not find the requested resource", details={})
        if target.verb not in ("get", "list"):
            raise MethodNotAllowed("the server does not allow this method on the requested resource", details={})
        kind = "PodMetrics" if target.resource == "pods" else "NodeMetrics"
        items = self._pod_metrics(target.namespace) if kind == "PodMetrics" else self._node_metrics()
        if target.name:
            return {"kind": kind, "apiVersion": f"{GROUP}/{_VERSION}", **_find(items, kind, target)}
        selector = parse_labels(params.get("labelSelector", [""])[0])
        selected = [item for item in items if selector.matches(item["metadata"].get("labels") or {})]
        return {"kind": f"{kind}List", "apiVersion": f"{GROUP}/{_VERSION}", "metadata": {}, "items": selected}

    def _pod_metrics(self, namespace: str) -> list[Obj]:
        pods = (pod for pod in self._pods() if namespace in ("", pod["metadata"]["namespace"]))
        measured = ((pod, self._containers(pod)) for pod in pods)
        return [self._item(pod["metadata"], containers=containers) for pod, containers in measured if containers]

    def _containers(self, pod: Obj) -> list[Obj]:
        """The usage of the containers of a pod; empty until all that run were measured twice."""
        usages: list[Obj] = []
        for status in (pod.get("status") or {}).get("containerStatuses") or ():
            if "running" not in status["state"]:
                continue
            usage = self._rate(f"{pod['metadata']['uid']}/{status['name']}")
            if usage is None:
                return []
            cpu, memory = usage
            usages.append({"name": status["name"], "usage": _format(cpu, memory)})
        return usages

    def _rate(self, container: str) -> tuple[float, int] | None:
        """The CPUs that a container used between the last two samples, and its memory; None if it was not in both."""
        if self._now is None or self._before is None or self._now.real_time <= self._before.real_time:
            return None
        now, before = self._now.usages.get(container), self._before.usages.get(container)
        if now is None or before is None or now.cpu < before.cpu:  # it was restarted
            return None
        return (now.cpu - before.cpu) / (self._now.real_time - self._before.real_time), now.memory

    def _node_metrics(self) -> list[Obj]:
        """The usage of nodes by the pods on them that run as processes."""
        cpus, memory = Counter[str](), Counter[str]()
        for pod in self._pods():
            node = pod["spec"].get("nodeName", "")
            for status in (pod.get("status") or {}).get("containerStatuses") or ():
                if usage := self._rate(f"{pod['metadata']['uid']}/{status['name']}"):
                    cpus[node] += math.ceil(usage[0] * 1e9)
                    memory[node] += usage[1]
        return [self._item({"name": node}, usage=_format(cpus[node] / 1e9, memory[node])) for node in sorted(cpus)]

    def _item(self, metadata: Mapping[str, Any], **fields: Any) -> Obj:
        assert self._now is not None
        assert self._before is not None
        kept = {name: metadata[name] for name in ("name", "namespace", "labels") if metadata.get(name)}
        window = f"{self._now.time - self._before.time:.3f}s"
        created = {"creationTimestamp": self._now.timestamp}
        return {"metadata": {**kept, **created}, "timestamp": self._now.timestamp, "window": window, **fields}

    def api(self) -> AggregatedApi:
        """The API group for the API server."""
        return AggregatedApi(
            self.answer, (_resource("PodMetrics", "pods", True), _resource("NodeMetrics", "nodes", False)), _document
        )


def reader_role() -> Obj:
    """The role to read metrics, which the roles view, edit and admin contain."""
    labels = {f"rbac.authorization.k8s.io/aggregate-to-{role}": "true" for role in ("admin", "edit", "view")}
    return {
        "kind": "ClusterRole",
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "metadata": {"name": "system:aggregated-metrics-reader", "labels": labels},
        "rules": [{"verbs": ["get", "list", "watch"], "apiGroups": [GROUP], "resources": ["pods", "nodes"]}],
    }


def _find(items: list[Obj], kind: str, target: RequestInfo) -> Obj:
    for item in items:
        if item["metadata"]["name"] == target.name:
            return item
    name = f"{target.namespace}/{target.name}" if target.namespace else target.name
    details = {"name": name, "group": GROUP, "kind": kind.lower()}
    raise NotFound(f'{kind.lower()}.{GROUP} "{name}" not found', details=details)


def _format(cpus: float, memory: int) -> Obj:
    return {"cpu": f"{math.ceil(cpus * 1e9)}n", "memory": f"{memory // 1024}Ki"}


def _resource(kind: str, plural: str, namespaced: bool) -> Resource:
    versions = {_VERSION: Version(_VERSION, _no_schema, verbs=("get", "list"))}
    return Resource(GROUP, kind, plural, plural.removesuffix("s"), namespaced, versions, _VERSION, "", Strategy())


def _no_schema() -> Schema:
    raise KeyError(f"{GROUP} is read-only")


def _document(version: str) -> bytes:
    base = f"/apis/{GROUP}/{version}"
    paths: Obj = {}
    for kind, prefix in (("PodMetrics", f"{base}/namespaces/{{namespace}}/pods"), ("NodeMetrics", f"{base}/nodes")):
        names = ["namespace"] if kind == "PodMetrics" else []
        paths[prefix] = _path(kind, version, "list", *names)
        paths[f"{prefix}/{{name}}"] = _path(kind, version, "get", *names, "name")
    return aggregated_document(GROUP, version, paths, {f"{_PACKAGE}.{kind}": _schema(kind, version) for kind in _FIELDS})


_QUANTITIES = {"type": "object", "additionalProperties": {"type": "string"}}
_FIELDS: dict[str, Obj] = {
    "PodMetrics": {
        "containers": {
            "type": "array",
            "items": {"type": "object", "properties": {"name": {"type": "string"}, "usage": _QUANTITIES}},
        }
    },
    "NodeMetrics": {"usage": _QUANTITIES},
}


def _schema(kind: str, version: str) -> Obj:
    metadata = {"allOf": [{"$ref": f"#/components/schemas/{OBJECT_META}"}], "default": {}}
    strings = {name: {"type": "string"} for name in ("apiVersion", "kind", "window")}
    return {
        "type": "object",
        "properties": {**strings, "metadata": metadata, "timestamp": {"type": "string", "format": "date-time"}, **_FIELDS[kind]},
        "x-kubernetes-group-version-kind": [{"group": GROUP, "kind": kind, "version": version}],
    }


def _path(kind: str, version: str, verb: str, *names: str) -> Obj:
    parameters = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string", "uniqueItems": True}} for name in names
    ]
    schema = {"$ref": f"#/components/schemas/{_PACKAGE}.{kind}"} if verb == "get" else {"type": "object"}
    operation = {
        "operationId": f"{verb}MetricsV1beta1{kind}",
        "responses": {"200": {"description": "OK", "content": {"application/json": {"schema": schema}}}},
        "x-kubernetes-action": verb,
        "x-kubernetes-group-version-kind": {"group": GROUP, "version": version, "kind": kind},
    }
    return {"get": operation, "parameters": parameters}
