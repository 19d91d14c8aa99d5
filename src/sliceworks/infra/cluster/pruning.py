"""Takes away what an environment has put into a cluster and no longer asks for: the last applied first, never what is not its own.

A namespace that somebody uses stays, and so does a definition of which there are objects: both are told.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from sliceworks.base.errors import ApiError, Conflict, NotFound
from sliceworks.infra.cluster.inventory import MANAGER, Entry
from sliceworks.infra.cluster.objects import OWNER, Identity, is_owned, owner
from sliceworks.infra.cluster.outcomes import Outcome
from sliceworks.kube.well_known import CUSTOM_RESOURCE_DEFINITION, NAMESPACE

if TYPE_CHECKING:
    from sliceworks.infra.cluster.inventory import Inventory
    from sliceworks.kube.client import Client
    from sliceworks.kube.resources import Resource

Object = dict[str, Any]
_ALWAYS_THERE = {("ConfigMap", "kube-root-ca.crt"), ("ServiceAccount", "default")}
_PASSING_BY = {"Event", "Endpoints", "EndpointSlice", "Lease", "PodMetrics", "ControllerRevision"}


async def prune(client: Client, inventory: Inventory, wanted: set[Identity]) -> list[Outcome]:
    """Let go of everything that is not wanted."""
    outcomes: list[Outcome] = []
    orphans = [entry for entry in reversed(inventory.entries.values()) if entry.who not in wanted]
    needed = await _needed(client, orphans, inventory.environment)
    for entry in orphans:
        reason = needed.get(entry.step) or await _used(client, entry, inventory.environment)
        if not reason:
            await let_go(client, entry, inventory.environment)
            inventory.strike(entry.who)
        outcomes.append(Outcome(entry.step, entry.who, "keep" if reason else "delete", reason))
    await inventory.save(client)
    return outcomes


async def let_go(client: Client, entry: Entry, environment: str) -> str:
    """Delete an object of ours, and of one that was there before, take back what we have set.

    Returns the uid of what is to be waited for; nothing where there is nothing to wait for.
    """
    resource = await resource_of(client, entry.who)
    found = await find(client, resource, entry.who) if resource else None
    if resource is None or found is None:
        return ""
    if entry.adopted:
        await _give_back(client, resource, entry.who)
        return ""
    if not is_owned(found, environment):
        return ""  # somebody has taken it over
    uid = str(found["metadata"]["uid"])
    if not found["metadata"].get("deletionTimestamp"):
        await delete(client, resource, entry.who, uid)
    return uid


async def delete(client: Client, resource: Resource, who: Identity, uid: str) -> None:
    """Delete this very object; one that is gone already, or another by now, is left alone."""
    with suppress(NotFound, Conflict):
        await client.delete(resource, who.name, who.namespace or None, uid=uid, propagation_policy="Background")


async def resource_of(client: Client, who: Identity) -> Resource | None:
    """The resource of an object; None where the cluster no longer has the kind."""
    try:
        return await client.resource_of({"apiVersion": who.api_version, "kind": who.kind})
    except NotFound:
        return None


async def is_gone(client: Client, who: Identity, uid: str = "") -> bool:
    """Whether an object is no longer there: none of this name, or where `uid` is given, another one."""
    resource = await resource_of(client, who)
    found = await find(client, resource, who) if resource else None
    return found is None or bool(uid and found["metadata"]["uid"] != uid)


async def find(client: Client, resource: Resource, who: Identity) -> Object | None:
    """An object, where it is there."""
    return await client.find(resource, who.name, who.namespace or None)


async def _give_back(client: Client, resource: Resource, who: Identity) -> None:
    """Apply nothing: fields that were ours alone go, the rest stays as it is."""
    metadata = {"name": who.name, **({"namespace": who.namespace} if who.namespace else {})}
    bare = {"apiVersion": who.api_version, "kind": who.kind, "metadata": metadata}
    await client.apply(bare, resource=resource, field_manager=MANAGER, force=True)


async def _needed(client: Client, orphans: list[Entry], environment: str) -> dict[str, str]:
    """Steps of which nothing may go, because there are objects of the kinds they have brought; with the reason."""
    found: dict[str, str] = {}
    for entry in orphans:
        if entry.who.kind == CUSTOM_RESOURCE_DEFINITION.kind and not entry.adopted and entry.step not in found:
            count, resource = await _objects_of(client, entry.who, environment)
            if count:
                found[entry.step] = f"there are {resource} that others made"
    return found


async def _objects_of(client: Client, who: Identity, environment: str) -> tuple[int, str]:
    """How many objects of a definition are not ours, and what they are called."""
    definition = await find(client, CUSTOM_RESOURCE_DEFINITION, who)
    if definition is None:
        return 0, ""
    spec = definition["spec"]
    resource = await resource_of_definition(client, definition)
    items = (await client.list_all(resource)).items if resource else []
    return sum(not is_owned(each, environment) for each in items), str(spec["names"]["plural"])


async def resource_of_definition(client: Client, definition: Object) -> Resource | None:
    """The resource that a definition defines, in a version that is served."""
    spec = definition["spec"]
    version = next((each["name"] for each in spec["versions"] if each.get("served")), "")
    return await resource_of(client, Identity(f"{spec['group']}/{version}", spec["names"]["kind"], "", "")) if version else None


async def _used(client: Client, entry: Entry, environment: str) -> str:
    """Why a namespace stays: what somebody else has in it."""
    if entry.who.kind != NAMESPACE.kind or entry.adopted:
        return ""
    for resource in await client.discovery.resources():
        if not resource.namespaced or "list" not in resource.verbs or resource.kind in _PASSING_BY:
            continue
        try:
            found = (await client.list(resource, entry.who.name, labels=f"{OWNER}!={owner(environment)}", limit=3)).items
        except ApiError:
            continue  # an API that lists nothing holds nothing back
        others = [each["metadata"]["name"] for each in found if (resource.kind, each["metadata"]["name"]) not in _ALWAYS_THERE]
        if others:
            return f"{resource.kind} {others[0]} is in it"
    return ""
