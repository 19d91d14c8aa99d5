"""The certificate authority and its certificates: reuse, renewal, permissions and TLS handshakes."""

from __future__ import annotations

import socket
import ssl
import threading
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from sliceworks.base.errors import SliceworksError
from sliceworks.twin.apiserver.auth import certificates

if TYPE_CHECKING:
    from pathlib import Path


def test_files_are_private_and_reused(tmp_path: Path) -> None:
    first = certificates.ensure(tmp_path / "pki")
    before = first.server_file.read_text()
    assert {file.stat().st_mode & 0o777 for file in (first.authority_file, first.server_file)} == {0o600}
    assert certificates.ensure(tmp_path / "pki").server_file.read_text() == before
    assert sorted(file.name for file in (tmp_path / "pki").iterdir()) == [
        "ca.pem",
        "front-proxy-ca.pem",
        "front-proxy-client.pem",
        "server.pem",
    ]


def test_server_certificate_is_renewed_before_it_expires(tmp_path: Path) -> None:
    first = certificates.ensure(tmp_path)
    server, authority = first.server_file.read_text(), first.authority()
    later = certificates.ensure(tmp_path, now=datetime.now(UTC) + timedelta(days=340))
    assert later.server_file.read_text() != server
    assert later.authority() == authority


@pytest.mark.parametrize("content", ["garbage", "-----BEGIN CERTIFICATE-----\nAAAA"])
@pytest.mark.parametrize("name", ["ca.pem", "server.pem"])
def test_garbage_is_an_error_that_names_the_file(tmp_path: Path, name: str, content: str) -> None:
    result = certificates.ensure(tmp_path)
    first = (tmp_path / name).read_text().partition("\n")[0]
    (tmp_path / name).write_text(f"{first}\n{content}")
    with pytest.raises(SliceworksError) as refusal:
        certificates.server_context(certificates.ensure(tmp_path))
    assert refusal.value.message == f"{tmp_path / name}: not a certificate with its key"
    assert refusal.value.hint == f"delete {name}; the next start creates a new one"
    if name == "ca.pem":
        with pytest.raises(SliceworksError, match="not a certificate"):
            certificates.client_certificate(result, "user")


def test_damaged_file_is_replaced(tmp_path: Path) -> None:
    result = certificates.ensure(tmp_path)
    server = result.server_file.read_text()
    result.authority_file.write_text("")
    assert certificates.ensure(tmp_path).authority().startswith("-----BEGIN CERTIFICATE-----")
    assert result.server_file.read_text() != server


def test_client_certificate_identifies_the_user(tmp_path: Path) -> None:
    result = certificates.ensure(tmp_path)
    (tmp_path / "client.pem").write_text(certificates.client_certificate(result, "jane", ["team-a", "team-b"]))
    client = ssl.create_default_context(cadata=result.authority())
    client.load_cert_chain(tmp_path / "client.pem")
    user = certificates.user_from_certificate(_peer_after_handshake(certificates.server_context(result), client))
    assert user is not None
    assert (user.name, user.groups) == ("jane", ("team-a", "team-b", "system:authenticated"))


def test_handshake_without_client_certificate(tmp_path: Path) -> None:
    result = certificates.ensure(tmp_path)
    client = ssl.create_default_context(cadata=result.authority())
    assert certificates.user_from_certificate(_peer_after_handshake(certificates.server_context(result), client)) is None


def _peer_after_handshake(server: ssl.SSLContext, client: ssl.SSLContext) -> Any:
    left, right = socket.socketpair()
    peers: list[Any] = []

    def serve() -> None:
        with server.wrap_socket(left, server_side=True) as wrapped:
            peers.append(wrapped.getpeercert())
            wrapped.sendall(b".")

    thread = threading.Thread(target=serve)
    thread.start()
    with client.wrap_socket(right, server_hostname="127.0.0.1") as wrapped:
        assert wrapped.recv(1) == b"."
    thread.join()
    return peers[0]
