"""Whether this machine resolves its own host name, which JAX's processes on CPU need to find each other."""

from __future__ import annotations

import socket

import pytest


def is_known() -> bool:
    """Whether the host name has an address."""
    try:
        socket.getaddrinfo(socket.gethostname(), None)
    except OSError:
        return False
    return True


needed = pytest.mark.skipif(not is_known(), reason="this machine does not know its own name, which JAX's processes ask for")
