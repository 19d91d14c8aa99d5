"""A graph that serves: its kind, its definition, and the views of the objects that its resources are of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sliceworks.controllers.graphs import labels
from sliceworks.kube.resources import Resource

if TYPE_CHECKING:
    from sliceworks.controllers.graphs.views import View, Views
    from sliceworks.graph.kinds import Kind
    from sliceworks.graph.model import Graph
    from sliceworks.kube.resources import Object


@dataclass(frozen=True, slots=True, eq=False)
class Served:
    """What every pass over an instance of one kind works with. A new revision makes a new one.

    Without a graph, instances are held as they are, and can be deleted.
    """

    graph: Graph | None
    resource: Resource
    labels: dict[str, str]
    views: dict[str, View]

    @property
    def own_views(self) -> list[View]:
        """The views of the objects it makes."""
        nodes = self.graph.nodes if self.graph is not None else ()
        return list(dict.fromkeys(self.views[node.id] for node in nodes if not node.role.is_external))


async def serve(graph: Graph, definition: Object, views: Views, held: set[View]) -> Served:
    """Open what a graph needs to look at, all at once, and hold it."""
    opened = {node.id: views.open(resource_of(node.kind), ours=not node.role.is_external) for node in graph.nodes}
    held.update(opened.values())
    for view in opened.values():
        await view.ready()
    return Served(graph, instance_resource(graph.crd), labels.instance_labels(definition), opened)


def resource_of(kind: Kind) -> Resource:
    """How a kind's objects are addressed."""
    return Resource(kind.group, kind.version, kind.kind, kind.plural, kind.namespaced)


def instance_resource(crd: Object) -> Resource:
    """How the instances of a generated definition are addressed."""
    spec = crd["spec"]
    names = spec["names"]
    namespaced = spec["scope"] != "Cluster"
    return Resource(spec["group"], spec["versions"][0]["name"], names["kind"], names["plural"], namespaced, ("status",))
