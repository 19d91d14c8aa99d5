"""Training jobs that begin again, and that end: what commands and pages do to a cluster.

JobSet has no call for a restart, and its own follow from failures alone. A job that runs has its Jobs deleted: JobSet makes missing
Jobs anew, the Workload stays admitted, and neither the place in the queue nor a restart of the budget is lost. A job that has ended
is removed and submitted once more, since a finished JobSet never runs again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.base import clock
from sliceworks.base.errors import AlreadyExists, Forbidden, NotFound, TimedOut
from sliceworks.catalog.labels import JOB_UID, JOBSET_NAME
from sliceworks.kube.well_known import JOB
from sliceworks.training.again import fresh
from sliceworks.training.why.reading import JOBSET, WORKLOAD

if TYPE_CHECKING:
    from sliceworks.kube import Client

Object = dict[str, Any]
_LOOK_EVERY = 0.1


async def workload_of(client: Client, jobset: Object) -> Object | None:
    """The Workload that stands for a JobSet in its queue; None where nobody has made one, or one may not look."""
    metadata = jobset["metadata"]
    try:
        found = (await client.list_all(WORKLOAD, metadata["namespace"], labels=f"{JOB_UID}={metadata['uid']}")).items
    except (NotFound, Forbidden):
        return None
    return next(iter(found), None)


async def cancel(client: Client, jobset: Object) -> None:
    """End a job and remove it, with its pods; another that has taken its name meanwhile is left alone."""
    metadata = jobset["metadata"]
    await client.delete(JOBSET, metadata["name"], metadata["namespace"], propagation_policy="Background", uid=metadata["uid"])


async def begin_again(client: Client, jobset: Object) -> None:
    """Delete the Jobs of a JobSet. Each is made anew when its last pod is gone."""
    metadata = jobset["metadata"]
    jobs = (await client.list_all(JOB, metadata["namespace"], labels=f"{JOBSET_NAME}={metadata['name']}")).items
    for job in jobs:
        try:
            uid = job["metadata"]["uid"]
            await client.delete(JOB, job["metadata"]["name"], metadata["namespace"], propagation_policy="Foreground", uid=uid)
        except NotFound:
            continue


async def resubmit(client: Client, jobset: Object, timeout: float) -> Object:
    """Remove a JobSet and send the same once more."""
    metadata = jobset["metadata"]
    name, namespace = metadata["name"], metadata["namespace"]
    again = fresh(jobset, await workload_of(client, jobset))
    await _try(client, again)
    await client.delete(JOBSET, name, namespace, propagation_policy="Foreground", uid=metadata["uid"])
    deadline = clock.loop_time() + timeout
    while await _there(client, name, namespace, metadata["uid"]):
        if clock.loop_time() > deadline:
            raise TimedOut(f"{name} is not gone after {timeout:g} seconds", hint="it is being removed: submit it again later")
        await clock.sleep(_LOOK_EVERY)
    return await client.create(again, resource=JOBSET)


async def _try(client: Client, jobset: Object) -> None:
    """Whether the cluster would take it, asked under a name as long as its own: nothing is removed that cannot come back."""
    name = jobset["metadata"]["name"]
    other = f"{name[:-1]}{'a' if name[-1] != 'a' else 'b'}"
    try:
        await client.create({**jobset, "metadata": {**jobset["metadata"], "name": other}}, resource=JOBSET, dry_run=True)
    except AlreadyExists:
        return


async def _there(client: Client, name: str, namespace: str, uid: str) -> bool:
    found = await client.find(JOBSET, name, namespace)
    return found is not None and bool(found["metadata"]["uid"] == uid)
