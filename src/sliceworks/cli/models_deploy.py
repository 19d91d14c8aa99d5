"""`models deploy`: check, price and apply a ModelService, and wait until it is ready."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sliceworks.base import progress
from sliceworks.cli import options
from sliceworks.cli.output import Report, print_report

if TYPE_CHECKING:
    from sliceworks.kube import Client
    from sliceworks.specs.model_service import ModelService

_COLUMNS = ("name", "namespace", "engine", "models", "on", "capacity", "usd/hour")


@click.command(short_help="Deploy a ModelService, and wait until it is ready.")
@click.option(
    "-f", "--file", type=click.Path(exists=True, allow_dash=True, path_type=Path), required=True,
    help="The ModelService document; - for stdin.",
)  # fmt: skip
@click.option(
    "--dry-run",
    type=click.Choice(["none", "client", "server"]),
    default="none",
    show_default=True,
    help="Only print the objects (client), or validate them on the server (server).",
)
@click.option(
    "--wait/--no-wait",
    default=True,
    show_default=True,
    help="Wait until everything is ready. With --no-wait, `models show` lists the pending steps.",
)
@options.timeout(3600)
@options.namespace
@options.cluster
@options.output("table", "json", "yaml", "name")
@options.yes
@options.quiet
def deploy(*, file: Path, dry_run: str, wait: bool, timeout: float, namespace: str, output: str, yes: bool, **where: Any) -> int:
    """Validate a ModelService, show its resources and cost, apply its objects, and wait until they are ready."""
    from sliceworks.base import yaml_documents
    from sliceworks.cli import connections
    from sliceworks.serving.validation import parse_valid

    document = yaml_documents.load_one(file, "ModelService")
    service = parse_valid(document)
    if dry_run == "client":
        return _print(service, namespace, output)

    async def work(client: Client) -> None:
        from sliceworks.base import clock
        from sliceworks.serving.rollout import Rollout

        place = namespace or service.metadata.namespace or client.namespace
        rollout = Rollout(client, service, document.data, place)
        with progress.task(f"Checking {service.metadata.name} against the cluster"):
            objects = await rollout.prepare(create_namespace=dry_run == "none")
        _show_plan(service, place, output)
        for skipped_object in rollout.skipped_objects:
            progress.say(f"Skipped: {skipped_object}.")
        for item in rollout.missing:
            progress.say(f"Missing: {item}. Pods stay pending until it exists.")
        if dry_run == "server":
            return
        options.confirm(f"Apply {len(objects)} objects in {place}?", yes)
        ends = clock.loop_time() + timeout
        name = service.metadata.name
        resume_hint = f"Run the command again to resume, or `sliceworks models delete {name} -n {place}` to delete it."
        with progress.on_interrupt(resume_hint), progress.task(f"Deploying {name}", logged=True) as step:
            record = await rollout.apply(step, timeout, wait=wait)
            if wait:
                await rollout.follow(record, step, ends - clock.loop_time())
        if record.pending_steps:
            progress.say(f"Pending: {', '.join(record.pending_steps)}. Run the command again without --no-wait to finish.")

    connections.run_on_cluster(work, where)
    return 0


def _print(service: ModelService, namespace: str, output: str) -> int:
    from sliceworks.serving.compiler import manifests

    place = namespace or service.metadata.namespace
    if output in ("json", "yaml"):
        from sliceworks.base import yaml_documents

        metadata = service.metadata.model_copy(update={"namespace": place})
        objects = manifests(service.model_copy(update={"metadata": metadata}))
        if output == "json":
            import orjson

            click.echo(orjson.dumps(objects, option=orjson.OPT_INDENT_2))
        else:
            click.echo(yaml_documents.dump_all(objects), nl=False)
    else:
        _show_plan(service, place or "-", output)
    return 0


def _show_plan(service: ModelService, namespace: str, output: str) -> None:
    """Print the required resources and their cost."""
    from sliceworks.serving.compiler import plan

    deployment_plan = plan(service)
    name, capacity = service.metadata.name, deployment_plan.hardware.capacity if deployment_plan.hardware else "-"
    served = ", ".join(model.name for model in service.spec.models)
    row = (name, namespace, service.spec.engine, served, deployment_plan.summary, capacity, str(deployment_plan.price or "unknown"))
    data = dict(zip(_COLUMNS, row, strict=True))
    print_report(Report(_COLUMNS, [row], [data], [f"modelservice/{name}"]), output)
