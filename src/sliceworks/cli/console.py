"""`sliceworks console`: serve the web console on this machine."""

from __future__ import annotations

from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sliceworks.base import imports, progress
from sliceworks.base.errors import SliceworksError
from sliceworks.cli import options, terminal

if TYPE_CHECKING:
    from collections.abc import Callable

    from sliceworks.cli.env_site import EnvironmentCluster
    from sliceworks.console.app import Listener
    from sliceworks.specs.environment import Environment

_LOOPBACK = ("127.0.0.1", "::1", "localhost")


@click.command()
@click.option("--port", type=click.IntRange(0, 65535), default=8710, show_default=True, help="Port; 0 for any free port.")
@click.option("--host", metavar="ADDRESS", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--name", "names", metavar="NAME", multiple=True, help="Host name of a proxy in front of the console; repeatable.")
@click.option("--open", "browser", is_flag=True, help="Open the console in a browser.")
@click.option("--allow-changes", is_flag=True, help="Allow changes to the cluster: cancel, restart, drain, publish.")
@click.option(
    "-n", "--namespace", metavar="NAME", default="", help="Show only this namespace, for users who cannot read all of them."
)
@options.cluster
@options.quiet
def console(
    *, port: int, host: str, names: tuple[str, ...], browser: bool, allow_changes: bool, namespace: str, **where: Any
) -> int:
    """Serve the web console of a cluster until Ctrl-C: chips, queues, jobs, slices, graphs, models and load tests, live.

    The printed URL holds a token: anyone who has it can view the console and, with --allow-changes, change the cluster. The
    token expires when this command ends.
    """
    imports.require_extras({"the console needs": "console"})
    from sliceworks.base import clock, memory
    from sliceworks.cli import connections
    from sliceworks.console.app import listen, serve
    from sliceworks.console.recorder import follow_twin_clock

    client = connections.open_cluster(where["kubeconfig"], where["context"], where["twin"])
    listener = listen(host, port)

    async def main() -> None:
        from sliceworks.console.auth import read_only
        from sliceworks.console.cluster_cache import ClusterCache
        from sliceworks.console.page import Console

        async with AsyncExitStack() as stack:
            await stack.enter_async_context(client)
            twin = connections.find_twin(where["kubeconfig"], where["twin"])
            now = await stack.enter_async_context(follow_twin_clock(client)) if twin else clock.now
            connection = client if allow_changes else read_only(client)
            cache = await stack.enter_async_context(ClusterCache(connection, name=_name(where), namespace=namespace, now=now))
            container = await connections.try_open_container(stack, client, where)
            web_console = Console(cache, allow_changes, container, Path.cwd(), _deployment_finder(where))
            await serve(web_console, listener, names=names, ready=lambda: _print_url(listener, browser))

    memory.reduce_gc_until_exit()
    clock.run(main())
    return 0


def _deployment_finder(where: dict[str, Any]) -> Callable[[Environment, Path], EnvironmentCluster]:
    """Return a function that finds the site of an environment: the twin's cloud or Google Cloud."""
    from sliceworks.cli import env_site

    return lambda environment, file: env_site.open_environment(environment, file, twin=where["twin"])


def _print_url(listener: Listener, browser: bool) -> None:
    if listener.host not in _LOOPBACK:
        progress.say("Traffic to this address is not encrypted; use an SSH tunnel to loopback instead.")
    progress.say("Serving the console until Ctrl-C at:")
    click.echo(listener.url)
    if browser and not terminal.open_browser(listener.url):
        progress.say("No browser found; open the URL yourself.")


def _name(where: dict[str, Any]) -> str:
    """Return a display name for the cluster."""
    from sliceworks.kube import kubeconfig
    from sliceworks.platform import twin_home

    if where["twin"]:
        return f"twin {twin_home.running_twin().name}"
    try:
        return where["context"] or kubeconfig.load(where["kubeconfig"]).current_context
    except SliceworksError:
        return "this cluster"  # no kubeconfig in a pod
