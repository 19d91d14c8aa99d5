"""What a model service owns and what it shares: gateways of several services, and deletion of owned objects only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.base import clock
from sliceworks.base.errors import Conflict, NotFound, TimedOut
from sliceworks.kube.resources import CONFIG_MAP, SERVICE_ACCOUNT
from sliceworks.serving import cluster, gateway_objects, objects
from sliceworks.serving import record as records
from sliceworks.serving.objects import GATEWAY_LABEL
from sliceworks.serving.record import RecordConflict, Reference

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sliceworks.kube import Client
    from sliceworks.serving.record import Record

Object = dict[str, Any]
GatewaySources = list[tuple[str, Object]]
OPTIONAL_KINDS = {
    "PodMonitoring": "Managed Service for Prometheus",
    "HealthCheckPolicy": "GKE's load balancers",
    "GCPBackendPolicy": "GKE's load balancers",
}
"""Kinds that a service can do without, and what provides them."""
_POLL_INTERVAL = 2.0


def gateway_field_manager(gateway: str) -> str:
    """The field manager of a gateway, for all services that share it."""
    return f"sliceworks-gateway-{gateway}"


def gateway_sources(sharing: Iterable[Record]) -> GatewaySources:
    """UIDs and documents of the records from which a gateway is built."""
    return [(record.uid, record.document) for record in sharing]


def gateways_left_by(record: Record, known: Iterable[Record], kept: str = "") -> list[str]:
    """Gateways in a record's objects that other services keep: its document may name another gateway by now."""
    names = {other.service.spec.gateway.name for other in known if other.service.spec.gateway and other.uid != record.uid}
    return sorted(name for name in names - {kept} if Reference("v1", "ConfigMap", name) in record.objects)


async def is_borrowed(client: Client, obj: Object, namespace: str) -> bool:
    """Whether an object is a service account that exists without an owner: it is used, but neither owned nor deleted."""
    if obj["kind"] != "ServiceAccount":
        return False
    live = await client.find(SERVICE_ACCOUNT, obj["metadata"]["name"], namespace)
    return live is not None and not live["metadata"].get("ownerReferences")


async def update_shared_gateway(
    client: Client, namespace: str, gateway: str, *, without: str = "", last: str = "", done: GatewaySources | None = None
) -> GatewaySources:
    """Apply a gateway from the records of all services that share it, until these stop changing; returns its final sources.

    The service `last` configures it. Nothing is applied if the sources are those in `done`.
    """
    while True:
        known = await cluster.list_records(client, namespace)
        sharing = cluster.gateway_peers(without, gateway, known)
        sharing.sort(key=lambda record: record.service.metadata.name == last)
        sources = gateway_sources(sharing)
        if not sharing or sources == done:
            return sources
        await _apply_gateway(client, namespace, sharing)
        done = sources


async def _apply_gateway(client: Client, namespace: str, sharing: list[Record]) -> None:
    for obj in gateway_objects.manifests([record.service for record in sharing]):
        if not await is_borrowed(client, obj, namespace):
            obj["metadata"]["ownerReferences"] = [record.owner for record in sharing]
        manager = gateway_field_manager(obj["metadata"]["labels"][GATEWAY_LABEL])
        try:
            await client.apply(obj, namespace, field_manager=manager, force=True)
        except NotFound:
            if obj["kind"] not in OPTIONAL_KINDS:
                raise


async def delete_service(client: Client, record: Record, namespace: str, timeout: float) -> None:
    """Delete a service with everything that it alone owns, and wait until it is deleted."""
    name = record.service.metadata.name
    # 1. Remove it from gateways that other services keep.
    kept = gateways_left_by(record, await cluster.list_records(client, namespace))
    applied = {gateway: await update_shared_gateway(client, namespace, gateway, without=name) for gateway in kept}
    # 2. Delete the record in the foreground: it is deleted after everything that it owns.
    await _delete_record(client, record, namespace)
    # 3. Services deployed meanwhile may have built their gateway with this one.
    own = {record.service.spec.gateway.name} if record.service.spec.gateway else set()
    for gateway in sorted({*kept, *own}):
        await update_shared_gateway(client, namespace, gateway, without=name, done=applied.get(gateway))
    deadline = clock.loop_time() + timeout
    while await _exists(client, record, namespace):
        if clock.loop_time() >= deadline:
            hint = f"kubectl get all -n {namespace} -l {objects.SERVICE_LABEL}={name}"
            raise TimedOut(f"model service {name} is still being deleted", hint=hint)
        await clock.sleep(_POLL_INTERVAL)


async def delete_owned_object(client: Client, ref: Reference, namespace: str, owner: str) -> None:
    """Delete an object if this owner (a UID) is its only owner; the delete fails if that changes."""
    try:
        resource = await client.resource_of({"apiVersion": ref.api_version, "kind": ref.kind})
    except NotFound:
        return
    while live := await client.find(resource, ref.name, namespace):
        metadata = live["metadata"]
        if {reference["uid"] for reference in metadata.get("ownerReferences") or ()} != {owner}:
            return
        preconditions = {"uid": metadata["uid"], "resource_version": metadata["resourceVersion"]}
        try:
            await client.delete(resource, ref.name, namespace, propagation_policy="Background", **preconditions)
        except NotFound:
            return
        except Conflict:
            continue
        return


async def _delete_record(client: Client, record: Record, namespace: str) -> None:
    name = record.service.metadata.name
    try:
        await client.delete(CONFIG_MAP, records.record_name(name), namespace, propagation_policy="Foreground", uid=record.uid)
    except NotFound:
        return  # Another client has deleted it.
    except Conflict as error:
        raise RecordConflict(name) from error


async def _exists(client: Client, record: Record, namespace: str) -> bool:
    live = await client.find(CONFIG_MAP, records.record_name(record.service.metadata.name), namespace)
    return live is not None and live["metadata"]["uid"] == record.uid
