"""Host ports of the pods on a node."""

from __future__ import annotations

from typing import Any

import pytest

from sliceworks.twin.nodes.host_ports import HostPorts

Object = dict[str, Any]


def pod(field: str = "containers", phase: str = "Pending", policy: str | None = None, **port: Any) -> Object:
    container = {"name": "main", "ports": [{"containerPort": 80, "hostPort": 8080, **port}], "restartPolicy": policy}
    return {"metadata": {}, "spec": {"containers": [], field: [container]}, "status": {"phase": phase}}


@pytest.mark.parametrize(
    ("other", "admitted"),
    [
        (pod(), False),
        (pod(hostIP="127.0.0.1"), False),
        (pod(protocol="UDP"), True),
        (pod(hostPort=8081), True),
        (pod("initContainers", policy="Always"), False),
        (pod("initContainers"), True),
        (pod(phase="Succeeded"), True),
        ({**pod(), "status": {"phase": "Running", "startTime": "2026-01-05T08:00:00Z"}}, True),
    ],
)
def test_pod_that_needs_a_port_in_use_is_rejected(other: Object, admitted: bool) -> None:
    ports = HostPorts()
    assert ports.admit("first", "node", pod())
    assert ports.admit("other", "node", other) is admitted
    assert ports.admit("other", "another-node", other)


def test_released_ports_are_free() -> None:
    ports = HostPorts()
    assert ports.admit("first", "node", pod())
    ports.release("first", "node")
    assert ports.admit("other", "node", pod())
