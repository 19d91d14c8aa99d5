"""The exposed Services of a running twin, over its API."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.base import clock
from sliceworks.base.errors import UsageError
from sliceworks.base.transport import Request
from sliceworks.kube.https import open_client

if TYPE_CHECKING:
    from pathlib import Path

_PATH = "/debug/twin/exposed"


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
    request = Request("GET", _PATH) if body is None else Request.json("DELETE" if remove else "POST", _PATH, body)

    async def main() -> list[dict[str, Any]]:
        async with open_client(kubeconfig) as client:
            return list((await client.send(request))["items"])

    return clock.run(main())
