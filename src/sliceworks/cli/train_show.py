"""`train show` and `train why`: one job in detail, and why it is pending or failed."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

import click

from sliceworks.base.errors import Forbidden, NotFound, SliceworksError
from sliceworks.base.names import suggest_name
from sliceworks.cli import options, train_client
from sliceworks.cli.output import print_object
from sliceworks.kube.resources import JOBSET

if TYPE_CHECKING:
    from sliceworks.cli.train_description import JobDetails
    from sliceworks.cloud import Container
    from sliceworks.kube import Client
    from sliceworks.training.diagnosis.model import Diagnosis

_MOST_NAMES = 2000  # names searched for a suggestion


@click.command()
@click.argument("name")
@options.namespace
@options.cluster
@options.output("table", "json", "yaml")
@options.quiet
def why(*, name: str, namespace: str, output: str, **where: Any) -> int:
    """Explain why a job is pending, slow to start, or failed: what it waits for, jobs ahead of it, and what to change.

    Every cause names the object and the field it was read from. Objects that cannot be read are listed at the end.
    """
    from sliceworks.cli import connections, train_description

    async def work(client: Client) -> None:
        async with AsyncExitStack() as stack:
            diagnosis = await diagnose(client, name, await connections.try_open_container(stack, client, where))
        if output == "table":
            click.echo(train_description.describe_answer(diagnosis), nl=False)
        else:
            print_object(train_description.answer_data(diagnosis), output)

    train_client.run(work, namespace, where)
    return 0


async def diagnose(client: Client, name: str, container: Container | None = None) -> Diagnosis:
    """Diagnose a job; NotFound suggests the closest name."""
    from sliceworks.training.diagnosis.analysis import diagnose
    from sliceworks.training.diagnosis.collection import collect_evidence

    try:
        return diagnose(await collect_evidence(client, client.namespace, name, container=container))
    except NotFound as error:
        raise await _unknown(client, name) from error


async def _unknown(client: Client, name: str) -> SliceworksError:
    """Return a NotFound error that suggests the namespace or the closest name."""
    try:
        known = (await client.list(JOBSET, client.namespace, limit=_MOST_NAMES)).items
    except NotFound:
        return train_client.not_installed("JobSet")
    try:
        elsewhere = (await client.list(JOBSET, fields=f"metadata.name={name}", limit=3)).items
    except Forbidden:
        elsewhere = []
    hint = suggest_name(name, (item["metadata"]["name"] for item in known)) or "sliceworks train list -A"
    if elsewhere:
        hint = f"found in {' and '.join(jobset['metadata']['namespace'] for jobset in elsewhere)}: pass -n"
    return SliceworksError(f"training job {name!r} not found in namespace {client.namespace}", hint=hint)


Object = dict[str, Any]


@click.command("show")
@click.argument("name")
@options.namespace
@options.cluster
@options.output("table", "json", "yaml")
@options.quiet
def show_(*, name: str, namespace: str, output: str, **where: Any) -> int:
    """Show a training job: slices, hosts, restarts, timeline and latest events."""
    from sliceworks.cli.train_description import describe_job, job_data

    async def work(client: Client) -> None:
        job = await read_job(client, name)
        if output == "table":
            click.echo(describe_job(job), nl=False)
        else:
            print_object(job_data(job), output)

    train_client.run(work, namespace, where)
    return 0


async def read_job(client: Client, name: str) -> JobDetails:
    """Read all objects of a job."""
    from sliceworks.cli.train_description import JobDetails

    jobset = await train_client.find_jobset(client, name, client.namespace)
    workload, pods, events = await asyncio.gather(
        train_client.find_workload(client, jobset),
        train_client.list_pods(client, name, client.namespace),
        _events(client, client.namespace),
    )
    about = {item["metadata"]["uid"] for item in (jobset, *([workload] if workload else []), *pods)}
    job_events = [event for event in events if (event.get("involvedObject") or {}).get("uid") in about]
    return JobDetails(jobset, workload, pods, job_events, await _why(client, jobset))


async def _why(client: Client, jobset: Object) -> str:
    """Return the main cause of a delay or failure in one line; empty if there is none."""

    from sliceworks.training.status import job_state

    if job_state(jobset) in ("running", "completed"):
        return ""
    return (await diagnose(client, jobset["metadata"]["name"])).summary


async def _events(client: Client, namespace: str) -> list[Object]:
    """Return the events of a namespace, which are kept for an hour; empty if not permitted."""
    from sliceworks.base.errors import Forbidden
    from sliceworks.kube.resources import CORE_EVENT

    try:
        return (await client.list_all(CORE_EVENT, namespace)).items
    except Forbidden:
        return []
