"""`sliceworks gateway`: one address in front of model servers, and a model server to rehearse with."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from sliceworks.base import progress, words
from sliceworks.cli import options
from sliceworks.cli.groups import Group

if TYPE_CHECKING:
    from sliceworks.serving.gateway.program import Ports, Program


@click.group(cls=Group)
def gateway() -> None:
    """Serve models of every kind at one address."""


@gateway.command()
@click.option(
    "-f",
    "--file",
    "--filename",
    "file",
    required=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A Gateway.",
)
@click.option("--check", is_flag=True, help="Check the document and its secrets, and serve nothing.")
@click.option(
    "--notice", type=options.DURATION, default="0s", show_default=True, help="How long probes say no before the gateway ends."
)
@click.option("--host", default="", metavar="ADDRESS", help="Listen there, whatever the document says.")
@options.quiet
def run(*, file: Path, check: bool, notice: float, host: str) -> None:
    """Serve the models of a document until interrupted. The document may change meanwhile: a wrong one is not taken."""
    import logging

    from sliceworks.base import clock
    from sliceworks.serving.gateway import program

    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s: %(message)s", level=logging.INFO)

    async def main() -> None:
        made = program.Program.of_file(file, host)
        if check:
            progress.say(f"{file} is good: {_counted(made)}")
        else:
            await program.run(made, lambda ports: _tell(made, ports), notice=notice)

    clock.run(main())


def _counted(made: Program) -> str:
    spec = made.application.state.spec
    backends = sum(len(model.backends) for model in spec.models)
    numbers = ((len(spec.models), "model"), (backends, "backend"), (len(spec.keys), "key"))
    return ", ".join(words.counted(*each) for each in numbers)


def _tell(made: Program, ports: Ports) -> None:
    spec = made.application.state.spec
    scheme = "https" if spec.listen.tls is not None else "http"
    progress.say(f"Serving {', '.join(made.application.state.models)} at {scheme}://{spec.listen.host}:{ports.main}")
    if ports.grpc is not None:
        progress.say(f"gRPC at {spec.listen.host}:{ports.grpc}")
    if ports.admin is not None and spec.admin is not None:
        progress.say(f"Numbers and state at http://{spec.admin.host}:{ports.admin}")
    if spec.anonymous:
        progress.say("Whoever asks is served: the document says anonymous: true")


@gateway.command(short_help="Run a model server that answers with what it was asked.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen at.")
@click.option("--port", type=click.IntRange(0, 65535), default=8000, show_default=True, help="Port; 0 for any free one.")
@click.option("--model", "models", multiple=True, default=("echo",), show_default=True, help="Name of a model; * for every name.")
@click.option("--ttft", type=options.DURATION, default="0s", show_default=True, help="Time to the first token.")
@click.option("--token-time", type=options.DURATION, default="0s", show_default=True, help="Time between tokens.")
@click.option("--jitter", type=click.FloatRange(0, 1), default=0.0, show_default=True, help="Share of times left to chance.")
@click.option("--knee", type=click.IntRange(0), default=0, help="Requests at once before each takes longer; 0 for no bound.")
@click.option("--error-rate", type=click.FloatRange(0, 1), default=0.0, show_default=True, help="Share of requests that fail.")
@click.option("--error-status", type=click.IntRange(400, 599), default=500, show_default=True, help="How those are answered.")
@click.option("--tokens", type=click.IntRange(0), default=0, help="Tokens of an answer, when a request does not say.")
@click.option("--seed", type=int, default=0, show_default=True, help="Where chance begins.")
@click.option("--stamps", is_flag=True, help="Say when each token is sent, in place of words.")
@click.option("--records", type=click.IntRange(0), default=10_000, show_default=True, help="Requests that it remembers.")
@options.quiet
def echo(*, host: str, port: int, models: tuple[str, ...], **given: float) -> None:
    """Run a model server that answers with what it was asked, in every protocol that the gateway knows.

    What it received and sent, and when, is at /echo/records.
    """
    import asyncio
    import signal
    from typing import Any, cast

    from sliceworks.base import clock, collector
    from sliceworks.serving.gateway.echo import server
    from sliceworks.serving.gateway.echo.engine import Settings

    async def main() -> None:
        ending = asyncio.Event()
        running, bound = await server.start(Settings(models=models, **cast("dict[str, Any]", given)), host, port)
        progress.say(f"Serving {', '.join(models)} at http://{host}:{bound}")
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, ending.set)
        with collector.rested():
            await ending.wait()
        await running.stop()

    clock.run(main())


@gateway.command(short_help="Make a key and its digest.")
def key() -> None:
    """Make a key: print it once, and what goes into the document in its place."""
    from sliceworks.serving.gateway.keys import new_key

    made, digest = new_key()
    click.echo(f"key:    {made}\nsha256: {digest}")
