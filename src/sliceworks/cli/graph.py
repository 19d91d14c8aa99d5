"""`sliceworks graph`: look at ResourceGraphDefinitions without a cluster: check, render, compare, draw."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sliceworks.base import progress
from sliceworks.base.errors import SliceworksError, UsageError
from sliceworks.base.words import counted
from sliceworks.cli import graph_views as views
from sliceworks.cli import options
from sliceworks.cli.groups import Group
from sliceworks.cli.output import Report, show

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sliceworks.cli.graph_files import Workbench
    from sliceworks.graph.model import Graph
    from sliceworks.kube.client import Client

Obj = dict[str, Any]
_FILE = click.Path(exists=True, path_type=Path)


def _crds(command: Any) -> Any:
    return click.option(
        "--crds", type=_FILE, multiple=True, metavar="DIR", help="CustomResourceDefinitions of other kinds: a file or a folder."
    )(command)


@click.group(cls=Group)
def graph() -> None:
    """Check, render, compare and draw resource graphs."""


@graph.command()
@click.argument("files", metavar="FILE...", type=_FILE, nargs=-1, required=True)
@_crds
@options.cluster
@options.output("table", "json", "yaml", "name")
def check(files: tuple[Path, ...], crds: tuple[Path, ...], output: str, **cluster: Any) -> int:
    """Say what is wrong with the ResourceGraphDefinitions in FILE, and with instances beside them.

    FILE may be a folder: all that lies in it is looked at, in folders below too. The kinds of Kubernetes, Config Connector, JobSet
    and Kueue are known; others come from --crds, or from a cluster that --context, --kubeconfig or --twin names. Exit code 1 when
    anything is wrong.
    """
    from sliceworks.cli.graph_files import yaml_documents

    checked = _workbench(crds, **cluster).check(yaml_documents(files))
    if not checked:
        raise SliceworksError(f"there is no ResourceGraphDefinition in {', '.join(map(str, files))}")
    if output == "table":
        views.tell(checked)
    rows = [(each.document.name, each.document.place(), len(each.issues), views.verdict(each)) for each in checked]
    show(
        Report(
            ("document", "place", "issues", "result"),
            rows,
            [views.checked_data(each) for each in checked],
            [each.document.name for each in checked],
        ),
        output,
    )
    return 1 if any(each.issues for each in checked) else 0


@graph.command()
@click.argument("rgd", type=_FILE)
@click.argument("instance", type=_FILE)
@click.option("--objects", type=_FILE, help="Objects that are there already, such as external ones: a file or a folder.")
@_crds
@options.cluster
@options.output("yaml", "json", "table", "name")
def render(rgd: Path, instance: Path, objects: Path | None, crds: tuple[Path, ...], output: str, **cluster: Any) -> None:
    """Print every object that RGD makes of INSTANCE, in the order in which they are made.

    What is not known before something is there stays as it is written: ${…}.
    """
    from sliceworks.cli.graph_files import instance_of
    from sliceworks.graph.rendering import render as run

    compiled = _workbench(crds, **cluster).graph(rgd)
    found = run(compiled, instance_of(compiled, instance), _given(compiled, objects))
    if output == "yaml":
        click.echo(views.stream(found), nl=False)
        return
    rows = [views.row(each, obj) for each in found for obj in each.objects or ({},)]
    data = [views.rendered_data(each) for each in found]
    names = [f"{obj['kind']}/{obj['metadata'].get('name')}" for each in found for obj in each.objects]
    show(Report(("resource", "state", "kind", "namespace", "name", "unknown"), rows, data, names), output)


@graph.command()
@click.argument("rgd", type=_FILE)
@click.argument("instance", type=_FILE)
@click.option("--from-rgd", type=_FILE, help="Compare with another version of the definition, and not with a cluster.")
@click.option("--from-instance", type=_FILE, help="Compare with another version of the instance, and not with a cluster.")
@click.option("--exit-code", is_flag=True, help="Exit with 1 when something changes.")
@_crds
@options.cluster
@options.output("table", "json", "yaml")
def diff(
    *,
    rgd: Path,
    instance: Path,
    from_rgd: Path | None,
    from_instance: Path | None,
    exit_code: bool,
    crds: tuple[Path, ...],
    output: str,
    **cluster: Any,
) -> int:
    """Say which objects would change if RGD and INSTANCE were applied: which fields, and what is replaced.

    Compares with what a cluster has, or with another version of RGD or INSTANCE.
    """
    from sliceworks.cli import graph_compare as compare
    from sliceworks.cli.graph_files import instance_of
    from sliceworks.graph import differences

    offline = from_rgd is not None or from_instance is not None
    if offline and any(cluster.values()):
        raise UsageError("--from-rgd and --from-instance compare files, and a cluster is named too", hint="leave one out")
    bench = _workbench(crds, **cluster)
    compiled = bench.graph(rgd)
    wanted = instance_of(compiled, instance)
    if offline:
        before = bench.graph(from_rgd) if from_rgd else compiled
        found = compare.between_versions(before, instance_of(before, from_instance or instance), compiled, wanted)
    else:
        found = compare.against_cluster(compiled, wanted, _cluster(**cluster))
    changed = [each for each in found if each.action != differences.KEEP]
    if output == "table":
        views.tell_differences(changed)
        progress.say(differences.summary(changed).capitalize() + ".")
    else:
        show(Report((), (), [views.difference_data(each) for each in changed]), output)
    return 1 if changed and exit_code else 0


@graph.command()
@click.argument("rgd", type=_FILE)
@click.option("--instance", metavar="NAME", default="", help="Colour it by how an instance in a cluster stands.")
@options.namespace
@_crds
@options.cluster
@click.option("-o", "--output", type=click.Choice(("svg", "mermaid")), default="svg", show_default=True, help="Output format.")
def diagram(rgd: Path, instance: str, namespace: str, crds: tuple[Path, ...], output: str, **cluster: Any) -> None:
    """Draw the graph of RGD: what is made, and what waits for what."""
    from sliceworks.cli import graph_compare as compare
    from sliceworks.graph import pictures

    compiled = _workbench(crds, **cluster).graph(rgd)
    states = compare.states(compiled, instance, namespace, _cluster(**cluster)) if instance else {}
    drawn = pictures.boxes(compiled, states)
    if output == "mermaid":
        click.echo(pictures.mermaid(drawn), nl=False)
        return
    block = compiled.definition.schema
    below = f"{block.api_version} · {counted(len(drawn), 'resource')}" + (f" · {instance}" if instance else "")
    click.echo(pictures.svg(drawn, block.kind, below), nl=False)


# What the commands share.


def _workbench(crds: Sequence[Path], **cluster: Any) -> Workbench:
    from sliceworks.cli.graph_files import Sources, Workbench

    return Workbench(Sources(tuple(crds), _cluster(**cluster) if any(cluster.values()) else None))


def _cluster(*, kubeconfig: str | None, context: str | None, twin: bool) -> Callable[[], Client]:
    """How to reach the cluster that is meant."""
    from sliceworks.cli.connections import open_cluster

    return partial(open_cluster, kubeconfig, context, twin)


def _given(compiled: Graph, path: Path | None) -> dict[str, list[Obj]]:
    """Objects of a file, by the resource of the graph that they could be."""
    from sliceworks.base import yamls

    found: dict[str, list[Obj]] = {}
    for document in yamls.load_path(path) if path else ():
        for node in compiled.nodes:
            kind = (document.data.get("apiVersion"), document.data.get("kind"))
            if node.role.is_external and kind == (node.kind.api_version, node.kind.kind):
                found.setdefault(node.id, []).append(document.data)
    return found
