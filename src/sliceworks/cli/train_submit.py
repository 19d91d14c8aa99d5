"""`sliceworks train submit`: a job from a document or from flags, checked whole, shown with its price, and put into its queue."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sliceworks.base import progress
from sliceworks.base.errors import AlreadyExists, Forbidden, NotFound, ServiceUnavailable, UsageError
from sliceworks.base.words import closest
from sliceworks.cli import options, train_cluster, train_flags
from sliceworks.cli.output import Report, show, show_one

if TYPE_CHECKING:
    from sliceworks.cli.train_checks import Place
    from sliceworks.kube import Client
    from sliceworks.rehearsal.submissions import Submission
    from sliceworks.training.expectation import Expectation

Object = dict[str, Any]
_PENDING = "pendingworkloads"


@click.command(cls=train_flags.JobCommand)
@click.argument("name", required=False)
@click.option("-f", "--file", type=click.Path(exists=True, path_type=Path), help="The TrainingJob document, in place of flags.")
@train_flags.job_flags
@click.option(
    "--environment",
    type=click.Path(exists=True, path_type=Path),
    help="An Environment that must have the type, before any cluster.",
)
@click.option(
    "--dry-run", type=click.Choice(["none", "client", "server"]), default="none", show_default=True, help="Print, or ask."
)
@click.option(
    "--wait",
    type=click.Choice(["running", "finished"]),
    is_flag=False,
    flag_value="finished",
    help="Wait until it has finished, or with --wait=running until it runs. A job that fails is exit code 1.",
)
@click.option("--no-forecast", is_flag=True, help="Where others are ahead, do not work out when it will start.")
@click.option("--timeout", type=options.DURATION, help="With --wait: how long, before exit code 3.  [default: no limit]")
@options.namespace
@options.cluster
@options.output("table", "json", "yaml", "name", "document")
@options.quiet
def submit(
    *,
    name: str | None,
    command: tuple[str, ...],
    file: Path | None,
    environment: Path | None,
    dry_run: str,
    wait: str | None,
    no_forecast: bool,
    timeout: float | None,
    namespace: str,
    output: str,
    **rest: Any,
) -> int:
    """Check a job whole, show what it takes, and put it into its queue: from a document, or from flags.

    \b
    sliceworks train submit -f job.yaml
    sliceworks train submit first --queue queue --type v5p-32 --slices 2 \\
      --image IMAGE -- python train.py --steps 100

    With -o document flags are written as the document that they mean; with -o yaml the JobSet is shown that follows from it.
    """
    where = {key: rest.pop(key) for key in ("kubeconfig", "context", "twin")}
    asked = _asked(name, command, file, namespace, rest)
    if environment is not None:
        _check_environment(asked, environment)
    if output == "document":
        show_one(asked.document.data, "yaml")
        return 0
    if dry_run == "client":
        _show_plan(asked, asked.jobset(namespace), output, None)
        return 0

    async def work(client: Client) -> None:
        from sliceworks.cli.train_checks import check

        with progress.working(f"Checking {asked.job.metadata.name}"):
            place = await check(client, asked, namespace or asked.job.metadata.namespace or client.namespace)
            made = asked.jobset(place.namespace)
            expected = await _expectation(client, made, place)
        if output == "table":
            _show_plan(asked, made, output, expected)
        made = await _sent(client, made, dry=dry_run == "server")
        if output != "table":
            _show_plan(asked, made, output, None)
        elif expected.wait == "unknown" and not no_forecast and not progress.is_quiet():
            from sliceworks.cli.train_expected import tell

            await tell(client, made)
        if wait and dry_run == "none":
            from sliceworks.cli.train_wait import wait_for

            await wait_for(client, made, wait, timeout)

    train_cluster.run(work, namespace, where)
    return 0


def _asked(name: str | None, command: tuple[str, ...], file: Path | None, namespace: str, flags: Object) -> Submission:
    from sliceworks.rehearsal import submissions

    if file is not None:
        if name or command or train_flags.said(flags):
            raise UsageError("-f and flags both say what the job is", hint="write it into the document, or leave -f out")
        return submissions.read(file)
    if not name:
        raise UsageError("which job?", hint="-f FILE, or NAME with --queue, --type and --image")
    return submissions.take(train_flags.document(name, command, namespace, flags))


def _check_environment(asked: Submission, file: Path) -> None:
    """Whether an environment has pools of the type."""
    from sliceworks.cli.env_sites import read_environment
    from sliceworks.specs.findings import Finding
    from sliceworks.training.flavors import flavors

    known = {each.type: each for each in flavors(read_environment(file).spec)}
    wanted = asked.ask.shape.type_name
    if wanted not in known and not any(wanted.startswith(f"{each}-") for each in known):
        remedy = closest(wanted, known) or f"it has {', '.join(known) or 'no accelerators'}"
        raise Finding(("spec", "slices", "type"), f"{file} has no pool of {wanted}", remedy).told(asked.document)


async def _sent(client: Client, jobset: Object, *, dry: bool) -> Object:
    from sliceworks.cli.train_checks import taken

    metadata = jobset["metadata"]
    try:
        return await client.create(jobset, resource=train_cluster.JOBSETS, dry_run=dry)
    except AlreadyExists as error:
        raise taken(metadata["name"], metadata["namespace"]) from error


async def _expectation(client: Client, jobset: Object, place: Place) -> Expectation:
    """What the queue says of it. A forecast is a matter of `train forecast`, which takes longer."""
    from sliceworks.kube.resources import Resource
    from sliceworks.training.expectation import expect

    pending: list[Object] | None = None
    found = place.park.queue(place.cluster_queue) if place.park else None
    if found is not None and (found.get("status") or {}).get("pendingWorkloads"):
        visible = Resource("visibility.kueue.x-k8s.io", "v1beta2", "ClusterQueue", "clusterqueues", namespaced=False)
        try:
            pending = (await client.get(visible, place.cluster_queue, subresource=_PENDING)).get("items") or []
        except (NotFound, Forbidden, ServiceUnavailable):
            pending = None
    return expect(jobset, place.cluster_queue, place.priority, place.park, pending)


def _show_plan(asked: Submission, jobset: Object, output: str, expected: Expectation | None) -> None:
    """The JobSet itself, or what it takes."""
    name = jobset["metadata"]["name"]
    if output in ("json", "yaml"):
        show_one(jobset, output)
        return
    ask, spec = asked.ask, asked.job.spec
    row: list[object] = [name, spec.queue, spec.priority or "-", f"{ask.count} × {ask.shape.type_name}", ask.capacity]
    row += [ask.hosts, ask.chips, str(ask.price or "unknown")]
    columns = ["name", "queue", "priority", "slices", "capacity", "hosts", "chips", "usd/hour"]
    if expected is not None:
        columns += ["ahead", "wait"]
        row += ["unknown" if expected.ahead is None else expected.ahead, expected.wait]
    show(Report(columns, [row], [], [f"jobset/{name}"]), output)
