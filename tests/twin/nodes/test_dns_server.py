"""The cluster's DNS server and the resolver configuration of pods."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import sys
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.process_pods import ended, mounts_wanted, pod, running, until

from sliceworks.kube.resources import SERVICE
from sliceworks.twin.nodes.runtime import dns_server
from sliceworks.twin.nodes.runtime.dns_server import DnsServer, respond
from sliceworks.twin.nodes.runtime.dns_zone import AAAA, CNAME, PTR, SRV, A, Zone, build_zone, encode_name
from sliceworks.twin.nodes.runtime.pod_dns import DnsName, LoopbackRange
from sliceworks.twin.nodes.runtime.resolv_conf import ResolvConf, of_pod, read_machine

if TYPE_CHECKING:
    from pathlib import Path

    from sliceworks.kube.client import Client

Object = dict[str, Any]
WEB = "web.default.svc.cluster.local"
SERVICES: list[Object] = [
    {"metadata": {"name": "web", "namespace": "default"}, "spec": {"ports": [{"name": "http", "port": 80}, {"port": 81}]}},
    {"metadata": {"name": "out", "namespace": "default"}, "spec": {"type": "ExternalName", "externalName": "foo.example.com"}},
    {"metadata": {"name": "in", "namespace": "default"}, "spec": {"type": "ExternalName", "externalName": f"{WEB}."}},
]
ZONE = build_zone([DnsName("default", "web", ("127.1.128.1",)), DnsName("default", "all", ("127.1.0.1", "127.1.0.2"))], SERVICES)


def request(name: str, kind: int, *, number: int = 7) -> bytes:
    return struct.pack("!HHHHHH", number, 0x0100, 1, 0, 0, 0) + encode_name(name) + struct.pack("!HH", kind, 1)


def answers(response: bytes, question: bytes) -> tuple[int, list[tuple[int, bytes]]]:
    """The code of a response, and type and data of its records."""
    number, flags, questions, count, _, _ = struct.unpack_from("!HHHHHH", response)
    assert (number, flags & 0x8000, questions, response[12 : len(question)]) == (7, 0x8000, 1, question[12:])
    found, at = [], len(question)
    for _ in range(count):
        at += 2 if response[at] >= 0xC0 else response.index(0, at) + 1 - at
        kind, _, _, length = struct.unpack_from("!HHIH", response, at)
        found.append((kind, response[at + 10 : at + 10 + length]))
        at += 10 + length
    assert at == len(response)
    return flags & 15, found


@pytest.mark.parametrize(
    ("name", "kind", "expected"),
    [
        (WEB, A, [(A, socket.inet_aton("127.1.128.1"))]),
        (WEB.upper(), A, [(A, socket.inet_aton("127.1.128.1"))]),
        (WEB, 28, []),
        ("all.default.svc.cluster.local", A, [(A, socket.inet_aton("127.1.0.1")), (A, socket.inet_aton("127.1.0.2"))]),
        (f"_http._tcp.{WEB}", SRV, [(SRV, struct.pack("!HHH", 0, 100, 80) + encode_name(WEB))]),
        ("1.128.1.127.in-addr.arpa", PTR, [(PTR, encode_name(WEB))]),
        ("out.default.svc.cluster.local", CNAME, [(CNAME, encode_name("foo.example.com"))]),
        ("out.default.svc.cluster.local", A, [(CNAME, encode_name("foo.example.com"))]),
        ("in.default.svc.cluster.local", A, [(CNAME, encode_name(WEB)), (A, socket.inet_aton("127.1.128.1"))]),
    ],
)
def test_records_of_services(name: str, kind: int, expected: list[tuple[int, bytes]]) -> None:
    question = request(name, kind)
    assert answers(respond(question, ZONE), question) == (0, expected)


def test_unknown_names_do_not_exist() -> None:
    question = request("web.other.svc.cluster.local", A)
    assert answers(respond(question, ZONE), question) == (3, [])


def test_response_has_at_most_as_many_records_as_a_message() -> None:
    zone = build_zone([DnsName("default", "all", tuple(f"127.1.{number >> 8}.{number & 255}" for number in range(5000)))], [])
    question = request("all.default.svc.cluster.local", A)
    response = respond(question, zone)
    assert len(response) <= 0xFFFF
    assert len(answers(response, question)[1]) == (0xFFFF - len(question)) // 16


@pytest.mark.parametrize("size", range(24))
def test_a_request_that_is_cut_off_is_a_format_error(size: int) -> None:
    response = respond(request("a.b", A)[: min(size, 20)], ZONE)
    assert struct.unpack_from("!HHHHHH", response)[1] & 15 == 1


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have one loopback address")
def test_response_that_is_too_large_for_a_datagram_is_truncated() -> None:
    """Resolvers ask again over TCP."""
    addresses = tuple(f"127.1.0.{number}" for number in range(1, 101))
    zone = build_zone([DnsName("default", "workers", addresses)], [])

    async def main() -> None:
        loopback = LoopbackRange()
        networks = loopback.networks
        assert networks is not None
        server, port = DnsServer(networks, [], lambda: zone), _free_port()
        address = str(networks.pods[1])
        assert await server.open(address, port)
        question = request("workers.default.svc.cluster.local", A)
        responses = []
        for ask in (dns_server._query_over_udp, dns_server._query_over_tcp):
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(dns_server, "PORT", port)
                async with asyncio.timeout(60):
                    responses.append(await ask(question, address))
        server.close()
        loopback.close()
        await asyncio.sleep(0)  # connections are closed by the loop
        short, complete = responses
        truncated = 0x0200
        assert len(short) <= 512
        assert struct.unpack_from("!H", short, 2)[0] & truncated
        assert not struct.unpack_from("!H", complete, 2)[0] & truncated
        records = answers(complete, question)[1]
        assert [data for _, data in records] == [socket.inet_aton(item) for item in addresses]
        assert answers(short, question)[1] == records[: len(answers(short, question)[1])]

    asyncio.run(main())


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have one loopback address")
def test_responses_are_not_answered() -> None:
    """A response with the address of the server as its source would be answered again and again."""
    other = bytearray(request(WEB, A, number=8))
    other[2] |= 0x28  # an update

    async def main() -> None:
        loopback = LoopbackRange()
        assert loopback.networks is not None
        server, address, port = DnsServer(loopback.networks, [], lambda: ZONE), str(loopback.networks.pods[1]), _free_port()
        assert await server.open(address, port)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
            client.setblocking(False)
            client.connect((address, port))
            for message in (b"", b"short", respond(request(WEB, A, number=1), ZONE), bytes(other)):
                client.send(message)
            received = await asyncio.get_running_loop().sock_recv(client, 600)
            assert struct.unpack_from("!H", received) == (8,)
            assert received[3] & 15 == 4
        server.close()
        loopback.close()
        await asyncio.sleep(0)

    asyncio.run(main())


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have one loopback address")
def test_idle_and_many_connections_are_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dns_server, "_IDLE_SECONDS", 0.05)
    monkeypatch.setattr(dns_server, "_MAX_STREAMS", 3)

    async def main() -> None:
        loopback = LoopbackRange()
        assert loopback.networks is not None
        server, address, port = DnsServer(loopback.networks, [], lambda: ZONE), str(loopback.networks.pods[1]), _free_port()
        assert await server.open(address, port)
        idle = [await asyncio.open_connection(address, port) for _ in range(10)]
        for reader, writer in idle:
            with contextlib.suppress(ConnectionResetError):
                assert await reader.read() == b""
            writer.close()
        assert not server._streams
        server.close()
        loopback.close()

    asyncio.run(main())


def test_external_name_that_has_no_wire_form_has_no_record() -> None:
    """Labels of a name have at most 63 bytes on the wire; the API server accepts more."""
    spec = {"type": "ExternalName", "externalName": f"{'a' * 64}.com"}
    service = {"metadata": {"name": "long", "namespace": "default"}, "spec": spec}
    assert build_zone([], [service]).names == frozenset()


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have one loopback address")
def test_serves_udp_and_tcp_and_forwards_other_names(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        loopback = LoopbackRange()
        networks = loopback.networks
        assert networks is not None
        port = _free_port()
        monkeypatch.setattr(dns_server, "PORT", port)
        upstream = DnsServer(networks, [], lambda: ZONE)
        monkeypatch.setattr(upstream, "_answer", _echo)
        server = DnsServer(networks, [str(networks.pods[3]), str(networks.pods[2])], lambda: ZONE)
        assert await upstream.open(str(networks.pods[2]), port)
        assert await server.open(str(networks.pods[1]), port)
        known, other = request(WEB, A), request("example.com", A)
        place = str(networks.pods[1])
        for ask in (dns_server._query_over_udp, dns_server._query_over_tcp):
            async with asyncio.timeout(60):
                assert answers(await ask(known, place), known)[1] == [(A, socket.inet_aton("127.1.128.1"))]
                assert await ask(other, place) == b"asked " + other
        upstream.close()
        server.close()
        loopback.close()
        await asyncio.sleep(0)  # connections are closed by the loop

    asyncio.run(main())


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have one loopback address")
@pytest.mark.parametrize("is_reachable", [True, False])
def test_external_names_are_resolved(is_reachable: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Resolvers of pods do not follow a CNAME record themselves."""
    outside = Zone({("foo.example.com", A): [socket.inet_aton("192.0.2.7")]}, frozenset({"foo.example.com"}))

    async def main() -> None:
        loopback = LoopbackRange()
        networks = loopback.networks
        assert networks is not None
        port = _free_port()
        monkeypatch.setattr(dns_server, "PORT", port)
        upstream = DnsServer(networks, [], lambda: ZONE)

        async def answer(question: bytes, query: object) -> bytes:
            return respond(question, outside)

        monkeypatch.setattr(upstream, "_answer", answer)
        server = DnsServer(networks, [str(networks.pods[2])] if is_reachable else [], lambda: ZONE)
        assert await upstream.open(str(networks.pods[2]), port)
        assert await server.open(str(networks.pods[1]), port)
        alias, address = (CNAME, encode_name("foo.example.com")), (A, socket.inet_aton("192.0.2.7"))
        for query in (dns_server._query_over_udp, dns_server._query_over_tcp):
            for kind, expected in ((A, [alias, address] if is_reachable else [alias]), (AAAA, [alias]), (CNAME, [alias])):
                question = request("out.default.svc.cluster.local", kind)
                async with asyncio.timeout(60):
                    assert answers(await query(question, str(networks.pods[1])), question) == (0, expected)
        upstream.close()
        server.close()
        loopback.close()
        await asyncio.sleep(0)  # connections are closed by the loop

    asyncio.run(main())


@pytest.mark.parametrize("size", range(50))
def test_response_of_an_upstream_that_is_cut_off_has_fewer_addresses(size: int) -> None:
    zone = Zone({("a.b", A): [socket.inet_aton("192.0.2.7")]}, frozenset({"a.b"}))
    whole = respond(request("a.b", A), zone)
    expected = [socket.inet_aton("192.0.2.7")] if size >= len(whole) else []
    assert dns_server.parse_addresses(whole[:size], A) == expected


async def _echo(question: bytes, ask: object) -> bytes:
    return b"asked " + question


def _free_port() -> int:
    with socket.create_server(("", 0)) as server:
        return int(server.getsockname()[1])


MACHINE = ResolvConf(("10.0.0.2",), ("example.com",), ("ndots:1", "rotate"))
CONFIG = {"nameservers": ["1.1.1.1"], "searches": ["a.b"], "options": [{"name": "ndots", "value": "2"}, {"name": "edns0"}]}
CLUSTER = ("team.svc.cluster.local", "svc.cluster.local", "cluster.local", "example.com")


@pytest.mark.parametrize(
    ("spec", "server", "expected"),
    [
        ({}, "127.1.0.1", ResolvConf(("127.1.0.1",), CLUSTER, ("ndots:5",))),
        ({}, "", MACHINE),
        ({"dnsPolicy": "Default"}, "127.1.0.1", MACHINE),
        ({"hostNetwork": True, "dnsPolicy": "ClusterFirst"}, "127.1.0.1", MACHINE),
        (
            {"hostNetwork": True, "dnsPolicy": "ClusterFirstWithHostNet"},
            "127.1.0.1",
            ResolvConf(("127.1.0.1",), CLUSTER, ("ndots:5",)),
        ),
        ({"dnsPolicy": "None", "dnsConfig": CONFIG}, "127.1.0.1", ResolvConf(("1.1.1.1",), ("a.b",), ("ndots:2", "edns0"))),
        (
            {"dnsConfig": CONFIG},
            "127.1.0.1",
            ResolvConf(("127.1.0.1", "1.1.1.1"), (*CLUSTER, "a.b"), ("ndots:2", "edns0")),
        ),
    ],
)
def test_resolver_configuration_of_a_pod(spec: Object, server: str, expected: ResolvConf) -> None:
    assert of_pod({"metadata": {"namespace": "team"}, "spec": spec}, MACHINE, server) == expected


def test_resolver_configuration_is_read_and_written(tmp_path: Path) -> None:
    file = tmp_path / "resolv.conf"
    file.write_text("# comment\nsearch old\nnameserver 10.0.0.2\nsearch example.com\noptions ndots:1 rotate\nsortlist 1.2.3.4\n")
    assert read_machine(file) == MACHINE
    file.write_text(MACHINE.render())
    assert read_machine(file) == MACHINE
    assert read_machine(tmp_path / "missing") == ResolvConf()


@mounts_wanted
def test_a_pod_has_its_own_resolver_configuration(tmp_path: Path) -> None:
    async def main(client: Client) -> None:
        body = pod("a", "sh", "-c", "cat /etc/resolv.conf > /dev/termination-log")
        body["spec"] |= {"dnsPolicy": "None", "dnsConfig": {"nameservers": ["192.0.2.1"], "searches": ["a.example"]}}
        await client.create(body)
        status = await until(client, "a", ended)
        message = status["containerStatuses"][0]["state"]["terminated"]["message"]
        assert message == "nameserver 192.0.2.1\nsearch a.example\n"

    running(main, tmp_path)


RESOLVE = """
import socket, sys
from pathlib import Path
server = [line.split()[1] for line in Path("/etc/resolv.conf").read_text().splitlines() if line.startswith("nameserver")][0]
question = bytes.fromhex(sys.argv[1])
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
    client.settimeout(1)
    client.connect((server, 53))
    for _ in range(50):
        client.send(question)
        response = client.recv(1000)
        if response[3] & 15 == 0:
            break
Path("/dev/termination-log").write_text(socket.inet_ntoa(response[-4:]))
"""


@mounts_wanted
def test_a_pod_resolves_a_service_by_dns(tmp_path: Path) -> None:
    async def main(client: Client) -> None:
        service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "namespace": "default"}}
        address = (await client.create({**service, "spec": {"ports": [{"port": 80}]}}))["spec"]["clusterIP"]
        await client.create(pod("a", sys.executable, "-c", RESOLVE, request(WEB, A).hex()))
        status = await until(client, "a", ended)
        assert status["containerStatuses"][0]["state"]["terminated"]["message"] == address
        await client.delete(SERVICE, "web")

    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.bind(("127.255.255.1", 53))
    except OSError as error:
        pytest.skip(f"this machine does not let programs listen on port 53: {error}")
    running(main, tmp_path)
