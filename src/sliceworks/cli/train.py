"""`sliceworks train`: submit training jobs to a queue, list them, and cancel them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import click

from sliceworks.base import progress
from sliceworks.base.errors import AlreadyExists, Forbidden, InvalidDocument, NotFound, SliceworksError
from sliceworks.cli import options
from sliceworks.cli.output import Report, show, show_one

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sliceworks.cli.train_files import Submission
    from sliceworks.kube import Client
    from sliceworks.kube.options import ListOptions
    from sliceworks.kube.resources import Resource

Object = dict[str, Any]
_COLUMNS = ("name", "queue", "priority", "type", "slices", "state", "restarts", "age")


@click.group()
def train() -> None:
    """Submit training jobs, and see how they stand."""


@train.command()
@click.option("-f", "--file", type=click.Path(exists=True, path_type=Path), required=True, help="The TrainingJob document.")
@click.option(
    "--dry-run", type=click.Choice(["none", "client", "server"]), default="none", show_default=True, help="Print, or ask."
)
@options.namespace
@options.cluster
@options.output("table", "json", "yaml", "name")
@options.quiet
def submit(*, file: Path, dry_run: str, namespace: str, output: str, **where: Any) -> int:
    """Check a document, show what it takes, and put its JobSet into the queue."""
    from sliceworks.cli import connections, train_files

    asked = train_files.read(file)
    if dry_run == "client":
        _show_plan(asked, asked.jobset(namespace), output)
        return 0

    async def main() -> Object:
        async with connections.open_cluster(where["kubeconfig"], where["context"], where["twin"]) as client:
            place = namespace or asked.job.metadata.namespace or client.namespace
            await _check_queue(client, asked, place)
            await _check_name(client, asked.job.metadata.name, place)
            return await _sent(client, asked.jobset(place), dry=dry_run == "server")

    with progress.working(f"Submitting {asked.job.metadata.name}"):
        made = connections.run(main, **where)
    _show_plan(asked, made, output)
    return 0


@train.command("list")
@options.namespace
@options.all_namespaces
@options.cluster
@options.output("table", "json", "yaml", "name")
@options.quiet
def list_(*, namespace: str, everywhere: bool, output: str, **where: Any) -> int:
    """List the training jobs of a namespace, or of all: their queue, what they run on, and how they stand."""
    from sliceworks.cli import connections

    async def main() -> tuple[list[Object], str]:
        async with connections.open_cluster(where["kubeconfig"], where["context"], where["twin"], namespace) as client:
            place = None if everywhere else client.namespace
            return await _all_jobsets(client, place), place or "the cluster"

    found, place = connections.run(main, **where)
    if not found and output == "table":
        progress.say(f"There are no training jobs in {place}.")
        return 0
    columns = ("namespace", *_COLUMNS) if everywhere else _COLUMNS
    rows = [((each["metadata"]["namespace"], *_row(each)) if everywhere else _row(each)) for each in found]
    show(Report(columns, rows, found, [f"jobset/{each['metadata']['name']}" for each in found]), output)
    return 0


@train.command()
@click.argument("name")
@options.namespace
@options.cluster
@options.yes
@options.quiet
def cancel(*, name: str, namespace: str, yes: bool, **where: Any) -> int:
    """End a training job and remove it, with its pods."""
    from sliceworks.cli import connections

    async def main() -> None:
        async with connections.open_cluster(where["kubeconfig"], where["context"], where["twin"], namespace) as client:
            place = client.namespace
            found = {each["metadata"]["name"] for each in await _all_jobsets(client, place)}
            if name not in found:
                raise SliceworksError(
                    f"there is no training job {name!r} in {place}", hint=_closest(name, found) or "train list -A"
                )
            options.confirm(f"Cancel {name} in {place}?", yes)
            await client.delete(_jobsets(), name, place, propagation_policy="Background")

    connections.run(main, **where)
    click.echo(f"jobset/{name} is cancelled")
    return 0


async def _check_queue(client: Client, asked: Submission, namespace: str) -> None:
    """Whether the queue and the priority exist."""
    try:
        queues = await _names(client, _kueue("LocalQueue", "localqueues"), namespace)
        classes = await _names(client, _kueue("WorkloadPriorityClass", "workloadpriorityclasses", namespaced=False))
    except NotFound as error:
        raise _not_installed("Kueue") from error
    spec = asked.job.spec
    for field, name, known in (("queue", spec.queue, queues), ("priority", spec.priority, classes)):
        if name and known is not None and name not in known:
            where = f" in namespace {namespace}" if field == "queue" else ""
            problem = f"there is no {field} {name!r}{where}"
            remedy = _closest(name, known) or f"`sliceworks queues apply` makes the {field} that an Environment names"
            raise InvalidDocument(problem, place=asked.document.place("spec", field), hint=remedy)


async def _names(client: Client, resource: Resource, namespace: str | None = None) -> set[str] | None:
    """What there is; None where one may submit work but not look."""
    try:
        return {each["metadata"]["name"] for each in (await client.list_all(resource, namespace)).items}
    except Forbidden:
        return None


async def _check_name(client: Client, name: str, namespace: str) -> None:
    if any(each["metadata"]["name"] == name for each in await _all_jobsets(client, namespace, fields=f"metadata.name={name}")):
        raise _taken(name, namespace)


async def _all_jobsets(client: Client, namespace: str | None, **selection: Unpack[ListOptions]) -> list[Object]:
    try:
        return (await client.list_all(_jobsets(), namespace, **selection)).items
    except NotFound as error:
        raise _not_installed("JobSet") from error


async def _sent(client: Client, jobset: Object, *, dry: bool) -> Object:
    metadata = jobset["metadata"]
    try:
        return await client.create(jobset, resource=_jobsets(), dry_run=dry)
    except AlreadyExists as error:
        raise _taken(metadata["name"], metadata["namespace"]) from error


def _taken(name: str, namespace: str) -> SliceworksError:
    remedy = f"take another name, or sliceworks train cancel {name} -n {namespace}"
    return SliceworksError(f"there is already a job {name} in {namespace}", hint=remedy)


def _not_installed(what: str) -> SliceworksError:
    return SliceworksError(f"{what} is not installed in this cluster", hint="install it, or use --twin")


def _closest(name: str, known: Iterable[str]) -> str:
    import difflib

    close = difflib.get_close_matches(name, list(known), n=1)
    return f"did you mean {close[0]}?" if close else ""


def _show_plan(asked: Submission, jobset: Object, output: str) -> None:
    """The JobSet itself, or what it takes."""
    name = jobset["metadata"]["name"]
    if output in ("json", "yaml"):
        show_one(jobset, output)
        return
    ask, spec = asked.ask, asked.job.spec
    what = f"{ask.count} × {ask.shape.type_name}"
    row = (name, spec.queue, spec.priority or "-", what, ask.capacity, ask.hosts, ask.chips, str(ask.price or "unknown"))
    columns = ("name", "queue", "priority", "slices", "capacity", "hosts", "chips", "usd/hour")
    show(Report(columns, [row], [], [f"jobset/{name}"]), output)


def _row(jobset: Object) -> tuple[object, ...]:
    from datetime import datetime

    from sliceworks.base import clock, duration
    from sliceworks.training.compile import PRIORITY, QUEUE, TYPE
    from sliceworks.training.states import state

    metadata = jobset["metadata"]
    labels = metadata.get("labels") or {}
    age = clock.since(datetime.fromisoformat(metadata["creationTimestamp"])).total_seconds()
    return (
        metadata["name"],
        *(labels.get(key, "-") for key in (QUEUE, PRIORITY, TYPE)),
        jobset["spec"]["replicatedJobs"][0].get("replicas", 1),
        state(jobset),
        (jobset.get("status") or {}).get("restarts", 0),
        duration.human(max(age, 0)),
    )


def _jobsets() -> Resource:
    from sliceworks.kube.resources import Resource

    return Resource("jobset.x-k8s.io", "v1alpha2", "JobSet", "jobsets", True)


def _kueue(kind: str, plural: str, *, namespaced: bool = True) -> Resource:
    from sliceworks.kube.resources import Resource

    return Resource("kueue.x-k8s.io", "v1beta2", kind, plural, namespaced)
