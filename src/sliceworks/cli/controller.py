"""`sliceworks controller`: what runs in a cluster, in front of you or in a pod."""

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
    from sliceworks.controllers.running import Runs, Settings
    from sliceworks.controllers.slices.settings import Settings as SliceSettings
    from sliceworks.kube.client import Client

NAMES = ("graphs", "slices")
_GATES = {"InstanceConditionEvents", "InstanceConditionMetrics"}


@click.group(cls=Group)
def controller() -> None:
    """Run what works in a cluster: the controllers of graphs and slices."""


def _seconds(name: str, default: str, text: str) -> Callable[[Any], Any]:
    return click.option(name, type=options.DURATION, default=default, show_default=True, help=text)


def _count(name: str, default: int, text: str, least: int = 1) -> Callable[[Any], Any]:
    return click.option(name, type=click.IntRange(least), default=default, show_default=True, help=text)


@controller.command()
@click.argument("which", nargs=-1, type=click.Choice(NAMES))
@options.cluster
@click.option(
    "--metrics-bind-address", default="127.0.0.1:8078", show_default=True, help="Where numbers are served; 0 for nowhere."
)
@click.option(
    "--health-probe-bind-address", default="127.0.0.1:8079", show_default=True, help="Where probes are answered; 0 for nowhere."
)
@click.option("--leader-elect", is_flag=True, help="Of several copies, let one work.")
@click.option("--leader-election-namespace", default="", help="Where the lease lives.  [default: the namespace of the pod]")
@_seconds("--leader-election-lease-duration", "15s", "How long a lease lasts.")
@_seconds("--leader-election-renew-deadline", "10s", "When the leader gives up renewing it.")
@_seconds("--leader-election-retry-period", "2s", "How often it is renewed.")
@click.option(
    "--client-qps", type=click.FloatRange(0), default=0.0, show_default=True, help="Most requests a second; 0 for no bound."
)
@_count("--client-burst", 150, "Most requests at once after a quiet time.")
@click.option("--install-crds/--no-install-crds", default=True, help="Bring the kinds of graphs to the cluster.  [default: yes]")
@click.option("--allow-crd-deletion", is_flag=True, help="Delete the generated definition with its graph.")
@_count("--resource-graph-definition-concurrent-reconciles", 1, "Definitions looked at together.")
@_count("--dynamic-controller-concurrent-reconciles", 32, "Instances looked at together.")
@_seconds("--dynamic-controller-rate-limiter-min-delay", "200ms", "First wait after a failure.")
@_seconds("--dynamic-controller-rate-limiter-max-delay", "60s", "Longest wait after failures.")
@_count("--dynamic-controller-default-resync-period", 36000, "Seconds after which every instance is looked at anew.", 0)
@_count("--rgd-max-collection-size", 1000, "Most objects of one forEach.")
@click.option(
    "--rgd-max-collection-dimension-size",
    type=click.IntRange(1, 10),
    default=10,
    show_default=True,
    help="Most iterators of one forEach.",
)
@_count("--rgd-max-graph-revisions", 5, "Revisions kept of each definition.", 0)
@click.option("--feature-gates", default="", help="InstanceConditionEvents=true tells every change of a condition as an event.")
@click.option("--config", type=click.Path(exists=True, dir_okay=False), help="YAML file with settings of the slices controller.")
@click.option("--project", metavar="NAME", help="Project of the cluster.  [default: $GCP_PROJECT_ID, or the pod's own]")
@click.option("--location", metavar="NAME", help="Region or zone of the cluster.  [default: $GCP_CLUSTER_LOCATION, or the pod's]")
@click.option("--cluster", metavar="NAME", help="Name of the cluster.  [default: $GCP_CLUSTER, or the pod's own]")
@click.option("--zones", metavar="ZONES", help="Zones for slices, best first, with commas between.  [default: $GCP_ZONE]")
@click.option(
    "--capacity", metavar="KINDS", help="Capacity to try, best first: reservation=NAME,spot,on-demand.  [default: on-demand]"
)
@click.option("--drain/--no-drain", default=None, help="Give slices back, and make none.")
def run(*, which: tuple[str, ...], **given: Any) -> None:
    """Run controllers until interrupted: all of them, or those that are named.

    Flags that kro has too are named as there and mean the same. Settings of slices are read from a file, from the environment and
    from flags, each over the one before.
    """
    import logging

    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s: %(message)s", level=logging.INFO)
    where = {name: given[name] for name in ("kubeconfig", "context", "twin")}
    connections.run(lambda: _run(which or NAMES, given), **where)


async def _run(which: tuple[str, ...], given: dict[str, Any]) -> None:
    from sliceworks.base.metrics import Registry
    from sliceworks.controllers import running

    registry = Registry()
    async with connections.open_cluster(given["kubeconfig"], given["context"], given["twin"]) as client:
        if given["client_qps"]:
            from sliceworks.controllers.limits import Limited

            client.transport = Limited(client.transport, given["client_qps"], given["client_burst"])
        made = [_CONTROLLERS[name](client, registry, given) for name in dict.fromkeys(which)]
        if given["twin"] and "slices" in which:
            from sliceworks.cli import clouds

            await clouds.adopt(client, _slice_settings(given))
        await running.run(client, made, registry, _settings(which, given))


def _graphs(client: Client, registry: Registry, given: dict[str, Any]) -> Runs:
    from sliceworks.controllers.graphs import GraphController

    return GraphController(client, _graph_options(given), registry)


def _slices(client: Client, registry: Registry, given: dict[str, Any]) -> Runs:
    from sliceworks.controllers.slices.program import SlicesProgram

    return SlicesProgram(client, _slice_settings(given), registry)


_CONTROLLERS: dict[str, Callable[[Client, Registry, dict[str, Any]], Runs]] = {"graphs": _graphs, "slices": _slices}
_SLICE_FLAGS = ("project", "location", "cluster", "zones", "capacity", "drain")


def _slice_settings(given: dict[str, Any]) -> SliceSettings:
    from sliceworks.cli.clouds import settings_for

    flags = {name: given[name] for name in _SLICE_FLAGS}
    where = {"kubeconfig": given["kubeconfig"], "context": given["context"], "file": given["config"]}
    return settings_for(flags, twin=given["twin"], **where)


def _settings(which: tuple[str, ...], given: dict[str, Any]) -> Settings:
    from sliceworks.controllers.running import Settings
    from sliceworks.kube.leader import Timing

    lease, renew, retry = (given[f"leader_election_{name}"] for name in ("lease_duration", "renew_deadline", "retry_period"))
    try:
        timing = Timing(int(lease), renew, retry)
    except ValueError as error:
        raise UsageError(str(error)) from error
    return Settings(
        metrics_address=given["metrics_bind_address"],
        probe_address=given["health_probe_bind_address"],
        elect=given["leader_elect"],
        lease_name=_lease(which),
        lease_namespace=given["leader_election_namespace"],
        timing=timing,
    )


def _lease(which: tuple[str, ...]) -> str:
    """The Lease that copies contend for: the one of the program whose place is taken, so that it never works beside it."""
    from sliceworks.controllers.running import Settings
    from sliceworks.controllers.slices import words

    return words.LEASE if which == ("slices",) else Settings().lease_name


def _graph_options(given: dict[str, Any]) -> Options:
    from sliceworks.controllers.graphs import Options

    gates = _gates(given["feature_gates"])
    return Options(
        install_definitions=given["install_crds"],
        allow_crd_deletion=given["allow_crd_deletion"],
        graph_workers=given["resource_graph_definition_concurrent_reconciles"],
        instance_workers=given["dynamic_controller_concurrent_reconciles"],
        retry_first=given["dynamic_controller_rate_limiter_min_delay"],
        retry_longest=given["dynamic_controller_rate_limiter_max_delay"],
        resync=float(given["dynamic_controller_default_resync_period"]),
        largest_collection=given["rgd_max_collection_size"],
        most_dimensions=given["rgd_max_collection_dimension_size"],
        revisions_kept=given["rgd_max_graph_revisions"],
        condition_events=gates.get("InstanceConditionEvents", False),
    )


def _gates(text: str) -> dict[str, bool]:
    gates: dict[str, bool] = {}
    for entry in filter(None, text.split(",")):
        name, _, value = entry.partition("=")
        if name not in _GATES or value not in ("true", "false"):
            raise UsageError(f"{entry!r} is no feature gate", hint=f"{' or '.join(sorted(_GATES))}, each with =true or =false")
        gates[name] = value == "true"
    return gates
