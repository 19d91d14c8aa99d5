"""`gateway sax` and `gateway saxutil`: run a Sax cell that echoes, and call a cell."""

from __future__ import annotations

import re
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sliceworks.base import progress
from sliceworks.base.errors import SliceworksError, UsageError
from sliceworks.cli import options
from sliceworks.cli.groups import Group
from sliceworks.cli.output import Report, print_report

if TYPE_CHECKING:
    from collections.abc import Callable

    from sliceworks.serving.gateway.sax_cell import CellClient

_ROOT = click.option("--root", envvar="SAX_ROOT", required=True, show_envvar=True, help="Root folder of the cells.")


@click.command(short_help="Run a Sax cell that echoes its requests.")
@_ROOT
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--cell", default="/sax/test", show_default=True, metavar="PATH", help="Name of the cell.")
@click.option("--port", type=click.IntRange(0, 65535), default=10000, show_default=True, help="Admin server's port; 0 for any.")
@click.option("--servers", type=click.IntRange(1, 64), default=1, show_default=True, help="Number of model servers.")
@click.option("--load-time", type=options.DURATION, default="0s", show_default=True, help="Time to load a published model.")
@click.option("--ttft", type=options.DURATION, default="0s", show_default=True, help="Time to first token.")
@click.option("--token-time", type=options.DURATION, default="0s", show_default=True, help="Time between tokens.")
@options.quiet
def sax(*, root: str, host: str, port: int, cell: str, **flags: float) -> None:
    """Run a Sax cell that echoes its requests: an admin server and model servers.

    Gateways with backends of kind sax, and `sliceworks gateway saxutil`, find it through the root folder.
    """
    import signal
    import threading
    from typing import cast

    from sliceworks.serving.gateway.echo.sax import SaxCell, SaxSettings

    if not re.fullmatch(r"/sax/[a-z0-9-]+", cell):
        raise UsageError(f"--cell: must be /sax/NAME, got {cell}")
    running = SaxCell(SaxSettings(Path(root), cell, **cast("dict[str, Any]", flags)))
    ending = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ending.set())
    running.start(host, port)
    progress.say(f"Admin server of {cell} at {running.admin_address}; {len(running.addresses)} model servers")
    ending.wait()
    running.stop()


@click.group(cls=Group, short_help="Call a Sax cell, as Sax's saxutil does.")
@_ROOT
@click.pass_context
def saxutil(context: click.Context, root: str) -> None:
    """Call a Sax cell: list, publish, update and unpublish models; generate, score and embed text.

    The root is a folder, a Cloud Storage URL or the address of an admin server, such as grpc://127.0.0.1:10000.
    """
    from sliceworks.serving.gateway.sax_cell import CellClient

    context.obj = CellClient(root)


def _saxutil_command(name: str) -> Callable[[Callable[..., Any]], Any]:
    """A command of saxutil; errors of the cell become errors of the command."""

    def decorate(function: Callable[..., Any]) -> Any:
        @wraps(function)
        def run(*arguments: Any, **named: Any) -> None:
            try:
                function(*arguments, **named)
            except RuntimeError as error:
                raise SliceworksError(str(error)) from error

        return saxutil.command(name)(click.pass_obj(run))

    return decorate


_CALL_TIMEOUT = 60.0
_MODEL_DEPTH = 2
"""Slashes in the path of a model, such as sax/test/llama."""


@_saxutil_command("ls")
@click.argument("path")
def _saxutil_ls(client: CellClient, path: str) -> None:
    """List the models of a cell, or show one model; PATH is such as /sax/test or /sax/test/llama."""
    is_cell = path.strip("/").count("/") < _MODEL_DEPTH
    rows = client.list_models(path.rstrip("/")) if is_cell else [client.details(path)]
    columns = ("model", "model_path", "checkpoint", "max_replicas", "active_replicas")
    print_report(Report(columns, [tuple(row[name] for name in columns) for row in rows], rows), "table")


@_saxutil_command("publish")
@click.argument("model")
@click.argument("model_class")
@click.argument("checkpoint")
@click.argument("replicas", type=click.IntRange(1))
def _saxutil_publish(client: CellClient, model: str, model_class: str, checkpoint: str, replicas: int) -> None:
    """Publish MODEL, such as /sax/test/llama, of a class with a checkpoint."""
    client.publish(model, model_class, checkpoint, replicas)


@_saxutil_command("update")
@click.argument("model")
@click.argument("model_class")
@click.argument("checkpoint")
@click.argument("replicas", type=click.IntRange(1))
def _saxutil_update(client: CellClient, model: str, model_class: str, checkpoint: str, replicas: int) -> None:
    """Update the class, the checkpoint and the replicas of MODEL."""
    client.update(model, model_class, checkpoint, replicas)


@_saxutil_command("unpublish")
@click.argument("model")
def _saxutil_unpublish(client: CellClient, model: str) -> None:
    """Unpublish MODEL."""
    client.unpublish(model)


@_saxutil_command("lm.generate")
@click.argument("model")
@click.argument("prompt")
@click.option("--stream", is_flag=True, help="Print the text as it is generated.")
def _saxutil_generate(client: CellClient, model: str, prompt: str, stream: bool) -> None:
    """Generate text."""
    if not stream:
        for text, score in client.generate(model, prompt, {}, _CALL_TIMEOUT):
            click.echo(f"{score:g}\t{text}")
        return

    def show(is_last: bool, items: list[tuple[str, int, list[float]]]) -> None:
        click.echo("".join(text for text, _, _ in items), nl=is_last)

    client.generate_stream(model, prompt, {}, _CALL_TIMEOUT, show)


@_saxutil_command("lm.score")
@click.argument("model")
@click.argument("prefix")
@click.argument("suffixes", nargs=-1, required=True)
def _saxutil_score(client: CellClient, model: str, prefix: str, suffixes: tuple[str, ...]) -> None:
    """Score SUFFIXES as continuations of PREFIX."""
    for suffix, score in zip(suffixes, client.score(model, prefix, list(suffixes), _CALL_TIMEOUT), strict=True):
        click.echo(f"{score:g}\t{suffix}")


@_saxutil_command("lm.embed")
@click.argument("model")
@click.argument("text")
def _saxutil_embed(client: CellClient, model: str, text: str) -> None:
    """Embed TEXT."""
    click.echo(" ".join(f"{value:g}" for value in client.embed(model, text, _CALL_TIMEOUT)))
