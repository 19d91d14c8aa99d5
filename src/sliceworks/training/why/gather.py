"""Reads what an answer needs, and no more: how much is read depends on the job, not on how much else the cluster holds."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from sliceworks.base import clock
from sliceworks.base.conditions import is_true
from sliceworks.base.errors import SliceworksError
from sliceworks.catalog import labels
from sliceworks.training.why import capacity
from sliceworks.training.why.evidence import Evidence
from sliceworks.training.why.pod_side import PodSide
from sliceworks.training.why.queue_side import QueueSide
from sliceworks.training.why.reading import JOBSET, Reader
from sliceworks.training.words import QUEUE

if TYPE_CHECKING:
    from sliceworks.cloud import Container
    from sliceworks.kube import Client

Object = dict[str, Any]


async def gather(client: Client, namespace: str, name: str, *, container: Container | None = None) -> Evidence:
    """Everything about one JobSet. NotFound where there is none; `container` is asked where node pools are awaited."""
    read = Reader(client)
    jobset = await read.must(JOBSET, name, namespace)
    found: Object = {"jobset": jobset}
    pods = PodSide(read, namespace, found)
    over = is_true(jobset, "Completed")
    tasks = [pods.told("JobSet", name)]
    if QUEUE in (jobset["metadata"].get("labels") or {}) and not over:
        tasks.append(QueueSide(read, namespace, found).read(jobset))
    if not over and (not jobset["spec"].get("suspend") or is_true(jobset, "Failed")):
        tasks.append(pods.read(name))
    await asyncio.gather(*tasks)
    if container is not None and capacity.awaited(_evidence(read, found)):
        found |= await _cloud_side(read, container, own={labels.POOL_JOBSET_NAME: name, labels.POOL_JOBSET_NAMESPACE: namespace})
    return _evidence(read, found)


def _evidence(read: Reader, found: Object) -> Evidence:
    given: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in found.items()}
    return Evidence(now=clock.now(), hidden=frozenset(read.hidden), unseen=tuple(read.unseen), **given)


async def _cloud_side(read: Reader, container: Container, own: dict[str, str]) -> Object:
    """The node pools of a JobSet, and what the cloud does with them."""
    try:
        pools, operations = await asyncio.gather(container.node_pools(), container.operations())
    except SliceworksError as error:
        read.unseen.append(f"the node pools of {container.cluster}: {error.message}")
        return {}
    mine = [each for each in pools if own.items() <= ((each.get("config") or {}).get("labels") or {}).items()]
    names = {each["name"] for each in mine}
    return {"pools": mine, "operations": [each for each in operations if each.target in names]}
