"""Graphs as a live cluster has them: definitions compiled once, and instances with what each of their resources is now."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sliceworks.base import yamls
from sliceworks.controllers.graphs import inspection, names
from sliceworks.controllers.graphs.cluster_kinds import ClusterKinds
from sliceworks.graph.errors import DefinitionError
from sliceworks.graph.plurals import plural
from sliceworks.kube.resources import Resource
from sliceworks.kube.well_known import CORE_EVENT

if TYPE_CHECKING:
    from sliceworks.graph.model import Graph
    from sliceworks.kube.client import Client

Object = dict[str, Any]
DEFINITIONS = names.GRAPH_DEFINITION
_HIDDEN = ("data", "stringData")
_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_MOST_GRAPHS = 200


@dataclass(frozen=True, slots=True)
class Looked:
    """An instance, the objects of each of its resources, and how each resource stands."""

    instance: Object
    objects: dict[str, list[Object]]
    states: dict[str, str]


class Graphs:
    """Definitions compiled against the kinds of the cluster; each once, until it is changed."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._known: dict[tuple[str, int], Graph | str] = {}

    async def of(self, definition: Object) -> Graph | str:
        """The graph of a definition, or why there is none."""
        metadata = definition["metadata"]
        key = (str(metadata.get("uid")), int(metadata.get("generation") or 0))
        if key not in self._known:
            self._known[key] = await self._compiled(definition)
            while len(self._known) > _MOST_GRAPHS:
                del self._known[next(iter(self._known))]
        found = self._known[key]
        if isinstance(found, str):
            del self._known[key]  # a kind that it misses may come
        return found

    async def _compiled(self, obj: Object) -> Graph | str:
        from sliceworks.graph import compile as compiling
        from sliceworks.graph import definitions

        try:
            definition = definitions.read(obj)
            kinds, _ = await ClusterKinds(self._client).for_definition(definition)
            return compiling.compile(definition, kinds)
        except DefinitionError as error:
            return "; ".join(map(str, error.issues[:3]))

    async def look(self, graph: Graph, name: str, namespace: str) -> Looked:
        """An instance as it is now. NotFound where it is gone."""
        instance = await inspection.find_instance(self._client, graph, name, namespace)
        objects, states = await inspection.observed(self._client, graph, instance)
        return Looked(instance, objects, states)

    async def events(self, obj: Object) -> list[Object]:
        """What was said about an object, the newest first."""
        metadata = obj["metadata"]
        about = f"involvedObject.uid={metadata.get('uid', '')}"
        found = (await self._client.list(CORE_EVENT, metadata.get("namespace") or None, fields=about)).items
        return sorted(found, key=lambda each: str(each.get("lastTimestamp") or each.get("eventTime") or ""), reverse=True)


def instances_of(definition: Object) -> Resource | None:
    """The kind that a definition gives to users; None where it says none."""
    schema = (definition.get("spec") or {}).get("schema") or {}
    kind = schema.get("kind")
    if not kind:
        return None
    group, version = schema.get("group") or "kro.run", schema.get("apiVersion") or "v1alpha1"
    return Resource(group, version, kind, plural(kind.lower()), namespaced=schema.get("scope") != "Cluster")


def shown(obj: Object) -> str:
    """An object as YAML, without what is for machines alone; what a Secret holds is not shown."""
    metadata = {name: value for name, value in obj["metadata"].items() if name != "managedFields"}
    whole = {**obj, "metadata": metadata}
    if obj.get("kind") == "Secret":
        whole |= {name: dict.fromkeys(obj[name], "not shown") for name in _HIDDEN if isinstance(obj.get(name), dict)}
        # kubectl keeps all that was applied there, too.
        metadata["annotations"] = {name: text for name, text in (metadata.get("annotations") or {}).items() if name != _APPLIED}
    return yamls.dump(whole)
