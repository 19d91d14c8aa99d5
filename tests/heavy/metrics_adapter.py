"""Managed Prometheus, Cloud Monitoring and Google's custom metrics adapter in one small server, for a real HPA controller.

The adapter is not available as a module. This server follows the source of v0.16.9: names, kinds, the pod label of Prometheus
targets, sums over the series of a pod, and error messages. It also serves `metrics.k8s.io`, for CPU.
"""

from __future__ import annotations

import re
import ssl
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, unquote, urlsplit

import orjson

from sliceworks.base import clock

if TYPE_CHECKING:
    from tests.real.certificates import Certificates
    from tests.support.http import Api

Object = dict[str, Any]
CUSTOM, USED = "custom.metrics.k8s.io/v1beta2", "metrics.k8s.io/v1beta1"
_SAMPLE = re.compile(r"^([A-Za-z_:][\w:]*)(?:\{(.*)\})? (\S+)")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_OF_PODS = re.compile(rf"^/apis/{re.escape(CUSTOM)}/namespaces/([^/]+)/pods/\*/(.+)$")
_USED_BY = re.compile(rf"^/apis/{re.escape(USED)}/namespaces/([^/]+)/pods$")


@dataclass(frozen=True)
class Series:
    """A Cloud Monitoring series: the pod is a label of the metric, the namespace a label of the target."""

    kind: str
    namespace: str
    labels: dict[str, str]
    value: float


@dataclass
class Monitoring:
    """The last collected values by metric and pod, and the CPU usage of pods in cores."""

    series: dict[tuple[str, str, str], list[Series]] = field(default_factory=dict)
    cpu: dict[tuple[str, str], float] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    def collect(self, namespace: str, pod: str, text: str) -> None:
        """Collect a server's /metrics, named as managed Prometheus names them: by their declared type."""
        types = dict(re.findall(r"^# TYPE (\S+) (\S+)$", text, re.MULTILINE))
        result: dict[tuple[str, str, str], list[Series]] = {}
        for line in text.splitlines():
            if sample := _SAMPLE.match(line):
                name, labels, value = sample.groups()
                kind = types.get(name, "unknown")
                own = {**dict(_LABEL.findall(labels or "")), "pod": pod}
                typed = f"prometheus.googleapis.com/{name}/{kind}"
                result.setdefault((typed, namespace, pod), []).append(Series(kind, namespace, own, float(value)))
        self.series |= result

    def value(self, metric: str, namespace: str, pod: str) -> float | None:
        """The sum over a pod's series."""
        result = self.series.get((metric, namespace, pod))
        return sum(item.value for item in result) if result else None

    def knows(self, metric: str) -> bool:
        """Whether the metric was ever written."""
        return any(name == metric for name, _, _ in self.series)


class Adapter:
    """Serves the collected values until it is stopped."""

    def __init__(self, api: Api, files: Certificates, monitoring: Monitoring) -> None:
        handler = type("Handler", (_Handler,), {"api": api, "monitoring": monitoring})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(files.serving, files.serving_key)
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.port = int(self._server.server_address[1])
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def register(self, api: Api) -> None:
        """Register the APIs with the API server, through an ExternalName Service."""
        ports = [{"port": self.port}]
        spec = {"type": "ExternalName", "externalName": "localhost", "ports": ports}
        api.post("/api/v1/namespaces/kube-system/services", {"metadata": {"name": "metrics"}, "spec": spec}).ok(201)
        service = {"name": "metrics", "namespace": "kube-system", "port": self.port}
        for item in (CUSTOM, USED):
            group, _, version = item.partition("/")
            what = {"group": group, "version": version, "groupPriorityMinimum": 100, "versionPriority": 200}
            body = {"metadata": {"name": f"{version}.{group}"}, "spec": {**what, "service": service, "insecureSkipTLSVerify": True}}
            api.post("/apis/apiregistration.k8s.io/v1/apiservices", body).ok(201)

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(10)


class _Handler(BaseHTTPRequestHandler):
    api: Api
    monitoring: Monitoring
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        path, query = unquote(parts.path), {name: item[0] for name, item in parse_qs(parts.query).items()}
        if of_pods := _OF_PODS.match(path):
            self.monitoring.asked.append(of_pods[2])
            self._answer(*self._custom(of_pods[1], of_pods[2], query.get("labelSelector", "")))
        elif used_by := _USED_BY.match(path):
            self._answer(200, self._used(used_by[1], query.get("labelSelector", "")))
        elif path in (f"/apis/{CUSTOM}", f"/apis/{USED}"):
            version = path.removeprefix("/apis/")
            self._answer(
                200, {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": version, "resources": _LISTED[version]}
            )
        else:
            self._answer(404, _not_found(f"no {path} here"))

    def _pods(self, namespace: str, selector: str) -> list[str]:
        result = self.api.get(f"/api/v1/namespaces/{namespace}/pods", {"labelSelector": selector}).ok().json["items"]
        return [item["metadata"]["name"] for item in result]

    def _custom(self, namespace: str, escaped: str, selector: str) -> tuple[int, Object]:
        metric = escaped.replace("|", "/") if "|" in escaped else f"custom.googleapis.com/{escaped}"
        if not self.monitoring.knows(metric):
            return 404, _not_found(f'the server could not find the descriptor for metric "{metric}"')
        values = {name: self.monitoring.value(metric, namespace, name) for name in self._pods(namespace, selector)}
        items = [
            {
                "describedObject": {"kind": "Pod", "namespace": namespace, "name": name, "apiVersion": "/v1"},
                "metric": {"name": escaped, "selector": None},
                "timestamp": clock.timestamp(),
                "value": f"{int(value * 1000)}m",
            }
            for name, value in values.items()
            if value is not None
        ]
        return 200, {"kind": "MetricValueList", "apiVersion": CUSTOM, "metadata": {}, "items": items}

    def _used(self, namespace: str, selector: str) -> Object:
        used = {name: self.monitoring.cpu.get((namespace, name)) for name in self._pods(namespace, selector)}
        items = [
            {
                "metadata": {"name": name, "namespace": namespace},
                "timestamp": clock.timestamp(),
                "window": "15s",
                "containers": [{"name": "gateway", "usage": {"cpu": f"{int(cores * 1000)}m", "memory": "100Mi"}}],
            }
            for name, cores in used.items()
            if cores is not None
        ]
        return {"kind": "PodMetricsList", "apiVersion": USED, "metadata": {}, "items": items}

    def _answer(self, status: int, body: Object) -> None:
        content = orjson.dumps(body)
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: Any) -> None:
        """Log nothing: the test reports failures."""


def _not_found(message: str) -> Object:
    return {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "message": message, "code": 404}


_LISTED: dict[str, list[Object]] = {
    CUSTOM: [{"name": "pods/one", "singularName": "", "namespaced": True, "kind": "MetricValueList", "verbs": ["get"]}],
    USED: [{"name": "pods", "singularName": "", "namespaced": True, "kind": "PodMetrics", "verbs": ["get", "list"]}],
}
