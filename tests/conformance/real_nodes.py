"""The twin's nodes for a real control plane: `python -m tests.conformance.real_nodes KUBECONFIG FOLDER` runs until SIGTERM.

`FOLDER` has the image map and the certificate of the kubelets, and gets the files of pods and, once the nodes run, `ready`. The
addresses of nodes, pods and Services are in `NETWORK`, which this machine must have: the API rejects
loopback addresses in endpoints.
"""

from __future__ import annotations

import asyncio
import signal
import ssl
import sys
from contextlib import AsyncExitStack
from ipaddress import IPv4Network
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.conformance.nodes import create_nodes

from sliceworks.base import clock
from sliceworks.base.errors import ApiError
from sliceworks.base.transport import Request, Response
from sliceworks.kube import open_client
from sliceworks.kube.resources import POD
from sliceworks.platform import image_map
from sliceworks.twin.apiserver.auth.authentication import administrator
from sliceworks.twin.apiserver.handlers import connect
from sliceworks.twin.apiserver.http_server import Server
from sliceworks.twin.apiserver.registry.kinds import builtin_registry
from sliceworks.twin.apiserver.request_info import Call, parse_request_info
from sliceworks.twin.nodes.runtime.process_runtime import ProcessRuntime
from sliceworks.twin.nodes.simulator import NodeSimulator

if TYPE_CHECKING:
    from sliceworks.kube.client import Client
    from sliceworks.twin.apiserver.auth.authentication import User

NETWORK = IPv4Network("10.66.0.0/16")
_PORT = 10250
_TEXT = {"content-type": "text/plain; charset=utf-8"}
_SUBRESOURCES = {"containerLogs": "log", "exec": "exec", "attach": "attach", "portForward": "portforward"}
_STREAMS = {"input": "stdin", "output": "stdout", "error": "stderr"}


class KubeletApi:
    """What kube-apiserver requests of kubelets: logs, exec, attach and port-forward. All nodes share it."""

    def __init__(self, client: Client, runtime: ProcessRuntime) -> None:
        self.kubelet = runtime
        self._client = client
        self._registry = builtin_registry()

    def authorize(self, *_: object, **__: object) -> None:
        """Do nothing: kube-apiserver has authorized the request."""

    async def handle(self, request: Request, user: User | None) -> Response:
        """Handle a request as the twin's API server handles that of its client."""
        try:
            return await self._handle(request)
        except ApiError as error:
            return Response(error.code, _TEXT, error.message.encode())

    async def _handle(self, request: Request) -> Response:
        kind, *names = request.path.strip("/").split("/")
        if kind == "healthz":
            return Response(200, _TEXT, b"ok")
        if kind not in _SUBRESOURCES or len(names) < 2:
            return Response(404, _TEXT, b"404 page not found\n")
        pod = await self._client.get(POD, names[1], names[0])
        call = self._call(request, _SUBRESOURCES[kind], names)
        if kind == "containerLogs":
            return self.kubelet.logs(call, pod, names[2])
        server: Any = self
        return await connect.handle(server, call, pod)

    def _call(self, request: Request, subresource: str, names: list[str]) -> Call:
        params: dict[str, list[str]] = {"container": names[2:]} if len(names) > 2 else {}
        for name, value in request.query:
            params.setdefault(_STREAMS.get(name, name), []).append(value)
        path = f"/api/v1/namespaces/{names[0]}/pods/{names[1]}/{subresource}"
        served = self._registry.find("", "v1", "pods")
        assert served is not None
        return Call(request, parse_request_info(request.method, path), administrator(), *served, params)


async def main(kubeconfig: Path, folder: Path) -> None:
    """Run the nodes."""
    over = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, over.set)
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(folder / "kubelet.crt", folder / "kubelet.key")
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(open_client(kubeconfig))
        runtime = ProcessRuntime(client, folder / "pods", images=image_map.load(folder / "images.yaml"), network=NETWORK)
        await runtime.open()
        stack.push_async_callback(runtime.close)
        runtime.set_api_address((folder / "url").read_text(), (folder / "ca.crt").read_bytes())
        server = Server(KubeletApi(client, runtime).handle)
        await server.start("0.0.0.0", _PORT, tls)
        stack.push_async_callback(server.stop)
        await stack.enter_async_context(NodeSimulator(client, runtime=runtime))
        await create_nodes(client)
        (folder / "ready").touch()
        await over.wait()


if __name__ == "__main__":
    clock.run(main(Path(sys.argv[1]), Path(sys.argv[2])))
