"""A small aggregated API server in the test's process: one kind with all verbs, discovery and OpenAPI documents."""

from __future__ import annotations

import base64
import ssl
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import orjson
from tests.support.certificates import self_signed
from tests.support.polling import eventually
from tests.support.webhooks import Reply

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.support.http import Api

Object = dict[str, Any]
SERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"
VERSION = "v1alpha1"
VERBS = ["create", "delete", "get", "list", "update", "watch"]
AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
_AUTHENTICATION = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication"


@dataclass(frozen=True)
class Seen:
    """A request as the backend received it. Header names are lower case; `client` is the common name of its certificate."""

    method: str
    target: str
    headers: dict[str, list[str]]
    body: bytes
    client: str


@dataclass
class Backend:
    """The server of the group `group`, whose kind is Sample. `replies` replaces the response of a path."""

    group: str
    port: int
    certificate: bytes
    namespace: str
    replies: dict[str, Reply] = field(default_factory=dict)
    seen: list[Seen] = field(default_factory=list)
    objects: dict[str, Object] = field(default_factory=dict)
    stopped: threading.Event = field(default_factory=threading.Event)
    events: list[bytes] = field(default_factory=list)
    more: threading.Event = field(default_factory=threading.Event)

    @property
    def name(self) -> str:
        """The name of the APIService."""
        return f"{VERSION}.{self.group}"

    @property
    def root(self) -> str:
        """The path of the group version."""
        return f"/apis/{self.group}/{VERSION}"

    @property
    def samples(self) -> str:
        """The path of the Samples in the test's namespace."""
        return f"{self.root}/namespaces/{self.namespace}/samples"

    def requests(self, path: str) -> list[Seen]:
        """The requests for a path."""
        return [seen for seen in list(self.seen) if seen.target.partition("?")[0] == path]

    def service(self, **spec: Any) -> Object:
        """The APIService of the group version."""
        service = {"namespace": self.namespace, "name": "backend", "port": self.port}
        bundle = {"caBundle": base64.b64encode(self.certificate).decode()}
        fields = {"group": self.group, "version": VERSION, "groupPriorityMinimum": 900, "versionPriority": 15, "service": service}
        return {"metadata": {"name": self.name}, "spec": {**fields, **bundle, **spec}}

    def answer(self, seen: Seen) -> Reply:
        """The response to a request."""
        path = seen.target.partition("?")[0]
        if path in self.replies:
            return self.replies[path]
        documents = self._documents(seen)
        if path in documents:
            return documents[path]
        return self._answer_samples(seen.method, path, seen.body)

    def _documents(self, seen: Seen) -> dict[str, Reply]:
        verbs, kind = {"verbs": VERBS}, {"group": self.group, "version": VERSION, "kind": "Sample"}
        listed = {"name": "samples", "singularName": "sample", "namespaced": True, "kind": "Sample", "shortNames": ["smp"], **verbs}
        resource = {"resource": "samples", "singularResource": "sample", "scope": "Namespaced", "responseKind": kind, **verbs}
        versions = [{"version": VERSION, "resources": [{**resource, "shortNames": ["smp"]}]}]
        items = [{"metadata": {"name": self.group}, "versions": versions}]
        groups = {"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "items": items}
        document = f"/openapi/v3/apis/{self.group}/{VERSION}"
        component = {"type": "object", "properties": {"size": {"type": "integer"}}, "x-kubernetes-group-version-kind": [kind]}
        openapi = {"openapi": "3.0.0", "info": {"title": "samples", "version": "1"}, "paths": {}}
        legacy = {"swagger": "2.0", "info": openapi["info"], "definitions": {f"com.example.{self.namespace}.Sample": component}}
        legacy["paths"] = {
            f"{self.root}/samples": {"get": {"schema": {"$ref": f"#/definitions/com.example.{self.namespace}.Sample"}}}
        }
        return {
            self.root: _json({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": self.root[6:], "resources": [listed]}),
            "/apis": Reply(orjson.dumps(groups), media=AGGREGATED),
            "/openapi/v3": _json({"paths": {document[12:]: {"serverRelativeURL": f"{document}?hash=1"}}}),
            document: _json({**openapi, "components": {"schemas": {f"com.example.{self.namespace}.Sample": component}}}),
            "/openapi/v2": _json(legacy),
        }

    def _answer_samples(self, method: str, path: str, body: bytes) -> Reply:
        name = path.removeprefix(self.samples).strip("/")
        if not path.startswith(self.samples):
            return _json({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 404, "message": "nothing here"}, 404)
        if method == "POST":
            obj = orjson.loads(body)
            self.objects[obj["metadata"]["name"]] = obj
            return _json(obj, 201)
        if not name:
            return _json({"kind": "SampleList", "apiVersion": self.root[6:], "metadata": {}, "items": list(self.objects.values())})
        if name not in self.objects:
            return _json({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 404, "message": f"no {name}"}, 404)
        if method == "PUT":
            self.objects[name] = orjson.loads(body)
        return _json(self.objects.pop(name) if method == "DELETE" else self.objects[name])


def _json(value: Object, status: int = 200) -> Reply:
    return Reply(orjson.dumps(value), status)


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """Print nothing: API servers close connections at any time."""


@contextmanager
def serve(api: Api, folder: Path, ns: str, *, host: str = "") -> Iterator[Backend]:
    """Run a backend on loopback, with a Service `backend` that leads to it. Its certificate is for `host`."""
    pair = self_signed(host or f"backend.{ns}.svc")
    (folder / "tls.crt").write_bytes(pair.certificate)
    (folder / "tls.key").write_bytes(pair.key)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def __getattr__(self, name: str) -> Callable[[], None]:
            if name.startswith("do_"):  # all methods
                return self._handle
            raise AttributeError(name)

        def _handle(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            headers: dict[str, list[str]] = {}
            for key, value in self.headers.items():
                headers.setdefault(key.lower(), []).append(value)
            seen = Seen(self.command, self.path, headers, body, _common_name(self.connection))
            backend.seen.append(seen)
            if headers.get("upgrade") == ["echo"]:
                self._echo()
            elif "watch=true" in self.path:
                self._stream()
            else:
                self._send(backend.answer(seen))

        def _send(self, reply: Reply) -> None:
            if reply.hang:
                backend.stopped.wait(60)
            if reply.hang or reply.cut:
                self.close_connection = True
                return
            if reply.status == 0:  # not HTTP
                self.wfile.write(reply.body)
                self.close_connection = True
                return
            self.send_response(reply.status)
            self.send_header("Content-Type", reply.media)
            self.send_header("Content-Length", str(len(reply.body)))
            if 300 <= reply.status < 400:
                self.send_header("Location", "https://example.com/")
            self.send_header("X-Backend", "first")
            self.send_header("X-Backend", "second")
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(reply.body)

        def _echo(self) -> None:
            self.close_connection = True
            if "refuse" in self.path:
                self._send(Reply(b"no", 403, "text/plain"))
                return
            head = ("HTTP/1.1 101 Switching Protocols", "Upgrade: echo", "Connection: Upgrade", "X-Backend: a", "", "hello\n")
            self.wfile.write("\r\n".join(head).encode())
            self.wfile.flush()
            while line := self.rfile.readline():
                self.wfile.write(line.upper())
                self.wfile.flush()

        def _stream(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            while not backend.stopped.is_set():
                backend.more.wait(60)
                backend.more.clear()
                for event in (events := backend.events) and [events.pop(0) for _ in range(len(events))]:
                    self.wfile.write(b"%x\r\n%b\r\n" % (len(event), event))
                    self.wfile.flush()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Print nothing."""

    http = _Server(("127.0.0.1", 0), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "tls.crt", folder / "tls.key")
    context.load_verify_locations(cadata=api.get(_AUTHENTICATION).ok().json["data"]["requestheader-client-ca-file"])
    context.verify_mode = ssl.CERT_OPTIONAL
    http.socket = context.wrap_socket(http.socket, server_side=True, do_handshake_on_connect=False)
    backend = Backend(f"{ns}.example.com", http.server_address[1], pair.certificate, ns)
    service = {"metadata": {"name": "backend"}, "spec": {"type": "ExternalName", "externalName": "127.0.0.1"}}
    api.post(f"/api/v1/namespaces/{ns}/services", service).ok(201)
    thread = threading.Thread(target=http.serve_forever, daemon=True)
    thread.start()
    try:
        yield backend
    finally:
        api.delete(f"{SERVICES}/{backend.name}")
        api.delete(f"/api/v1/namespaces/{ns}/services/backend")
        backend.stopped.set()
        backend.more.set()
        http.shutdown()
        http.server_close()
        thread.join()


def _common_name(connection: Any) -> str:
    subject = (connection.getpeercert() or {}).get("subject", ())
    return next((value for part in subject for key, value in part if key == "commonName"), "")


def available(api: Api, name: str) -> Object:
    """The Available condition of an APIService; empty while it has none."""
    conditions = (api.get(f"{SERVICES}/{name}").ok().json.get("status") or {}).get("conditions") or [{}]
    condition: Object = conditions[0]
    return condition


def register(api: Api, backend: Backend, **spec: Any) -> None:
    """Create the APIService of a backend, and wait until it is available and listed with its resources."""
    api.post(SERVICES, backend.service(**spec)).ok(201)
    eventually(lambda: available(api, backend.name).get("status") == "True", 30, what=f"{backend.name} is available")
    eventually(lambda: api.get(backend.root).status == 200, 30, what=f"{backend.name} is proxied")


def listed(api: Api, group: str) -> Object:
    """A group in aggregated discovery; empty if it is not listed."""
    items = api.get("/apis", accept=AGGREGATED).ok().json["items"]
    return next((item for item in items if item["metadata"]["name"] == group), {})
