"""`train logs`: print the logs of a job's hosts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from sliceworks.base.errors import SliceworksError, UsageError
from sliceworks.cli import options, train_client

if TYPE_CHECKING:
    from sliceworks.cli.train_log_stream import LogWindow
    from sliceworks.kube import Client
    from sliceworks.training.log_source import PodSelection

Object = dict[str, Any]


@click.command()
@click.argument("name")
@click.option("--slice", "slice_", type=click.IntRange(0), metavar="N", help="Only this slice; the first is 0.")
@click.option("--host", type=click.IntRange(0), metavar="N", help="Only this host of each slice; the first is 0.")
@click.option("--helper", metavar="NAME", help="Auxiliary job, such as tensorboard.")
@click.option("-p", "--previous", is_flag=True, help="Logs from before the last restart, if the cluster still has them.")
@click.option("-f", "--follow", is_flag=True, help="Follow the logs through restarts until the job has ended.")
@click.option("--tail", type=click.IntRange(0), metavar="LINES", help="Only the last lines of each host.")
@click.option("--since", type=options.DURATION, help="Only logs newer than this, such as 5m.")
@click.option("--timestamps", is_flag=True, help="Prefix each line with its timestamp.")
@options.namespace
@options.cluster
@options.output("text", "json")
@options.quiet
def logs(
    *,
    name: str,
    slice_: int | None,
    host: int | None,
    helper: str | None,
    namespace: str,
    output: str,
    previous: bool,
    follow: bool,
    tail: int | None,
    since: float | None,
    timestamps: bool,
    **where: Any,
) -> int:
    """Print the logs of the hosts of a training job: all slices, or selected ones.

    Lines of several hosts are sorted by time and prefixed with the host: slice-0/1 is the second host of the first slice.
    """
    from sliceworks.cli.train_log_stream import LogWindow
    from sliceworks.training.log_source import PodSelection

    if previous and follow:
        raise UsageError("--previous and --follow cannot be combined", hint="remove one of them")
    choice = PodSelection(slice_, host, helper)
    part = LogWindow(tail, int(since) if since is not None else None)

    async def work(client: Client) -> None:
        from sliceworks.cli.train_log_stream import LogPrinter

        jobset = await train_client.find_jobset(client, name, client.namespace)
        choice.check(jobset)
        printer = LogPrinter(as_json=output == "json", timestamps=timestamps, single_source=_is_one(jobset, choice))
        if follow:
            from sliceworks.cli.train_log_stream import LogFollower

            await LogFollower(client, jobset, choice, part, printer).run()
            return
        await _print_all(client, jobset, choice, part, printer, previous=previous)

    train_client.run(work, namespace, where)
    return 0


def _is_one(jobset: Object, choice: PodSelection) -> bool:
    """Whether there is only one host, so that lines need no prefix."""
    job = next(
        replicated_job for replicated_job in jobset["spec"]["replicatedJobs"] if replicated_job["name"] == choice.job(jobset)
    )
    slices = 1 if choice.slice is not None else job.get("replicas", 1)
    hosts = 1 if choice.host is not None else job["template"]["spec"].get("parallelism", 1)
    return slices * hosts == 1


async def _print_all(
    client: Client, jobset: Object, choice: PodSelection, part: LogWindow, printer: Any, *, previous: bool
) -> None:
    from sliceworks.cli.train_log_stream import read_logs
    from sliceworks.training import log_source

    name, namespace = jobset["metadata"]["name"], jobset["metadata"]["namespace"]
    sources = log_source.list_sources(jobset, await train_client.list_pods(client, name, namespace), choice)
    selected = log_source.previous(sources) if previous else log_source.latest(sources)
    if previous and not selected:
        raise _no_previous_logs(jobset)
    selected = [item for item in selected if item.started or item.previous]
    if not selected:
        from sliceworks.training.status import status_line

        message = f"no logs from {name} yet"
        raise SliceworksError(
            f"{message}: it is {status_line(jobset, None, [source.pod for source in sources])}",
            hint=f"-f waits for logs; see train show {name}",
        )
    for log in await read_logs(client, selected, part):
        printer.write(log)


def _no_previous_logs(jobset: Object) -> SliceworksError:
    """Return the error for logs of an earlier attempt: JobSet deletes its pods, so only a log collector has them."""
    metadata = jobset["metadata"]
    attempt = int((jobset.get("status") or {}).get("restarts", 0)) - 1
    if attempt < 0:
        return SliceworksError(f"{metadata['name']} has not been restarted, so it has no previous logs", hint="remove --previous")
    labels = f'labels."k8s-pod/jobset_sigs_k8s_io/jobset-name"="{metadata["name"]}"'
    labels += f' labels."k8s-pod/jobset_sigs_k8s_io/restart-attempt"="{attempt}"'
    where = f'resource.type="k8s_container" resource.labels.namespace_name="{metadata["namespace"]}"'
    remedy = f"on GKE Cloud Logging keeps them: gcloud logging read '{where} {labels}'; -f sees every attempt"
    return SliceworksError(f"the pods of attempt {attempt} of {metadata['name']} were deleted with their logs", hint=remedy)
