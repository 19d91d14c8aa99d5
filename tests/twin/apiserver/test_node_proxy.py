"""The proxy subresource of nodes: what the twin has of a kubelet's API."""

from __future__ import annotations

from typing import TYPE_CHECKING

import orjson
from tests.support.embedded_twin import run_on_twin

from sliceworks.base.transport import Request

if TYPE_CHECKING:
    from tests.support.embedded_twin import EmbeddedTwin

NODES = "/api/v1/nodes"


def test_proxy_of_a_simulated_node_serves_health_and_pods() -> None:
    async def main(twin: EmbeddedTwin) -> None:
        async def read(path: str) -> tuple[int, bytes]:
            response = await twin.cluster.transport().send(Request("GET", f"{NODES}/{path}", (), {}))
            return response.status, response.body

        resources = {"cpu": "4", "memory": "8Gi", "pods": "20"}
        status = {"capacity": resources, "allocatable": resources, "addresses": [{"type": "InternalIP", "address": "192.0.2.1"}]}
        for name, labels in (("here", {"sliceworks.dev/node": "simulated"}), ("elsewhere", {})):
            await twin.do("POST", NODES, {"metadata": {"name": name, "labels": labels}, "status": status})
        for name, node in (("one", "here"), ("two", "elsewhere")):
            spec = {"nodeName": node, "containers": [{"name": "main", "image": "x"}]}
            await twin.do("POST", "/api/v1/namespaces/default/pods", {"metadata": {"name": name}, "spec": spec})
        await twin.quiet()
        assert await read("here/proxy/healthz") == await read("here:10250/proxy/healthz") == (200, b"ok")
        code, body = await read("here/proxy/pods")
        assert (code, [item["metadata"]["name"] for item in orjson.loads(body)["items"]]) == (200, ["one"])
        assert (await read("here/proxy/nothing"))[0] == 404
        for path, port in (("elsewhere/proxy/healthz", 10250), ("here:9999/proxy/healthz", 9999)):
            code, body = await read(path)
            message = f"error trying to reach service: dial tcp 192.0.2.1:{port}: connect: connection refused"
            assert (code, orjson.loads(body)["message"]) == (503, message)
        for wrong, problem in (
            ("abc", "port 'abc' of node here: must be a number"),
            ("9" * 5000, "port 999999: must be at most 65535"),
        ):
            code, body = await read(f"here:{wrong}/proxy/healthz")
            assert (code, orjson.loads(body)["message"]) == (400, problem)

    run_on_twin(main, workloads=True)
