"""The exposed Services of a running twin, over its API."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from sliceworks.base import clock
from sliceworks.base.errors import UsageError
from sliceworks.base.transport import Request
from sliceworks.kube.https import open_client

if TYPE_CHECKING:
    from pathlib import Path

_PATH = "/debug/twin/exposed"
_JSON = {"content-type": "application/json"}


def parse(argument: str, *, remove: bool) -> dict[str, str]:
    """The namespace, Service and address of `NAMESPACE/SERVICE=HOST:PORT`; without the address to remove it."""
    reference, equals, address = argument.partition("=")
    namespace, slash, service = reference.partition("/")
    form = "NAMESPACE/SERVICE" if remove else "NAMESPACE/SERVICE=HOST:PORT"
    if not (namespace and slash and service) or bool(equals) == remove:
        raise UsageError(f"{argument!r}: expected {form}")
    return {"namespace": namespace, "service": service, "address": address}


def send(kubeconfig: Path, body: dict[str, str] | None = None, *, remove: bool = False) -> list[dict[str, Any]]:
    """Expose a Service, or remove it; returns all exposed Services. Without a body only lists them."""
    method = "GET" if body is None else "DELETE" if remove else "POST"

    async def main() -> list[dict[str, Any]]:
        async with open_client(kubeconfig) as client:
            data = orjson.dumps(body) if body is not None else b""
            return list((await client.send(Request(method, _PATH, (), _JSON, data)))["items"])

    return clock.run(main())
