"""Comparing graphs and instances: two versions of them, or one with what a cluster has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.base.errors import NotFound
from sliceworks.cli.graph_files import with_client
from sliceworks.controllers.graphs import compatibility, inspection
from sliceworks.graph.differences import CHANGE, CREATE, Difference, between
from sliceworks.graph.rendering import LEFT_OUT, render
from sliceworks.kube.well_known import CUSTOM_RESOURCE_DEFINITION

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sliceworks.graph.model import Graph
    from sliceworks.kube.client import Client

Obj = dict[str, Any]


def between_versions(old: Graph, old_instance: Obj, new: Graph, new_instance: Obj) -> list[Difference]:
    """What changes from one version to another."""

    def objects(graph: Graph, instance: Obj) -> dict[str, Sequence[Obj]]:
        found = render(graph, instance)
        return {each.node.id: each.objects for each in found if each.state != LEFT_OUT and not each.node.role.is_external}

    return [*_kinds(old.crd, new.crd), *between(objects(old, old_instance), objects(new, new_instance))]


def _kinds(old: Obj | None, new: Obj) -> list[Difference]:
    """How the kind that users write changes, and whether that breaks what they have written."""
    if old is None:
        return [Difference("schema", CREATE, new)]
    report = compatibility.compare(old["spec"]["versions"][0], new["spec"]["versions"][0])
    if not report.changed:
        return []
    why = f"may break what users have written: {report}" if report.breaking else "what users have written stays valid"
    return [Difference("schema", CHANGE, new, why=why)]


def against_cluster(compiled: Graph, wanted: Obj, opened: Callable[[], Client]) -> list[Difference]:
    """What changes in a cluster; everything is new where there is no such instance."""

    async def ask(client: Client) -> list[Difference]:
        metadata = wanted["metadata"]
        kinds = _kinds(await client.find(CUSTOM_RESOURCE_DEFINITION, compiled.crd["metadata"]["name"]), compiled.crd)
        try:
            live = await inspection.find_instance(client, compiled, metadata["name"], metadata.get("namespace") or "")
            instance = {**wanted, "metadata": {**live["metadata"], **metadata}}
            observed, _ = await inspection.observed(client, compiled, instance)
        except NotFound:
            instance, observed = wanted, {}
        external = {node.id for node in compiled.nodes if node.role.is_external}
        rendered = render(compiled, instance, observed)
        new = {each.node.id: each.objects for each in rendered if each.state != LEFT_OUT and each.node.id not in external}
        ours = {name: objects for name, objects in observed.items() if name not in external}
        return [*kinds, *between(ours, new, live=True)]

    found: list[Difference] = with_client(opened, ask)
    return found


def states(compiled: Graph, name: str, namespace: str, opened: Callable[[], Client]) -> dict[str, str]:
    """How each resource of an instance stands."""

    async def ask(client: Client) -> dict[str, str]:
        instance = await inspection.find_instance(client, compiled, name, namespace)
        _, states = await inspection.observed(client, compiled, instance)
        return states

    found: dict[str, str] = with_client(opened, ask)
    return found
