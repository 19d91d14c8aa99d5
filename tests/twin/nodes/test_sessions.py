"""exec, attach, port-forward and proxy with pods that run as processes, over WebSocket and SPDY."""

from __future__ import annotations

import asyncio
import struct
import sys
import threading
from concurrent.futures import Future
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import aiohttp
import orjson
import pytest
from tests.support.process_pods import ended, pod, ready, until
from tests.support.spdy_client import SpdyClient
from yarl import URL

from sliceworks.base import clock
from sliceworks.kube.client import Client
from sliceworks.kube.requests import PatchType
from sliceworks.kube.resources import POD
from sliceworks.twin.apiserver.http_server import Server
from sliceworks.twin.apiserver.streaming import spdy
from sliceworks.twin.cluster import Cluster
from sliceworks.twin.nodes.node_shape import NodeShape, create_nodes

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
    from pathlib import Path

    Run = Callable[[Callable[[Any], Coroutine[Any, Any, None]]], None]

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="pods have addresses of their own on Linux alone")

ECHO = """
import os, socket, sys, threading
def serve(client):
    with client:
        while data := client.recv(65536):
            client.sendall(data)
        client.sendall(b" and bye")
with socket.create_server(("0.0.0.0", 7000)) as server:
    print("listening", flush=True)
    while True:
        threading.Thread(target=serve, args=(server.accept()[0],)).start()
"""
WEB = """
import http.server
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = f"{self.command} {self.path} {self.headers.get('authorization')} {self.headers.get('x-asked')}".encode()
        self.send_response(203)
        self.send_header("content-length", str(len(body)))
        self.send_header("x-answered", "yes")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)
    do_POST = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = do_HEAD = do_GET
    log_message = lambda *_: None
http.server.HTTPServer(("0.0.0.0", 7001), Handler).serve_forever()
"""


class Api:
    """A twin with processes that listens on loopback."""

    def __init__(self, client: Client, port: int, token: str, http: aiohttp.ClientSession) -> None:
        self.client, self.port, self.token, self.http = client, port, token, http

    def url(self, subresource: str, name: str = "sleep", **query: Any) -> str:
        """The URL of a subresource of a pod."""
        pairs = [(key, item) for key, value in query.items() for item in (value if isinstance(value, list) else [value])]
        path = f"http://127.0.0.1:{self.port}/api/v1/namespaces/default/pods/{name}/{subresource}"
        return str(URL(path).with_query(pairs))

    async def websocket(self, url: str, *protocols: str) -> aiohttp.ClientWebSocketResponse:
        return await self.http.ws_connect(url, protocols=protocols, headers=self.headers)

    @property
    def headers(self) -> dict[str, str]:
        return {"authorization": f"Bearer {self.token}"}

    async def exec(
        self, *command: str, name: str = "sleep", stdin: bytes | None = None, protocol: str = "v5.channel.k8s.io", **options: str
    ) -> Output:
        """Run a command in a pod."""
        flags = {"stdin": str(stdin is not None).lower(), "stdout": "true", "stderr": "true", **options}
        async with await self.websocket(self.url("exec", name, command=list(command), **flags), protocol) as socket:
            if stdin is not None:
                await socket.send_bytes(b"\x00" + stdin)
                await socket.send_bytes(b"\xff\x00")
            return await collect(socket)

    async def upgrade(
        self, url: str, *headers: str, method: str = "POST"
    ) -> tuple[bytes, asyncio.StreamReader, asyncio.StreamWriter]:
        """Send a request to upgrade the connection; returns the status line."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        target = url.partition(str(self.port))[2]
        lines = [f"{method} {target} HTTP/1.1", "host: twin", f"authorization: Bearer {self.token}", *headers, "", ""]
        writer.write("\r\n".join(lines).encode())
        head = await reader.readuntil(b"\r\n\r\n")
        return head.partition(b"\r\n")[0], reader, writer


class Output:
    """What a session sent, by channel."""

    def __init__(self) -> None:
        self.channels: dict[int, bytes] = {}
        self.messages: list[bytes] = []

    @property
    def stdout(self) -> bytes:
        return self.channels.get(1, b"")

    @property
    def stderr(self) -> bytes:
        return self.channels.get(2, b"")

    @property
    def status(self) -> Any:
        return orjson.loads(self.channels[3])


async def collect(socket: aiohttp.ClientWebSocketResponse) -> Output:
    output = Output()
    async for message in socket:
        output.messages.append(message.data)
        channel = message.data[0]
        output.channels[channel] = output.channels.get(channel, b"") + message.data[1:]
    return output


@asynccontextmanager
async def listening(folder: Path) -> AsyncIterator[Api]:
    async with Cluster(ca="the authority", processes=folder) as cluster:
        client = Client(cluster.transport())
        await create_nodes(client, NodeShape(pool="pool"), 1)
        server = Server(cluster.api.handle_remote, admit=cluster.api.admit)
        port = await server.start("127.0.0.1", 0)
        try:
            async with aiohttp.ClientSession() as http:
                yield Api(client, port, cluster.token, http)
        finally:
            await server.stop()


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """Run a test's coroutine on a twin with the pods `sleep`, `echo` and `web`."""
    started: Future[tuple[Api, asyncio.AbstractEventLoop, asyncio.Event]] = Future()

    async def serve() -> None:
        async with listening(tmp_path_factory.mktemp("pods")) as api:
            env = [{"name": "GREETING", "value": "hello"}]
            await api.client.create(pod("sleep", "sh", "-c", "echo started; exec sleep 600", grace=0, env=env))
            for name, program, port in (("echo", ECHO, 7000), ("web", WEB, 7001)):
                probe = {"tcpSocket": {"port": port}, "periodSeconds": 1}
                ports = [{"name": name, "containerPort": port}]
                await api.client.create(pod(name, sys.executable, "-c", program, grace=0, ports=ports, readinessProbe=probe))
            for name in ("sleep", "echo", "web"):
                await until(api.client, name, ready, seconds=90)
            ending = asyncio.Event()
            started.set_result((api, asyncio.get_running_loop(), ending))
            await ending.wait()

    def start() -> None:
        try:
            clock.run(serve())
        except BaseException as error:
            if started.done():
                raise
            started.set_exception(error)

    thread = threading.Thread(target=start)
    thread.start()
    api, loop, ending = started.result()
    yield lambda main: asyncio.run_coroutine_threadsafe(main(api), loop).result(120)
    loop.call_soon_threadsafe(ending.set)
    thread.join()


def test_first_protocol_has_failures_as_text(run: Run) -> None:
    async def main(api: Api) -> None:
        succeeded = await api.exec("echo", "done", protocol="channel.k8s.io")
        assert succeeded.channels == {1: b"done\n"}
        failed = await api.exec("sh", "-c", "exit 3", protocol="channel.k8s.io")
        assert failed.channels == {1: b"", 3: b"command terminated with non-zero exit code: exit status 3"}

    run(main)


@pytest.mark.parametrize("protocol", ["v5.channel.k8s.io", "v4.channel.k8s.io"])
def test_exec_returns_output_and_exit_code(run: Run, protocol: str) -> None:
    async def main(api: Api) -> None:
        output = await api.exec("sh", "-c", "echo $GREETING; echo problem >&2; exit 3", protocol=protocol)
        assert output.messages[0] == b"\x01"  # the session is established
        assert (output.stdout, output.stderr) == (b"hello\n", b"problem\n")
        assert output.status["reason"] == "NonZeroExitCode"
        assert output.status["details"] == {"causes": [{"reason": "ExitCode", "message": "3"}]}
        assert (await api.exec("true", protocol=protocol)).status == {"metadata": {}, "status": "Success"}

    run(main)


def test_exec_passes_input_of_any_size_until_it_is_closed(run: Run) -> None:
    async def main(api: Api) -> None:
        data = bytes(range(256)) * 4096
        assert (await api.exec("cat", stdin=data)).stdout == data
        # A command that does not read its input ends all the same.
        output = await api.exec("head", "-c", "1", stdin=data)
        assert (output.stdout, output.status["status"]) == (b"\x00", "Success")

    run(main)


def test_exec_reports_unknown_command(run: Run) -> None:
    async def main(api: Api) -> None:
        status = (await api.exec("nosuch")).status
        assert (status["reason"], status["message"]) == (
            "InternalError",
            'error executing command in container: exec: "nosuch": No such file or directory',
        )

    run(main)


def test_exec_in_a_terminal(run: Run) -> None:
    async def main(api: Api) -> None:
        url = api.url("exec", command=["sh"], stdin="true", stdout="true", tty="true")
        async with await api.websocket(url, "v5.channel.k8s.io") as socket:
            await socket.send_bytes(b"\x04" + orjson.dumps({"Width": 132, "Height": 43}))
            await socket.send_bytes(b"\x00test -t 0 && stty size; exit 5\n")
            output = await collect(socket)
        assert b"43 132\r\n" in output.stdout
        assert output.status["details"]["causes"][0]["message"] == "5"

    run(main)


def test_disconnect_ends_the_command(run: Run) -> None:
    async def main(api: Api) -> None:
        url = api.url("exec", command=["sh", "-c", "echo $$; exec sleep 600"], stdout="true")
        socket = await api.websocket(url, "v5.channel.k8s.io")
        while not (data := (await socket.receive()).data[1:]):
            pass
        await socket.close()
        deadline = clock.loop_time() + 60
        while (await api.exec("kill", "-0", data.decode().strip())).status["status"] == "Success":
            assert clock.loop_time() < deadline

    run(main)


def test_exec_over_spdy(run: Run) -> None:
    async def main(api: Api) -> None:
        url = api.url("exec", command=["sh", "-c", "cat; echo problem >&2; exit 7"], stdin="true", stdout="true", stderr="true")
        upgrade = ("connection: Upgrade", "upgrade: SPDY/3.1", "x-stream-protocol-version: v4.channel.k8s.io", "content-length: 0")
        status, reader, writer = await api.upgrade(url, *upgrade)
        assert status == b"HTTP/1.1 101 Switching Protocols"
        spdy = SpdyClient(reader, writer)
        spdy.ping(b"\0\0\0\1")
        error, stdin, stdout, stderr = (spdy.open({"streamtype": kind}) for kind in ("error", "stdin", "stdout", "stderr"))
        data = bytes(range(256)) * 1024
        spdy.send(stdin, data)
        spdy.send(stdin, b"", fin=True)
        await spdy.receive_all()
        assert spdy.replied == {error, stdin, stdout, stderr}
        assert (spdy.received[stdout], spdy.received[stderr]) == (data, b"problem\n")
        assert orjson.loads(spdy.received[error])["details"]["causes"][0]["message"] == "7"
        assert spdy.closed == {error, stdout, stderr}
        assert (spdy.pings, spdy.is_going_away) == ([b"\0\0\0\1"], True)
        writer.close()

    run(main)


def test_attach_shows_output_and_passes_input(run: Run) -> None:
    async def main(api: Api) -> None:
        await api.client.create(pod("reads", "sh", "-c", "while read line; do echo got $line; done; exit 4", stdin=True))
        await until(api.client, "reads", ready)
        async with await api.websocket(api.url("attach", "reads", stdin="true", stdout="true"), "v5.channel.k8s.io") as socket:
            assert (await socket.receive()).data == b"\x01"
            await socket.send_bytes(b"\x00one\n")
            assert (await socket.receive()).data == b"\x01got one\n"
            await socket.send_bytes(b"\xff\x00")  # closes stdin: the container ends
            output = await collect(socket)
        assert output.status["status"] == "Success"  # of attaching; the exit code is in the pod's status
        assert (await api.client.logs("reads", "default")) == "got one\n"

    run(main)


def test_ephemeral_container_runs_and_has_sessions_and_a_log(run: Run) -> None:
    async def main(api: Api) -> None:
        await api.client.create(pod("debugged", "sleep", "600", grace=0))
        await until(api.client, "debugged", ready)
        await api.client.create({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "word"}, "stringData": {"w": "hi"}})
        word = {"name": "WORD", "valueFrom": {"secretKeyRef": {"name": "word", "key": "w"}}}
        shell = {"name": "shell", "image": "busybox", "stdin": True, "env": [word]}
        fails = {"name": "fails", "image": "busybox", "command": ["sh", "-c", "echo failed; exit 3"]}
        change = {"spec": {"ephemeralContainers": [shell, fails]}}
        await api.client.patch(POD, "debugged", change, kind=PatchType.STRATEGIC, subresource="ephemeralcontainers")

        def by_name(status: dict[str, Any]) -> dict[str, Any]:
            return {item["name"]: item for item in status.get("ephemeralContainerStatuses") or ()}

        def settled(status: dict[str, Any]) -> bool:
            statuses = by_name(status)
            return "running" in statuses.get("shell", {"state": {}})["state"] and "terminated" in statuses["fails"]["state"]

        status = await until(api.client, "debugged", settled)
        statuses = by_name(status)
        assert statuses["fails"]["state"]["terminated"]["exitCode"] == 3
        assert "started" not in statuses["shell"]
        assert [(item["ready"], item["restartCount"]) for item in statuses.values()] == [(False, 0), (False, 0)]
        assert ready(status)
        assert await api.client.logs("debugged", "default", container="fails") == "failed\n"
        output = await api.exec("sh", "-c", "echo $WORD", container="shell", name="debugged")
        assert (output.stdout, output.status["status"]) == (b"hi\n", "Success")
        url = api.url("attach", "debugged", container="shell", stdin="true", stdout="true")
        async with await api.websocket(url, "v5.channel.k8s.io") as socket:
            assert (await socket.receive()).data == b"\x01"
            await socket.send_bytes(b"\x00echo from $WORD\n")
            assert (await socket.receive()).data == b"\x01from hi\n"
            await socket.send_bytes(b"\xff\x00")
            await collect(socket)
        await until(api.client, "debugged", lambda status: "terminated" in by_name(status)["shell"]["state"])
        await api.client.delete(POD, "debugged", "default", grace_period_seconds=0)

    run(main)


FORWARD_HEADERS = ("connection: Upgrade", "upgrade: SPDY/3.1", "x-stream-protocol-version: portforward.k8s.io", "content-length: 0")


def test_port_forward_over_spdy(run: Run) -> None:
    async def main(api: Api) -> None:
        status, reader, writer = await api.upgrade(api.url("portforward", "echo"), *FORWARD_HEADERS)
        assert status == b"HTTP/1.1 101 Switching Protocols"
        spdy = SpdyClient(reader, writer)
        streams = {}
        for request, port in (("0", "7000"), ("1", "7000"), ("2", "7999")):
            error = spdy.open({"streamtype": "error", "port": port, "requestid": request})
            streams[request] = error, spdy.open({"streamtype": "data", "port": port, "requestid": request})
        spdy.open({"streamtype": "data", "port": "0", "requestid": "3"})
        for request in ("0", "1"):
            spdy.send(streams[request][1], f"request {request}".encode() * 1000)
            spdy.send(streams[request][1], b"", fin=True)
        ended = {number for pair in streams.values() for number in pair}
        while not ended <= spdy.closed:
            assert await spdy.receive()
        for request in ("0", "1"):
            assert spdy.received[streams[request][1]] == f"request {request}".encode() * 1000 + b" and bye"
        assert b"error forwarding port 7999 to pod" in spdy.received[streams["2"][0]]
        assert len(spdy.reset) == 1  # no port 0
        writer.close()

    run(main)


def test_port_forward_carries_any_number_of_connections_in_turn(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spdy, "_MAX_STREAMS", 4)

    async def main(api: Api) -> None:
        _, reader, writer = await api.upgrade(api.url("portforward", "echo"), *FORWARD_HEADERS)
        client = SpdyClient(reader, writer)
        for request in map(str, range(6)):
            error = client.open({"streamtype": "error", "port": "7000", "requestid": request})
            data = client.open({"streamtype": "data", "port": "7000", "requestid": request})
            client.send(data, b"hello", fin=True)
            while not {error, data} <= client.closed:
                assert await client.receive()
                assert not client.reset
            assert client.received[data] == b"hello and bye"
        writer.close()

    run(main)


def test_client_that_leaves_during_exec_over_spdy_leaves_no_task(run: Run) -> None:
    async def main(api: Api) -> None:
        url = api.url("exec", command=["sleep", "600"], stdin="true", stdout="true")
        upgrade = ("connection: Upgrade", "upgrade: SPDY/3.1", "x-stream-protocol-version: v4.channel.k8s.io", "content-length: 0")
        _, reader, writer = await api.upgrade(url, *upgrade)
        client = SpdyClient(reader, writer)
        streams = {client.open({"streamtype": kind}) for kind in ("error", "stdin", "stdout")}
        while not streams <= client.replied:
            assert await client.receive()
        writer.close()
        deadline = clock.loop_time() + 60
        while [task for task in asyncio.all_tasks() if "_SpdyClient" in repr(task.get_coro())]:
            assert clock.loop_time() < deadline
            await clock.sleep(0.02)

    run(main)


def test_port_forward_over_websocket(run: Run) -> None:
    async def main(api: Api) -> None:
        async with await api.websocket(api.url("portforward", "echo", ports="7000"), "v4.channel.k8s.io") as socket:
            assert [(await socket.receive()).data for _ in range(2)] == [bytes((n,)) + struct.pack("<H", 7000) for n in (0, 1)]
            await socket.send_bytes(b"\x00ping")
            assert (await socket.receive()).data == b"\x00ping"
        async with await api.websocket(api.url("portforward", "echo"), "SPDY/3.1+portforward.k8s.io") as socket:
            assert socket.protocol == "SPDY/3.1+portforward.k8s.io"
            tunnel = Tunnel(socket)
            spdy = SpdyClient(tunnel.reader, tunnel)  # type: ignore[arg-type]
            spdy.open({"streamtype": "error", "port": "7000", "requestid": "0"})
            data = spdy.open({"streamtype": "data", "port": "7000", "requestid": "0"})
            spdy.send(data, b"through the tunnel", fin=True)
            await tunnel.flush()
            while data not in spdy.closed:
                await tunnel.receive()
                assert await spdy.receive()
            assert spdy.received[data] == b"through the tunnel and bye"

    run(main)


class Tunnel:
    """SPDY bytes in WebSocket messages."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self.socket, self.reader, self._written = socket, asyncio.StreamReader(), b""

    def write(self, data: bytes) -> None:
        self._written += data

    async def flush(self) -> None:
        await self.socket.send_bytes(self._written)

    async def receive(self) -> None:
        self.reader.feed_data((await self.socket.receive()).data)


def test_logs_over_websocket(run: Run) -> None:
    async def main(api: Api) -> None:
        await api.client.create(pod("writes", "echo", "one line"))
        await until(api.client, "writes", ended)
        async with await api.websocket(api.url("log", "writes"), "binary.k8s.io") as socket:
            messages = [message.data async for message in socket]
        assert b"".join(messages) == b"one line\n"
        async with api.http.get(api.url("log", "writes"), headers=api.headers) as response:
            assert await response.text() == "one line\n"

    run(main)


def test_proxy_to_pods_and_services(run: Run) -> None:
    async def main(api: Api) -> None:
        url = URL(api.url("proxy", "web:web") + "/a%20b?x=1", encoded=True)
        async with api.http.get(url, headers={**api.headers, "x-asked": "me"}) as response:
            assert (response.status, response.headers["x-answered"]) == (203, "yes")
            assert await response.text() == "GET /a%20b?x=1 None me"
        async with api.http.post(api.url("proxy", "web:7001"), headers=api.headers) as response:
            assert await response.text() == "POST / None None"
        for method in ("OPTIONS", "PATCH", "PUT", "DELETE"):
            async with api.http.request(method, api.url("proxy", "web:7001"), headers=api.headers) as response:
                assert await response.text() == f"{method} / None None"
        async with api.http.head(api.url("proxy", "web:7001") + "/", headers=api.headers) as response:
            assert (response.status, response.headers.get("x-answered")) == (203, "yes")
        for method in ("GET", "HEAD"):
            address = api.url("proxy", "web:7001", x="1 2")
            async with api.http.request(method, address, headers=api.headers, allow_redirects=False) as response:
                assert response.status == 301
                assert response.headers["location"] == "/api/v1/namespaces/default/pods/web:7001/proxy/?x=1%202"
        async with api.http.options(api.url("status", "web"), headers=api.headers) as response:
            assert response.status == 405
        async with api.http.get(api.url("proxy", "web:7999"), headers=api.headers) as response:
            assert response.status == 503
            assert "connection refused" in (await response.json())["message"]
        async with api.http.get(api.url("proxy", "web:nope"), headers=api.headers) as response:
            assert (response.status, (await response.json())["message"]) == (404, 'pod web has no port named "nope"')

    run(main)


def test_requests_without_upgrade_or_container_are_refused(run: Run) -> None:
    async def main(api: Api) -> None:
        await api.client.create(_simulated())
        await until(api.client, "simulated", ready)
        asked = {"stdout": "true", "command": "ls"}
        expected = {
            api.url("exec", **asked): "Upgrade request required",
            api.url("exec", command="ls"): "you must specify at least 1 of stdin, stdout, stderr",
            api.url("exec", stdout="true"): "you must specify at least 1 command for the container",
            api.url("exec", container="nope", **asked): "container nope is not valid for pod sleep",
            api.url("exec", "simulated", **asked): "pod simulated has no processes: the twin simulates its containers; "
            "pods whose containers have a command run as processes on a twin started with --processes",
        }
        for url, message in expected.items():
            async with api.http.get(url, headers=api.headers) as response:
                assert (response.status, (await response.json())["message"]) == (400, message)
        with pytest.raises(aiohttp.WSServerHandshakeError, match="400"):
            await api.websocket(api.url("exec", **asked), "v1.unknown")
        status, _, writer = await api.upgrade(
            api.url("exec", **asked), "connection: Upgrade", "upgrade: SPDY/2", "content-length: 0"
        )
        assert status == b"HTTP/1.1 400 Bad Request"
        writer.close()

    run(main)


def _simulated() -> dict[str, Any]:
    simulated = pod("simulated", "sh")
    simulated["metadata"]["annotations"] = {"sliceworks.dev/runtime": "simulated"}
    return simulated


def test_websocket_needs_the_right_to_create(run: Run) -> None:
    async def main(api: Api) -> None:
        rules = [{"apiGroups": [""], "resources": ["pods/exec"], "verbs": ["get"]}]
        metadata = {"name": "reader", "namespace": "default"}
        role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": metadata, "rules": rules}
        subject = {"kind": "ServiceAccount", "name": "reader", "namespace": "default"}
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader"}
        binding = {**role, "kind": "RoleBinding", "subjects": [subject], "roleRef": reference}
        del binding["rules"]
        for obj in ({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}, role, binding):
            await api.client.create(obj)
        token = (await api.client.create_token("reader", "default", seconds=3600))["status"]["token"]
        with pytest.raises(aiohttp.WSServerHandshakeError, match="403"):
            await Api(api.client, api.port, token, api.http).exec("true")

    run(main)


GARBAGE = {
    "not SPDY": b"GET / HTTP/1.1\r\n\r\n" * 10,
    "a frame that is too long": struct.pack(">IBBH", 0x80030001, 0, 255, 0xFFFF),
    "headers that are not compressed": struct.pack(">IBBH", 0x80030001, 0, 0, 20) + bytes(20),
    "a stream that is too short": struct.pack(">IBBH", 0x80030001, 0, 0, 4) + bytes(4),
    "data of an unknown stream": struct.pack(">IBBH", 99, 1, 0, 3) + b"abc",
}


def test_garbage_ends_only_its_session(run: Run) -> None:
    async def main(api: Api) -> None:
        for data in GARBAGE.values():
            _, reader, writer = await api.upgrade(api.url("portforward", "echo"), *FORWARD_HEADERS)
            writer.write(data)
            writer.write_eof()
            await reader.read()
            writer.close()
        async with await api.websocket(api.url("exec", command="cat", stdin="true", stdout="true"), "v5.channel.k8s.io") as socket:
            for message in (
                b"",
                b"\xff",
                b"\xff\x09",
                b"\x04not JSON",
                b"\x04{}",
                b"\x09unknown channel",
                b"\x00input",
                b"\xff\x00",
            ):
                await socket.send_bytes(message)
            assert (await collect(socket)).stdout == b"input"

    run(main)


SPDY_HEADERS = ("connection: Upgrade", "upgrade: SPDY/3.1", "x-stream-protocol-version: v4.channel.k8s.io", "content-length: 0")


async def find_process(api: Api, marker: str) -> bool:
    """Whether a process of the pod `sleep` has the marker in its command line."""
    script = f"grep -lsa '{marker[:-1]}[{marker[-1]}]' /proc/[0-9]*/cmdline"
    return bool((await api.exec("sh", "-c", script)).stdout)


@pytest.mark.parametrize("transport", ["WebSocket", "SPDY"])
def test_frame_that_is_cut_ends_only_its_session(run: Run, transport: str, caplog: pytest.LogCaptureFixture) -> None:
    """The connection is reset in the middle of a frame of input, while the command writes."""

    async def main(api: Api) -> None:
        marker = f"cut-{transport}"
        command = ["sh", "-c", f": {marker}; while echo output; do sleep 0.01; done"]
        url = api.url("exec", command=command, stdin="true", stdout="true")
        if transport == "SPDY":
            _, reader, writer = await api.upgrade(url, *SPDY_HEADERS)
            client = SpdyClient(reader, writer)
            streams = [client.open({"streamtype": kind}) for kind in ("error", "stdin", "stdout")]
            while not client.received.get(streams[2]):
                assert await client.receive()
            frame = struct.pack(">II", streams[1], 1 << 20) + b"input"
        else:
            key = "sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ=="
            own = ("connection: Upgrade", "upgrade: websocket", "sec-websocket-version: 13", key)
            _, reader, writer = await api.upgrade(url, *own, "sec-websocket-protocol: v5.channel.k8s.io", method="GET")
            while b"output" not in await reader.read(1024):
                pass
            frame = struct.pack(">BBQI", 0x82, 0x80 | 127, 1 << 20, 0) + b"\x00input"
        assert await find_process(api, marker)
        writer.write(frame)
        await writer.drain()
        writer.transport.abort()
        await eventually_gone(api, marker)
        assert (await api.exec("echo", "other")).stdout == b"other\n"

    run(main)
    assert not caplog.records


async def eventually_gone(api: Api, marker: str) -> None:
    deadline = clock.loop_time() + 60
    while await find_process(api, marker):
        assert clock.loop_time() < deadline


def test_pod_that_is_deleted_ends_its_sessions(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    async def main(api: Api) -> None:
        await api.client.create(pod("brief", "sleep", "600", grace=0))
        await until(api.client, "brief", ready, seconds=90)
        url = api.url("exec", "brief", command=["sh", "-c", "echo output; exec sleep 600"], stdout="true")
        async with await api.websocket(url, "v5.channel.k8s.io") as socket:
            while b"output" not in (await socket.receive()).data:
                pass
            await api.client.delete(POD, "brief", grace_period_seconds=0)
            output = await asyncio.wait_for(collect(socket), 60)
        assert output.status["details"]["causes"] == [{"reason": "ExitCode", "message": "137"}]

    run(main)
    assert not caplog.records
