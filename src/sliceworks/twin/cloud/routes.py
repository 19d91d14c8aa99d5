"""Routes of a REST API: a method and a template of a path lead to what answers.

    route("POST", "projects/{project}/locations/{location}/clusters/{cluster}:setLocations", …)

A path is matched as it came, so that a `%2F` stays within its part; what a template takes out of it is decoded then. A custom verb
stands behind the last colon of the last part.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from sliceworks.twin.cloud.schema import Schema

Obj = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Call:
    """One request to a route: what its path, query and body say, and who asks."""

    service: str
    version: str
    method: str
    """Google's name of the method, such as `nodePools.create`."""
    params: Mapping[str, str]
    query: Mapping[str, str] = field(default_factory=dict)
    body: Obj = field(default_factory=dict)
    caller: str = ""
    raw: bytes = b""
    """The body as it came, of services whose bodies are not messages."""
    content_type: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    """The headers that came, by their names in lower case."""


@dataclass(frozen=True, slots=True)
class Media:
    """An answer that is no message: the content of something, or a status and headers of its own."""

    data: bytes
    content_type: str
    headers: Mapping[str, str] = field(default_factory=dict)
    status: int = 200


@dataclass(frozen=True, slots=True)
class Route:
    """One way in: the name of the method and of the message in its body, and the permission that it takes."""

    http: str
    template: str
    method: str
    answer: Callable[[Call], Obj | Media]
    permission: str
    request: str = ""


class Found(NamedTuple):
    """A route, and what the path says."""

    route: Route
    params: dict[str, str]


class _Shape(NamedTuple):
    """Paths that may lead to the same route look alike in these."""

    http: str
    length: int
    verb: str


class Routes:
    """All routes of one version of a service. `schema` knows the messages of its bodies."""

    def __init__(self, routes: Iterable[Route], schema: Schema | None = None) -> None:
        self.schema = schema
        self._routes: dict[_Shape, list[tuple[tuple[str, ...], Route]]] = defaultdict(list)
        for route in routes:
            path, verb = _split(route.template)
            parts = tuple(path.split("/"))
            self._routes[_Shape(route.http, len(parts), verb)].append((parts, route))

    def find(self, http: str, path: str) -> Found | None:
        """The route of a path that came, if it has one."""
        whole, verb = _split(path)
        for text, action in ((whole, verb), (path, "")) if verb else ((path, ""),):
            parts = text.split("/")
            for template, route in self._routes.get(_Shape(http, len(parts), action), ()):
                params = _matched(template, parts)
                if params is not None:
                    return Found(route, params)
        return None


def _split(path: str) -> tuple[str, str]:
    """A path and its custom verb."""
    head, slash, last = path.rpartition("/")
    name, colon, verb = last.rpartition(":")
    return (head + slash + name, verb) if colon else (path, "")


def _matched(template: tuple[str, ...], parts: list[str]) -> dict[str, str] | None:
    params: dict[str, str] = {}
    for wanted, part in zip(template, parts, strict=True):
        if wanted.startswith("{"):
            if not part:
                return None
            params[wanted[1:-1]] = unquote(part)
        elif wanted != part:
            return None
    return params
