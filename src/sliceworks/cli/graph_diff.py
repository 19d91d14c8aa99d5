"""Differences between two versions of a graph, or between a graph and a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.cli.graph_compiler import run_with_client
from sliceworks.controllers.graphs import crd_compatibility, crds, inspection
from sliceworks.graph.diff import CHANGE, CREATE, REFUSE, Difference, compare
from sliceworks.graph.renderer import EXCLUDED, render
from sliceworks.kube.resources import CUSTOM_RESOURCE_DEFINITION

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sliceworks.graph.model import Graph, Lifecycle
    from sliceworks.kube.client import Client

Obj = dict[str, Any]


def diff_versions(old: Graph, old_instance: Obj, new: Graph, new_instance: Obj) -> list[Difference]:
    """Return the differences between two versions."""

    def objects(graph: Graph, instance: Obj) -> dict[str, Sequence[Obj]]:
        rendered = render(graph, instance)
        return {item.node.id: item.objects for item in rendered if item.state != EXCLUDED and not item.node.type.is_external}

    before, after = objects(old, old_instance), objects(new, new_instance)
    differences = compare(before, after, lifecycles=_lifecycles(new), old_lifecycles=_lifecycles(old))
    return [*_kinds(old.crd, new.crd), *differences]


def _lifecycles(graph: Graph) -> dict[str, Lifecycle]:
    return {node.id: node.lifecycle for node in graph.nodes}


def _kinds(old: Obj | None, new: Obj) -> list[Difference]:
    """Return the change of the generated CRD, and whether it may break existing instances."""
    if old is None:
        return [Difference("schema", CREATE, new)]
    report = crd_compatibility.compare(old["spec"]["versions"][0], new["spec"]["versions"][0])
    if not report.changed:
        return []
    why = f"may break existing instances: {report}" if report.breaking else "existing instances stay valid"
    return [Difference("schema", CHANGE, new, reason=why)]


async def diff_cluster(client: Client, compiled: Graph, desired: Obj) -> list[Difference]:
    """Return the differences from a cluster; without such an instance, everything is new."""
    existing = await client.find(CUSTOM_RESOURCE_DEFINITION, compiled.crd["metadata"]["name"])
    try:
        kinds = _kinds(existing, compiled.crd)
        if existing is not None:
            crds.check_update(existing, compiled.crd, compiled.definition.document)
    except crds.CRDConflict as error:
        kinds = [Difference("schema", REFUSE, compiled.crd, reason=f"{error}; {error.hint}" if error.hint else str(error))]
    return [*kinds, *await inspection.compare(client, compiled, desired)]


def resource_states(compiled: Graph, name: str, namespace: str, opened: Callable[[], Client]) -> dict[str, str]:
    """Return the state of each resource of an instance."""

    async def compare_live(client: Client) -> dict[str, str]:
        instance = await inspection.find_instance(client, compiled, name, namespace)
        _, states = await inspection.observe(client, compiled, instance)
        return states

    result: dict[str, str] = run_with_client(opened, compare_live)
    return result
