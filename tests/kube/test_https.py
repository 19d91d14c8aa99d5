"""The HTTPS transport, against a small server on loopback."""

from __future__ import annotations

import asyncio
import ssl
from contextlib import aclosing, asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING

import pytest
from tests.support.certificates import KeyPair, self_signed
from tests.support.scripted_transport import line, pod

from sliceworks.base import clock
from sliceworks.base.errors import SliceworksError, Unauthorized, Unreachable
from sliceworks.base.retry import NEVER
from sliceworks.base.transport import Request
from sliceworks.kube.client import Client
from sliceworks.kube.connection import Certificate, Connection, StaticCredentials, bearer_header
from sliceworks.kube.https import HttpsTransport
from sliceworks.kube.resources import POD
from sliceworks.kube.selectors import parse_labels

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
    from pathlib import Path


@pytest.fixture(scope="module")
def pair() -> KeyPair:
    return self_signed()


class Server:
    """Answers requests with `respond` and records them."""

    def __init__(self) -> None:
        self.port = 0
        self.heads: list[str] = []
        self.bodies: list[bytes] = []
        self.connections = 0
        self.peers: list[object] = []
        self.closed = asyncio.Event()
        self.hang_up = False
        self.answers: list[bytes] = []

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.peers.append(writer.get_extra_info("peercert"))
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                self.heads.append(head)
                length = next((int(row.split(":")[1]) for row in head.lower().splitlines() if row.startswith("content-length:")), 0)
                self.bodies.append(await reader.readexactly(length))
                reply = self.answers.pop(0)
                writer.write(reply)
                await writer.drain()
                if self.hang_up:
                    return
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            self.closed.set()
            writer.close()


@asynccontextmanager
async def running(pair: KeyPair, folder: Path, *, client_ca: bytes | None = None) -> AsyncIterator[Server]:
    certificate = folder / "server.pem"
    certificate.write_bytes(pair.certificate + pair.key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    if client_ca is not None:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(cadata=client_ca.decode())
    server = Server()
    listener = await asyncio.start_server(server.serve, "127.0.0.1", 0, ssl=context)
    server.port = listener.sockets[0].getsockname()[1]
    try:
        yield server
    finally:
        listener.close()


def reply(body: bytes, status: str = "200 OK", headers: Mapping[str, str] | None = None) -> bytes:
    extra = "".join(f"{name}: {value}\r\n" for name, value in (headers or {}).items())
    return f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\n{extra}Content-Length: {len(body)}\r\n\r\n".encode() + body


def chunk(data: bytes) -> bytes:
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


def test_requests_share_a_connection(pair: KeyPair, tmp_path: Path) -> None:
    async def main() -> None:
        async with running(pair, tmp_path) as server:
            connection = Connection(server.url, StaticCredentials(bearer_header("t")), ca=pair.certificate)
            async with Client(HttpsTransport(connection, user_agent="tester")) as client:
                server.answers = [reply(b'{"kind":"PodList","items":[]}'), reply(b"{}")]
                await client.list(POD, labels=parse_labels("a in (x,y),b!=c"))
                await client.patch(POD, "a", {"x": "é"}, "ml")
            assert server.connections == 1
            assert server.heads[0].startswith("GET /api/v1/pods?labelSelector=a%20in%20(x,y),b!%3Dc HTTP/1.1\r\n")
            assert "authorization: Bearer t\r\n" in server.heads[0]
            assert "user-agent: tester\r\n" in server.heads[0]
            assert "gzip" not in server.heads[0]
            assert "content-type: application/merge-patch+json\r\n" in server.heads[1]
            assert server.bodies[1] == '{"x":"é"}'.encode()

    asyncio.run(main())


def test_headers_are_lower_case_and_joined(pair: KeyPair, tmp_path: Path) -> None:
    async def main() -> None:
        received: list[str] = []
        async with running(pair, tmp_path) as server:
            raw = b'HTTP/1.1 200 OK\r\nWarning: 299 - "one"\r\nWarning: 299 - "two"\r\nContent-Length: 2\r\n\r\n{}'
            server.answers = [raw]
            async with Client(HttpsTransport(Connection(server.url, ca=pair.certificate)), on_warning=received.append) as client:
                await client.get(POD, "a")
        assert received == ["one", "two"]

    asyncio.run(main())


def test_watch_streams_chunks_and_closes(pair: KeyPair, tmp_path: Path) -> None:
    async def main() -> None:
        async with running(pair, tmp_path) as server:
            wire = line("ADDED", pod("a"))
            server.answers = [CHUNKED + chunk(wire) + chunk(wire[:9])]
            async with Client(HttpsTransport(Connection(server.url, ca=pair.certificate))) as client:
                async with aclosing(client.watch(POD)) as events:
                    assert (await anext(events)).type == "ADDED"
                await asyncio.wait_for(server.closed.wait(), 90)

    asyncio.run(main())


def test_broken_watch_is_unreachable(pair: KeyPair, tmp_path: Path) -> None:
    async def main() -> None:
        async with running(pair, tmp_path) as server:
            server.hang_up = True
            server.answers = [CHUNKED + chunk(line("ADDED", pod("a")))]
            async with Client(HttpsTransport(Connection(server.url, ca=pair.certificate))) as client:
                events = client.watch(POD)
                await anext(events)
                with pytest.raises(Unreachable, match=r"^connection to .* failed"):
                    await anext(events)

    asyncio.run(main())


class Renewing(StaticCredentials):
    """Credentials that are valid after renewal."""

    async def invalidate(self) -> bool:
        self.fixed_headers = bearer_header("fresh")
        return True


def test_rejected_credentials_are_renewed_once(pair: KeyPair, tmp_path: Path) -> None:
    async def main() -> None:
        async with running(pair, tmp_path) as server:
            refused = reply(b'{"kind":"Status","code":401,"reason":"Unauthorized","message":"Unauthorized"}', "401 Unauthorized")
            server.answers = [refused, reply(b"{}"), refused, refused]
            async with Client(
                HttpsTransport(Connection(server.url, Renewing(bearer_header("stale")), ca=pair.certificate))
            ) as client:
                await client.get(POD, "a")
                assert ["Bearer stale" in head for head in server.heads] == [True, False]
                with pytest.raises(Unauthorized):
                    await client.get(POD, "a")
            assert len(server.heads) == 4

    asyncio.run(main())


def test_client_certificates(pair: KeyPair, tmp_path: Path) -> None:
    async def main() -> None:
        client_pair = self_signed("robot")
        async with running(pair, tmp_path, client_ca=client_pair.certificate) as server:
            server.answers = [reply(b"{}")]
            credentials = StaticCredentials({}, Certificate(client_pair.certificate, client_pair.key))
            async with Client(HttpsTransport(Connection(server.url, credentials, ca=pair.certificate))) as client:
                await client.get(POD, "a")
            assert server.peers[0]

    asyncio.run(main())


def test_new_certificate_does_not_break_concurrent_requests(pair: KeyPair, tmp_path: Path) -> None:
    class Rotating(StaticCredentials):
        """Another request finds the next certificate while this one still waits for its headers."""

        async def headers(self) -> Mapping[str, str]:
            if self.fixed_certificate == first:
                self.fixed_certificate = second
                await others[0]()
            return {}

    async def main() -> None:
        async with running(pair, tmp_path) as server:
            server.answers = [reply(b"{}"), reply(b"{}")]
            transport = HttpsTransport(Connection(server.url, Rotating({}, first), ca=pair.certificate))
            others.append(partial(transport.send, Request("GET", "/another")))
            async with Client(transport) as client:
                await client.get(POD, "a")
            assert [head.split()[1] for head in server.heads] == ["/another", "/api/v1/namespaces/default/pods/a"]

    others: list[Callable[[], Awaitable[object]]] = []
    first, second = (Certificate(item.certificate, item.key) for item in (self_signed("robot"), self_signed("robot")))
    asyncio.run(main())


def test_tls_server_name_is_used(pair: KeyPair, tmp_path: Path) -> None:
    async def main() -> None:
        other = self_signed("cluster.example", "192.0.2.1")
        async with running(other, tmp_path) as server:
            server.answers = [reply(b"{}")]
            trusted = Connection(server.url, ca=other.certificate, tls_server_name="cluster.example")
            async with Client(HttpsTransport(trusted)) as client:
                await client.get(POD, "a")
            async with Client(HttpsTransport(Connection(server.url, ca=other.certificate)), retry=NEVER) as client:
                with pytest.raises(Unreachable, match="is not trusted"):
                    await client.get(POD, "a")

    asyncio.run(main())


def test_only_the_configured_ca_is_trusted(pair: KeyPair, tmp_path: Path) -> None:
    async def main() -> None:
        async with running(pair, tmp_path) as server:
            async with Client(HttpsTransport(Connection(server.url)), retry=NEVER) as client:
                with pytest.raises(Unreachable, match=r"^certificate of .* is not trusted") as refusal:
                    await client.get(POD, "a")
                assert refusal.value.hint
                assert "\n" not in str(refusal.value)
            server.answers = [reply(b"{}")]
            async with Client(HttpsTransport(Connection(server.url, insecure=True))) as client:
                await client.get(POD, "a")

    asyncio.run(main())


def test_refused_connection_is_unreachable() -> None:
    async def main() -> None:
        async with Client(HttpsTransport(Connection("https://127.0.0.1:1")), retry=NEVER) as client:
            with pytest.raises(Unreachable, match=r"cannot connect to https://127.0.0.1:1: ") as refusal:
                await client.get(POD, "a")
            assert refusal.value.__cause__ is not None

    clock.run(main())


def test_closed_transport_is_unreachable() -> None:
    async def main() -> None:
        transport = HttpsTransport(Connection("https://127.0.0.1:1"))
        await transport.close()
        with pytest.raises(Unreachable, match="is closed"):
            await transport.send(Request("GET", "/"))

    asyncio.run(main())


@pytest.mark.parametrize(
    ("connection", "message"),
    [
        (Connection("ftp://h"), "is not a valid URL"),
        (Connection("https://"), "is not a valid URL"),
        (Connection("https://h:99999"), "is not a valid URL"),
        (Connection("https://[::1"), "is not a valid URL"),
        (Connection("https://h", proxy_url="socks5://p:1"), "only http and https proxies are"),
        (Connection("https://h", proxy_url="http://u:secret@p:x"), "the URL of the proxy is not valid$"),
    ],
)
def test_invalid_addresses_are_rejected(connection: Connection, message: str) -> None:
    with pytest.raises(SliceworksError, match=message):
        HttpsTransport(connection)


@pytest.mark.parametrize(
    ("connection", "message"),
    [
        (Connection("https://127.0.0.1:1", ca=b"no"), "is not a valid PEM certificate"),
        (Connection("https://127.0.0.1:1", StaticCredentials({}, Certificate(b"no", b"no"))), "do not match"),
    ],
)
def test_invalid_certificates_are_rejected(connection: Connection, message: str) -> None:
    async def main() -> None:
        async with Client(HttpsTransport(connection)) as client:
            await client.get(POD, "a")

    with pytest.raises(SliceworksError, match=message):
        asyncio.run(main())
