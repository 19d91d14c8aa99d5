"""`sliceworks models publish`, `unpublish` and `update`: what a running service serves.

Each is a change of the recorded document, applied. Sax is told by a Job with saxutil, Triton's servers by their repository API, one
by one; engines with one model are rolled.
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
_DONE = {"publish": "published", "unpublish": "unpublished", "update": "served anew"}


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


@click.command(short_help="Serve a model more, or another one.")
@click.option("--class", "class_", metavar="CLASS", help="Sax: the model's class.")
@click.option("--checkpoint", metavar="FOLDER", help="Sax, JetStream: its checkpoint.")
@click.option("--source", metavar="PLACE", help="vLLM: its name at Hugging Face, or a folder; Triton: copied from there first.")
@click.option("--replicas", type=click.IntRange(1), help="Sax: servers that load it.")
@_shared
def publish(*, name: str, model: str, namespace: str, timeout: float, **given: Any) -> int:
    """Serve a model: beside the others, or in the place of the one that an engine with a single model has."""

    def edit(record: Record) -> Object:
        from sliceworks.serving import editing

        return editing.with_model(record, {"name": model, **_given(record, given)})

    return _change(name, model, "publish", edit, namespace=namespace, timeout=timeout, where=given)


@click.command(short_help="Serve a model no longer.")
@_shared
def unpublish(*, name: str, model: str, namespace: str, timeout: float, **given: Any) -> int:
    """Serve a model no longer. An engine with a single model is left without servers."""

    def edit(record: Record) -> Object:
        from sliceworks.serving import editing

        return editing.without_model(record, model)

    return _change(name, model, "unpublish", edit, namespace=namespace, timeout=timeout, where=given)


@click.command(short_help="Serve a model anew.")
@click.option("--checkpoint", metavar="FOLDER", help="Sax, JetStream: another checkpoint.")
@click.option("--source", metavar="PLACE", help="vLLM: another name at Hugging Face, or folder.")
@click.option("--replicas", type=click.IntRange(1), help="Sax: servers that load it.")
@_shared
def update(*, name: str, model: str, namespace: str, timeout: float, **given: Any) -> int:
    """Serve a model anew: with another checkpoint, or as it is in its place now."""

    def edit(record: Record) -> Object:
        from sliceworks.serving import editing

        return editing.changed_model(record, model, _given(record, given))

    return _change(name, model, "update", edit, namespace=namespace, timeout=timeout, where=given)


def _given(record: Record, given: Object) -> Object:
    """What was said about the model; an option that the engine does not know is wrong."""
    engine = record.service.spec.engine
    said = {key.rstrip("_"): value for key, value in given.items() if key.rstrip("_") in _options() and value is not None}
    for key in said:
        if key not in _FIELDS[engine]:
            raise UsageError(f"{engine} takes no --{key}", hint=f"it takes {', '.join('--' + each for each in _FIELDS[engine])}")
    return said


def _options() -> set[str]:
    return {each for fields in _FIELDS.values() for each in fields}


def _change(
    name: str, model: str, verb: str, edit: Callable[[Record], Object], *, namespace: str, timeout: float, where: Object
) -> int:
    from sliceworks.cli import connections

    async def work(client: Client) -> None:
        from sliceworks.serving import cluster

        record = await cluster.one_record(client, name, client.namespace)
        document = edit(record)
        begun = f"What is changed stays: the same command goes on, `sliceworks models show {name} -n {record.namespace}` looks."
        with progress.leaving(begun), progress.working(f"{_DOING[verb]} {model}", logged=True) as step:
            change = ("unload" if verb == "unpublish" else "load", model)
            await _apply(client, record, document, change, step=step, timeout=timeout)

    connections.on_cluster(work, where, namespace)
    click.echo(f"{model} is {_DONE[verb]} by modelservice/{name}")
    return 0


async def _apply(
    client: Client, record: Record, document: Object, change: tuple[str, str], *, step: Callable[[str], None], timeout: float
) -> None:
    from sliceworks.base import yamls
    from sliceworks.serving import publishing
    from sliceworks.serving.checks import checked

    name = f"modelservice/{record.service.metadata.name}"
    wanted = checked(yamls.Document(document, name, 1, {}))
    for told in await publishing.publish(client, record, (wanted, document), change, tell=step, timeout=timeout):
        progress.say(told)
