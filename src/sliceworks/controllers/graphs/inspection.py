"""Looks at an instance from outside, for a person: what its graph made so far, and how each resource stands. It writes nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sliceworks.base.errors import NotFound
from sliceworks.controllers.graphs import names
from sliceworks.controllers.graphs.completed import Completed
from sliceworks.graph.errors import EvaluationFailed
from sliceworks.graph.evaluate import Evaluation
from sliceworks.graph.model import Desired, Excluded, Lookup
from sliceworks.graph.pictures import ABSENT, FAILED, LEFT_OUT, READY, WAITING
from sliceworks.kube.resources import Resource
from sliceworks.kube.selectors import from_label_selector

if TYPE_CHECKING:
    from sliceworks.graph.model import Graph, Node, Object, Outcome
    from sliceworks.kube.client import Client


async def find_instance(client: Client, graph: Graph, name: str, namespace: str) -> Object:
    """An instance by its name. NotFound when there is none."""
    block, spec = graph.definition.schema, graph.crd["spec"]
    resource = Resource(block.group, block.version, block.kind, spec["names"]["plural"], namespaced=block.namespaced)
    return await client.get(resource, name, (namespace or client.namespace) if block.namespaced else None)


async def children(client: Client, instance: Object) -> dict[str, list[Object]]:
    """Everything that carries the instance's labels, by the resource of the graph that it belongs to."""
    annotations = instance["metadata"].get("annotations") or {}
    found: dict[str, list[Object]] = {}
    for text in filter(None, str(annotations.get(names.GROUP_KINDS) or "").split(",")):
        resource = await _resource(client, text)
        if resource is not None:
            listed = await client.list(resource, labels=f"{names.INSTANCE_ID}={instance['metadata']['uid']}")
            for obj in listed.items:
                obj.setdefault("apiVersion", resource.api_version)
                obj.setdefault("kind", resource.kind)
                found.setdefault((obj["metadata"].get("labels") or {}).get(names.NODE_ID, ""), []).append(obj)
    return found


async def _resource(client: Client, name: str) -> Resource | None:
    """The resource of `Kind.group`; None where the cluster has it no more."""
    try:
        return await client.discovery.find(name)
    except NotFound:
        return None


async def observed(client: Client, graph: Graph, instance: Object) -> tuple[dict[str, list[Object]], dict[str, str]]:
    """The objects of each resource, external ones too, and the state of each."""
    made = await children(client, instance)
    evaluation = Evaluation(graph, instance)
    found: dict[str, list[Object]] = {}
    states: dict[str, str] = {}
    for node in graph.nodes:
        try:
            outcome = evaluation.resolve(node)
            found[node.id] = await _of(client, node, outcome, made) or _finished(node, outcome, instance)
            evaluation.observe(node.id, found[node.id])
            waiting = evaluation.readiness(node)
        except EvaluationFailed:
            states[node.id] = FAILED
            found.setdefault(node.id, made.get(node.id, []))
            continue
        if isinstance(outcome, Excluded):
            states[node.id] = LEFT_OUT
        elif not found[node.id] and waiting is not None:
            states[node.id] = ABSENT
        else:
            states[node.id] = READY if waiting is None else WAITING
    return found | {name: objects for name, objects in made.items() if name not in found}, states


def _finished(node: Node, outcome: Outcome, instance: Object) -> list[Object]:
    """Objects that have done their part and were cleaned away since: they count as they were."""
    if node.lifecycle.on_complete != "keep" or not isinstance(outcome, Desired):
        return []
    notes = Completed(instance)
    return [done for wanted in outcome.objects if (done := notes.recall(wanted)) is not None]


async def _of(client: Client, node: Node, outcome: Outcome, made: dict[str, list[Object]]) -> list[Object]:
    kind = node.kind
    resource = Resource(kind.group, kind.version, kind.kind, kind.plural, namespaced=kind.namespaced)
    if isinstance(outcome, Lookup) and outcome.selector is not None:
        listed = await client.list(resource, outcome.namespace or None, labels=from_label_selector(outcome.selector))
        return list(listed.items)
    wanted = [(outcome.namespace, outcome.name)] if isinstance(outcome, Lookup) else []
    if isinstance(outcome, Desired):
        ours = {(obj["metadata"].get("namespace") or "", obj["metadata"]["name"]) for obj in made.get(node.id, ())}
        places = [(obj["metadata"].get("namespace") or "", obj["metadata"]["name"]) for obj in outcome.objects]
        wanted = [place for place in places if place not in ours]
    found = list(made.get(node.id, ()))
    for namespace, name in wanted:
        if (obj := await client.find(resource, name, namespace or None)) is not None:
            found.append(obj)
    return found
