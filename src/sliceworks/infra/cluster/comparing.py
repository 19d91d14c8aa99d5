"""What applying would do to a cluster, asked of the cluster itself: every object is sent as if it were applied, and compared."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.base.errors import ApiError, NotFound
from sliceworks.infra.cluster.inventory import MANAGER
from sliceworks.infra.cluster.objects import content, identity
from sliceworks.infra.cluster.outcomes import Outcome

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sliceworks.infra.cluster.inventory import Inventory
    from sliceworks.infra.cluster.steps import Step
    from sliceworks.kube.client import Client

Object = dict[str, Any]


async def compare(client: Client, steps: Iterable[Step], inventory: Inventory) -> list[Outcome]:
    """What would become of each object, of those too that are no longer asked for. Nothing is changed."""
    wanted, outcomes = list(steps), list[Outcome]()
    for step in wanted:
        outcomes += [Outcome(step.name, identity(obj), *await _judged(client, step, obj)) for obj in step.objects]
    known = {each.who for each in outcomes} | {who for step in wanted for who in step.keeps}
    outcomes += [
        Outcome(entry.step, entry.who, "delete")
        for entry in reversed(inventory.entries.values())
        if entry.who not in known and not entry.adopted
    ]
    return outcomes


def fresh(steps: Iterable[Step]) -> list[Outcome]:
    """What would become of each object in a cluster that is not there yet."""
    return [Outcome(step.name, identity(obj), "create") for step in steps for obj in step.objects]


async def _judged(client: Client, step: Step, obj: Object) -> tuple[str, str]:
    try:
        resource = await client.resource_of(obj)
        before = await client.get(resource, obj["metadata"]["name"], obj["metadata"].get("namespace"))
    except NotFound:
        return "create", ""  # the object, its namespace or its kind is still to come
    try:
        after = await client.apply(
            obj, resource=resource, field_manager=MANAGER, force=True, dry_run=True, field_validation=step.validation
        )
    except ApiError as error:
        return "refused", error.message
    return ("noop" if content(before) == content(after) else "update"), ""
