"""What a service of the cloud is to the server that all of them share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sliceworks.twin.cloud.routes import Call, Routes

Obj = dict[str, Any]


class Service(Protocol):
    """One of Google's APIs. Its name is the first part of its paths: `/container/v1/…`."""

    name: str

    @property
    def versions(self) -> Mapping[str, Routes]:
        """Its routes, by version."""
        ...

    def facts(self, call: Call) -> Mapping[str, str]:
        """What a fault may select a call by."""
        ...

    def configure(self, settings: Obj) -> None:
        """Take in how the service is to behave from now on; raises InvalidDocument."""
        ...

    def start(self) -> None:
        """Go on where it was left."""
        ...

    async def stop(self) -> None:
        """Leave everything as it is."""
        ...
