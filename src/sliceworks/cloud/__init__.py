"""The one seam to Google's REST APIs: credentials, a session, and a small typed client for each API that the product uses.

The names below are what the other rooms use. Each is imported when it is first asked for: nothing here loads an HTTP client or
google-auth before a request needs one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sliceworks.base.lazy import exports

if TYPE_CHECKING:
    from sliceworks.cloud.container import Container
    from sliceworks.cloud.credentials import Anonymous, Credentials, Token
    from sliceworks.cloud.inprocess import InProcess
    from sliceworks.cloud.operations import Operation
    from sliceworks.cloud.retrying import NEVER, Retry
    from sliceworks.cloud.session import Session
    from sliceworks.cloud.transport import Request, Response, Transport

_HOMES = {
    "container": ("Container",),
    "credentials": ("Anonymous", "Credentials", "Token"),
    "inprocess": ("InProcess",),
    "operations": ("Operation",),
    "retrying": ("NEVER", "Retry"),
    "session": ("Session",),
    "transport": ("Request", "Response", "Transport"),
}
__getattr__, __dir__ = exports(__name__, _HOMES)

__all__ = [
    "NEVER",
    "Anonymous",
    "Container",
    "Credentials",
    "InProcess",
    "Operation",
    "Request",
    "Response",
    "Retry",
    "Session",
    "Token",
    "Transport",
]
