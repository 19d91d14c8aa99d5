"""What workers that run side by side share: ports of this machine, and the one folder that every Kueue reads."""

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

MANY = 20_000  # of some fourteen thousand that the system gives away


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a port cannot be kept for a server")
def test_a_port_that_was_chosen_is_given_to_nobody_else_and_can_be_listened_on() -> None:
    port = free_port()
    for _ in range(MANY):
        with socket.socket() as other:
            other.bind(("127.0.0.1", 0))
            assert other.getsockname()[1] != port
    for _ in range(2):  # and again, after its server has died
        with socket.create_server(("127.0.0.1", port)), socket.create_connection(("127.0.0.1", port)):
            pass


def test_a_certificate_that_is_there_stays_and_half_of_one_is_replaced(tmp_path: Path) -> None:
    first, second = (certificates.make(tmp_path / name) for name in ("first", "second"))
    shared = tmp_path / "shared"
    lay_certificate(first, shared)
    lay_certificate(second, shared)
    assert (shared / "tls.crt").read_bytes() == first.serving.read_bytes()
    (shared / "tls.key").write_bytes(b"")
    lay_certificate(second, shared)
    found = [(shared / name).read_bytes() for name in ("tls.crt", "tls.key")]
    assert found == [second.serving.read_bytes(), second.serving_key.read_bytes()]
