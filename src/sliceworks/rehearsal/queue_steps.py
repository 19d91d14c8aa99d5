"""What a scenario does to queues: another quota, another priority of a job, the end of a reservation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.base.errors import NotFound, SliceworksError
from sliceworks.catalog.labels import RESERVATION_NAME
from sliceworks.kube.resources import GVK, Resource
from sliceworks.kube.well_known import NODE
from sliceworks.specs.scenario import EndReservation, SetPriority, SetQuota
from sliceworks.training.compile import PRIORITY

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from sliceworks.kube.client import Client

Obj = dict[str, Any]
QueueAction = SetQuota | SetPriority | EndReservation
_JOBSETS = Resource("jobset.x-k8s.io", "v1alpha2", "JobSet", "jobsets", True)
_JOBS = Resource("batch", "v1", "Job", "jobs", True)
_GONE = {"metadata": {"annotations": {"sliceworks.dev/state": "silent"}}}


def spoken(action: QueueAction) -> str:
    """What happens, in words."""
    if isinstance(action, SetQuota):
        return f"the quota of {action.cluster_queue} {action.spoken()}"
    if isinstance(action, SetPriority):
        return f"{action.job} gets priority {action.priority}"
    return f"reservation {action.reservation} ends"


def acting(action: QueueAction) -> Callable[[Client], Awaitable[None]]:
    """How it is done."""
    if isinstance(action, SetQuota):
        return _setting_quota(action)
    return _setting_priority(action) if isinstance(action, SetPriority) else _ending(action)


def quotas(queue: Obj, flavor: str, resource: str = "") -> Iterator[Obj]:
    """The quotas of a flavor in a ClusterQueue, of one resource or of all."""
    for group in queue["spec"].get("resourceGroups") or ():
        for each in group["flavors"]:
            if each["name"] == flavor:
                yield from (quota for quota in each["resources"] if resource in ("", quota["name"]))


def _setting_quota(action: SetQuota) -> Callable[[Client], Awaitable[None]]:
    async def act(client: Client) -> None:
        queue = await client.get(await _kueue(client, "ClusterQueue"), action.cluster_queue)
        found = list(quotas(queue, action.flavor, action.resource))
        if not found:
            raise SliceworksError(f"{action.cluster_queue} has no {action.resource} of flavor {action.flavor}")
        for quota in found:
            quota["nominalQuota"] = action.after(str(quota["nominalQuota"]))
        await client.replace(queue)

    return act


def _setting_priority(action: SetPriority) -> Callable[[Client], Awaitable[None]]:
    async def act(client: Client) -> None:
        patch, place = {"metadata": {"labels": {PRIORITY: action.priority}}}, action.namespace or client.namespace
        try:
            await client.patch(_JOBSETS, action.job, patch, place)
        except NotFound:
            await client.patch(_JOBS, action.job, patch, place)

    return act


def _ending(action: EndReservation) -> Callable[[Client], Awaitable[None]]:
    async def act(client: Client) -> None:
        flavors = {
            each["metadata"]["name"]
            for each in (await client.list_all(await _kueue(client, "ResourceFlavor"))).items
            if ((each.get("spec") or {}).get("nodeLabels") or {}).get(RESERVATION_NAME) == action.reservation
        }
        if not flavors:
            raise SliceworksError(f"no flavor is of reservation {action.reservation}")
        for queue in (await client.list_all(await _kueue(client, "ClusterQueue"))).items:
            held = [quota for flavor in flavors for quota in quotas(queue, flavor)]
            for quota in held:
                quota["nominalQuota"] = "0"
            if held:
                await client.replace(queue)
        for node in (await client.list_all(NODE, labels=f"{RESERVATION_NAME}={action.reservation}")).items:
            await client.patch(NODE, node["metadata"]["name"], _GONE)

    return act


async def _kueue(client: Client, kind: str) -> Resource:
    return await client.discovery.by_gvk(GVK("kueue.x-k8s.io", "v1beta2", kind))
