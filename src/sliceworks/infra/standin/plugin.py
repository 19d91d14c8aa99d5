"""How a provider is reached: gRPC on a socket of this user's own. Terraform starts it and hears of the socket by a handshake on
standard output; or somebody else starts it once, and tells Terraform where it is."""

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

from sliceworks.infra.standin import messages

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

COOKIE = ("TF_PLUGIN_MAGIC_COOKIE", "d602bf8f470bc67ca7faa0386276bbdd4330efaf76d1a219cb4d6991ca9872b2")
_HANDSHAKE, _PROTOCOL = 1, 5
_LARGEST = 256 * 1024 * 1024
_CONTROLLER = "plugin.GRPCController"
_LOOK = 1.0


async def serve(handlers: Mapping[str, Callable[[Any], Awaitable[Any]]]) -> int:
    """Answer Terraform's calls until it says that it has no more."""
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
    """Tell where the socket is, and answer there for as long as whoever started this keeps our standard input open."""
    async with _served(handlers, asyncio.Event(), secured=False) as (address, _):
        print(address, flush=True)
        await asyncio.to_thread(sys.stdin.buffer.read)
    return 0


@asynccontextmanager
async def _served(
    handlers: Mapping[str, Callable[[Any], Awaitable[Any]]], ended: asyncio.Event, *, secured: bool
) -> AsyncIterator[tuple[Path, str]]:
    """A server at a socket that only this user can reach, and the certificate by which it is known."""
    import grpc

    # Ctrl-C reaches everybody at the terminal; Terraform decides what becomes of it.
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
    """End with Terraform: one that was killed says no goodbye."""
    while os.getppid() == parent:
        await asyncio.sleep(_LOOK)
    ended.set()


def _provider(grpc: Any, handlers: Mapping[str, Callable[[Any], Awaitable[Any]]]) -> Any:
    methods = {}
    for name, handler in handlers.items():
        asked, answered = messages.METHODS[name]
        methods[name] = grpc.unary_unary_rpc_method_handler(
            _with_context(handler),
            request_deserializer=messages.message(asked).FromString,
            response_serializer=messages.message(answered).SerializeToString,
        )
    return grpc.method_handlers_generic_handler(messages.SERVICE, methods)


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
    """Listen with a certificate of our own, in the form that the handshake tells it.

    Terraform offers one too, on a curve that gRPC's TLS does not take; so who may connect is left to the socket's folder,
    which only this user can enter.
    """
    if not secured:
        server.add_insecure_port(address)
        return ""
    key, certificate = _certificate()
    server.add_secure_port(address, grpc.ssl_server_credentials([(key, certificate)]))
    der = base64.b64decode(b"".join(certificate.strip().splitlines()[1:-1]))
    return base64.b64encode(der).decode().rstrip("=")


def _certificate() -> tuple[bytes, bytes]:
    """A key and a certificate that signs itself, as the other side expects it: for `localhost`, an authority of its own."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import ExtendedKeyUsageOID

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    moment = datetime.now(UTC)
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
        .not_valid_before(moment - timedelta(minutes=1))
        .not_valid_after(moment + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(both, critical=False)
    )
    made = builder.sign(key, hashes.SHA256())
    private = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return private, made.public_bytes(serialization.Encoding.PEM)
