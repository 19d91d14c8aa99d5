"""The cloud's front door: who asks, for which service, by which route; and its answer as plain data.

    status, headers, body = await cloud.handle("GET", "/container/v1/projects/p/locations/-/clusters", headers, b"")

Every service of the cloud stands behind it. A call either takes effect as a whole, in one transaction of the store, or not at all;
it is answered once what it did is durable.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import parse_qsl

import orjson

from sliceworks.base import clock
from sliceworks.kube.transport import Request, Response
from sliceworks.twin.cloud import errors
from sliceworks.twin.cloud.errors import GoogleError
from sliceworks.twin.cloud.faults import Faults
from sliceworks.twin.cloud.routes import Call, Media

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from sliceworks.twin.auth.identity import User
    from sliceworks.twin.cloud.routes import Route
    from sliceworks.twin.cloud.service import Service
    from sliceworks.twin.store.store import Store

log = logging.getLogger(__name__)

Obj = dict[str, Any]
Answer = tuple[int, dict[str, str], bytes]
_JSON = {"content-type": "application/json; charset=UTF-8"}
_MOST_QUERY_FIELDS = 200


class CloudServer:
    """Google's APIs of one twin. `tokens` are the bearer tokens it knows, with who has them; `aliases` know other addresses."""

    def __init__(
        self,
        store: Store,
        services: Sequence[Service],
        tokens: Mapping[str, str],
        faults: Faults | None = None,
        aliases: Sequence[Callable[[str], str | None]] = (),
    ) -> None:
        self.services = {service.name: service for service in services}
        self.faults = faults or Faults(store)
        self._aliases = aliases
        self._store = store
        self._tokens = dict(tokens)

    def start(self) -> None:
        """Have every service go on where it was left."""
        for service in self.services.values():
            service.start()

    async def __aenter__(self) -> Self:
        self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        for service in self.services.values():
            await service.stop()

    async def handle(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> Answer:
        """Answer one request. `target` is a raw path, with its query if it has one; names of headers are in lower case."""
        path, _, query = target.partition("?")
        try:
            pairs = parse_qsl(query, keep_blank_values=True, max_num_fields=_MOST_QUERY_FIELDS)
        except ValueError:
            return _refusal(errors.invalid("Request contains an invalid argument."))
        return await self._answer(method, path, dict(pairs), headers, body)

    async def serve(self, request: Request, _certificate: User | None = None) -> Response:
        """The same for the twin's HTTP server."""
        status, headers, body = await self._answer(request.method, request.path, dict(request.query), request.headers, request.body)
        return Response(status, headers, body)

    async def _answer(self, method: str, path: str, query: Mapping[str, str], headers: Mapping[str, str], body: bytes) -> Answer:
        try:
            caller = self._authenticated(headers)
            service, version, rest = self._service(self._whole(path))
            found = service.versions[version].find(method, rest)
            if found is None:
                raise _unknown(method, path)
            schema = service.versions[version].schema
            read, raw = (schema.read(found.route.request, body), b"") if schema else ({}, body)
            content_type = headers.get("content-type", "")
            call = Call(service.name, version, found.route.method, found.params, query, read, caller, raw, content_type, headers)
            answer = await self._called(service, found.route, call)
        except GoogleError as error:
            # A refusal may tell of what was written just now, such as a name that is taken: it waits as every answer does.
            await self._store.settled()
            return _refusal(error)
        except Exception:
            log.exception("%s %s failed", method, path)
            return _refusal(GoogleError("INTERNAL", "Internal error encountered."))
        if isinstance(answer, Media):
            return answer.status, {"content-type": answer.content_type, **answer.headers}, answer.data
        return 200, dict(_JSON), orjson.dumps(answer)

    async def _called(self, service: Service, route: Route, call: Call) -> Obj | Media:
        facts = {**service.facts(call), "service": call.service, "method": call.method, "permission": route.permission}
        fault = self.faults.strike("request", facts)
        if fault is not None:
            if fault.seconds:
                await clock.sleep(fault.seconds)
            raise fault.error(facts)
        answer = route.answer(call)
        await self._store.settled()
        fault = self.faults.strike("answer", facts)
        if fault is not None:
            await clock.sleep(fault.seconds or 0.0)
            if fault.kind.status:
                raise fault.error(facts)
        return answer

    def _authenticated(self, headers: Mapping[str, str]) -> str:
        scheme, _, token = headers.get("authorization", "").strip().partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            raise errors.no_credentials()
        caller = self._tokens.get(token.strip())
        if caller is None:
            raise errors.bad_credentials()
        return caller

    def _service(self, path: str) -> tuple[Service, str, str]:
        """The service that a path belongs to, its version, and the rest of the path."""
        name, _, rest = path.lstrip("/").partition("/")
        version, _, rest = rest.partition("/")
        service = self.services.get(name)
        if service is None or version not in service.versions:
            raise _unknown("", path)
        return service, version, rest

    def _whole(self, path: str) -> str:
        """A path as the services have it: some addresses name a thing without saying whose it is."""
        if path.lstrip("/").partition("/")[0] in self.services:
            return path
        return next((found for alias in self._aliases if (found := alias(path))), path)


def _refusal(error: GoogleError) -> Answer:
    return error.code, dict(_JSON), orjson.dumps(error.body())


def _unknown(method: str, path: str) -> GoogleError:
    """Not 404, which would say that something is gone; and not 503, which clients try again."""
    return GoogleError("UNIMPLEMENTED", f"the twin's cloud has no {f'{method} ' if method else ''}{path}")
