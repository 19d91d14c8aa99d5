"""Loads ResourceGraphDefinitions and instances with the live state of each resource."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sliceworks.base import yaml_documents
from sliceworks.controllers.graphs import inspection, well_known
from sliceworks.controllers.graphs.compiler import ClusterKinds
from sliceworks.graph.crds import plural_of
from sliceworks.graph.model import DefinitionError
from sliceworks.kube.resources import CORE_EVENT, Resource

if TYPE_CHECKING:
    from sliceworks.graph.model import Graph
    from sliceworks.kube.client import Client

Object = dict[str, Any]
DEFINITIONS = well_known.GRAPH_DEFINITION
_HIDDEN = ("data", "stringData")
_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_MAX_GRAPHS = 200


@dataclass(frozen=True, slots=True)
class LiveInstance:
    """An instance with the objects and the state of each of its resources."""

    instance: Object
    objects: dict[str, list[Object]]
    states: dict[str, str]


class GraphLoader:
    """Compiles definitions against the kinds of the cluster, and caches the graphs."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._graphs: dict[tuple[str, int], Graph | str] = {}

    async def compile(self, definition: Object) -> Graph | str:
        """The graph of a definition, or why it does not compile."""
        metadata = definition["metadata"]
        key = (str(metadata.get("uid")), int(metadata.get("generation") or 0))
        if key not in self._graphs:
            self._graphs[key] = await self._build(definition)
            while len(self._graphs) > _MAX_GRAPHS:
                del self._graphs[next(iter(self._graphs))]
        result = self._graphs[key]
        if isinstance(result, str):
            del self._graphs[key]  # retry, since a missing kind may be installed later
        return result

    async def _build(self, obj: Object) -> Graph | str:
        from sliceworks.graph import builder, definition_parser

        try:
            definition = definition_parser.parse(obj)
            kinds, _ = await ClusterKinds(self._client).for_definition(definition)
            return builder.build_graph(definition, kinds)
        except DefinitionError as error:
            return "; ".join(map(str, error.issues[:3]))

    async def load_instance(self, graph: Graph, name: str, namespace: str) -> LiveInstance:
        """The current state of an instance; raises NotFound if it does not exist."""
        instance = await inspection.find_instance(self._client, graph, name, namespace)
        objects, states = await inspection.observe(self._client, graph, instance)
        return LiveInstance(instance, objects, states)

    async def events(self, obj: Object) -> list[Object]:
        """The events of an object, newest first."""
        metadata = obj["metadata"]
        about = f"involvedObject.uid={metadata.get('uid', '')}"
        events = (await self._client.list(CORE_EVENT, metadata.get("namespace") or None, fields=about)).items
        return sorted(events, key=lambda event: str(event.get("lastTimestamp") or event.get("eventTime") or ""), reverse=True)


def instance_resource(definition: Object) -> Resource | None:
    """The kind that a definition defines, or None."""
    schema = (definition.get("spec") or {}).get("schema") or {}
    kind = schema.get("kind")
    if not kind:
        return None
    group, version = schema.get("group") or "kro.run", schema.get("apiVersion") or "v1alpha1"
    return Resource(group, version, kind, plural_of(kind.lower()), namespaced=schema.get("scope") != "Cluster")


def redacted_yaml(obj: Object) -> str:
    """An object as YAML, without managed fields and the data of Secrets."""
    metadata = {name: value for name, value in obj["metadata"].items() if name != "managedFields"}
    shown = {**obj, "metadata": metadata}
    if obj.get("kind") == "Secret":
        shown |= {name: dict.fromkeys(obj[name], "not shown") for name in _HIDDEN if isinstance(obj.get(name), dict)}
        # kubectl stores the applied data in this annotation.
        metadata["annotations"] = {name: value for name, value in (metadata.get("annotations") or {}).items() if name != _APPLIED}
    return yaml_documents.dump(shown)
