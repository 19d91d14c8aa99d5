"""`sliceworks console`: web pages over a cluster, on this machine."""

from __future__ import annotations

from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sliceworks.base import extras, progress
from sliceworks.base.errors import SliceworksError
from sliceworks.cli import browsing, options

if TYPE_CHECKING:
    from collections.abc import Callable

    from sliceworks.cli.env_cluster import Inside
    from sliceworks.console.app import Door
    from sliceworks.specs.environment import Environment

_LOOPBACK = ("127.0.0.1", "::1", "localhost")


@click.command()
@click.option("--port", type=click.IntRange(0, 65535), default=8710, show_default=True, help="Port; 0 takes any free one.")
@click.option("--host", metavar="ADDRESS", default="127.0.0.1", show_default=True, help="Address of this machine to listen on.")
@click.option("--name", "names", metavar="NAME", multiple=True, help="A name that a proxy before it answers to; may be said again.")
@click.option("--open", "browser", is_flag=True, help="Open it in a browser.")
@click.option("--allow-changes", is_flag=True, help="Let pages change the cluster: cancel, restart, drain, publish.")
@click.option("-n", "--namespace", metavar="NAME", default="", help="Show this namespace alone, if you may not see all.")
@options.cluster
@options.quiet
def console(
    *, port: int, host: str, names: tuple[str, ...], browser: bool, allow_changes: bool, namespace: str, **where: Any
) -> int:
    """Show a cluster as web pages: chips, queues, jobs, slices, graphs, models, load tests; live, until Ctrl-C.

    The address that is printed lets whoever has it look, and with --allow-changes change: it is good until this command ends.
    """
    extras.check({"the console needs": "console"})
    from sliceworks.base import clock, collector
    from sliceworks.cli import clouds, connections
    from sliceworks.console.app import open_door, serve
    from sliceworks.console.clocks import clock_of

    client = connections.open_cluster(where["kubeconfig"], where["context"], where["twin"])
    door = open_door(host, port)

    async def main() -> None:
        from sliceworks.console.here import Console
        from sliceworks.console.looking import looking_only
        from sliceworks.console.world import World

        async with AsyncExitStack() as stack:
            await stack.enter_async_context(client)
            twin = connections.twin_meant(where["kubeconfig"], where["twin"])
            now = await stack.enter_async_context(clock_of(client)) if twin else clock.now
            seen = client if allow_changes else looking_only(client)
            world = await stack.enter_async_context(World(seen, name=_name(where), namespace=namespace, now=now))
            container = await clouds.container_of(stack, where)
            found = Console(world, allow_changes, container, Path.cwd(), _made(where))
            await serve(found, door, names=names, ready=lambda: _tell(door, browser))

    collector.rest_until_the_end()
    clock.run(main())
    return 0


def _made(where: dict[str, Any]) -> Callable[[Environment, Path], Inside]:
    """How to find where an environment is made: on the twin that is looked at, or in Google Cloud."""
    from sliceworks.cli import env_sites

    return lambda environment, file: env_sites.inside_of(environment, file, twin=where["twin"])


def _tell(door: Door, browser: bool) -> None:
    if door.host not in _LOOPBACK:
        progress.say("What goes over the network to this address is not encrypted; through an ssh tunnel to loopback it is.")
    progress.say("The console answers at this address, until Ctrl-C:")
    click.echo(door.url)
    if browser and not browsing.browse(door.url):
        progress.say("There is no browser to open: open the address yourself.")


def _name(where: dict[str, Any]) -> str:
    """What people call the cluster."""
    from sliceworks.cli import connections
    from sliceworks.kube import kubeconfig

    if where["twin"]:
        return f"twin {connections.running_twin().name}"
    try:
        return where["context"] or kubeconfig.load(where["kubeconfig"]).current_context
    except SliceworksError:
        return "this cluster"  # in a pod there is no kubeconfig
