"""`models publish`, `unpublish` and `update`: change the models of a running service.

Each command edits the recorded document and applies it. Sax: a Job runs saxutil. Triton: the repository API of
each server is called. Engines with one model are rolled out again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from sliceworks.base import progress
from sliceworks.base.errors import UsageError
from sliceworks.cli import options

if TYPE_CHECKING:
    from collections.abc import Callable

    from sliceworks.kube import Client
    from sliceworks.serving.record import Record

Object = dict[str, Any]
_FIELDS = {"saxml": ("class", "checkpoint", "replicas"), "triton": ("source",), "jetstream": ("checkpoint",), "vllm": ("source",)}
_DOING = {"publish": "Publishing", "unpublish": "Unpublishing", "update": "Updating"}
_DONE = {"publish": "published", "unpublish": "unpublished", "update": "reloaded"}


def _shared(command: Callable[..., Any]) -> Callable[..., Any]:
    for option in (
        options.quiet,
        options.timeout(3600),
        options.cluster,
        options.namespace,
        click.argument("model"),
        click.argument("name"),
    ):
        command = option(command)
    return command


@click.command(short_help="Add a model to a service, or replace its only model.")
@click.option("--class", "class_", metavar="CLASS", help="Sax: the model's class.")
@click.option("--checkpoint", metavar="FOLDER", help="Sax, JetStream: the checkpoint.")
@click.option("--source", metavar="PLACE", help="vLLM: Hugging Face name, or a folder. Triton: location to copy the model from.")
@click.option("--replicas", type=click.IntRange(1), help="Sax: number of servers that load the model.")
@_shared
def publish(*, name: str, model: str, namespace: str, timeout: float, **flags: Any) -> int:
    """Add a model to a service; for an engine with a single model, replace it."""

    def edit(record: Record) -> Object:
        from sliceworks.serving import publication

        return publication.add_model(record, {"name": model, **_flag_values(record, flags)})

    return _change(name, model, "publish", edit, namespace=namespace, timeout=timeout, where=flags)


@click.command(short_help="Remove a model from a service.")
@_shared
def unpublish(*, name: str, model: str, namespace: str, timeout: float, **flags: Any) -> int:
    """Remove a model from a service. An engine with a single model is scaled to zero."""

    def edit(record: Record) -> Object:
        from sliceworks.serving import publication

        return publication.remove_model(record, model)

    return _change(name, model, "unpublish", edit, namespace=namespace, timeout=timeout, where=flags)


@click.command(short_help="Reload a model of a service.")
@click.option("--checkpoint", metavar="FOLDER", help="Sax, JetStream: the new checkpoint.")
@click.option("--source", metavar="PLACE", help="vLLM: the new Hugging Face name, or folder.")
@click.option("--replicas", type=click.IntRange(1), help="Sax: number of servers that load the model.")
@_shared
def update(*, name: str, model: str, namespace: str, timeout: float, **flags: Any) -> int:
    """Reload a model: from a new checkpoint, or from its current location."""

    def edit(record: Record) -> Object:
        from sliceworks.serving import publication

        return publication.update_model(record, model, _flag_values(record, flags))

    return _change(name, model, "update", edit, namespace=namespace, timeout=timeout, where=flags)


def _flag_values(record: Record, flags: Object) -> Object:
    """Return the fields of the model from the options; raise if the engine does not support one."""
    engine = record.service.spec.engine
    options = {key.rstrip("_"): value for key, value in flags.items() if key.rstrip("_") in _options() and value is not None}
    for key in options:
        if key not in _FIELDS[engine]:
            raise UsageError(
                f"{engine} does not support --{key}", hint=f"supported: {', '.join('--' + field for field in _FIELDS[engine])}"
            )
    return options


def _options() -> set[str]:
    return {field for fields in _FIELDS.values() for field in fields}


def _change(
    name: str, model: str, verb: str, edit: Callable[[Record], Object], *, namespace: str, timeout: float, where: Object
) -> int:
    from sliceworks.cli import connections

    async def work(client: Client) -> None:
        from sliceworks.serving import cluster

        record = await cluster.get_record(client, name, client.namespace)
        document = edit(record)
        resume_hint = f"Run the command again to resume, or `sliceworks models show {name} -n {record.namespace}` to inspect."
        with progress.on_interrupt(resume_hint), progress.task(f"{_DOING[verb]} {model}", logged=True) as step:
            change = ("unload" if verb == "unpublish" else "load", model)
            await _apply(client, record, document, change, step=step, timeout=timeout)

    connections.run_on_cluster(work, where, namespace)
    click.echo(f"{model} is {_DONE[verb]} by modelservice/{name}")
    return 0


async def _apply(
    client: Client, record: Record, document: Object, change: tuple[str, str], *, step: Callable[[str], None], timeout: float
) -> None:
    from sliceworks.base import yaml_documents
    from sliceworks.serving import publication
    from sliceworks.serving.validation import parse_valid

    name = f"modelservice/{record.service.metadata.name}"
    service = parse_valid(yaml_documents.Document(document, name, 1, {}))
    for message in await publication.publish(client, record, (service, document), change, report=step, timeout=timeout):
        progress.say(message)
