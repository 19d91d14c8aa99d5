"""`sliceworks models deploy`: from a document to servers that answer, or to the reason why they do not."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sliceworks.base import progress
from sliceworks.cli import options
from sliceworks.cli.output import Report, show

if TYPE_CHECKING:
    from sliceworks.kube import Client
    from sliceworks.specs.serving import ModelService

_COLUMNS = ("name", "namespace", "engine", "models", "on", "capacity", "usd/hour")


@click.command(short_help="Deploy what a document says, and wait until it is ready.")
@click.option(
    "-f", "--file", type=click.Path(exists=True, allow_dash=True, path_type=Path), required=True,
    help="The ModelService document; - for what is piped in.",
)  # fmt: skip
@click.option(
    "--dry-run", type=click.Choice(["none", "client", "server"]), default="none", show_default=True, help="Print, or ask."
)
@click.option(
    "--wait/--no-wait",
    default=True,
    show_default=True,
    help="Wait until everything is ready; or leave what would have to wait, which `models show` then names.",
)
@options.timeout(3600)
@options.namespace
@options.cluster
@options.output("table", "json", "yaml", "name")
@options.yes
@options.quiet
def deploy(*, file: Path, dry_run: str, wait: bool, timeout: float, namespace: str, output: str, yes: bool, **where: Any) -> int:
    """Check a document, show what it takes and costs, apply its objects, and wait until they are ready."""
    from sliceworks.base import yamls
    from sliceworks.cli import connections
    from sliceworks.serving.checks import checked

    document = yamls.load_one(file, "ModelService")
    service = checked(document)
    if dry_run == "client":
        return _print(service, namespace, output)

    async def work(client: Client) -> None:
        from sliceworks.base import clock
        from sliceworks.serving.deploying import Rollout

        place = namespace or service.metadata.namespace or client.namespace
        rollout = Rollout(client, service, document.data, place)
        with progress.working(f"Asking the cluster about {service.metadata.name}"):
            objects = await rollout.prepare(make_namespace=dry_run == "none")
        _show_plan(service, place, output)
        for each in rollout.left_out:
            progress.say(f"Left out: {each}.")
        for each in rollout.missing:
            progress.say(f"Missing: {each}. Pods wait for it.")
        if dry_run == "server":
            return
        options.confirm(f"Apply {len(objects)} objects in {place}?", yes)
        ends = clock.loop_time() + timeout
        name = service.metadata.name
        begun = f"What is applied stays: the same command goes on, `sliceworks models delete {name} -n {place}` removes it."
        with progress.leaving(begun), progress.working(f"Deploying {name}", logged=True) as step:
            record = await rollout.apply(step, timeout, wait=wait)
            if wait:
                await rollout.follow(record, step, ends - clock.loop_time())
        if record.left:
            progress.say(f"Left to do: {', '.join(record.left)}. The same command without --no-wait waits, and does it.")

    connections.on_cluster(work, where)
    return 0


def _print(service: ModelService, namespace: str, output: str) -> int:
    from sliceworks.serving.compile import manifests

    place = namespace or service.metadata.namespace
    if output in ("json", "yaml"):
        from sliceworks.base import yamls

        metadata = service.metadata.model_copy(update={"namespace": place})
        objects = manifests(service.model_copy(update={"metadata": metadata}))
        if output == "json":
            import orjson

            click.echo(orjson.dumps(objects, option=orjson.OPT_INDENT_2))
        else:
            click.echo(yamls.dump_all(objects), nl=False)
    else:
        _show_plan(service, place or "-", output)
    return 0


def _show_plan(service: ModelService, place: str, output: str) -> None:
    """What it takes."""
    from sliceworks.serving.compile import plan

    found = plan(service)
    name, capacity = service.metadata.name, found.machines.capacity if found.machines else "-"
    served = ", ".join(each.name for each in service.spec.models)
    row = (name, place, service.spec.engine, served, found.what, capacity, str(found.price or "unknown"))
    data = dict(zip(_COLUMNS, row, strict=True))
    show(Report(_COLUMNS, [row], [data], [f"modelservice/{name}"]), output)
