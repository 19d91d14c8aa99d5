"""Waits for what a step needs before the next one begins, and tells what it waits for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.base import clock
from sliceworks.base.conditions import condition
from sliceworks.base.errors import (
    AlreadyExists,
    ApiError,
    InternalError,
    NotFound,
    ServerTimeout,
    ServiceUnavailable,
    TimedOut,
    Unreachable,
)
from sliceworks.infra.cluster.steps import Answers, Available, Holds, Served, Wait
from sliceworks.infra.troubles import AGAIN
from sliceworks.kube.backoff import NEVER
from sliceworks.kube.resources import GVK, parse_api_version
from sliceworks.kube.selectors import from_labels
from sliceworks.kube.well_known import DEPLOYMENT, POD, STATEFUL_SET

if TYPE_CHECKING:
    from collections.abc import Callable

    from sliceworks.kube.client import Client
    from sliceworks.kube.resources import Resource

Object = dict[str, Any]
PASSING = (InternalError, ServiceUnavailable, ServerTimeout, Unreachable)
"""Answers that may be others a moment later: a webhook or a server that is not up yet."""
_FIRST, _LONGEST, _GROWTH = 0.1, 2.0, 1.5
_RUNNING = {"Deployment": DEPLOYMENT, "StatefulSet": STATEFUL_SET}


async def until(client: Client, wait: Wait, patience: float, report: Callable[[str], None]) -> None:
    """Wait until it is so; TimedOut says what stands in the way."""
    end, pause = clock.loop_time() + patience, _FIRST
    while missing := await lacking(client, wait):
        report(missing)
        if clock.loop_time() >= end:
            raise TimedOut(f"after {patience:g} s {missing}", hint=AGAIN)
        await clock.sleep(pause)
        pause = min(pause * _GROWTH, _LONGEST)


async def lacking(client: Client, wait: Wait) -> str:
    """What is not so yet, in a few words; nothing when it is so."""
    try:
        if isinstance(wait, Served):
            return await _unserved(client, wait)
        if isinstance(wait, Answers):
            return await _silent(client.using(retry=NEVER), wait)
        return await (_unavailable(client, wait) if isinstance(wait, Available) else _not_held(client, wait))
    except PASSING as error:
        return f"the cluster does not answer: {error.message}"


async def _unserved(client: Client, wait: Served) -> str:
    for api_version, kind in wait.kinds:
        if await served(client, api_version, kind) is None:
            return f"the kind {kind} of {api_version} is not served"
    return ""


async def served(client: Client, api_version: str, kind: str) -> Resource | None:
    """The resource of a kind, where the cluster has it."""
    try:
        return await client.resource_of({"apiVersion": api_version, "kind": kind})
    except NotFound:
        return None


async def _silent(client: Client, wait: Answers) -> str:
    try:
        await client.create(wait.probe, dry_run=True)
    except AlreadyExists:
        return ""
    except (NotFound, *PASSING) as error:
        return f"{wait.who}'s webhooks do not answer: {error.message}"
    except ApiError:
        return ""  # a refusal is an answer
    return ""


async def _unavailable(client: Client, wait: Available) -> str:
    what = f"{wait.kind} {wait.namespace}/{wait.name}"
    found = await client.find(_RUNNING[wait.kind], wait.name, wait.namespace)
    if found is None:
        return f"{what} is not there"
    status, wanted = found.get("status") or {}, int(found["spec"].get("replicas", 1))
    seen = int(status.get("observedGeneration") or 0) >= int(found["metadata"].get("generation") or 0)
    count = int(status.get("availableReplicas" if wait.kind == "Deployment" else "readyReplicas") or 0)
    if seen and count >= wanted and int(status.get("updatedReplicas") or 0) >= wanted:
        return ""
    return f"{what} has {count} of {wanted} pods ready{await _obstacle(client, found)}"


async def _obstacle(client: Client, workload: Object) -> str:
    """What keeps the first of its pods that is not ready."""
    labels = from_labels(workload["spec"]["selector"].get("matchLabels") or {})
    for pod in (await client.list(POD, workload["metadata"]["namespace"], labels=labels, limit=20)).items:
        for container in (pod.get("status") or {}).get("containerStatuses") or ():
            waiting = (container.get("state") or {}).get("waiting")
            if waiting and waiting.get("reason") not in (None, "ContainerCreating"):
                return f": {pod['metadata']['name']} waits: {waiting['reason']}"
        told = condition(pod, "PodScheduled")
        if told.get("status") == "False":
            return f": {pod['metadata']['name']} has no node: {told.get('message') or told.get('reason')}"
    return ""


async def _not_held(client: Client, wait: Holds) -> str:
    place = f"{wait.namespace}/" if wait.namespace else ""
    what = f"{wait.kind} {place}{wait.name}"
    try:
        resource = await client.discovery.by_gvk(GVK(*parse_api_version(wait.api_version), wait.kind))
        found = await client.get(resource, wait.name, wait.namespace or None)
    except NotFound:
        return f"{what} is not there"
    status = found.get("status") or {}
    if wait.field:
        return "" if status.get(wait.field) is True else f"{what} is not {wait.field}"
    told = condition(found, wait.condition)
    if not told:
        return f"{what} is not {wait.condition} yet"
    if told.get("status") == "True":
        return ""
    return f"{what} is not {wait.condition}: {told.get('message') or told.get('reason') or 'no reason is given'}"
