"""Addresses outside of the cluster that stand for Services: webhooks of a process on this machine are called there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from sliceworks.base.errors import BadRequest, NotFound
from sliceworks.base.names import dns1123_label_errors
from sliceworks.base.transport import Response
from sliceworks.twin.apiserver.admission.chain import EXPOSED

if TYPE_CHECKING:
    from sliceworks.base.transport import Request
    from sliceworks.twin.store.store import Store

PATH = "debug/twin/exposed"
_EXAMPLE = 'expected a body such as {"namespace": "default", "service": "hook", "address": "127.0.0.1:9443"}'


class ExposedServices:
    """The list of exposed Services, in the store of the twin. `handle` serves it: GET, POST (add or change) and DELETE."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def handle(self, request: Request) -> Response:
        if request.method != "GET":
            self._change(request)
            await self._store.wait_durable()
        items = [
            {"namespace": entry.namespace, "service": entry.name, "address": entry.object()["address"]}
            for entry in self._store.scan(EXPOSED)
        ]
        return Response(200, {"content-type": "application/json"}, orjson.dumps({"items": items}))

    def _change(self, request: Request) -> None:
        namespace, name, address = _read(request)
        if request.method == "POST":
            self._store.put(EXPOSED, namespace, name, {"metadata": {}, "address": address})
            return
        entry = self._store.get(EXPOSED, namespace, name)
        if entry is None:
            raise NotFound(f"service {namespace}/{name} is not exposed", details={"name": name, "kind": "services"})
        self._store.remove(EXPOSED, namespace, name, entry.object())


def _read(request: Request) -> tuple[str, str, str]:
    try:
        body: dict[str, Any] = orjson.loads(request.body)
        namespace, name, address = body["namespace"], body["service"], body.get("address") or ""
    except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError) as error:
        raise BadRequest(_EXAMPLE) from error
    if not all(isinstance(value, str) for value in (namespace, name, address)):
        raise BadRequest(_EXAMPLE)
    for field, value in (("namespace", namespace), ("service", name)):
        if problems := dns1123_label_errors(value):
            raise BadRequest(f"{field}: {value!r} is not valid: {problems[0]}")
    host, _, port = address.rpartition(":")
    if request.method == "POST" and not (host and port.isascii() and port.isdigit() and 1 <= int(port) <= 65535):
        raise BadRequest(f"address: {address!r} is not valid: expected HOST:PORT")
    return namespace, name, address
