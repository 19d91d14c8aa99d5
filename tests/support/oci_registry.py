"""An OCI registry on loopback that keeps everything in memory: enough to push and pull charts."""

from __future__ import annotations

import hashlib
import itertools
import re
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

if TYPE_CHECKING:
    from collections.abc import Iterator

_MANIFEST = re.compile(r"/v2/(.+)/manifests/([^/]+)")
_BLOB = re.compile(r"/v2/(.+)/blobs/(sha256:[0-9a-f]{64})")
_UPLOAD = re.compile(r"/v2/(.+)/blobs/uploads/(\d*)")


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    blobs: dict[str, bytes]
    manifests: dict[str, tuple[str, bytes]]
    uploads: dict[str, bytes]
    numbers: Iterator[int]

    def do_GET(self) -> None:
        path = urlsplit(self.path).path
        if path == "/v2/":
            self._respond(200)
        elif match := _MANIFEST.fullmatch(path):
            kind, body = self.manifests.get(f"{match[1]}:{match[2]}", ("", b""))
            self._respond(200 if kind else 404, body, {"content-type": kind or "application/json"})
        elif match := _BLOB.fullmatch(path):
            body = self.blobs.get(match[2], b"")
            self._respond(200 if match[2] in self.blobs else 404, body, {"content-type": "application/octet-stream"})
        else:
            self._respond(404)

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_POST(self) -> None:
        match = _UPLOAD.fullmatch(urlsplit(self.path).path)
        assert match
        number = str(next(self.numbers))
        self.uploads[number] = self._body()
        self._respond(202, headers={"location": f"/v2/{match[1]}/blobs/uploads/{number}"})

    def do_PATCH(self) -> None:
        path = urlsplit(self.path).path
        self.uploads[path.rpartition("/")[2]] += self._body()
        self._respond(202, headers={"location": path})

    def do_PUT(self) -> None:
        parts, body = urlsplit(self.path), self._body()
        if match := _MANIFEST.fullmatch(parts.path):
            digest = _digest(body)
            for name in (match[2], digest):
                self.manifests[f"{match[1]}:{name}"] = (self.headers["content-type"], body)
        else:
            body = self.uploads.pop(parts.path.rpartition("/")[2]) + body
            digest = _digest(body)
            assert parse_qs(parts.query)["digest"] == [digest]
            self.blobs[digest] = body
        self._respond(201, headers={"location": parts.path, "docker-content-digest": digest})

    def _body(self) -> bytes:
        return self.rfile.read(int(self.headers.get("content-length") or 0))

    def _respond(self, status: int, body: bytes = b"", headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {"content-length": str(len(body)), "docker-content-digest": _digest(body), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Log nothing."""


def _digest(body: bytes) -> str:
    return f"sha256:{hashlib.sha256(body).hexdigest()}"


@contextmanager
def run_registry() -> Iterator[str]:
    """Run a registry; yields its host and port."""
    state = {"blobs": {}, "manifests": {}, "uploads": {}, "numbers": itertools.count(1)}
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), state))
    thread = threading.Thread(target=server.serve_forever, name="registry")
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
