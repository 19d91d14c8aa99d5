"""`sliceworks gateway`: run the model gateway, echo backends, and create API keys."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from sliceworks.base import names, progress
from sliceworks.cli import options
from sliceworks.cli.gateway_sax import sax, saxutil
from sliceworks.cli.groups import Group

if TYPE_CHECKING:
    from sliceworks.serving.gateway.program import Ports, Program


@click.group(cls=Group)
def gateway() -> None:
    """Serve all models at one address."""


gateway.add_command(sax)
gateway.add_command(saxutil)


@gateway.command()
@click.option(
    "-f",
    "--file",
    "--filename",
    "file",
    required=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="The Gateway document.",
)
@click.option("--check", is_flag=True, help="Validate the document and its secrets, then exit.")
@click.option(
    "--notice",
    type=options.DURATION,
    default="0s",
    show_default=True,
    help="How long readiness probes fail before the gateway exits.",
)
@click.option("--host", default="", metavar="ADDRESS", help="Listen on this port instead of the document's.")
@options.watchdog_timeout()
@options.quiet
def run(*, file: Path, check: bool, notice: float, host: str, watchdog_timeout: float) -> None:
    """Serve the models of a document until interrupted. Changes to the document are reloaded; an invalid version is rejected."""
    import logging

    from sliceworks.base import clock
    from sliceworks.base.watchdog import Watchdog
    from sliceworks.serving.gateway import program

    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s: %(message)s", level=logging.INFO)

    async def main() -> None:
        gateway = program.Program.from_file(file, host)
        if check:
            progress.say(f"{file} is valid: {_summarize(gateway)}")
        else:
            with Watchdog(timeout=watchdog_timeout):
                await program.run(gateway, lambda ports: _print_addresses(gateway, ports), drain_delay=notice)

    clock.run(main())


def _summarize(gateway: Program) -> str:
    spec = gateway.router.state.spec
    backends = sum(len(model.backends) for model in spec.models)
    numbers = ((len(spec.models), "model"), (backends, "backend"), (len(spec.keys), "key"))
    return ", ".join(names.pluralize(*number) for number in numbers)


def _print_addresses(gateway: Program, ports: Ports) -> None:
    spec = gateway.router.state.spec
    scheme = "https" if spec.listen.tls is not None else "http"
    progress.say(f"Serving {', '.join(gateway.router.state.models)} at {scheme}://{spec.listen.host}:{ports.main}")
    if ports.grpc is not None:
        progress.say(f"gRPC at {spec.listen.host}:{ports.grpc}")
    if ports.admin is not None and spec.admin is not None:
        progress.say(f"Metrics and status at http://{spec.admin.host}:{ports.admin}")
    if spec.anonymous:
        progress.say("Requests need no key: the document sets anonymous: true")


@gateway.command(short_help="Run a model server that echoes its requests.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", type=click.IntRange(0, 65535), default=8000, show_default=True, help="Port; 0 for any free port.")
@click.option(
    "--model", "models", multiple=True, default=("echo",), show_default=True, help="Name of a model; * matches every name."
)
@click.option("--ttft", type=options.DURATION, default="0s", show_default=True, help="Time to first token.")
@click.option("--token-time", type=options.DURATION, default="0s", show_default=True, help="Time between tokens.")
@click.option("--jitter", type=click.FloatRange(0, 1), default=0.0, show_default=True, help="Jitter, as a fraction of each delay.")
@click.option("--knee", type=click.IntRange(0), default=0, help="Concurrent requests before latency grows; 0 for no limit.")
@click.option("--error-rate", type=click.FloatRange(0, 1), default=0.0, show_default=True, help="Fraction of requests that fail.")
@click.option(
    "--error-status", type=click.IntRange(400, 599), default=500, show_default=True, help="HTTP status of failed requests."
)
@click.option("--tokens", type=click.IntRange(0), default=0, help="Default number of tokens in a response.")
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the random numbers.")
@click.option("--classifier", default="", metavar="NAME", help="Name of a model that classifies images by their color.")
@click.option("--stamps", is_flag=True, help="Send timestamps instead of words as tokens.")
@click.option("--records", type=click.IntRange(0), default=10_000, show_default=True, help="Number of requests kept in memory.")
@options.quiet
def echo(*, host: str, port: int, models: tuple[str, ...], classifier: str, **flags: float) -> None:
    """Run a model server that echoes its requests, in every protocol that the gateway supports.

    Requests, responses and their times are served at /echo/records.
    """
    import asyncio
    import signal
    from typing import Any, cast

    from sliceworks.base import clock, memory
    from sliceworks.serving.gateway.echo import server
    from sliceworks.serving.gateway.echo.engine import Settings

    async def main() -> None:
        ending = asyncio.Event()
        names = (*models, classifier) if classifier else models
        settings = Settings(models=names, classifier=classifier, **cast("dict[str, Any]", flags))
        running, bound = await server.start(settings, host, port)
        progress.say(f"Serving {', '.join(models)} at http://{host}:{bound}")
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, ending.set)
        with memory.reduced_gc():
            await ending.wait()
        await running.stop()

    clock.run(main())


@gateway.command(short_help="Create an API key and its digest.")
def key() -> None:
    """Create an API key: print it once, with the digest to put into the document."""
    from sliceworks.serving.gateway.state import generate_key

    api_key, digest = generate_key()
    click.echo(f"key:    {api_key}\nsha256: {digest}")
