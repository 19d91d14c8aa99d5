"""`sliceworks models`: the command group, `sample`, `list`, `show` and `delete`."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sliceworks.base import progress, tables
from sliceworks.base.errors import SliceworksError
from sliceworks.cli import options
from sliceworks.cli.groups import Group
from sliceworks.cli.models_deploy import deploy
from sliceworks.cli.models_invoke import invoke
from sliceworks.cli.models_publish import publish, unpublish, update
from sliceworks.cli.output import Report, print_object, print_report

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sliceworks.kube import Client
    from sliceworks.kube.pod_diagnosis import Cause
    from sliceworks.serving.cluster import ServiceDetails
    from sliceworks.serving.record import Record
    from sliceworks.serving.service_status import ServiceStatus

Object = dict[str, Any]


def describe_service(details: ServiceDetails) -> str:
    """Describe one model service."""
    from sliceworks.serving.compiler import plan

    service = details.record.service
    deployment_plan = plan(service)
    facts = [
        ("name", service.metadata.name),
        ("namespace", details.record.namespace),
        ("engine", service.spec.engine),
        ("models", ", ".join(model.name for model in service.spec.models)),
        ("on", deployment_plan.summary),
        ("usd/hour", str(deployment_plan.price or "unknown")),
        ("state", details.status.state),
    ]
    parts = [(str(part), f"{part.ready}/{part.desired}", part.state) for part in details.status.workloads]
    parts += [(name, "-", "missing") for name in details.status.missing]
    pages = [
        "".join(f"{name + ':':<11}{value}\n" for name, value in facts),
        tables.render(("part", "ready", "state"), parts),
        tables.render(("service", "port", "address"), list(_endpoints(details))),
    ]
    if details.autoscalers:
        rows = [(item.name, item.replicas, item.state) for item in details.autoscalers]
        pages.append(tables.render(("autoscaler", "replicas", "state"), rows))
    causes = [_describe_cause("not ready", cause) for cause in details.causes]
    causes += [_describe_cause("not scaled", autoscaler.cause) for autoscaler in details.autoscalers if autoscaler.cause]
    causes += _describe_pending(details)
    return "\n".join([*pages, *(["".join(causes)] if causes else [])])


def _describe_cause(what: str, cause: Cause) -> str:
    remedy = f"{'':{len(what) + 2}}{cause.hint}\n" if cause.hint else ""
    return f"{what}: {cause}\n{remedy}"


def _describe_pending(details: ServiceDetails) -> list[str]:
    finish = f"run `sliceworks models deploy -f FILE -n {details.record.namespace}` to finish"
    return [f"pending: {', '.join(details.record.pending_steps)}\n            {finish}\n"] if details.record.pending_steps else []


def service_summary(record: Record, status: ServiceStatus) -> Object:
    """Return the summary of a service as data, for lists."""
    return {
        "name": record.service.metadata.name,
        "namespace": record.namespace,
        "engine": record.service.spec.engine,
        "models": [model.name for model in record.service.spec.models],
        "state": status.state,
        "parts": [
            {"kind": part.kind, "name": part.name, "ready": part.ready, "desired": part.desired, "state": part.state}
            for part in status.workloads
        ],
        "pendingSteps": list(record.pending_steps),
    }


def service_data(details: ServiceDetails) -> Object:
    """Return all of a service as data."""
    return {
        **service_summary(details.record, details.status),
        "endpoints": [{"service": name, "port": port, "address": address} for name, port, address in _endpoints(details)],
        "causes": [asdict(cause) for cause in details.causes],
        "autoscalers": [asdict(autoscaler) for autoscaler in details.autoscalers],
        "document": details.record.document,
    }


def _endpoints(details: ServiceDetails) -> Iterator[tuple[str, str, str]]:
    for service in details.services:
        name, place = service["metadata"]["name"], service["metadata"]["namespace"]
        for port in service["spec"].get("ports") or ():
            yield name, port.get("name", ""), f"{name}.{place}.svc:{port['port']}"


_COLUMNS = ("name", "engine", "models", "on", "ready", "state", "gateway", "age")


@click.group(cls=Group)
def models() -> None:
    """Deploy, publish and invoke models."""


for command in (deploy, publish, unpublish, update, invoke):
    models.add_command(command)


@models.command(short_help="Write a sample model for Triton.")
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
@click.option("--name", default="densenet_onnx", show_default=True, help="Name of the model.")
@options.quiet
def sample(*, folder: Path, name: str) -> None:
    """Write a model repository for Triton with a small ONNX classifier, and an image to classify.

    The classifier tells eight colors apart.
    """
    from sliceworks.serving import sample_model

    files = {**sample_model.repository(name), "red.png": sample_model.image((230, 20, 30))}
    if existing := next((path for path in files if (folder / path).exists()), None):
        raise SliceworksError(f"{folder / existing} exists", hint="choose another folder")
    for path, data in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(data)
        click.echo(folder / path)


@models.command("list", short_help="List model services and their status.")
@options.namespace
@options.all_namespaces
@options.cluster
@options.output("table", "json", "yaml", "name")
@options.quiet
def list_(*, namespace: str, all_namespaces: bool, output: str, **where: Any) -> int:
    """List the model services of a namespace, or of all: models, accelerators and status."""
    from sliceworks.cli import connections

    async def work(client: Client) -> None:
        from sliceworks.serving import cluster
        from sliceworks.serving.service_status import compute_status

        place = None if all_namespaces else client.namespace
        records = await cluster.list_records(client, place)
        if not records and output == "table":
            progress.say(f"No model services found in {place or 'the cluster'}.")
            return
        by_place: dict[str, list[Object]] = {}
        for item in await cluster.list_workloads(client, place) if records else []:
            by_place.setdefault(item["metadata"]["namespace"], []).append(item)
        statuses = [(record, compute_status(record, by_place.get(record.namespace, ()))) for record in records]
        print_report(_report(statuses, all_namespaces=all_namespaces), output)

    connections.run_on_cluster(work, where, namespace)
    return 0


@models.command("show", short_help="Show a model service, and why it is not ready.")
@click.argument("name")
@options.namespace
@options.cluster
@options.output("table", "json", "yaml")
@options.quiet
def show_(*, name: str, namespace: str, output: str, **where: Any) -> int:
    """Show a model service: its models, addresses and components, and why it is not ready."""
    from sliceworks.cli import connections

    async def look(client: Client) -> ServiceDetails:
        from sliceworks.serving import cluster

        return await cluster.describe(client, await cluster.get_record(client, name, client.namespace), client.namespace)

    details = connections.run_on_cluster(look, where, namespace)
    if output == "table":
        click.echo(describe_service(details), nl=False)
    else:
        print_object(service_data(details), output)
    return 0


@models.command(short_help="Delete a model service.")
@click.argument("name")
@options.namespace
@options.cluster
@options.timeout(300)
@options.yes
@options.quiet
def delete(*, name: str, namespace: str, timeout: float, yes: bool, **where: Any) -> int:
    """Delete a model service and all of its objects. A gateway shared with other services is kept."""
    from sliceworks.cli import connections

    async def remove(client: Client) -> None:
        from sliceworks.serving import cluster, ownership

        record = await cluster.get_record(client, name, client.namespace)
        options.confirm(f"Delete {name} in {client.namespace} with {len(record.objects)} objects?", yes)
        with progress.on_interrupt(f"The deletion of {name} continues in the cluster."), progress.task(f"Deleting {name}"):
            await ownership.delete_service(client, record, client.namespace, timeout)

    connections.run_on_cluster(remove, where, namespace)
    click.echo(f"modelservice/{name} deleted")
    return 0


def _report(services: list[tuple[Record, ServiceStatus]], *, all_namespaces: bool) -> Report:
    """Return the report of all services; ages use the caller's clock."""

    columns = ("namespace", *_COLUMNS) if all_namespaces else _COLUMNS
    rows = [((record.namespace, *_row(record, status)) if all_namespaces else _row(record, status)) for record, status in services]
    data = [service_summary(record, status) for record, status in services]
    return Report(columns, rows, data, [f"modelservice/{record.service.metadata.name}" for record, _ in services])


def _row(record: Record, status: ServiceStatus) -> tuple[object, ...]:
    from datetime import datetime

    from sliceworks.base import clock, duration
    from sliceworks.serving.compiler import plan

    spec = record.service.spec
    ready, desired = sum(server.ready for server in status.servers), sum(item.desired for item in status.servers)
    age = clock.since(datetime.fromisoformat(record.created)).total_seconds()
    return (
        record.service.metadata.name,
        spec.engine,
        ", ".join(model.name for model in spec.models),
        plan(record.service).summary,
        f"{ready}/{desired}" if status.servers else "-",
        status.state,
        spec.gateway.name if spec.gateway else "-",
        duration.human(max(age, 0)),
    )
