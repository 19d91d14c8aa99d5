"""Model services taken out of a cluster, and objects that are no longer part of one: nothing that is also somebody else's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sliceworks.base import clock
from sliceworks.base.errors import Conflict, NotFound, TimedOut
from sliceworks.kube.well_known import CONFIG_MAP
from sliceworks.serving import cluster, naming, sharing
from sliceworks.serving import record as records
from sliceworks.serving.keeping import ChangedMeanwhile

if TYPE_CHECKING:
    from sliceworks.kube import Client
    from sliceworks.serving.record import Record, Reference

_EVERY = 2.0  # seconds between two looks


async def delete(client: Client, record: Record, namespace: str, timeout: float) -> None:
    """Remove a service with everything that belongs to it alone, and wait until it is gone."""
    name = record.service.metadata.name
    # 1. Others keep the gateway.
    left = sharing.left_by(record, await cluster.all_records(client, namespace))
    shared = {each: await sharing.share(client, namespace, each, without=name) for each in left}
    # 2. The record goes when everything that it owns has gone.
    await _delete_record(client, record, namespace)
    # 3. Who came meanwhile took it for somebody who stays.
    now = {record.service.spec.gateway.name} if record.service.spec.gateway else set()
    for each in sorted({*left, *now}):
        await sharing.share(client, namespace, each, without=name, done=shared.get(each))
    ends = clock.loop_time() + timeout
    while await _is_there(client, record, namespace):
        if clock.loop_time() >= ends:
            raise TimedOut(f"{name} is still going away", hint=f"kubectl get all -n {namespace} -l {naming.SERVICE}={name}")
        await clock.sleep(_EVERY)


async def remove(client: Client, gone: Reference, namespace: str, owner: str) -> None:
    """Delete an object that this owner alone has, and that stays so until it goes."""
    try:
        resource = await client.resource_of({"apiVersion": gone.api_version, "kind": gone.kind})
    except NotFound:
        return
    while live := await client.find(resource, gone.name, namespace):
        metadata = live["metadata"]
        if {each["uid"] for each in metadata.get("ownerReferences") or ()} != {owner}:
            return
        try:
            same = {"uid": metadata["uid"], "resource_version": metadata["resourceVersion"]}
            await client.delete(resource, gone.name, namespace, propagation_policy="Background", **same)
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
        return  # somebody else was faster
    except Conflict as error:
        raise ChangedMeanwhile(name) from error


async def _is_there(client: Client, record: Record, namespace: str) -> bool:
    found = await client.find(CONFIG_MAP, records.record_name(record.service.metadata.name), namespace)
    return found is not None and found["metadata"]["uid"] == record.uid
