"""`sliceworks graph`: check, render, compare and draw ResourceGraphDefinitions without a cluster."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sliceworks.base import progress
from sliceworks.base.errors import SliceworksError, UsageError
from sliceworks.base.names import pluralize
from sliceworks.cli import options
from sliceworks.cli.groups import Group
from sliceworks.cli.output import Report, print_object, print_report

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sliceworks.cli.graph_compiler import CheckResult, GraphCompiler
    from sliceworks.graph.diff import Difference
    from sliceworks.graph.model import Graph
    from sliceworks.graph.renderer import Rendered
    from sliceworks.kube.client import Client

Obj = dict[str, Any]
_SIGNS = {"create": "+", "change": "~", "replace": "±", "delete": "-", "refuse": "!", "release": "o"}


def print_issues(checked: Sequence[CheckResult]) -> None:
    """Print each error and each warning on a line."""
    for item in checked:
        for issue in item.issues:
            click.echo(f"error: {issue}", err=True)
        for note in item.notes:
            click.echo(f"warning: {note}", err=True)


def check_status(checked: CheckResult) -> str:
    """Return the status of a document in a few words."""
    if checked.issues:
        return "wrong"
    return f"valid, {len(checked.notes)} warnings" if len(checked.notes) > 1 else "valid, 1 warning" if checked.notes else "good"


_ISSUE_FIELDS = {"place": "place", "message": "message", "expression": "expression", "remedy": "hint"}


def check_data(checked: CheckResult) -> Obj:
    """Return the result of a check as data."""
    result: Obj = {"document": checked.document.name, "place": checked.document.place(), "good": not checked.issues}
    for name, items in (("issues", checked.issues), ("warnings", checked.notes)):
        result[name] = [
            {key: value for key, field in _ISSUE_FIELDS.items() if (value := getattr(item, field, ""))} for item in items
        ]
    if checked.graph is not None:
        result["order"] = list(checked.graph.order)
    return result


def yaml_stream(rendered: Sequence[Rendered]) -> str:
    """Objects as YAML; comments name each resource and its unresolved expressions."""
    from sliceworks.base import yaml_documents

    parts = []
    for item in rendered:
        about = f"# {item.node.id}: {item.state}" + (f", {item.reason}" if item.reason else "") + "\n"
        about += "".join(f"#   unresolved: {text}\n" for text in item.unknown)
        if item.state in ("external", "excluded"):
            parts.append(about + "".join(f"#   {obj['kind']} {obj['metadata'].get('name', '')}\n" for obj in item.objects))
            continue
        parts += [(about if number == 0 else "") + yaml_documents.dump(obj) for number, obj in enumerate(item.objects)] or [about]
    return "---\n".join(parts)


def object_row(rendered: Rendered, obj: Obj) -> tuple[object, ...]:
    """Return the table row of a resource."""
    metadata = obj.get("metadata") or {}
    return (
        rendered.node.id,
        rendered.state,
        rendered.node.kind.kind,
        metadata.get("namespace"),
        metadata.get("name"),
        len(rendered.unknown),
    )


def rendered_data(rendered: Rendered) -> Obj:
    """Return a rendered resource as data."""
    data: Obj = {
        "resource": rendered.node.id,
        "state": rendered.state,
        "objects": list(rendered.objects),
        "unknown": list(rendered.unknown),
    }
    return data | ({"because": rendered.reason} if rendered.reason else {})


def print_differences(changed: Sequence[Difference]) -> None:
    """Print a line for each object and for each changed field."""
    for item in changed:
        metadata = item.obj["metadata"]
        where = f"{metadata['namespace']}/" if metadata.get("namespace") else ""
        reason = f"  ({item.reason})" if item.reason else ""
        click.echo(f"{_SIGNS[item.action]} {item.action} {item.obj['kind']} {where}{metadata.get('name')}  [{item.node}]{reason}")
        for change in item.changes:
            click.echo(f"    {change.path}: {_value(change.old)} → {_value(change.new)}")


def _value(value: Any) -> str:
    import orjson

    if value is None:
        return "nothing"
    return value if isinstance(value, str) else orjson.dumps(value).decode()


def difference_data(difference: Difference) -> Obj:
    """Return a difference as data."""
    metadata = difference.obj["metadata"]
    data: Obj = {
        "resource": difference.node,
        "action": difference.action,
        "kind": difference.obj["kind"],
        "namespace": metadata.get("namespace"),
        "name": metadata.get("name"),
        "fields": [{"path": change.path, "old": change.old, "new": change.new} for change in difference.changes],
    }
    return data | ({"why": difference.reason} if difference.reason else {})


_FILE = click.Path(exists=True, path_type=Path)


def _crds(command: Any) -> Any:
    return click.option(
        "--crds", type=_FILE, multiple=True, metavar="DIR", help="File or folder with CustomResourceDefinitions of other kinds."
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
    """Validate the ResourceGraphDefinitions and their instances in FILE.

    FILE may be a folder; it is searched recursively. The kinds of Kubernetes, Config Connector, JobSet and Kueue are built in;
    others come from --crds, or from the cluster of --context, --kubeconfig or --twin. Exit code 1 if a document is invalid.
    """
    from sliceworks.cli.graph_compiler import load_documents

    checked = _compiler(crds, **cluster).check(load_documents(files))
    if not checked:
        raise SliceworksError(f"no ResourceGraphDefinition found in {', '.join(map(str, files))}")
    if output == "table":
        print_issues(checked)
    rows = [(item.document.name, item.document.place(), len(item.issues), check_status(item)) for item in checked]
    print_report(
        Report(
            ("document", "place", "issues", "result"),
            rows,
            [check_data(result) for result in checked],
            [result.document.name for result in checked],
        ),
        output,
    )
    return 1 if any(result.issues for result in checked) else 0


@graph.command()
@click.argument("rgd", type=_FILE)
@click.argument("instance", type=_FILE)
@click.option("--objects", type=_FILE, help="File or folder with existing objects, such as external references.")
@_crds
@options.cluster
@options.output("yaml", "json", "table", "name")
def render(rgd: Path, instance: Path, objects: Path | None, crds: tuple[Path, ...], output: str, **cluster: Any) -> None:
    """Print every object that RGD creates for INSTANCE, in order of creation.

    Expressions that depend on the status of live objects stay unresolved: ${…}.
    """
    from sliceworks.cli.graph_compiler import read_instance
    from sliceworks.graph.renderer import render as run

    compiled = _compiler(crds, **cluster).graph(rgd)
    results = run(compiled, read_instance(compiled, instance), _read_given_objects(compiled, objects))
    if output == "yaml":
        click.echo(yaml_stream(results), nl=False)
        return
    rows = [object_row(item, obj) for item in results for obj in item.objects or ({},)]
    data = [rendered_data(result) for result in results]
    names = [f"{obj['kind']}/{obj['metadata'].get('name')}" for result in results for obj in result.objects]
    print_report(Report(("resource", "state", "kind", "namespace", "name", "unknown"), rows, data, names), output)


@graph.command()
@click.argument("rgd", type=_FILE)
@click.argument("instance", type=_FILE)
@click.option("--from-rgd", type=_FILE, help="Compare with another version of the definition instead of a cluster.")
@click.option("--from-instance", type=_FILE, help="Compare with another version of the instance instead of a cluster.")
@click.option("--exit-code", is_flag=True, help="Exit with code 1 if there are differences.")
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
    """Show which objects and fields would change if RGD and INSTANCE were applied.

    Compares with the objects in a cluster, or with another version of RGD or INSTANCE.
    """
    from sliceworks.cli import graph_diff as compare
    from sliceworks.cli.graph_compiler import read_instance, run_with_client
    from sliceworks.graph import diff

    offline = from_rgd is not None or from_instance is not None
    if offline and any(cluster.values()):
        raise UsageError("--from-rgd and --from-instance cannot be combined with a cluster", hint="pass only one of them")
    bench = _compiler(crds, **cluster)
    compiled = bench.graph(rgd)
    desired = read_instance(compiled, instance)
    if offline:
        before = bench.graph(from_rgd) if from_rgd else compiled
        differences = compare.diff_versions(before, read_instance(before, from_instance or instance), compiled, desired)
    else:
        differences = run_with_client(_cluster(**cluster), lambda client: compare.diff_cluster(client, compiled, desired))
    changed = [item for item in differences if item.action != diff.KEEP]
    if output == "table":
        print_differences(changed)
        progress.say(diff.summarize(changed).capitalize() + ".")
    else:
        print_report(Report((), (), [difference_data(difference) for difference in changed]), output)
    return 1 if changed and exit_code else 0


@graph.command()
@click.argument("files", metavar="FILE...", type=_FILE, nargs=-1, required=True)
@click.option("--name", metavar="NAME", default="", help="Suffix of the ClusterRole's name.  [default: the definition's]")
@_crds
@options.cluster
@options.output("yaml", "json")
def rights(files: tuple[Path, ...], name: str, crds: tuple[Path, ...], output: str, **cluster: Any) -> None:
    """Print the ClusterRole that the graphs controller needs for the definitions in FILE.

    It is aggregated into the role of the controller, and of kro: kubectl apply is all that is needed.
    """
    from sliceworks.cli.graph_compiler import load_documents
    from sliceworks.graph import rbac
    from sliceworks.graph.model import DefinitionError

    graphs: list[Graph] = []
    for item in _compiler(crds, **cluster).check(load_documents(files)):
        if item.issues:
            raise DefinitionError(item.issues)
        if item.graph is not None:
            graphs.append(item.graph)
    if not graphs:
        raise SliceworksError(f"no ResourceGraphDefinition found in {', '.join(map(str, files))}")
    plurals = {(node.kind.group, node.kind.kind): node.kind.plural for compiled in graphs for node in compiled.nodes}
    rules = rbac.graph_rules([compiled.definition.document for compiled in graphs], plurals)
    print_object(rbac.cluster_role(name or graphs[0].definition.name, rules), output)


@graph.command()
@click.argument("rgd", type=_FILE)
@click.option("--instance", metavar="NAME", default="", help="Color resources by their state in this instance.")
@options.namespace
@_crds
@options.cluster
@click.option("-o", "--output", type=click.Choice(("svg", "mermaid")), default="svg", show_default=True, help="Output format.")
def diagram(rgd: Path, instance: str, namespace: str, crds: tuple[Path, ...], output: str, **cluster: Any) -> None:
    """Draw the resources of RGD and their dependencies."""
    from sliceworks.cli import graph_diff as compare
    from sliceworks.graph import diagram

    compiled = _compiler(crds, **cluster).graph(rgd)
    states = compare.resource_states(compiled, instance, namespace, _cluster(**cluster)) if instance else {}
    drawn = diagram.boxes(compiled, states)
    if output == "mermaid":
        click.echo(diagram.render_mermaid(drawn), nl=False)
        return
    block = compiled.definition.schema
    below = f"{block.api_version} · {pluralize(len(drawn), 'resource')}" + (f" · {instance}" if instance else "")
    click.echo(diagram.render_svg(drawn, block.kind, below), nl=False)


def _compiler(crds: Sequence[Path], **cluster: Any) -> GraphCompiler:
    from sliceworks.cli.graph_compiler import GraphCompiler, KindSources

    return GraphCompiler(KindSources(tuple(crds), _cluster(**cluster) if any(cluster.values()) else None))


def _cluster(*, kubeconfig: str | None, context: str | None, twin: bool) -> Callable[[], Client]:
    """Return a function that opens a client of the target cluster."""
    from sliceworks.cli.connections import open_cluster

    return partial(open_cluster, kubeconfig, context, twin)


def _read_given_objects(compiled: Graph, path: Path | None) -> dict[str, list[Obj]]:
    """Return the objects of a file by the external resource of the graph that they match."""
    from sliceworks.base import yaml_documents

    result: dict[str, list[Obj]] = {}
    for document in yaml_documents.load_path(path) if path else ():
        for node in compiled.nodes:
            kind = (document.data.get("apiVersion"), document.data.get("kind"))
            if node.type.is_external and kind == (node.kind.api_version, node.kind.kind):
                result.setdefault(node.id, []).append(document.data)
    return result
