"""`sliceworks controller`: run the Sliceworks controllers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from sliceworks.base.errors import UsageError
from sliceworks.cli import connections, options
from sliceworks.cli.groups import Group

if TYPE_CHECKING:
    from collections.abc import Callable

    from sliceworks.base.metrics import Registry
    from sliceworks.controllers.graphs import Options
    from sliceworks.controllers.manager import ManagerOptions, Runnable
    from sliceworks.controllers.slices.settings import Settings as SliceSettings
    from sliceworks.kube.client import Client

NAMES = ("graphs", "slices")
_GATES = {"InstanceConditionEvents", "InstanceConditionMetrics"}


@click.group(cls=Group)
def controller() -> None:
    """Run the Sliceworks controllers: graphs and slices."""


def _seconds(name: str, default: str, text: str) -> Callable[[Any], Any]:
    return click.option(name, type=options.DURATION, default=default, show_default=True, help=text)


def _count(name: str, default: int, help_text: str, minimum: int = 1) -> Callable[[Any], Any]:
    return click.option(name, type=click.IntRange(minimum), default=default, show_default=True, help=help_text)


@controller.command()
@click.argument("which", nargs=-1, type=click.Choice(NAMES))
@options.cluster
@click.option(
    "--metrics-bind-address", default="127.0.0.1:8078", show_default=True, help="Address of the metrics endpoint; 0 disables it."
)
@click.option(
    "--health-probe-bind-address",
    default="127.0.0.1:8079",
    show_default=True,
    help="Address of the health probes; 0 disables them.",
)
@_seconds("--stall-timeout", "10m", "Fail the health probes when one reconcile runs for longer; 0s for no limit.")
@options.watchdog_timeout()
@click.option("--leader-elect", is_flag=True, help="Elect a leader, so that only one replica is active.")
@click.option("--leader-election-namespace", default="", help="Namespace of the Lease.  [default: the namespace of the pod]")
@_seconds("--leader-election-lease-duration", "15s", "Duration of the Lease.")
@_seconds("--leader-election-renew-deadline", "10s", "How long the leader retries a renewal before it stops.")
@_seconds("--leader-election-retry-period", "2s", "Time between attempts to acquire or renew the Lease.")
@click.option(
    "--client-qps",
    type=click.FloatRange(0),
    default=0.0,
    show_default=True,
    help="Maximum requests per second to the API server; 0 for no limit.",
)
@_count("--client-burst", 150, "Maximum burst of requests to the API server.")
@click.option("--install-crds/--no-install-crds", default=True, help="Install the CRDs of graphs.  [default: yes]")
@click.option("--allow-crd-deletion", is_flag=True, help="Delete the generated CRD when its ResourceGraphDefinition is deleted.")
@_count("--resource-graph-definition-concurrent-reconciles", 1, "ResourceGraphDefinitions reconciled concurrently.")
@_count("--dynamic-controller-concurrent-reconciles", 32, "Instances reconciled concurrently.")
@_seconds("--dynamic-controller-rate-limiter-min-delay", "200ms", "Initial retry delay after a failure.")
@_seconds("--dynamic-controller-rate-limiter-max-delay", "60s", "Maximum retry delay after failures.")
@_count("--dynamic-controller-default-resync-period", 36000, "Seconds between full resyncs of all instances.", 0)
@_count("--rgd-max-collection-size", 1000, "Maximum number of objects of one forEach.")
@click.option(
    "--rgd-max-collection-dimension-size",
    type=click.IntRange(1, 10),
    default=10,
    show_default=True,
    help="Maximum number of iterators of one forEach.",
)
@_count("--rgd-max-graph-revisions", 5, "Revisions kept of each ResourceGraphDefinition.", 0)
@click.option(
    "--feature-gates",
    default="",
    help="Comma-separated gates; InstanceConditionEvents=true emits an event for every condition change.",
)
@click.option("--config", type=click.Path(exists=True, dir_okay=False), help="YAML file with settings of the slices controller.")
@click.option("--project", metavar="NAME", help="Project of the cluster.  [default: $GCP_PROJECT_ID, or the pod's own]")
@click.option("--location", metavar="NAME", help="Region or zone of the cluster.  [default: $GCP_CLUSTER_LOCATION, or the pod's]")
@click.option("--cluster", metavar="NAME", help="Name of the cluster.  [default: $GCP_CLUSTER, or the pod's own]")
@click.option("--zones", metavar="ZONES", help="Comma-separated zones for slices, in order of preference.  [default: $GCP_ZONE]")
@click.option(
    "--capacity",
    metavar="KINDS",
    help="Capacity types in order of preference: reservation=NAME,spot,on-demand.  [default: on-demand]",
)
@click.option("--drain/--no-drain", default=None, help="Delete all slices and create no new ones.")
def run(*, which: tuple[str, ...], **flags: Any) -> None:
    """Run controllers until interrupted: all of them, or those named.

    Flags shared with kro have the same names and meaning. Settings of the slices controller come from a file, the environment and
    flags; later sources override earlier ones.
    """
    import logging

    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s: %(message)s", level=logging.INFO)
    where = {name: flags[name] for name in ("kubeconfig", "context", "twin")}
    connections.run(lambda: _run(which or NAMES, flags), **where)


async def _run(which: tuple[str, ...], flags: dict[str, Any]) -> None:
    from sliceworks.base.metrics import Registry
    from sliceworks.base.watchdog import Watchdog
    from sliceworks.controllers import manager

    registry = Registry()
    async with connections.open_cluster(flags["kubeconfig"], flags["context"], flags["twin"]) as client:
        if flags["client_qps"]:
            from sliceworks.controllers.manager import RateLimitedTransport

            client.transport = RateLimitedTransport(client.transport, flags["client_qps"], flags["client_burst"])
        if "slices" in which:
            settings = _slice_settings(flags)
            flags["slice_settings"] = await connections.choose_twin_cluster(client, settings) if flags["twin"] else settings
        controllers = [_CONTROLLERS[name](client, registry, flags) for name in dict.fromkeys(which)]
        with Watchdog(timeout=flags["watchdog_timeout"]):
            await manager.run(client, controllers, registry, _settings(which, flags))


def _graphs(client: Client, registry: Registry, flags: dict[str, Any]) -> Runnable:
    from sliceworks.controllers.graphs import GraphController

    return GraphController(client, _graph_options(flags), registry)


def _slices(client: Client, registry: Registry, flags: dict[str, Any]) -> Runnable:
    from sliceworks.controllers.slices.controller import SlicesRunnable

    return SlicesRunnable(client, flags["slice_settings"], registry)


_CONTROLLERS: dict[str, Callable[[Client, Registry, dict[str, Any]], Runnable]] = {"graphs": _graphs, "slices": _slices}
_SLICE_FLAGS = ("project", "location", "cluster", "zones", "capacity", "drain")


def _slice_settings(options: dict[str, Any]) -> SliceSettings:
    from sliceworks.cli.connections import resolve_settings

    flags = {name: options[name] for name in _SLICE_FLAGS}
    where = {"kubeconfig": options["kubeconfig"], "context": options["context"], "file": options["config"]}
    return resolve_settings(flags, twin=options["twin"], **where)


def _settings(which: tuple[str, ...], flags: dict[str, Any]) -> ManagerOptions:
    from sliceworks.controllers.manager import ManagerOptions
    from sliceworks.kube.leader_election import LeaseTiming

    lease, renew, retry = (flags[f"leader_election_{name}"] for name in ("lease_duration", "renew_deadline", "retry_period"))
    try:
        timing = LeaseTiming(int(lease), renew, retry)
    except ValueError as error:
        raise UsageError(str(error)) from error
    return ManagerOptions(
        metrics_address=flags["metrics_bind_address"],
        probe_address=flags["health_probe_bind_address"],
        stall_timeout=flags["stall_timeout"],
        elect=flags["leader_elect"],
        lease_name=_lease(which),
        lease_namespace=flags["leader_election_namespace"],
        timing=timing,
    )


def _lease(which: tuple[str, ...]) -> str:
    """Return the Lease of leader election: the replaced program's own, so that both are never active together."""
    from sliceworks.controllers.manager import ManagerOptions
    from sliceworks.controllers.slices import well_known

    return well_known.LEASE if which == ("slices",) else ManagerOptions().lease_name


def _graph_options(flags: dict[str, Any]) -> Options:
    from sliceworks.controllers.graphs import Options

    gates = _gates(flags["feature_gates"])
    return Options(
        install_definitions=flags["install_crds"],
        allow_crd_deletion=flags["allow_crd_deletion"],
        graph_workers=flags["resource_graph_definition_concurrent_reconciles"],
        instance_workers=flags["dynamic_controller_concurrent_reconciles"],
        retry_first=flags["dynamic_controller_rate_limiter_min_delay"],
        retry_max=flags["dynamic_controller_rate_limiter_max_delay"],
        resync=float(flags["dynamic_controller_default_resync_period"]),
        max_collection_size=flags["rgd_max_collection_size"],
        max_dimensions=flags["rgd_max_collection_dimension_size"],
        revision_history_limit=flags["rgd_max_graph_revisions"],
        condition_events=gates.get("InstanceConditionEvents", False),
    )


def _gates(text: str) -> dict[str, bool]:
    gates: dict[str, bool] = {}
    for entry in filter(None, text.split(",")):
        name, _, value = entry.partition("=")
        if name not in _GATES or value not in ("true", "false"):
            raise UsageError(
                f"unknown feature gate {entry!r}", hint=f"known gates: {', '.join(sorted(_GATES))}; append =true or =false"
            )
        gates[name] = value == "true"
    return gates
