"""A gateway that several services share, kept as the records of all of them say."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.base.errors import NotFound
from sliceworks.kube.well_known import SERVICE_ACCOUNT
from sliceworks.serving import cluster, front
from sliceworks.serving.naming import GATEWAY
from sliceworks.serving.record import Reference

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sliceworks.kube import Client
    from sliceworks.serving.record import Record

Object = dict[str, Any]
Said = list[tuple[str, Object]]
# What a cluster may lack without harm to the service itself.
OPTIONAL = {
    "PodMonitoring": "managed Prometheus",
    "HealthCheckPolicy": "Google's load balancers",
    "GCPBackendPolicy": "Google's load balancers",
}


def manager(gateway: str) -> str:
    """The field manager of a gateway, whoever writes it."""
    return f"sliceworks-gateway-{gateway}"


def said(sharing: Iterable[Record]) -> Said:
    """What a gateway is made of."""
    return [(each.uid, each.document) for each in sharing]


def left_by(record: Record, known: Iterable[Record], kept: str = "") -> list[str]:
    """Gateways that others go on to share without this one: its objects tell, for its document may name another by now."""
    fronts = {each.service.spec.gateway.name for each in known if each.service.spec.gateway and each.uid != record.uid}
    return sorted(name for name in fronts - {kept} if Reference("v1", "ConfigMap", name) in record.objects)


async def is_lent(client: Client, obj: Object, namespace: str) -> bool:
    """Whether an object is a service account that somebody else has made: it is used, and neither owned nor removed."""
    if obj["kind"] != "ServiceAccount":
        return False
    live = await client.find(SERVICE_ACCOUNT, obj["metadata"]["name"], namespace)
    return live is not None and not live["metadata"].get("ownerReferences")


async def share(
    client: Client, namespace: str, gateway: str, *, without: str = "", last: str = "", done: Said | None = None
) -> Said:
    """Write a gateway from the records of those that share it, and again while somebody comes or leaves meanwhile. The last one's
    document says how it runs. Nothing is written where `done` is what there is; what it was made of in the end is returned."""
    while True:
        known = await cluster.all_records(client, namespace)
        sharing = cluster.neighbours(without, gateway, known)
        sharing.sort(key=lambda each: each.service.metadata.name == last)
        now = said(sharing)
        if not sharing or now == done:
            return now
        await _write(client, namespace, sharing)
        done = now


async def _write(client: Client, namespace: str, sharing: list[Record]) -> None:
    for each in front.manifests([record.service for record in sharing]):
        if not await is_lent(client, each, namespace):
            each["metadata"]["ownerReferences"] = [record.owner for record in sharing]
        try:
            await client.apply(each, namespace, field_manager=manager(each["metadata"]["labels"][GATEWAY]), force=True)
        except NotFound:
            if each["kind"] not in OPTIONAL:
                raise
