"""Routes of a REST API, and the calls that they handle."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from sliceworks.twin.cloud.core.schema import Schema
Obj = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Call:
    """One request to a route."""

    service: str
    version: str
    method: str
    """Google's name of the method, such as `nodePools.create`."""
    params: Mapping[str, str]
    query: Mapping[str, str] = field(default_factory=dict)
    """Query parameters; of a repeated one the last value."""
    body: Obj = field(default_factory=dict)
    caller: str = ""
    raw: bytes = b""
    """The unparsed body, for services whose bodies are not JSON messages."""
    content_type: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    """Request headers; names are in lower case."""
    query_pairs: tuple[tuple[str, str], ...] = ()
    """All query parameters, for those that may be repeated."""


@dataclass(frozen=True, slots=True)
class Media:
    """A response that is not a JSON message: media content, or a specific status with headers."""

    data: bytes
    content_type: str
    headers: Mapping[str, str] = field(default_factory=dict)
    status: int = 200


@dataclass(frozen=True, slots=True)
class Route:
    """An HTTP method and path template, the API method behind it, the permission it requires and the message of its body."""

    http: str
    template: str
    method: str
    handler: Callable[[Call], Obj | Media]
    permission: str
    request: str = ""


class RouteMatch(NamedTuple):
    """A route and the parameters of the path."""

    route: Route
    params: dict[str, str]


class _RouteKey(NamedTuple):
    """Index key: only routes with an equal key can match a path."""

    http: str
    length: int
    verb: str


class Routes:
    """All routes of one version of a service; request bodies are validated against `schema`."""

    def __init__(self, routes: Iterable[Route], schema: Schema | None = None) -> None:
        self.schema = schema
        self._routes: dict[_RouteKey, list[tuple[tuple[str, ...], Route]]] = defaultdict(list)
        for route in routes:
            path, verb = _split(route.template)
            parts = tuple(path.split("/"))
            self._routes[_RouteKey(route.http, len(parts), verb)].append((parts, route))

    def find(self, http: str, path: str) -> RouteMatch | None:
        """Return the route that matches a raw path, or None."""
        resource, verb = _split(path)
        for candidate, action in ((resource, verb), (path, "")) if verb else ((path, ""),):
            parts = candidate.split("/")
            for template, route in self._routes.get(_RouteKey(http, len(parts), action), ()):
                params = _match(template, parts)
                if params is not None:
                    return RouteMatch(route, params)
        return None


def _split(path: str) -> tuple[str, str]:
    """Split a path from its custom verb (`:getIamPolicy`)."""
    head, slash, last = path.rpartition("/")
    name, colon, verb = last.rpartition(":")
    return (head + slash + name, verb) if colon else (path, "")


def _match(template: tuple[str, ...], parts: list[str]) -> dict[str, str] | None:
    params: dict[str, str] = {}
    for segment, part in zip(template, parts, strict=True):
        if segment.startswith("{"):
            if not part:
                return None
            params[segment[1:-1]] = unquote(part)
        elif segment != part:
            return None
    return params
