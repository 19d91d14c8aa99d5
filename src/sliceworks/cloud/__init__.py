"""The one seam to Google's REST APIs: credentials, a session, and a small typed client for each API that the product uses.

The names below are what the other rooms use. Each is imported when it is first asked for: nothing here loads an HTTP client or
google-auth before a request needs one.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

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
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

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


def __getattr__(name: str) -> Any:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{home}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME_OF})
