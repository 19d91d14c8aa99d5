"""The endpoint of a model service: its Service if several local pods share it, else a pod, else the API server."""

from __future__ import annotations

import asyncio
import socket
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from sliceworks.serving import service_endpoint
from sliceworks.serving.service_endpoint import Endpoint

OWN = "127.253.0.9"
Object = dict[str, Any]


def place(cluster_ip: str, pods: dict[str, bool], port: int) -> str:
    """Find the endpoint."""

    async def get(*_: object) -> Object:
        return {"spec": {"clusterIP": cluster_ip, "selector": {"app": "m"}}}

    async def list_all(*_: object, labels: str) -> SimpleNamespace:
        status = {ready: [{"type": "Ready", "status": "True" if ready else "False"}] for ready in (True, False)}
        result = [{"status": {"podIP": address, "conditions": status[ready]}} for address, ready in pods.items()]
        return SimpleNamespace(items=result)

    client: Any = SimpleNamespace(get=get, list_all=list_all)
    return asyncio.run(service_endpoint.connect(client, Endpoint("gateway", "models", port, False, "vllm"))).name


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have one loopback address")
def test_local_service_with_several_pods_is_used() -> None:
    with socket.create_server((OWN, 0)) as held:
        port = held.getsockname()[1]
        assert place(OWN, {"127.253.0.1": True, "127.253.0.2": True}, port) == f"http://{OWN}:{port}"
        assert place(OWN, {"127.253.0.1": True, "127.253.0.2": False}, port) == f"http://127.253.0.1:{port}"
    # The Service is not open yet, or cannot be; on other clusters it is not on loopback.
    assert place(OWN, {"127.253.0.1": True, "127.253.0.2": True}, port) == f"http://127.253.0.1:{port}"
    assert place(OWN, {"127.253.0.1": False, "127.253.0.2": True}, port) == f"http://127.253.0.2:{port}"
    assert place("10.96.0.7", {"127.0.0.1": True}, port) == f"http://127.0.0.1:{port}"
    assert place("10.96.0.7", {"10.0.0.1": True}, port) == "service/gateway"
