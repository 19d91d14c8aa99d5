"""Actions of events on the twin's cloud and on queues: quota, priority, reservations, faults."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.base.errors import NotFound, SliceworksError
from sliceworks.base.transport import Request
from sliceworks.catalog.labels import RESERVATION_NAME
from sliceworks.kube.resources import CLUSTER_QUEUE, JOB, JOBSET, NODE, RESOURCE_FLAVOR
from sliceworks.specs.scenario import CloudFault, EndCloudFault, EndReservation, SetCloud, SetPriority, SetQuota
from sliceworks.training.status import PRIORITY_LABEL

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from sliceworks.kube.client import Client

CloudAction = CloudFault | EndCloudFault | SetCloud
_PATH = "/debug/twin/cloud"


def describe_cloud_action(action: CloudAction) -> str:
    """Description of a cloud action."""
    if isinstance(action, EndCloudFault):
        return f"the cloud's fault {action.name} ends"
    if isinstance(action, SetCloud):
        return f"set the cloud's {', '.join(sorted(_dump_action(action)))}"
    where = " ".join(f"{key}={value}" for key, value in _dump_action(action).get("match", {}).items())
    return f"{action.fault} in the cloud{f' for {where}' if where else ''}"


def prepare_cloud_action(action: CloudAction) -> Callable[[Client], Awaitable[None]]:
    """A function that performs the action through a client."""
    if isinstance(action, EndCloudFault):
        body: dict[str, Any] = {"end": [action.name]}
    elif isinstance(action, SetCloud):
        body = {"set": {"container": _dump_action(action)}}
    else:
        body = {"faults": [_dump_action(action)]}

    async def act(client: Client) -> None:
        await client.send(Request.json("POST", _PATH, body))

    return act


def _dump_action(action: CloudAction) -> dict[str, Any]:
    """Only the fields that the document sets: a null limit is removed, an unset one is kept."""
    return action.model_dump(by_alias=True, exclude_unset=True)


Obj = dict[str, Any]
QueueAction = SetQuota | SetPriority | EndReservation
_SILENT_NODE = {"metadata": {"annotations": {"sliceworks.dev/state": "silent"}}}


def describe_queue_action(action: QueueAction) -> str:
    """Description of a queue action."""
    if isinstance(action, SetQuota):
        return f"the quota of {action.cluster_queue} {action.describe()}"
    if isinstance(action, SetPriority):
        return f"{action.job} gets priority {action.priority}"
    return f"reservation {action.reservation} ends"


def prepare_queue_action(action: QueueAction) -> Callable[[Client], Awaitable[None]]:
    """A function that performs the action through a client."""
    if isinstance(action, SetQuota):
        return _prepare_quota(action)
    return _prepare_priority(action) if isinstance(action, SetPriority) else _prepare_end(action)


def flavor_quotas(queue: Obj, flavor: str, resource: str = "") -> Iterator[Obj]:
    """The quotas of a flavor in a ClusterQueue, of one resource or of all."""
    for group in queue["spec"].get("resourceGroups") or ():
        for item in group["flavors"]:
            if item["name"] == flavor:
                yield from (quota for quota in item["resources"] if resource in ("", quota["name"]))


def _prepare_quota(action: SetQuota) -> Callable[[Client], Awaitable[None]]:
    async def act(client: Client) -> None:
        queue = await client.get(CLUSTER_QUEUE, action.cluster_queue)
        quotas = list(flavor_quotas(queue, action.flavor, action.resource))
        if not quotas:
            raise SliceworksError(f"{action.cluster_queue} has no {action.resource} of flavor {action.flavor}")
        for quota in quotas:
            quota["nominalQuota"] = action.after(str(quota["nominalQuota"]))
        await client.replace(queue)

    return act


def _prepare_priority(action: SetPriority) -> Callable[[Client], Awaitable[None]]:
    async def act(client: Client) -> None:
        patch, namespace = {"metadata": {"labels": {PRIORITY_LABEL: action.priority}}}, action.namespace or client.namespace
        try:
            await client.patch(JOBSET, action.job, patch, namespace)
        except NotFound:
            await client.patch(JOB, action.job, patch, namespace)

    return act


def _prepare_end(action: EndReservation) -> Callable[[Client], Awaitable[None]]:
    async def act(client: Client) -> None:
        flavors = {
            item["metadata"]["name"]
            for item in (await client.list_all(RESOURCE_FLAVOR)).items
            if ((item.get("spec") or {}).get("nodeLabels") or {}).get(RESERVATION_NAME) == action.reservation
        }
        if not flavors:
            raise SliceworksError(f"no ResourceFlavor uses reservation {action.reservation}")
        for queue in (await client.list_all(CLUSTER_QUEUE)).items:
            quotas = [quota for flavor in flavors for quota in flavor_quotas(queue, flavor)]
            for quota in quotas:
                quota["nominalQuota"] = "0"
            if quotas:
                await client.replace(queue)
        for node in (await client.list_all(NODE, labels=f"{RESERVATION_NAME}={action.reservation}")).items:
            await client.patch(NODE, node["metadata"]["name"], _SILENT_NODE)

    return act
