"""Cancels, restarts and resubmits training jobs."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from sliceworks.base import clock
from sliceworks.base.errors import AlreadyExists, Forbidden, NotFound, TimedOut
from sliceworks.catalog.labels import JOB_UID, JOBSET_NAME
from sliceworks.kube.resources import JOB, JOBSET, WORKLOAD

if TYPE_CHECKING:
    from sliceworks.kube import Client

Object = dict[str, Any]
_KEPT_METADATA = ("name", "namespace", "labels", "annotations")
_RESTORED_FIELDS = ("nodeSelector", "tolerations", "schedulingGates")


def restore_manifest(jobset: Object, workload: Object | None) -> Object:
    """The JobSet as it was submitted, without what admission changed."""
    metadata = {key: copy.deepcopy(jobset["metadata"][key]) for key in _KEPT_METADATA if jobset["metadata"].get(key)}
    spec = copy.deepcopy(jobset["spec"])
    spec.pop("suspend", None)
    submitted = {pod_set["name"]: pod_set for pod_set in ((workload or {}).get("spec") or {}).get("podSets") or ()}
    for job in spec["replicatedJobs"]:
        if job["name"] in submitted:
            _restore_template(job["template"]["spec"]["template"], submitted[job["name"]]["template"])
    return {"apiVersion": jobset["apiVersion"], "kind": jobset["kind"], "metadata": metadata, "spec": spec}


def _restore_template(template: Object, submitted: Object) -> None:
    """Restore the fields that admission changed."""
    for key in _RESTORED_FIELDS:
        template["spec"].pop(key, None)
        if submitted["spec"].get(key):
            template["spec"][key] = copy.deepcopy(submitted["spec"][key])
    for key in ("labels", "annotations"):
        submitted_value = (submitted.get("metadata") or {}).get(key)
        (template.setdefault("metadata", {})).pop(key, None)
        if submitted_value:
            template["metadata"][key] = dict(submitted_value)
    if not template["metadata"]:
        del template["metadata"]


_POLL_INTERVAL = 0.1


async def find_workload(client: Client, jobset: Object) -> Object | None:
    """The Workload of a JobSet, or None if it does not exist or may not be read."""
    metadata = jobset["metadata"]
    try:
        workloads = (await client.list_all(WORKLOAD, metadata["namespace"], labels=f"{JOB_UID}={metadata['uid']}")).items
    except (NotFound, Forbidden):
        return None
    return next(iter(workloads), None)


async def cancel(client: Client, jobset: Object) -> None:
    """Delete a job and its pods; a newer job with the same name is not deleted."""
    metadata = jobset["metadata"]
    await client.delete(JOBSET, metadata["name"], metadata["namespace"], propagation_policy="Background", uid=metadata["uid"])


async def restart(client: Client, jobset: Object) -> None:
    """Delete the Jobs of a JobSet; JobSet recreates each when its pods are deleted."""
    metadata = jobset["metadata"]
    jobs = (await client.list_all(JOB, metadata["namespace"], labels=f"{JOBSET_NAME}={metadata['name']}")).items
    for job in jobs:
        try:
            uid = job["metadata"]["uid"]
            await client.delete(JOB, job["metadata"]["name"], metadata["namespace"], propagation_policy="Foreground", uid=uid)
        except NotFound:
            continue


async def resubmit(client: Client, jobset: Object, timeout: float) -> Object:
    """Delete a JobSet and create it again."""
    metadata = jobset["metadata"]
    name, namespace = metadata["name"], metadata["namespace"]
    manifest = restore_manifest(jobset, await find_workload(client, jobset))
    await _dry_run(client, manifest)
    await client.delete(JOBSET, name, namespace, propagation_policy="Foreground", uid=metadata["uid"])
    deadline = clock.loop_time() + timeout
    while await _exists(client, name, namespace, metadata["uid"]):
        if clock.loop_time() > deadline:
            raise TimedOut(
                f"{name} was not deleted within {timeout:g} seconds", hint="its deletion continues; submit it again later"
            )
        await clock.sleep(_POLL_INTERVAL)
    return await client.create(manifest, resource=JOBSET)


async def _dry_run(client: Client, jobset: Object) -> None:
    """Dry-run the creation under another name of the same length, before the existing job is deleted."""
    name = jobset["metadata"]["name"]
    other_name = f"{name[:-1]}{'a' if name[-1] != 'a' else 'b'}"
    try:
        await client.create({**jobset, "metadata": {**jobset["metadata"], "name": other_name}}, resource=JOBSET, dry_run=True)
    except AlreadyExists:
        return


async def _exists(client: Client, name: str, namespace: str, uid: str) -> bool:
    existing = await client.find(JOBSET, name, namespace)
    return existing is not None and bool(existing["metadata"]["uid"] == uid)
