"""The cloud of a twin, in its own process: its machines are nodes of the twin's cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from sliceworks.base.errors import BadRequest, InvalidDocument
from sliceworks.kube.client import Client
from sliceworks.kube.transport import Request, Response
from sliceworks.twin.auth.identity import AUTHENTICATED, MASTERS, User
from sliceworks.twin.cloud.container.service import Container
from sliceworks.twin.cloud.faults import Faults
from sliceworks.twin.cloud.plain.all import plain_services
from sliceworks.twin.cloud.server import CloudServer

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from sliceworks.kube.transport import Transport
    from sliceworks.twin.store.store import Store

_USER = User("system:gke", groups=(MASTERS, AUTHENTICATED))


def embedded_cloud(store: Store, as_user: Callable[[User], Transport], token: str, *, authority: str = "") -> CloudServer:
    """The cloud of a twin, which the bearer of `token` may ask for everything."""
    return cloud(store, Client(as_user(_USER)), token, authority=authority, own=True)


def cloud(store: Store, client: Client, token: str, *, authority: str = "", own: bool = False) -> CloudServer:
    """A cloud whose machines are nodes of the cluster that a client leads to: any Kubernetes, or the store's `own`."""
    faults = Faults(store)
    container = Container(store, client.using(field_manager="gke"), faults, own=own)
    container.clusters.authority = authority
    plain = plain_services(store, container.quotas)
    return CloudServer(store, [container, *plain.services], {token: "administrator"}, faults, plain.aliases)


def control(server: CloudServer) -> Callable[[Request], Awaitable[Response]]:
    """A path of the twin's own, for its administrator: order faults, end them, and set how services behave.

    {"faults": [{"fault": "Stockout", …}], "end": ["name"], "set": {"container": {"operations": 5}}}
    """

    async def answer(request: Request) -> Response:
        try:
            given = orjson.loads(request.body or b"{}")
            ordered = _ordered(server, given)
        except (orjson.JSONDecodeError, KeyError, TypeError, ValueError, AttributeError) as error:
            raise BadRequest(f"what the cloud is to do cannot be read: {error}") from error
        except InvalidDocument as error:
            raise BadRequest(error.message) from error
        return Response(
            200, {"content-type": "application/json"}, orjson.dumps({"ordered": ordered, "faults": server.faults.all()})
        )

    return answer


def _ordered(server: CloudServer, given: dict[str, Any]) -> list[str]:
    for name, settings in (given.get("set") or {}).items():
        server.services[name].configure(settings)
    for name in given.get("end") or ():
        if not server.faults.end(name):
            raise InvalidDocument(f"the cloud has no fault {name!r}")
    return [server.faults.add(fault) for fault in given.get("faults") or ()]
