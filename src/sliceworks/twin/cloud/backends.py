"""Builds the cloud of a twin: every Google service behind one server, and the administrator's control endpoint."""

from __future__ import annotations

import importlib
import pkgutil
from typing import TYPE_CHECKING, Any

import orjson

from sliceworks.base.errors import BadRequest, InvalidDocument
from sliceworks.base.transport import Request, Response
from sliceworks.kube.client import Client
from sliceworks.twin.apiserver.auth.authentication import AUTHENTICATED, MASTERS, User
from sliceworks.twin.cloud import google
from sliceworks.twin.cloud.core.authorization import ADMINISTRATOR
from sliceworks.twin.cloud.core.cloud_server import CloudServer
from sliceworks.twin.cloud.core.faults import Faults
from sliceworks.twin.cloud.core.service import ServiceContext, build_service
from sliceworks.twin.cloud.google.container.cluster_manager import ClusterManager

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from sliceworks.base.transport import Transport
    from sliceworks.twin.cloud.core.service import Service
    from sliceworks.twin.store.store import Store

Obj = dict[str, Any]
_USER = User("system:gke", groups=(MASTERS, AUTHENTICATED))


def create_services(context: ServiceContext) -> Iterator[Service]:
    """Create the services of all modules of `google/`, in name order."""
    for info in pkgutil.iter_modules(google.__path__, f"{google.__name__}."):
        module = importlib.import_module(info.name)
        if hasattr(module, "SERVICE"):
            yield build_service(context.store, module.SERVICE, module.RESOURCES)
        elif hasattr(module, "create"):
            yield from module.create(context)


def create_embedded_cloud(store: Store, as_user: Callable[[User], Transport], token: str, *, authority: str = "") -> CloudServer:
    """Create the cloud of a twin; the bearer of `token` has all permissions."""
    return create_cloud(store, Client(as_user(_USER)), token, authority=authority, own=True)


def create_cloud(store: Store, client: Client, token: str, *, authority: str = "", own: bool = False) -> CloudServer:
    """Create a cloud whose instances are Nodes of the client's cluster; `own` says that this cluster uses `store` itself."""
    faults = Faults(store)
    container = ClusterManager(store, client.using(field_manager="gke"), faults, own=own)
    container.clusters.authority = authority
    services = create_services(ServiceContext(store, container.quotas))
    return CloudServer(store, [container, *services], {token: ADMINISTRATOR}, faults)


def control_handler(server: CloudServer) -> Callable[[Request], Awaitable[Response]]:
    """Return the handler by which the twin's administrator adds faults, ends faults and changes settings of services.

    {"faults": [{"fault": "Stockout", …}], "end": ["name"], "set": {"container": {"operations": 5}}}
    """

    async def handle(request: Request) -> Response:
        try:
            added = _apply(server, orjson.loads(request.body or b"{}"))
        except (orjson.JSONDecodeError, KeyError, TypeError, ValueError, AttributeError) as error:
            raise BadRequest(f"invalid cloud control request: {error}") from error
        except InvalidDocument as error:
            raise BadRequest(error.message) from error
        container = server.services["container"]
        clusters = container.cluster_names() if isinstance(container, ClusterManager) else []
        body = orjson.dumps({"ordered": added, "faults": server.faults.all(), "clusters": clusters})
        return Response(200, {"content-type": "application/json"}, body)

    return handle


def _apply(server: CloudServer, body: Obj) -> list[str]:
    """Apply a control request; returns the names of the added faults."""
    for name, settings in (body.get("set") or {}).items():
        server.services[name].configure(settings)
    for name in body.get("end") or ():
        if not server.faults.end(name):
            raise InvalidDocument(f"end: fault {name!r} not found")
    return [server.faults.add(fault) for fault in body.get("faults") or ()]
