"""`train submit`: validate a job, show its plan and price, and create its JobSet."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sliceworks.base import progress
from sliceworks.base.errors import AlreadyExists, BadRequest, Forbidden, NotFound, ServiceUnavailable, UsageError
from sliceworks.cli import options, train_client, train_flags
from sliceworks.cli.output import Report, print_object, print_report
from sliceworks.kube.resources import JOBSET

if TYPE_CHECKING:
    from sliceworks.cli.train_preflight import QueuePlacement
    from sliceworks.kube import Client
    from sliceworks.training.admissibility import WaitEstimate
    from sliceworks.training.submission import Submission

Object = dict[str, Any]
_PENDING = "pendingworkloads"


@click.command(cls=train_flags.JobCommand)
@click.argument("name", required=False)
@click.option("-f", "--file", type=click.Path(exists=True, path_type=Path), help="The TrainingJob document, instead of flags.")
@train_flags.job_flags
@click.option(
    "--environment",
    type=click.Path(exists=True, path_type=Path),
    help="An Environment; check that its pools and queues can hold the job before contacting the cluster.",
)
@click.option(
    "--dry-run",
    type=click.Choice(["none", "client", "server"]),
    default="none",
    show_default=True,
    help="Only print the objects (client), or validate them on the server (server).",
)
@click.option(
    "--wait",
    type=click.Choice(["running", "finished"]),
    is_flag=False,
    flag_value="finished",
    help="Wait until the job has finished, or is running (--wait=running). Exit code 1 if it fails.",
)
@click.option("--no-forecast", is_flag=True, help="Do not forecast the start of a job that must wait.")
@click.option("--timeout", type=options.DURATION, help="With --wait: time to wait before exit code 3.  [default: no limit]")
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
    """Validate a job, show its resources and cost, and submit it to its queue: from a document, or from flags.

    \b
    sliceworks train submit -f job.yaml
    sliceworks train submit first --queue queue --type v5p-32 --slices 2 \\
      --image IMAGE -- python train.py --steps 100

    With -o document, the flags are printed as a TrainingJob document; with -o yaml, the generated JobSet is printed.
    """
    where = {key: rest.pop(key) for key in ("kubeconfig", "context", "twin")}
    submission = _build_submission(name, command, file, namespace, rest)
    warning = ""
    if environment is not None:
        from sliceworks.cli.train_preflight import check_environment

        if warning := check_environment(submission, environment, namespace):
            click.echo(f"warning: {warning}", err=True)
    if output == "document":
        print_object(submission.document.data, "yaml")
        return 0
    if dry_run == "client":
        _show_plan(submission, submission.jobset(namespace), output, None)
        return 0

    async def work(client: Client) -> None:
        from sliceworks.cli.train_preflight import check_cluster

        with progress.task(f"Checking {submission.job.metadata.name}"):
            place = await check_cluster(client, submission, namespace or submission.job.metadata.namespace or client.namespace)
            jobset = submission.jobset(place.namespace)
            expected = await _expectation(client, jobset, place)
        if place.warning and place.warning != warning:
            click.echo(f"warning: {place.warning}", err=True)
        if output == "table":
            _show_plan(submission, jobset, output, expected)
        jobset = await _sent(client, jobset, dry=dry_run == "server")
        if output != "table":
            _show_plan(submission, jobset, output, None)
        elif expected.wait == "unknown" and not no_forecast and not progress.is_quiet():
            from sliceworks.cli.train_forecast import print_forecast

            await print_forecast(client, jobset)
        if wait and dry_run == "none":
            from sliceworks.cli.train_lifecycle import wait_for

            await wait_for(client, jobset, wait, timeout)

    train_client.run(work, namespace, where)
    return 0


def _build_submission(name: str | None, command: tuple[str, ...], file: Path | None, namespace: str, flags: Object) -> Submission:
    from sliceworks.training import submission

    if file is not None:
        if name or command or train_flags.has_job_flags(flags):
            raise UsageError("-f cannot be combined with flags that describe the job", hint="edit the document, or remove -f")
        return submission.load(file)
    if not name:
        raise UsageError("no job given", hint="pass -f FILE, or NAME with --queue, --type and --image")
    return submission.from_document(train_flags.build_document(name, command, namespace, flags))


async def _sent(client: Client, jobset: Object, *, dry: bool) -> Object:
    from sliceworks.cli.train_preflight import already_exists

    metadata = jobset["metadata"]
    try:
        return await client.create(jobset, resource=JOBSET, dry_run=dry, field_validation="Strict")
    except AlreadyExists as error:
        raise already_exists(metadata["name"], metadata["namespace"]) from error
    except BadRequest as error:
        error.hint = "the JobSet of the cluster may be too old for this job: `sliceworks doctor` checks its version"
        raise


async def _expectation(client: Client, jobset: Object, placement: QueuePlacement) -> WaitEstimate:
    """Estimate the wait from the queue; for the first job in the queue also whether it starts at once by preemption."""
    from sliceworks.kube.resources import CLUSTER_QUEUE_VISIBILITY
    from sliceworks.training.admissibility import NO_WAIT, UNKNOWN, WaitEstimate, estimate_wait

    pending: list[Object] | None = None
    cluster_queue = placement.queue_objects.queue(placement.cluster_queue) if placement.queue_objects else None
    if cluster_queue is not None and (cluster_queue.get("status") or {}).get("pendingWorkloads"):
        try:
            pending = (await client.get(CLUSTER_QUEUE_VISIBILITY, placement.cluster_queue, subresource=_PENDING)).get("items") or []
        except (NotFound, Forbidden, ServiceUnavailable):
            pending = None
    expected = estimate_wait(jobset, placement.cluster_queue, placement.priority, placement.queue_objects, pending)
    if expected.ahead == 0 and expected.wait == UNKNOWN:
        from sliceworks.rehearsal.forecast.forecaster import starts_at_once

        if await starts_at_once(client, jobset):
            return WaitEstimate(0, NO_WAIT)
    return expected


def _show_plan(submission: Submission, jobset: Object, output: str, expected: WaitEstimate | None) -> None:
    """Print the JobSet, or its resources and cost."""
    name = jobset["metadata"]["name"]
    if output in ("json", "yaml"):
        print_object(jobset, output)
        return
    request, spec = submission.request, submission.job.spec
    row: list[object] = [name, spec.queue, spec.priority or "-", f"{request.count} × {request.shape.type_name}", request.capacity]
    row += [request.hosts, request.chips, str(request.price or "unknown")]
    columns = ["name", "queue", "priority", "slices", "capacity", "hosts", "chips", "usd/hour"]
    if expected is not None:
        columns += ["ahead", "wait"]
        row += ["unknown" if expected.ahead is None else expected.ahead, expected.wait]
    print_report(Report(columns, [row], [], [f"jobset/{name}"]), output)
