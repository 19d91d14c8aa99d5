"""An HTTPS webhook server in the test's process, and webhook configurations that apply to one namespace."""

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

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.support.http import Api

Object = dict[str, Any]
GROUP = "/apis/admissionregistration.k8s.io/v1"
CONFIG_MAPS = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}
_READY = "webhooks-ready"


@dataclass
class Reply:
    """A raw HTTP response; `hang` sends nothing until the server stops, `cut` closes the connection, `location` redirects."""

    body: bytes = b""
    status: int = 200
    media: str = "application/json"
    hang: bool = False
    cut: bool = False
    location: str = ""


@dataclass
class WebhookServer:
    """Serves each path by a function of the AdmissionReview's request; `seen` are the requests by path."""

    port: int
    certificate: bytes
    paths: dict[str, Callable[[Object], Object | Reply]] = field(default_factory=dict)
    seen: dict[str, list[Object]] = field(default_factory=dict)
    reviews: list[Object] = field(default_factory=list)
    stopped: threading.Event = field(default_factory=threading.Event)

    def client(self, path: str) -> Object:
        """A clientConfig for a path."""
        return {"url": f"https://127.0.0.1:{self.port}/{path}", "caBundle": base64.b64encode(self.certificate).decode()}

    def answer(self, path: str, body: bytes) -> Reply:
        """The response to a review."""
        review = orjson.loads(body)
        self.reviews.append(review)
        self.seen.setdefault(path, []).append(review.get("request") or {})
        result = self.paths[path](review.get("request") or {})
        if isinstance(result, Reply):
            return result
        response = {"uid": review["request"]["uid"], **result}
        return Reply(orjson.dumps({"kind": "AdmissionReview", "apiVersion": review["apiVersion"], "response": response}))


@contextmanager
def serve(folder: Path, *, name: str = "localhost") -> Iterator[WebhookServer]:
    """Run a webhook server on loopback."""
    pair = self_signed(name)
    (folder / "tls.crt").write_bytes(pair.certificate)
    (folder / "tls.key").write_bytes(pair.key)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            reply = server.answer(self.path.partition("?")[0].strip("/"), body)
            if reply.hang:
                server.stopped.wait(60)
            if reply.hang or reply.cut:
                self.close_connection = True
                return
            self.send_response(reply.status)
            self.send_header("Content-Type", reply.media)
            if reply.location:
                self.send_header("Location", reply.location)
            self.send_header("Content-Length", str(len(reply.body)))
            self.end_headers()
            self.wfile.write(reply.body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Print nothing."""

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    http.daemon_threads = True
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "tls.crt", folder / "tls.key")
    http.socket = context.wrap_socket(http.socket, server_side=True, do_handshake_on_connect=False)
    server = WebhookServer(http.server_address[1], pair.certificate)
    thread = threading.Thread(target=http.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.stopped.set()
        http.shutdown()
        http.server_close()
        thread.join()


def allow(_: Object) -> Object:
    """Allow every write."""
    return {"allowed": True}


def deny(message: str, **status: Any) -> Callable[[Object], Object]:
    """Deny every write."""
    return lambda _: {"allowed": False, "status": {"message": message, **status}}


def patch(*operations: Object) -> Callable[[Object], Object]:
    """Allow every write, with a JSON patch."""
    encoded = base64.b64encode(orjson.dumps(operations)).decode()
    return lambda _: {"allowed": True, "patchType": "JSONPatch", "patch": encoded}


def webhook(name: str, client: Object, ns: str, *rules: Object, **fields: Any) -> Object:
    """A webhook for writes in one namespace."""
    return {
        "name": f"{name}.example.com",
        "clientConfig": client,
        "rules": list(rules) or [CONFIG_MAPS],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": ns}},
        "objectSelector": {"matchExpressions": [{"key": _READY, "operator": "DoesNotExist"}]},
        "timeoutSeconds": 5,
        **fields,
    }


@contextmanager
def installed(api: Api, server: WebhookServer, kind: str, ns: str, *hooks: Object) -> Iterator[Object]:
    """Create a configuration of `kind` (Mutating or Validating), wait until the API server uses it, and delete it afterwards."""
    server.paths["ready"] = deny("ready")
    labels = {"matchLabels": {_READY: ns}}
    ready = webhook("ready", server.client("ready"), ns, objectSelector=labels)
    path = f"{GROUP}/{kind.lower()}webhookconfigurations"
    name = f"{kind.lower()}-{ns}"
    api.post(path, {"metadata": {"name": name}, "webhooks": [*hooks, ready]}).ok(201)
    probe = {"metadata": {"name": "probe", "labels": {_READY: ns}}}

    def is_used() -> bool:
        return "denied" in api.post(f"/api/v1/namespaces/{ns}/configmaps", probe, query={"dryRun": "All"}).message

    try:
        eventually(is_used, 30, what="the webhook configuration is used")
        server.seen.clear()
        server.reviews.clear()
        yield api.get(f"{path}/{name}").ok().json
    finally:
        api.delete(f"{path}/{name}")
