"""Hostile requests: huge, deeply nested, slow, half open. Other clients are not affected."""

from __future__ import annotations

import http.client
import socket
import ssl
import time
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest
from tests.support.http import APPLY_PATCH, MERGE_PATCH, YAML
from tests.support.objects import config_map

if TYPE_CHECKING:
    from tests.support.clusters import Cluster
    from tests.support.http import Api


def open_socket(cluster: Cluster) -> ssl.SSLSocket:
    """Open a TLS connection without HTTP."""
    parts = urlsplit(cluster.url)
    plain = socket.create_connection((parts.hostname or "", parts.port or 443), timeout=90)
    context = ssl.create_default_context(cafile=str(cluster.authority))
    return context.wrap_socket(plain, server_hostname=parts.hostname)


def quick(api: Api) -> None:
    """Check that another client gets a response while the hostile requests never end."""
    started = time.monotonic()
    api.get("/version").ok(200)
    assert time.monotonic() - started < 30


# The server reads the small rest of a body that is too large; it closes the connection for a larger rest on slow clients.
@pytest.mark.parametrize("size", [3_200_000, 50_000_000])
def test_large_bodies_are_rejected(cluster: Cluster, api: Api, core: str, size: int) -> None:
    body = b'{"metadata":{"name":"big"},"data":{"x":"' + b"y" * size + b'"}}'
    try:
        response = api.post(f"{core}/configmaps", body)
    except (BrokenPipeError, ConnectionResetError, http.client.RemoteDisconnected, ssl.SSLError):
        assert size > 3_200_000, "the server hung up while it was being sent a body"
    else:
        response.refused(413, "RequestEntityTooLarge")
        assert response.message.startswith("Request entity too large: limit is 3145728")
    quick(api)


def test_object_above_etcd_limit_is_rejected(api: Api, core: str) -> None:
    answer = api.post(f"{core}/configmaps", config_map(data={"x": "y" * 1_100_000})).refused(422, "Invalid")
    assert answer.causes == [("FieldValueTooLong", "[]", "Too long: may not be more than 1048576 bytes")]


DEEP = 50_000


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        pytest.param(b'{"metadata":' * DEEP, None, id="objects"),
        pytest.param(b'{"metadata":{"name":"x","annotations":' + b"[" * DEEP + b"]" * DEEP + b"}}", None, id="lists"),
        pytest.param(b"[" * DEEP, YAML, id="YAML lists"),
        pytest.param(b'{"data":' * DEEP + b"1" + b"}" * DEEP, MERGE_PATCH, id="merge patch"),
        pytest.param(
            b'{"apiVersion":"v1","kind":"ConfigMap","x":' + b'{"a":' * DEEP + b"1" + b"}" * (DEEP + 1), APPLY_PATCH, id="apply"
        ),
    ],
)
def test_deep_nesting_is_rejected(api: Api, core: str, body: bytes, kind: str | None) -> None:
    if kind in (MERGE_PATCH, APPLY_PATCH):
        response = api.patch(f"{core}/serviceaccounts/default", body, kind, query={"fieldManager": "t"})
    else:
        response = api.post(f"{core}/configmaps", body, content_type=kind or "application/json")
    assert 400 <= response.status < 500
    assert response.json["kind"] == "Status"
    quick(api)


def test_yaml_bomb_is_rejected(api: Api, core: str) -> None:
    lines = ["a0: &a0 [x,x,x,x,x,x,x,x,x]"] + [f"a{i}: &a{i} [{','.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 12)]
    response = api.post(f"{core}/configmaps", "\n".join(lines), content_type=YAML)
    assert 400 <= response.status < 500
    quick(api)


def test_half_open_connections_do_not_block(cluster: Cluster, api: Api) -> None:
    parts = urlsplit(cluster.url)
    silent = [socket.create_connection((parts.hostname or "", parts.port or 443)) for _ in range(50)]
    shaken = [open_socket(cluster) for _ in range(20)]
    for connection in shaken:
        connection.sendall(b"GET /version HTTP/1.1\r\nHost: x\r\n")
    quick(api)
    for one in (*silent, *shaken):
        one.close()


def test_slow_bodies_do_not_block(cluster: Cluster, api: Api, core: str) -> None:
    slow = [open_socket(cluster) for _ in range(20)]
    head = f"POST {core}/configmaps HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {cluster.token}\r\nContent-Length: 1000\r\n\r\n{{"
    for connection in slow:
        connection.sendall(head.encode())
    quick(api)
    for connection in slow:
        connection.close()


@pytest.mark.parametrize(
    "text",
    [
        b"\x00\x01\x02\x03\r\n\r\n",
        b"GET\r\n\r\n",
        b"GET /version HTTP/9.9\r\n\r\n",
        b"POST /api/v1/namespaces HTTP/1.1\r\nHost: x\r\nContent-Length: -5\r\n\r\n",
        b"POST /api/v1/namespaces HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 7\r\n\r\nhello",
        b"POST /api/v1/namespaces HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"GET /" + b"a" * 2_000_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET /version HTTP/1.1\r\nHost: x\r\n" + b"X-A: " + b"y" * 2_000_000 + b"\r\n\r\n",
    ],
    ids=["bytes", "no path", "version", "negative length", "two lengths", "bad chunk", "long path", "long header"],
)
def test_malformed_http_is_rejected(cluster: Cluster, api: Api, text: bytes) -> None:
    with open_socket(cluster) as connection:
        try:
            connection.sendall(text)
            answer = connection.recv(65536)
        except (ConnectionResetError, BrokenPipeError, ssl.SSLError):
            answer = b""
    assert not answer or 400 <= int(answer.split(b" ")[1]) < 506, answer[:200]
    quick(api)


@pytest.mark.parametrize("path", ["/api/v1//pods", "/api/v1/../v1/pods", "/api/v1/namespaces/default/pods/%00", "/%ff"])
def test_odd_paths_are_not_found(api: Api, path: str) -> None:
    response = api.get(path)
    assert response.status < 500, response.body


def test_pipelined_requests_are_answered_in_order(cluster: Cluster) -> None:
    request = b"GET %s HTTP/1.1\r\nHost: x\r\n\r\n"
    with open_socket(cluster) as connection:
        connection.sendall(
            request % b"/healthz" + request % b"/version" + b"GET /livez HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
        )
        received = b""
        while chunk := connection.recv(65536):
            received += chunk
    assert received.count(b"HTTP/1.1 200 OK") == 3
    assert received.index(b"gitVersion") > received.index(b"ok")


def test_chunked_request_body_is_accepted(cluster: Cluster, core: str) -> None:
    body = b'{"metadata":{"name":"chunked"}}'
    head = (
        f"POST {core}/configmaps HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {cluster.token}\r\nContent-Type: application/json\r\n"
    )
    with open_socket(cluster) as connection:
        connection.sendall(head.encode() + b"Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n")
        for start in range(0, len(body), 7):
            part = body[start : start + 7]
            connection.sendall(b"%x\r\n%s\r\n" % (len(part), part))
        connection.sendall(b"0\r\n\r\n")
        assert connection.recv(65536).startswith(b"HTTP/1.1 201")


def many_labels() -> dict[str, Any]:
    """An object with very many labels."""
    return config_map(labels={f"label-{index}": "x" for index in range(5000)})


def test_many_labels_and_long_selectors_are_accepted(api: Api, core: str) -> None:
    api.post(f"{core}/configmaps", many_labels()).ok(201)
    selector = ",".join(f"label-{index}=x" for index in range(2000))
    assert api.get(f"{core}/configmaps", {"labelSelector": selector}).ok(200).names == ["c"]
