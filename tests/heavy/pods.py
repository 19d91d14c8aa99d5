"""Containers that run as a node runs our pods: polled until they answer, and stopped as a node stops them."""

from __future__ import annotations

import time
import urllib.request
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.heavy.containers import Container

Object = dict[str, Any]
_MEBIBYTES = 1024**2


def until(found: Callable[[], Any], container: Container, seconds: float = 60) -> Any:
    """The first result; fails with the container's output."""
    deadline = time.monotonic() + seconds
    while not (result := found()):
        assert container.alive(), container.tail()
        assert time.monotonic() < deadline, container.tail()
        time.sleep(0.1)
    return result


def assert_clean_stop(container: Container, pod: Object) -> None:
    """Check that the container used less memory than its limit and stops within its grace period."""
    most = int(pod["containers"][0]["resources"]["limits"]["memory"].replace("Gi", "000Mi").removesuffix("Mi"))
    assert container.most_memory() < most * _MEBIBYTES
    assert container.end(pod["terminationGracePeriodSeconds"]) == 0, container.tail()
    assert "Traceback" not in container.tail(1000)


def http_request(url: str, method: str = "GET", **headers: str) -> bytes:
    with urllib.request.urlopen(urllib.request.Request(url, headers=headers, method=method), timeout=10) as response:
        result: bytes = response.read()
    return result
