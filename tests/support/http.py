"""A minimal HTTP client for contract tests: they see status, headers and JSON exactly as the server sent them."""

from __future__ import annotations

import http.client
import ssl
import threading
import time
import urllib.parse
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import orjson
import yaml
from tests.support.watch_stream import Watch

if TYPE_CHECKING:
    from collections.abc import Mapping
    from email.message import Message
    from pathlib import Path

JSON = "application/json"
JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"
YAML = "application/yaml"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
PARTIAL = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
PARTIAL_LIST = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"

Query = dict[str, Any]
_IDLE = 30.0  # seconds


@dataclass
class Answer:
    """A response."""

    status: int
    headers: Message
    body: bytes

    @cached_property
    def json(self) -> Any:
        """The body as JSON."""
        return orjson.loads(self.body)

    @property
    def yaml(self) -> Any:
        """The body as YAML."""
        return yaml.load(self.body, yaml.CSafeLoader)

    @property
    def text(self) -> str:
        """The body as a string."""
        return self.body.decode()

    @property
    def reason(self) -> str:
        """The reason of a Status."""
        return str(self.json.get("reason", ""))

    @property
    def message(self) -> str:
        """The message of a Status."""
        return str(self.json.get("message", ""))

    @property
    def causes(self) -> list[tuple[str, str, str]]:
        """The causes of a Status as (reason, field, message)."""
        causes = (self.json.get("details") or {}).get("causes") or []
        return [(cause.get("reason", ""), cause.get("field", ""), cause.get("message", "")) for cause in causes]

    @property
    def refusal(self) -> dict[str, Any]:
        """A Status in a fixed order: causes are sorted, and a message about several causes is cut after its start."""
        message = self.message if len(self.causes) < 2 else self.message.split("[")[0]
        return {"code": self.status, "reason": self.reason, "message": message, "causes": sorted(self.causes)}

    @property
    def version(self) -> str:
        """The resourceVersion of the object or list."""
        return str(self.json["metadata"]["resourceVersion"])

    @property
    def names(self) -> list[str]:
        """The names of a list's items."""
        return [item["metadata"]["name"] for item in self.json.get("items") or []]

    @property
    def warnings(self) -> list[str]:
        """The values of the Warning headers."""
        return list(self.headers.get_all("Warning") or [])

    def ok(self, status: int | None = None) -> Answer:
        """Return this response after checking that it succeeded (with this status)."""
        expected = self.status == status if status else 200 <= self.status < 300
        assert expected, f"{self.status}: {self.body[:2000].decode(errors='replace')}"
        return self

    def refused(self, status: int, reason: str, message: str | None = None) -> Answer:
        """Return this response after checking that it is a valid Status with this code, reason and message."""
        assert self.status == status, f"{self.status} instead of {status}: {self.body[:2000].decode(errors='replace')}"
        seen = self.json
        assert (seen["kind"], seen["apiVersion"], seen["status"], seen["code"]) == ("Status", "v1", "Failure", status)
        assert self.reason == reason, f"{self.reason!r} instead of {reason!r}: {self.message}"
        if message is not None:
            assert self.message == message
        return self


@dataclass
class Api:
    """One identity on one server; thread-safe, each thread has its own connection."""

    url: str
    authority: Path
    token: str | None
    timeout: float = 60
    _local: threading.local = field(default_factory=threading.local, repr=False)
    _opened: list[http.client.HTTPSConnection] = field(default_factory=list, repr=False)

    def as_token(self, token: str | None) -> Api:
        """A client for the same server with another token, or none; closing the first closes both."""
        return Api(self.url, self.authority, token, self.timeout, _opened=self._opened)

    def close(self) -> None:
        """Close all connections."""
        for connection in self._opened:
            connection.close()

    def get(self, path: str, query: Query | None = None, **options: Any) -> Answer:
        """GET."""
        return self.request("GET", path, query=query, **options)

    def post(self, path: str, body: Any, query: Query | None = None, **options: Any) -> Answer:
        """POST a JSON body."""
        return self.request("POST", path, body, query=query, **options)

    def put(self, path: str, body: Any, query: Query | None = None, **options: Any) -> Answer:
        """PUT a JSON body."""
        return self.request("PUT", path, body, query=query, **options)

    def patch(self, path: str, body: Any, kind: str = MERGE_PATCH, query: Query | None = None, **options: Any) -> Answer:
        """PATCH with one of the four content types."""
        return self.request("PATCH", path, body, query=query, content_type=kind, **options)

    def apply(self, path: str, body: Any, manager: str = "tester", *, force: bool = False, query: Query | None = None) -> Answer:
        """Server-side apply."""
        query = {"fieldManager": manager, **({"force": "true"} if force else {}), **(query or {})}
        return self.request("PATCH", path, body, query=query, content_type=APPLY_PATCH)

    def delete(self, path: str, body: Any = None, query: Query | None = None, **options: Any) -> Answer:
        """DELETE with optional DeleteOptions."""
        return self.request("DELETE", path, body, query=query, **options)

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        query: Query | None = None,
        content_type: str | None = JSON,
        accept: str | None = JSON,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """Send a request and read the whole response. Bytes and strings are sent unchanged, anything else as JSON."""
        target, payload = _target(path, query), _payload(body)
        sent = self._headers(accept, content_type if payload is not None else None, headers)
        connection = self._connection()
        try:
            connection.request(method, target, payload, sent)
            response = connection.getresponse()
            return Answer(response.status, response.headers, response.read())
        except (http.client.HTTPException, OSError):
            self._local.connection = None
            connection.close()
            raise

    def watch(self, path: str, query: Query | None = None, *, accept: str = JSON, seconds: float = 90) -> Watch:
        """Open a watch on its own connection; `seconds` is the timeout of one read."""
        connection = self._connect(seconds)
        connection.request("GET", _target(path, {"watch": "true", **(query or {})}), None, self._headers(accept, None, None))
        return Watch(connection, connection.getresponse())

    def _headers(self, accept: str | None, content_type: str | None, extra: Mapping[str, str] | None) -> dict[str, str]:
        headers = {"User-Agent": "contract/1"}
        if self.token is not None:
            headers["Authorization"] = f"Bearer {self.token}"
        if accept:
            headers["Accept"] = accept
        if content_type:
            headers["Content-Type"] = content_type
        return {**headers, **(extra or {})}

    def _connection(self) -> http.client.HTTPSConnection:
        """This thread's connection; opened again if idle for long, because servers close idle connections."""
        connection: http.client.HTTPSConnection | None = getattr(self._local, "connection", None)
        now = time.monotonic()
        if connection is None or now - self._local.used > _IDLE:
            if connection is not None:
                connection.close()
            connection = self._local.connection = self._connect(self.timeout)
            self._opened.append(connection)
        self._local.used = now
        return connection

    def _connect(self, timeout: float) -> http.client.HTTPSConnection:
        parts = urllib.parse.urlsplit(self.url)
        return http.client.HTTPSConnection(parts.hostname or "", parts.port, timeout=timeout, context=self._context())

    def _context(self) -> ssl.SSLContext:
        context: ssl.SSLContext | None = getattr(self._local, "context", None)
        if context is None:
            context = self._local.context = ssl.create_default_context(cafile=str(self.authority))
        return context


def _target(path: str, query: Query | None) -> str:
    return f"{path}?{urllib.parse.urlencode(query, doseq=True)}" if query else path


def _payload(body: Any) -> bytes | None:
    if body is None or isinstance(body, bytes):
        return body
    return body.encode() if isinstance(body, str) else orjson.dumps(body)
