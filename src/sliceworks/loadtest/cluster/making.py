"""Makes the objects of a test in a cluster, and removes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sliceworks.base import clock, progress
from sliceworks.base.errors import NotFound, SliceworksError
from sliceworks.kube.resources import owner_reference
from sliceworks.kube.well_known import JOB
from sliceworks.loadtest.cluster import objects

if TYPE_CHECKING:
    from sliceworks.kube import Client
    from sliceworks.loadtest.cluster.objects import Launch

_EVERY = 0.5
_GOING = 60.0


async def make(client: Client, launch: Launch) -> None:
    """The Job owns everything else, and starts when that is there."""
    owner = await client.create(objects.job(launch), resource=JOB)
    reference = owner_reference({**owner, "apiVersion": "batch/v1", "kind": "Job"}, controller=False)
    for each in objects.around(launch):
        each["metadata"]["ownerReferences"] = [reference]
        await client.create(each)
    await client.patch(JOB, launch.name, {"spec": {"suspend": False}}, launch.namespace)


async def remove(client: Client, launch: Launch) -> None:
    """Everything goes with the Job, and the Job last. Where that cannot be, how it can be done by hand is told."""
    name, place, why = launch.name, launch.namespace, "it is still going away"
    try:
        await client.delete(JOB, name, place, propagation_policy="Foreground")
        ends = clock.loop_time() + _GOING
        while clock.loop_time() < ends:
            await client.get(JOB, name, place)
            await clock.sleep(_EVERY)
    except NotFound:
        return
    except SliceworksError as error:
        why = error.message
    progress.say(f"job/{name} in {place} is not removed yet: {why}; kubectl delete job -n {place} {name} --cascade=foreground")
