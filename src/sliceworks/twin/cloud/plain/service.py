"""One of Google's APIs made of shelves and a few routes of its own."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from sliceworks.base.errors import InvalidDocument
from sliceworks.twin.cloud import schema
from sliceworks.twin.cloud.routes import Routes

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from sliceworks.twin.cloud.routes import Call, Route

Obj = dict[str, Any]


class PlainService:
    """A service whose state is all in its tables: there is nothing to start and nothing to stop."""

    def __init__(self, name: str, version: str, routes: Iterable[Route], *, messages: bool = True) -> None:
        self.name = name
        self._version = version
        self._routes = routes
        self._messages = messages

    @cached_property
    def versions(self) -> Mapping[str, Routes]:
        """Its routes. They are laid out when the first call comes: most twins never ask most services for anything."""
        return {self._version: Routes(self._routes, schema.load(self.name, self._version) if self._messages else None)}

    def facts(self, call: Call) -> Mapping[str, str]:
        """What a fault may select a call by: the parts of its path, and the thing it is about."""
        project = call.params.get("project", "")
        return {"project": project, "resource": f"projects/{project}", **call.params}

    def configure(self, settings: Obj) -> None:
        """There is nothing to set."""
        for key in settings:
            raise InvalidDocument(f"{self.name} has no setting {key}")

    def start(self) -> None:
        """Everything is in the store already."""

    async def stop(self) -> None:
        """Everything is in the store already."""
