"""The client of Google's REST APIs. Public names are imported at first use, aiohttp and google-auth by the first request.

credentials  fixed tokens and application default credentials
session      requests with credentials, retries and errors
http         the HTTP transport, and the metadata server
container    node pools and operations of a GKE cluster
storage      Cloud Storage objects
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sliceworks.base.imports import lazy_exports

if TYPE_CHECKING:
    from sliceworks.cloud.container import Container, Operation
    from sliceworks.cloud.credentials import Anonymous, Credentials, Token
    from sliceworks.cloud.session import Session

_HOMES = {
    "container": ("Container", "Operation"),
    "credentials": ("Anonymous", "Credentials", "Token"),
    "session": ("Session",),
}
__getattr__, __dir__ = lazy_exports(__name__, _HOMES)

__all__ = ["Anonymous", "Container", "Credentials", "Operation", "Session", "Token"]
