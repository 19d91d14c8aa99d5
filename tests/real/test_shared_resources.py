"""Resources that concurrent workers share: ports of this machine, and the folder that every Kueue reads."""

from __future__ import annotations

import socket
import sys
from typing import TYPE_CHECKING

import pytest
from tests.real import certificates
from tests.real.kueue import lay_certificate
from tests.real.processes import free_port

if TYPE_CHECKING:
    from pathlib import Path

MANY = 20_000  # of some fourteen thousand ephemeral ports


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a port cannot be kept for a server")
def test_reserved_port_is_unique_and_can_be_listened_on() -> None:
    port = free_port()
    for _ in range(MANY):
        with socket.socket() as other:
            other.bind(("127.0.0.1", 0))
            assert other.getsockname()[1] != port
    for _ in range(2):  # and again, after its server has died
        with socket.create_server(("127.0.0.1", port)), socket.create_connection(("127.0.0.1", port)):
            pass


def test_existing_certificate_is_kept_and_incomplete_one_replaced(tmp_path: Path) -> None:
    first, second = (certificates.make(tmp_path / name) for name in ("first", "second"))
    shared = tmp_path / "shared"
    lay_certificate(first, shared)
    lay_certificate(second, shared)
    assert (shared / "tls.crt").read_bytes() == first.serving.read_bytes()
    (shared / "tls.key").write_bytes(b"")
    lay_certificate(second, shared)
    result = [(shared / name).read_bytes() for name in ("tls.crt", "tls.key")]
    assert result == [second.serving.read_bytes(), second.serving_key.read_bytes()]
