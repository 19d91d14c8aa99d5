"""Serves the provider over gRPC: started by Terraform with its plugin handshake, or running already and reattached."""

from __future__ import annotations

import asyncio
import base64
import os
import signal
import sys
import tempfile
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sliceworks.infra.provider import protocol

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

COOKIE = ("TF_PLUGIN_MAGIC_COOKIE", "d602bf8f470bc67ca7faa0386276bbdd4330efaf76d1a219cb4d6991ca9872b2")
_HANDSHAKE, _PROTOCOL = 1, 5
_LARGEST = 256 * 1024 * 1024
_CONTROLLER = "plugin.GRPCController"
_PARENT_POLL = 1.0  # seconds


async def serve(handlers: Mapping[str, Callable[[Any], Awaitable[Any]]]) -> int:
    """Serve Terraform's calls until it disconnects."""
    if os.environ.get(COOKIE[0]) != COOKIE[1]:
        print("This program is a Terraform provider: Terraform starts it, people do not.", file=sys.stderr)
        return 1
    ended = asyncio.Event()
    secured = bool(os.environ.get("PLUGIN_CLIENT_CERT"))
    async with _served(handlers, ended, secured=secured) as (address, certificate):
        print(f"{_HANDSHAKE}|{_PROTOCOL}|unix|{address}|grpc|{certificate}", flush=True)
        watch = asyncio.create_task(_watch(os.getppid(), ended))
        await ended.wait()
        watch.cancel()
    return 0


async def serve_attached(handlers: Mapping[str, Callable[[Any], Awaitable[Any]]]) -> int:
    """Print the socket path and serve until stdin is closed."""
    async with _served(handlers, asyncio.Event(), secured=False) as (address, _):
        print(address, flush=True)
        await asyncio.to_thread(sys.stdin.buffer.read)
    return 0


@asynccontextmanager
async def _served(
    handlers: Mapping[str, Callable[[Any], Awaitable[Any]]], ended: asyncio.Event, *, secured: bool
) -> AsyncIterator[tuple[Path, str]]:
    """A server on a socket that is private to this user, and its certificate."""
    import grpc

    # SIGINT reaches the whole process group; Terraform decides when the provider stops.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    server = grpc.aio.server(options=[("grpc.max_receive_message_length", _LARGEST), ("grpc.max_send_message_length", _LARGEST)])
    server.add_generic_rpc_handlers((_provider(grpc, handlers), _controller(grpc, ended)))
    with tempfile.TemporaryDirectory(prefix="sliceworks-provider-") as folder:
        address = Path(folder, "socket")
        certificate = _listen(grpc, server, f"unix:{address}", secured=secured)
        await server.start()
        yield address, certificate
        await server.stop(grace=1)


async def _watch(parent: int, ended: asyncio.Event) -> None:
    """Exit when Terraform exits, even if it was killed."""
    while os.getppid() == parent:
        await asyncio.sleep(_PARENT_POLL)
    ended.set()


def _provider(grpc: Any, handlers: Mapping[str, Callable[[Any], Awaitable[Any]]]) -> Any:
    methods = {}
    for name, handler in handlers.items():
        request_type, response_type = protocol.METHODS[name]
        methods[name] = grpc.unary_unary_rpc_method_handler(
            _with_context(handler),
            request_deserializer=protocol.message(request_type).FromString,
            response_serializer=protocol.message(response_type).SerializeToString,
        )
    return grpc.method_handlers_generic_handler(protocol.SERVICE, methods)


def _with_context(handler: Callable[[Any], Awaitable[Any]]) -> Callable[[Any, Any], Awaitable[Any]]:
    async def call(request: Any, _: Any) -> Any:
        return await handler(request)

    return call


def _controller(grpc: Any, ended: asyncio.Event) -> Any:
    async def shutdown(_: bytes, __: Any) -> bytes:
        ended.set()
        return b""

    return grpc.method_handlers_generic_handler(_CONTROLLER, {"Shutdown": grpc.unary_unary_rpc_method_handler(shutdown)})


def _listen(grpc: Any, server: Any, address: str, *, secured: bool) -> str:
    """Listen with a self-signed certificate; returns it in the encoding of the handshake.

    Terraform's client certificate uses a curve that gRPC does not support, so access is restricted by the folder of the
    socket, which is private to this user.
    """
    if not secured:
        server.add_insecure_port(address)
        return ""
    key, certificate = _certificate()
    server.add_secure_port(address, grpc.ssl_server_credentials([(key, certificate)]))
    der = base64.b64decode(b"".join(certificate.strip().splitlines()[1:-1]))
    return base64.b64encode(der).decode().rstrip("=")


def _certificate() -> tuple[bytes, bytes]:
    """A key and a self-signed CA certificate for `localhost`, as the handshake requires."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import ExtendedKeyUsageOID

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    usage = x509.KeyUsage(
        digital_signature=True,
        key_encipherment=True,
        key_agreement=True,
        key_cert_sign=True,
        content_commitment=False,
        data_encipherment=False,
        crl_sign=False,
        encipher_only=False,
        decipher_only=False,
    )
    both = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH])
    builder = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(both, critical=False)
    )
    certificate = builder.sign(key, hashes.SHA256())
    private = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return private, certificate.public_bytes(serialization.Encoding.PEM)
