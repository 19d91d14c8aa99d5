"""`sliceworks train logs`: what the hosts of a job have written, one by one or all together in the order of time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from sliceworks.base.errors import SliceworksError, UsageError
from sliceworks.cli import options, train_cluster

if TYPE_CHECKING:
    from sliceworks.cli.log_reading import Part
    from sliceworks.kube import Client
    from sliceworks.training.choosing import Choice

Object = dict[str, Any]


@click.command()
@click.argument("name")
@click.option("--slice", "slice_", type=click.IntRange(0), metavar="N", help="Only this slice; the first is 0.")
@click.option("--host", type=click.IntRange(0), metavar="N", help="Only this host of each slice; the first is 0.")
@click.option("--helper", metavar="NAME", help="A job beside the slices, such as tensorboard.")
@click.option("-p", "--previous", is_flag=True, help="What ran before the last restart, where the cluster still has it.")
@click.option("-f", "--follow", is_flag=True, help="Go on with what is written, through restarts, until the job has ended.")
@click.option("--tail", type=click.IntRange(0), metavar="LINES", help="Only the last lines of each host.")
@click.option("--since", type=options.DURATION, help="Only what is younger, such as 5m.")
@click.option("--timestamps", is_flag=True, help="Each line with its time.")
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
    """Print what the hosts of a training job have written: all slices, or those that are named.

    Lines of several hosts come in the order of time, each behind its host: slice-0/1 is the second host of the first slice.
    """
    from sliceworks.cli.log_reading import Part
    from sliceworks.training.choosing import Choice

    if previous and follow:
        raise UsageError("--previous and --follow cannot both be", hint="what ran before has ended")
    choice = Choice(slice_, host, helper)
    part = Part(tail, int(since) if since is not None else None)

    async def work(client: Client) -> None:
        from sliceworks.cli.log_printing import Printer

        jobset = await train_cluster.find_jobset(client, name, client.namespace)
        choice.check(jobset)
        printer = Printer(as_json=output == "json", timestamps=timestamps, one=_is_one(jobset, choice))
        if follow:
            from sliceworks.cli.log_following import Following

            await Following(client, jobset, choice, part, printer).run()
            return
        await _print_all(client, jobset, choice, part, printer, previous=previous)

    train_cluster.run(work, namespace, where)
    return 0


def _is_one(jobset: Object, choice: Choice) -> bool:
    """Whether there is one host only, so that nobody needs to be told which."""
    job = next(each for each in jobset["spec"]["replicatedJobs"] if each["name"] == choice.job(jobset))
    slices = 1 if choice.slice is not None else job.get("replicas", 1)
    hosts = 1 if choice.host is not None else job["template"]["spec"].get("parallelism", 1)
    return slices * hosts == 1


async def _print_all(client: Client, jobset: Object, choice: Choice, part: Part, printer: Any, *, previous: bool) -> None:
    from sliceworks.cli.log_reading import read_all
    from sliceworks.training import choosing

    name, namespace = jobset["metadata"]["name"], jobset["metadata"]["namespace"]
    found = choosing.sources(jobset, await train_cluster.pods_of(client, name, namespace), choice)
    wanted = choosing.previous(found) if previous else choosing.latest(found)
    if previous and not wanted:
        raise _gone(jobset)
    wanted = [each for each in wanted if each.started or each.previous]
    if not wanted:
        from sliceworks.training.stages import line

        told = f"no host of {name} has written anything yet"
        raise SliceworksError(
            f"{told}: it is {line(jobset, None, [each.pod for each in found])}", hint=f"-f waits; train show {name}"
        )
    for each in await read_all(client, wanted, part):
        printer.write(each)


def _gone(jobset: Object) -> SliceworksError:
    """JobSet removes the pods of an attempt when it begins the next; only what collects logs still has them."""
    metadata = jobset["metadata"]
    attempt = int((jobset.get("status") or {}).get("restarts", 0)) - 1
    if attempt < 0:
        return SliceworksError(f"{metadata['name']} has not been restarted: there is nothing before", hint="leave --previous out")
    labels = f'labels."k8s-pod/jobset_sigs_k8s_io/jobset-name"="{metadata["name"]}"'
    labels += f' labels."k8s-pod/jobset_sigs_k8s_io/restart-attempt"="{attempt}"'
    where = f'resource.type="k8s_container" resource.labels.namespace_name="{metadata["namespace"]}"'
    remedy = f"on GKE Cloud Logging keeps them: gcloud logging read '{where} {labels}'; -f sees every attempt"
    return SliceworksError(f"the pods of attempt {attempt} of {metadata['name']} are gone, and their logs with them", hint=remedy)
