"""The number of servers, handed over to an autoscaler without losing any."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.kube.well_known import DEPLOYMENT

if TYPE_CHECKING:
    from sliceworks.kube import Client

Object = dict[str, Any]


async def hand_over(client: Client, wanted: Object, namespace: str, manager: str) -> None:
    """Keep the replicas of a Deployment that is about to be applied without a number of its own.

    A number that was applied before and is no longer falls back to one: all servers but one would go, until the autoscaler asks for
    them again. So somebody else owns the number first, from whom the autoscaler takes it.
    """
    if wanted["kind"] != "Deployment" or "replicas" in wanted["spec"]:
        return
    name = wanted["metadata"]["name"]
    live = await client.find(DEPLOYMENT, name, namespace)
    count = live["spec"]["replicas"] if live else 0
    if live and count and _owns_count(live, manager):
        body = {"apiVersion": wanted["apiVersion"], "kind": wanted["kind"], "metadata": {"name": name}, "spec": {"replicas": count}}
        await client.apply(body, namespace, field_manager=f"{manager}-replicas", force=True)


def _owns_count(deployment: Object, manager: str) -> bool:
    owned = [each for each in deployment["metadata"].get("managedFields") or () if each["manager"] == manager]
    return any("f:replicas" in each["fieldsV1"].get("f:spec", {}) for each in owned)
